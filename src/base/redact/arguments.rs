//! Redaction of the command line, and of messages that quote it.

use serde_json::Value;

use super::url::parameters_after_path;
use super::{REDACTED, header_value, is_secret_name, is_secret_value, json, text_or_url, url};

/// Redacts `Name: value` of a header.
fn header(text: &str) -> String {
    match text.find([':', '=']) {
        Some(at) if header_value(&text[..at], &text[at + 1..]) == REDACTED => {
            format!("{}{REDACTED}", &text[..=at])
        }
        Some(_) => pairs(text),
        None if text.trim().is_empty() => text.to_owned(),
        // It is not a header, but may be the value of one.
        None => REDACTED.to_owned(),
    }
}

/// Redacts `name<separator>value`, or several of them separated by commas, if the name denotes a
/// secret. A JSON object gets its members redacted.
fn pairs(text: &str) -> String {
    if let Ok(mut value @ Value::Object(_)) = serde_json::from_str(text) {
        json(&mut value);
        return value.to_string();
    }
    // A secret may contain commas, and a name may be part of JSON within a value, so nothing is
    // shown from the first secret name on.
    let is_secret = |at: usize| is_secret_name(&text[..at]) || is_secret_value(&text[at + 1..]);
    let secret = text.match_indices([':', '=']).find(|(at, _)| is_secret(*at));
    if let Some((at, _)) = secret {
        return format!("{}{REDACTED}", &text[..=at]);
    }
    let part = |part: &str| match part.find([':', '=']) {
        Some(at) => format!("{}{}", &part[..=at], text_or_url(&part[at + 1..])),
        None => part.to_owned(),
    };
    text.split(',').map(part).collect::<Vec<_>>().join(",")
}

/// Returns the command line as one line that a shell can parse, with redacted secrets. The program,
/// which comes first, is shown without its path.
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

/// A flag and the value attached to it, as in `--header=x` and `-Hx`.
struct Flag<'a> {
    /// `--header`, or the letter only.
    name: &'a str,
    /// The text before the value.
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
    // `-v` takes no value, so another flag may follow it, as in `-vH`.
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

/// Flags whose values are URLs, also if they cannot be parsed as such.
const URL_FLAGS: &[&str] =
    &["--url", "u", "--otel-url", "--server-metrics", "--gpu-telemetry", "--mlflow-tracking-uri"];

fn flag_value(flag: &str, value: &str) -> String {
    match flag {
        "--header" | "H" => header(value),
        "--extra-inputs" | "--otel-resource-attributes" => pairs(value),
        "--endpoint" | "--custom-endpoint" => parameters_after_path(value),
        _ if is_secret_name(flag) => REDACTED.to_owned(),
        _ if URL_FLAGS.contains(&flag) => listed(value, url),
        _ if is_secret_value(value) => REDACTED.to_owned(),
        _ => listed(value, text_or_url),
    }
}

/// Applies `shown` to each comma-separated part of `value`. A comma may be part of a password or of
/// a parameter, so a part without a scheme is joined with the part before it if it has an `@`, or
/// if that part has parameters.
fn listed(value: &str, shown: impl Fn(&str) -> String) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in value.split(',') {
        if part.contains('@') && !part.contains("://") {
            let from = parts.iter().rposition(|part| part.contains("://")).unwrap_or(0);
            let mut whole: Vec<String> = parts.drain(from..).collect();
            whole.push(part.to_owned());
            parts.push(whole.join(","));
        } else if let Some(before) = parts.last_mut()
            && before.contains(['?', '#'])
            && !part.contains("://")
        {
            before.push(',');
            before.push_str(part);
        } else {
            parts.push(part.to_owned());
        }
    }
    parts.iter().map(|part| shown(part)).collect::<Vec<_>>().join(",")
}

/// Minimum number of characters that are replaced in a message: a shorter text is in many words, which
/// would be destroyed, and would show what was replaced.
const MIN_REPLACED: usize = 4;

