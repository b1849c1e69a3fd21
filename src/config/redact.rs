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
    let Ok(mut url) = Url::parse(candidate) else { return text.to_owned() };
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
        Value::String(text) => *text = url(text),
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
        Some(at) => format!("{}{}", &part[..=at], url(&part[at + 1..])),
        None => part.to_owned(),
    };
    // After a secret everything up to the end belongs to it: it may hold commas.
    match text.find([':', '=']) {
        Some(at) if is_secret_name(&text[..at]) => part(text),
        _ => text.split(',').map(part).collect::<Vec<_>>().join(","),
    }
}

/// The command line as one line that a shell reads back, secrets redacted.
#[must_use]
pub fn command_line<S: AsRef<str>>(arguments: &[S]) -> String {
    let mut shown = Vec::with_capacity(arguments.len());
    let mut flag = "";
    for argument in arguments.iter().map(AsRef::as_ref) {
        let text = match split_flag(argument) {
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
        _ => value.split(',').map(url).collect::<Vec<_>>().join(","),
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
