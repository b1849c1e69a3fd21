//! Redaction of output: removes secrets from URLs, headers, JSON and the command line, and control
//! characters from texts of other origin.
//!
//! Everything that is written, logged or printed for debugging passes through this module.

mod arguments;
mod secret;
mod url;

use serde_json::Value;

pub use self::arguments::{command_line, message, quote};
pub use self::secret::{PathAndQuery, Secret};
pub use self::url::ShownUrl;

/// Replacement of a secret.
pub const REDACTED: &str = "<redacted>";

/// The word in [`REDACTED`], which also replaces secrets in URLs.
pub const MARK: &str = "redacted";

/// Words that mark a value as secret if its name ends in one of them, as in `x-api-key` and
/// `access_token`. `max_tokens` and `stop_token_ids` do not match.
const SECRET_WORDS: &[&str] = &[
    "key",
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "auth",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "signature",
    "sig",
    "jwt",
    "pwd",
    "passphrase",
];

/// Words that mark a value as secret if they are the last whole word of its name, since names such
/// as `bypass` end in them too.
const WHOLE_WORDS: &[&str] = &["pass", "sas"];

/// Returns `text` without characters that could control a terminal or change the direction of the
/// text after it, since it may come from a server.
#[must_use]
pub fn printable(text: &str) -> String {
    text.replace(steers, " ")
}

/// Returns the first `most` of some names on one line, and how many more there are.
pub fn printable_names(names: &[String], most: usize) -> String {
    let mut shown: Vec<String> = names.iter().take(most).map(|name| printable(name)).collect();
    if let more @ 1.. = names.len().saturating_sub(most) {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// Returns `text` of several lines, with each line [`printable`].
#[must_use]
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Returns whether `c` is a control character or a Unicode mark that overrides the direction of
/// text (UAX #9).
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether `name`, of a header or a parameter, denotes a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = name.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let last = words.into_iter().find(|word| !word.is_empty()).unwrap_or_default();
    SECRET_WORDS.iter().any(|word| last.ends_with(word)) || WHOLE_WORDS.contains(&last)
}

/// Prefixes of credentials: schemes of HTTP authentication (RFC 9110, section 11.1).
const SCHEMES: &[&str] = &["bearer ", "basic ", "digest ", "negotiate ", "aws4-hmac-sha256 "];

/// Prefixes of service keys. Such keys have at least [`MIN_KEY`] bytes.
const KEY_MARKS: &[&str] = &[
    "sk-",
    "sk_",
    "hf_",
    "nvapi-",
    "gsk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AIza",
    "AKIA",
];

const MIN_KEY: usize = 16;

/// Returns whether `value` has the form of a secret, regardless of its name: HTTP credentials, a
/// JSON Web Token (RFC 7519), or a service key with a known prefix.
#[must_use]
pub fn is_secret_value(value: &str) -> bool {
    let value = value.trim();
    let has_scheme = SCHEMES.iter().any(|scheme| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    // The header of a token is an object that starts with `{"`, in base64.
    let is_token = value.starts_with("eyJ") && value.matches('.').count() == 2;
    let is_word = value.len() >= MIN_KEY && !value.contains(char::is_whitespace);
    has_scheme || is_word && (is_token || KEY_MARKS.iter().any(|mark| value.starts_with(mark)))
}

/// Words that mark the value of a header as secret anywhere in its name, as in `X-Token-Id`:
/// showing a header is never worth the risk.
const SECRET_PARTS: &[&str] = &[
    "token",
    "secret",
    "key",
    "pass",
    "cookie",
    "credential",
    "auth",
    "jwt",
    "pwd",
    "session-id",
    "session_id",
    "sessionid",
];

/// Returns the value of a header as it may be shown.
#[must_use]
pub fn header_value<'a>(name: &str, value: &'a str) -> &'a str {
    let has_part = || {
        let name = name.to_ascii_lowercase();
        SECRET_PARTS.iter().any(|part| name.contains(part))
    };
    if is_secret_name(name) || has_part() || is_secret_value(value) { REDACTED } else { value }
}

/// Returns the value of a header as it may be shown.
#[must_use]
pub fn header_bytes(name: &str, value: &[u8]) -> String {
    header_value(name, &String::from_utf8_lossy(value)).to_owned()
}

