//! Takes secrets out of what is shown: URLs, headers, the command line.

use serde_json::Value;
use url::Url;

/// What stands where a secret was.
pub const REDACTED: &str = "<redacted>";

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
];

/// Whether `name`, of a header or a parameter, holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    let last = name.rsplit(['-', '_', '.', ' ']).next().unwrap_or_default();
    SECRET_WORDS.iter().any(|word| last.ends_with(word))
}

/// The value of a header as it may be shown.
#[must_use]
pub fn header_value<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) { REDACTED } else { value }
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
        let _ = url.set_username("redacted");
    }
    if has_query {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        url.query_pairs_mut().clear().extend_pairs(pairs.iter().map(|(name, value)| {
            (name, if is_secret_name(name) { "redacted" } else { value.as_str() })
        }));
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

/// `name<separator>value` with the value redacted where the name says so; a
/// JSON object with its members redacted.
fn pair(text: &str) -> String {
    if let Ok(mut value @ Value::Object(_)) = serde_json::from_str(text) {
        json(&mut value);
        return value.to_string();
    }
    let part = |part: &str| match part.find([':', '=']) {
        Some(at) if is_secret_name(&part[..at]) => format!("{}{REDACTED}", &part[..=at]),
        Some(at) => format!("{}{}", &part[..=at], text_or_url(&part[at + 1..])),
        None => part.to_owned(),
    };
    // After a secret everything up to the end belongs to it: it may hold commas.
    match text.find([':', '=']) {
        Some(at) if is_secret_name(&text[..at]) => part(text),
        _ => text.split(',').map(part).collect::<Vec<_>>().join(","),
    }
}

/// The command line as one line that a shell reads back, secrets redacted, the
/// program without its directory.
#[must_use]
pub fn command_line<S: AsRef<str>>(arguments: &[S]) -> String {
    let mut shown = Vec::with_capacity(arguments.len());
    let mut flag = "";
    for (number, argument) in arguments.iter().map(AsRef::as_ref).enumerate() {
        let text = match split_flag(argument) {
            _ if number == 0 => argument.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(),
            Some((name, None)) => {
                flag = name;
                argument.to_owned()
            }
            Some((name, Some(value))) => {
                flag = "";
                let separator = if argument.starts_with("--") { "=" } else { "" };
                format!("{name}{separator}{}", flag_value(name, value))
            }
            None => flag_value(flag, argument),
        };
        shown.push(quote(&text));
    }
    shown.join(" ")
}

/// A flag and the value attached to it, as in `--header=x` and `-Hx`.
fn split_flag(argument: &str) -> Option<(&str, Option<&str>)> {
    if argument.starts_with("--") {
        return Some(match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        });
    }
    match argument.strip_prefix('-')?.chars().next()? {
        '0'..='9' | '.' => None,
        letter => {
            let (name, value) = argument.split_at(1 + letter.len_utf8());
            Some((name, (!value.is_empty()).then_some(value)))
        }
    }
}

fn flag_value(flag: &str, value: &str) -> String {
    match flag {
        "--header" | "-H" | "--extra-inputs" | "--otel-resource-attributes" => pair(value),
        _ if is_secret_name(flag) => REDACTED.to_owned(),
        "--url" | "-u" | "--otel-url" => value.split(',').map(url).collect::<Vec<_>>().join(","),
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
        let line = command_line(&[
            "/opt/bin/aiperf",
            "--system-prompt",
            "it's $5",
            "-H",
            "A: b",
            "",
            "-m",
            "x",
        ]);
        assert_eq!(line, r"aiperf --system-prompt 'it'\''s $5' -H 'A: b' '' -m x");
    }

    proptest! {
        #[test]
        fn a_secret_never_shows(before in "[a-z:=,/@ {}\"]{0,12}", secret in "[A-Z]{12}") {
            for arguments in [
                vec!["aiperf".to_owned(), "--api-key".to_owned(), format!("{before}{secret}")],
                vec!["aiperf".to_owned(), format!("--api-key={before}{secret}")],
                vec!["aiperf".to_owned(), "-H".to_owned(), format!("Authorization:{before}{secret}")],
                vec!["aiperf".to_owned(), format!("-HX-Api-Key: {before}{secret}")],
                vec!["aiperf".to_owned(), "--extra-inputs".to_owned(), format!("token={before}{secret}")],
            ] {
                let shown = command_line(&arguments);
                prop_assert!(!shown.contains(&secret), "{}", shown);
            }
        }
    }
}
