//! Takes secrets out of what is shown: URLs, headers, JSON, the command line.
//!
//! Everything that is written, logged or printed for debugging comes by here.

use http::HeaderMap;
use serde_json::Value;
use url::Url;

/// What stands where a secret was.
pub const REDACTED: &str = "<redacted>";

/// What stands in [`REDACTED`], and in a URL where a secret was.
pub const MARK: &str = "redacted";

/// Words that make a name's value a secret where the name ends in them, as in
/// `x-api-key` and `access_token`; `max_tokens` and `stop_token_ids` are none.
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
];

/// Whether `name`, of a header or a parameter, holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = name.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let last = words.into_iter().find(|word| !word.is_empty()).unwrap_or_default();
    SECRET_WORDS.iter().any(|word| last.ends_with(word))
}

/// Parts that make a header's value a secret wherever they stand in its name,
/// as in `X-Token-Id`: no header is worth the risk.
const SECRET_PARTS: &[&str] = &["token", "secret", "key", "password", "cookie", "credential"];

/// The value of a header as it may be shown.
#[must_use]
pub fn header_value<'a>(name: &str, value: &'a str) -> &'a str {
    let has_part = || {
        let name = name.to_ascii_lowercase();
        SECRET_PARTS.iter().any(|part| name.contains(part))
    };
    if is_secret_name(name) || has_part() { REDACTED } else { value }
}

/// Headers as they may be shown.
#[must_use]
pub fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), header_value(name.as_str(), &value).to_owned())
    };
    headers.iter().map(shown).collect()
}

/// A path with a query, without the values of its secret parameters.
#[must_use]
pub fn path(text: &str) -> String {
    let Some((path, query)) = text.split_once('?') else { return text.to_owned() };
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if is_secret_name(name) => format!("{name}={MARK}"),
        _ => parameter.to_owned(),
    };
    format!("{path}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

/// `text` without credentials, if it is a URL: user name, password and secret
/// query parameters. What is no URL comes back as it is.
#[must_use]
pub fn url(text: &str) -> String {
    let with_scheme;
    let (candidate, prefix) = if text.contains("://") {
        (text, "")
    } else {
        with_scheme = format!("http://{text}");
        (with_scheme.as_str(), "http://")
    };
    let Ok(mut url) = Url::parse(candidate) else { return without_user(text) };
    let has_user = !url.username().is_empty() || url.password().is_some();
    let has_query = url.query_pairs().any(|(name, _)| is_secret_name(&name));
    if !has_user && !has_query {
        return text.to_owned();
    }
    if has_user {
        // Both fail only for URLs that cannot have credentials.
        let _ = url.set_password(None);
        let _ = url.set_username(MARK);
    }
    if has_query {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        url.query_pairs_mut().clear().extend_pairs(
            pairs.iter().map(|(name, value)| {
                (name, if is_secret_name(name) { MARK } else { value.as_str() })
            }),
        );
    }
    url.as_str().strip_prefix(prefix).unwrap_or(url.as_str()).to_owned()
}

/// `text`, which is no URL, without what stands between its scheme and an `@`.
fn without_user(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    match text[start..].rfind('@') {
        Some(at) => format!("{}redacted{}", &text[..start], &text[start + at..]),
        None => text.to_owned(),
    }
}

/// `text` that need not be a URL: a name such as `model@revision` is kept.
fn text_or_url(text: &str) -> String {
    let has_password = text.find('@').is_some_and(|at| text[..at].contains(':'));
    if has_password || text.contains("://") { url(text) } else { text.to_owned() }
}

/// Takes the credentials out of the URLs in `value`, each a whole text, such as name
/// the images of a request. Whether there were any.
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

/// Whether JSON may have URLs in it: so that others need not be read.
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
        Value::String(text) => *text = text_or_url(text),
        _ => {}
    }
}

/// `Name: value` of a header.
fn header(text: &str) -> String {
    match text.find([':', '=']) {
        Some(at) if header_value(&text[..at], "") == REDACTED => {
            format!("{}{REDACTED}", &text[..=at])
        }
        _ => pairs(text),
    }
}

/// `name<separator>value`, several with commas between them, redacted where a
/// name says so; a JSON object with its members redacted.
fn pairs(text: &str) -> String {
    if let Ok(mut value @ Value::Object(_)) = serde_json::from_str(text) {
        json(&mut value);
        return value.to_string();
    }
    // A secret may hold commas, and a name may stand in JSON within a value: from
    // the first secret name on nothing is shown.
    let secret = text.match_indices([':', '=']).find(|(at, _)| is_secret_name(&text[..*at]));
    if let Some((at, _)) = secret {
        return format!("{}{REDACTED}", &text[..=at]);
    }
    let part = |part: &str| match part.find([':', '=']) {
        Some(at) => format!("{}{}", &part[..=at], text_or_url(&part[at + 1..])),
        None => part.to_owned(),
    };
    text.split(',').map(part).collect::<Vec<_>>().join(",")
}