/// Returns a URL as it may be shown.
fn url(text: &str) -> String {
    ShownUrl::new(text).to_string()
}

/// Redacts `text` that may be a URL or the path of one; a name such as `model@revision` is kept.
fn text_or_url(text: &str) -> String {
    let has_password = text.find('@').is_some_and(|at| text[..at].contains(':'));
    // As in `host:port?name=value`; in prose, there is a space before.
    let has_parameter = text
        .split_once(['?', '#'])
        .is_some_and(|(path, rest)| !path.contains(' ') && rest.contains('='));
    if has_password || has_parameter || text.contains("://") { url(text) } else { text.to_owned() }
}

/// Removes the credentials from URLs in `value`. Only complete texts are treated as URLs, such as
/// those of a request's images. Returns whether there were any.
pub fn urls(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            members.values_mut().fold(false, |any, member| urls(member) | any)
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| urls(item) | any),
        Value::String(text) if is_web_url(text) => {
            let shown = url(text);
            let is_secret = shown != *text;
            *text = shown;
            is_secret
        }
        _ => false,
    }
}

/// Returns whether JSON may contain URLs, so that other JSON need not be parsed.
#[must_use]
pub fn may_have_urls(json: &[u8]) -> bool {
    std::str::from_utf8(json).is_ok_and(|text| text.contains("://") || text.contains(r":\/\/"))
}

fn is_web_url(text: &str) -> bool {
    let begins = |scheme: &str| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    (begins("http://") || begins("https://")) && !text.contains(char::is_whitespace)
}