/// Returns a message about `arguments`, which it may quote, without the secrets in them.
#[must_use]
pub fn message<S: AsRef<str>>(text: &str, arguments: &[S]) -> String {
    let mut replaced: Vec<(String, String)> = Vec::new();
    let mut flag = "";
    for argument in arguments.iter().skip(1).map(AsRef::as_ref) {
        let (of, value) = match split_flag(argument) {
            Some(Flag { name, value: None, .. }) => {
                flag = name;
                continue;
            }
            Some(Flag { name, value: Some(value), .. }) => {
                flag = "";
                (name, value)
            }
            None => (flag, argument),
        };
        let shown = flag_value(of, value);
        if shown == value {
            continue;
        }
        // The message may quote only a part of the value.
        let parts = value.split(',').filter(|part| !part.trim().is_empty() && *part != value);
        let parts = parts.map(|part| match flag_value(of, part) {
            same if same == part => (part.to_owned(), REDACTED.to_owned()),
            shown => (part.to_owned(), shown),
        });
        replaced.extend(parts.filter(|(part, _)| !shown.contains(part.as_str())));
        replaced.push((value.to_owned(), shown));
    }
    let forms = replaced.iter().flat_map(|(secret, shown)| {
        let quoted = format!("{secret:?}");
        let quoted = quoted[1..quoted.len() - 1].to_owned();
        [secret.trim().to_owned(), quoted].map(|form| (form, shown.as_str()))
    });
    let mut forms: Vec<_> =
        forms.filter(|(form, _)| form.chars().count() >= MIN_REPLACED).collect();
    // Longer secrets first, since they may contain shorter ones.
    forms.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
    replaced_once(text, &forms)
}

/// Returns `text` with the first of `forms` that matches at each place replaced. A replacement is not
/// searched again.
fn replaced_once(text: &str, forms: &[(String, &str)]) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let found = forms.iter().find_map(|(form, shown)| Some((rest.strip_prefix(form)?, *shown)));
        if let Some((after, shown)) = found {
            output.push_str(shown);
            rest = after;
        } else {
            output.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    output
}

/// Puts `text` in single quotes if a shell would otherwise interpret it.
pub fn quote(text: &str) -> String {
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

    #[test]
    fn commas_in_passwords_end_nothing() {
        let shown = |value: &str| listed(value, url);
        assert_eq!(shown("http://u:pa,ss@h:1"), "http://redacted@h:1/");
        assert_eq!(shown("u:pa,ss@h:1"), "redacted@h:1/");
        assert_eq!(shown("http://a:1,http://u:p,w,x@h:1"), "http://a:1,http://redacted@h:1/");
        assert_eq!(shown("http://a:1,http://b:2"), "http://a:1,http://b:2");
        assert_eq!(shown("http://a/?key=p,q&x=1,http://b"), "http://a/?key=redacted&x=1,http://b");
        assert_eq!(shown("a:1,b:2"), "a:1,b:2");
    }

    #[test]
    fn messages_repeat_arguments_without_their_secrets() {
        let line = ["aiperf", "profile", "--url", "http://u:pa,ss@h:port", "--tokenizer=x"];
        let said = message("invalid value 'http://u:pa' and \"ss@h:port\" of --url", &line);
        assert!(!said.contains("u:pa") && !said.contains("ss@"), "{said}");
        let line = ["aiperf", "--input-file", "https://h/a?sig=hunter2&b=1"];
        let said = message("cannot read https://h/a?sig=hunter2&b=1: no such file", &line);
        assert_eq!(said, "cannot read https://h/a?sig=redacted&b=1: no such file");
        let line = ["aiperf", "-H", "Bearer hunter2"];
        assert_eq!(
            message("'Bearer hunter2' is not a header", &line),
            "'<redacted>' is not a header"
        );
        // Short secrets are parts of other words, and of what replaces longer ones.
        for key in ["", "a", "red", " "] {
            let line = ["aiperf", "--api-key", key, "-H", "Authorization: hunter2"];
            let said = message("invalid value of --concurrency: Authorization: hunter2", &line);
            let expected = "invalid value of --concurrency: Authorization:<redacted>";
            assert_eq!(said, expected, "{key:?}");
        }
        let line = ["aiperf", "--api-key", "acted"];
        assert_eq!(message("acted and redacted", &line), "<redacted> and red<redacted>");
        let line = ["aiperf", "--concurrency", "0"];
        assert_eq!(message("invalid value '0'", &line), "invalid value '0'");
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
