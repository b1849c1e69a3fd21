//! Environment variables in the values of a configuration file: `${NAME}`, and `${NAME:default}`.

use serde_norway::Value;

use crate::config::Environment;

/// Replaces variables in all texts of `value`.
pub(super) fn substituted(value: Value, environment: Environment<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(in_text(&text, environment)?),
        Value::Sequence(items) => {
            let items = items.into_iter().map(|item| substituted(item, environment));
            Value::Sequence(items.collect::<Result<_, _>>()?)
        }
        Value::Mapping(members) => {
            let member = |(name, value)| Ok((name, substituted(value, environment)?));
            Value::Mapping(members.into_iter().map(member).collect::<Result<_, String>>()?)
        }
        other => other,
    })
}

/// Replaces the variables in `text`. `$${` is a literal `${`.
fn in_text(text: &str, environment: Environment<'_>) -> Result<String, String> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            replaced.push_str(before);
            replaced.push_str("${");
            rest = &after[2..];
            continue;
        }
        replaced.push_str(before);
        let Some((inside, after)) = after[2..].split_once('}') else {
            return Err("`${` without `}`; write $${ for a literal ${".to_owned());
        };
        replaced.push_str(&variable(inside, environment)?);
        rest = after;
    }
    replaced.push_str(rest);
    Ok(replaced)
}

/// The value of `NAME` or `NAME:default`.
fn variable(inside: &str, environment: Environment<'_>) -> Result<String, String> {
    let (name, default) = match inside.split_once(':') {
        Some((name, default)) => (name.trim(), Some(default)),
        None => (inside.trim(), None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("`${{{inside}}}` is not the name of a variable"));
    }
    environment.get(name).or_else(|| default.map(str::to_owned)).ok_or_else(|| {
        format!("the variable {name} is not set; set it, or add a default: ${{{name}:value}}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replaced(text: &str) -> Result<String, String> {
        let lookup = |name: &str| (name == "KEY").then(|| "abc".to_owned());
        in_text(text, Environment::new(&lookup))
    }

    #[test]
    fn variables_and_defaults_are_replaced() {
        for (text, expected) in [
            ("plain $KEY {KEY}", "plain $KEY {KEY}"),
            ("${KEY}", "abc"),
            ("a${ KEY }b${KEY:other}", "aabcbabc"),
            ("${NONE:http://localhost:8000}", "http://localhost:8000"),
            ("${NONE:}", ""),
            ("$${KEY} ${KEY}", "${KEY} abc"),
        ] {
            assert_eq!(replaced(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_an_error() {
        for (text, part) in [
            ("${NONE}", "NONE is not set"),
            ("${KEY", "without `}`"),
            ("${a b}", "not the name of a variable"),
            ("${}", "not the name of a variable"),
        ] {
            let error = replaced(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[${}:A-Z ]{0,40}") {
            let _ = replaced(&text);
        }

        #[test]
        fn text_without_variables_stays(text in "[^$]{0,40}") {
            prop_assert_eq!(replaced(&text), Ok(text));
        }
    }
}