/// Replaces the secrets inside a JSON value, at any depth.
pub fn json(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if is_secret_name(name) && !member.is_null() {
                    *member = Value::from(REDACTED);
                } else {
                    json(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(json),
        Value::String(text) if is_secret_value(text) => REDACTED.clone_into(text),
        Value::String(text) => *text = text_or_url(text),
        _ => {}
    }
}

/// Endings of member names that denote credentials in a request body. They are fewer than for other
/// names, because a redacted body cannot be replayed unchanged.
const CREDENTIALS: &[&str] = &[
    "apikey",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "idtoken",
    "refreshtoken",
    "password",
    "passwd",
    "secret",
    "secretkey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "credentials",
];

/// Removes the credentials from a request body: texts in members whose names denote them. Returns
/// whether there were any.
pub fn credentials(body: &mut Value) -> bool {
    let is_named = |name: &str| {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        CREDENTIALS.iter().any(|end| name.ends_with(end))
    };
    match body {
        Value::Object(members) => members.iter_mut().fold(false, |any, (name, member)| {
            let found = match member {
                Value::String(text) if is_named(name) && !text.is_empty() => {
                    REDACTED.clone_into(text);
                    true
                }
                other => credentials(other),
            };
            found | any
        }),
        Value::Array(items) => items.iter_mut().fold(false, |any, item| credentials(item) | any),
        _ => false,
    }
}

/// Returns whether JSON may contain credentials, so that other JSON need not be parsed.
#[must_use]
pub fn may_have_credentials(json: &[u8]) -> bool {
    // Parts of the names above, without letters that may be upper-case.
    const PARTS: [&str; 9] =
        ["ey\"", "EY\"", "oken\"", "OKEN\"", "ass", "ecret", "SECRET", "uthorization", "redential"];
    PARTS.iter().any(|part| memchr::memmem::find(json, part.as_bytes()).is_some())
        || memchr::memmem::find(json, b"\\u").is_some()
}

#[cfg(test)]
mod tests {
    use super::url::parameters_after_path;
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_hold_secrets() {
        for name in [
            "Authorization",
            "x-api-key",
            "apiKey",
            "Cookie",
            "Set-Cookie",
            "access_token",
            "Proxy-Authorization",
            "client.secret",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["max_tokens", "stop_token_ids", "X-Request-ID", "tokenizer", "keys_count"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn urls_in_json_lose_their_credentials_and_texts_stay() {
        let mut body = json!({"messages": [{"content": [
            {"image_url": {"url": "https://u:hunter2@h/a.png?X-Amz-Signature=s1&w=2"}},
            {"text": "see https://u:pw@h/ there"}, {"url": "data:image/png;base64,AA=="},
        ]}], "n": 1});
        assert!(may_have_urls(body.to_string().as_bytes()));
        assert!(may_have_urls(br#"{"url":"https:\/\/h"}"#));
        assert!(!may_have_urls(br#"{"a":"b: //"}"#));
        assert!(urls(&mut body));
        let content = &body["messages"][0]["content"];
        assert_eq!(
            content[0]["image_url"]["url"],
            "https://redacted@h/a.png?X-Amz-Signature=redacted&w=2"
        );
        assert_eq!(content[1]["text"], "see https://u:pw@h/ there");
        assert!(!urls(&mut body.clone()));
        assert!(!urls(&mut json!({"url": "https://h/a.png?w=2"})));
    }

    #[test]
    fn headers_with_a_secret_part_anywhere_are_redacted() {
        for name in
            ["Authorization", "X-API-Key", "cookie", "Set-Cookie", "X-Auth-Token", "mySecret-Id"]
        {
            assert_eq!(header_value(name, "hunter2"), REDACTED, "{name}");
        }
        assert_eq!(header_value("Content-Type", "application/json"), "application/json");
    }

    #[test]
    fn a_text_that_may_be_a_url_is_redacted_as_one() {
        assert_eq!(text_or_url("org/model@rev"), "org/model@rev");
        assert_eq!(text_or_url("h:port/v1?api_key=s"), "h:port/v1?redacted");
        assert_eq!(text_or_url("What is 2? key=e"), "What is 2? key=e");
    }

    #[test]
    fn json_members_at_any_depth() {
        let mut value = json!({"a": [{"api_key": 7, "b": "http://u:p@h/"}], "token": null});
        json(&mut value);
        let expected =
            json!({"a": [{"api_key": REDACTED, "b": "http://redacted@h/"}], "token": null});
        assert_eq!(value, expected);
    }

    #[test]
    fn values_tell_that_they_are_secrets_by_their_form() {
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
        for secret in ["Bearer abc", "basic dTpw", token, "sk-proj-0123456789abcdef"] {
            assert!(is_secret_value(secret), "{secret}");
            assert_eq!(header_value("X-Whatever", secret), REDACTED, "{secret}");
        }
        for plain in ["text/event-stream", "sk-1", "eyJ", "hf_", "bearer", "a basic thing"] {
            assert!(!is_secret_value(plain), "{plain}");
        }
        for name in ["X-JWT", "X-Pass", "X-Session-Id", "X-Auth"] {
            assert_eq!(header_value(name, "hunter2"), REDACTED, "{name}");
        }
        assert_eq!(header_value("X-Session-Affinity", "a-b"), "a-b");
        let query = "code=a&sas=b&pwd=c&jwt=d&x=e&y=Bearer%20f";
        let shown = "code=redacted&sas=redacted&pwd=redacted&jwt=redacted&x=e&y=redacted";
        assert_eq!(url(&format!("https://h/?{query}")), format!("https://h/?{shown}"));
        let path = parameters_after_path("/v1?code=a&status_code=1");
        assert_eq!(path, "/v1?code=redacted&status_code=1");
    }

    #[test]
    fn credentials_leave_a_body_and_nothing_else() {
        let mut body = json!({
            "api_key": "hunter2", "extra": {"apiKey": "hunter2", "client-secret": "hunter2"},
            "max_tokens": 5, "prompt_cache_key": "k", "messages": [{"content": "password: x"}],
            "tools": [{"parameters": {"properties": {"password": {"type": "string"}}}}],
        });
        assert!(may_have_credentials(body.to_string().as_bytes()));
        assert!(credentials(&mut body));
        assert!(!body.to_string().contains("hunter2"), "{body}");
        assert_eq!(body["prompt_cache_key"], "k");
        assert_eq!(body["messages"][0]["content"], "password: x");
        assert_eq!(body["tools"][0]["parameters"]["properties"]["password"]["type"], "string");
        let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        assert!(!may_have_credentials(plain.to_string().as_bytes()));
        assert!(!credentials(&mut plain.clone()));
    }
}
