//! The token that requests to the API need if they end the run or may come from other machines.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::hmac;
use uuid::Uuid;

use base::redact::Secret;

/// A token, of which only a hash with a random key is kept.
pub(super) struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Returns the token that was `given`, or else a random one, which is returned too.
    pub(super) fn new_or_given(given: Option<Secret>) -> (Self, Option<Secret>) {
        if let Some(given) = given {
            return (Self::new(given.expose()), None);
        }
        // 122 random bits.
        let random = Uuid::new_v4().simple().to_string();
        (Self::new(&random), Some(Secret::new(random)))
    }

    fn new(token: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, Uuid::new_v4().as_bytes());
        let tag = hmac::sign(&key, token.as_bytes());
        Self { key, tag }
    }

    /// Returns whether a request has the token: `Authorization: Bearer TOKEN` (RFC 6750). The time
    /// that this takes does not depend on how much of it is right.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let is_bearer =
            value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        let given = value.get(7..).unwrap_or_default().trim_ascii();
        is_bearer && hmac::verify(&self.key, given, self.tag.as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_token_itself_is_accepted() {
        let (token, generated) = Token::new_or_given(Some(Secret::new("0123456789abcdef")));
        assert_eq!(generated, None);
        let has = |value: &'static str| {
            let headers = [(AUTHORIZATION, HeaderValue::from_static(value))];
            token.is_in(&headers.into_iter().collect())
        };
        assert!(has("Bearer 0123456789abcdef") && has("bearer  0123456789abcdef "));
        for wrong in [
            "0123456789abcdef",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer",
            "Bearer ",
            "",
        ] {
            assert!(!has(wrong), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn random_tokens_differ() {
        let (one, other) = (Token::new_or_given(None), Token::new_or_given(None));
        let (one, other) = (one.1.unwrap(), other.1.unwrap());
        assert_ne!(one, other);
        assert_eq!(one.expose().len(), 32);
        assert!(!format!("{one:?}").contains(one.expose()));
    }
}