/// The command line as one line that a shell reads back, secrets redacted. The
/// program, which comes first, is named without its path.
#[must_use]
pub fn command_line<S: AsRef<str>>(arguments: &[S]) -> String {
    let mut shown = vec!["aiperf".to_owned()];
    let mut flag = "";
    for argument in arguments.iter().skip(1).map(AsRef::as_ref) {
        let text = match split_flag(argument) {
            Some(Flag { name, value: None, .. }) => {
                flag = name;
                argument.to_owned()
            }
            Some(Flag { name, shown, value: Some(value) }) => {
                flag = "";
                format!("{shown}{}", flag_value(name, value))
            }
            None => flag_value(flag, argument),
        };
        shown.push(quote(&text));
    }
    shown.join(" ")
}

/// A flag, and the value attached to it, as in `--header=x` and `-Hx`.
struct Flag<'a> {
    /// `--header`, or the letter alone.
    name: &'a str,
    /// What stands before the value.
    shown: &'a str,
    value: Option<&'a str>,
}

fn split_flag(argument: &str) -> Option<Flag<'_>> {
    if argument.starts_with("--") {
        return Some(match argument.split_once('=') {
            Some((name, value)) => {
                Flag { name, shown: &argument[..=name.len()], value: Some(value) }
            }
            None => Flag { name: argument, shown: argument, value: None },
        });
    }
    let letters = argument.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    // `-v` takes no value: another flag may follow it, as in `-vH`.
    let last = letters.trim_start_matches('v');
    let Some(letter) = last.chars().next() else {
        return Some(Flag { name: letters, shown: argument, value: None });
    };
    if letter.is_ascii_digit() || letter == '.' {
        return None;
    }
    let (name, value) = last.split_at(letter.len_utf8());
    let shown = &argument[..argument.len() - value.len()];
    Some(Flag { name, shown, value: (!value.is_empty()).then_some(value) })
}

fn flag_value(flag: &str, value: &str) -> String {
    match flag {
        "--header" | "H" => header(value),
        "--extra-inputs" | "--otel-resource-attributes" => pairs(value),
        "--endpoint" | "--custom-endpoint" => path(value),
        _ if is_secret_name(flag) => REDACTED.to_owned(),
        "--url" | "u" | "--otel-url" | "--server-metrics" => {
            value.split(',').map(url).collect::<Vec<_>>().join(",")
        }
        _ => value.split(',').map(text_or_url).collect::<Vec<_>>().join(","),
    }
}

/// `text` in single quotes, if a shell would otherwise read it differently.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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
    fn urls_lose_credentials_only() {
        assert_eq!(url("http://u:p@h:1/v1?x=1"), "http://redacted@h:1/v1?x=1");
        assert_eq!(url("u:p@host:8000"), "redacted@host:8000/");
        assert_eq!(url("https://h/?api_key=s&x=1"), "https://h/?api_key=redacted&x=1");
        assert_eq!(url("http://u:p@h:port"), "http://redacted@h:port", "no URL, yet a secret");
        assert_eq!(text_or_url("org/model@rev"), "org/model@rev");
        for plain in ["http://h:1", "localhost:8000", "a b", "", "time_to_first_token:50"] {
            assert_eq!(url(plain), plain);
        }
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
    fn a_command_line_can_be_pasted_into_a_shell() {
        let line =
            command_line(&["aiperf", "--system-prompt", "it's $5", "-H", "A: b", "", "-m", "x"]);
        assert_eq!(line, r"aiperf --system-prompt 'it'\''s $5' -H 'A: b' '' -m x");
    }

    proptest! {
        #[test]
        fn a_secret_never_shows(before in "[a-z:=,/@ {}\"]{0,12}", secret in "[A-Z]{12}") {
            for arguments in [
                vec!["--api-key".to_owned(), format!("{before}{secret}")],
                vec![format!("--api-key={before}{secret}")],
                vec!["-H".to_owned(), format!("Authorization:{before}{secret}")],
                vec![format!("-HX-Api-Key: {before}{secret}")],
                vec!["-vH".to_owned(), format!("X-Token-Id: {before}{secret}")],
                vec!["--extra-inputs".to_owned(), format!("token={before}{secret}")],
                vec!["--extra-inputs".to_owned(), format!("a:1,token={before},{secret}")],
                vec!["--extra-inputs".to_owned(), format!("a:{{\"api_key\":\"{before}{secret}\"}}")],
                vec!["--endpoint".to_owned(), format!("/v1?x=1&api-key={secret}")],
            ] {
                let line: Vec<_> = ["aiperf".to_owned()].into_iter().chain(arguments).collect();
                let shown = command_line(&line);
                prop_assert!(!shown.contains(&secret), "{}", shown);
            }
        }
    }
}
