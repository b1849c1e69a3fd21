//! Environment variables in the values of a configuration file: `${NAME}`, and `${NAME:default}`.

use serde_norway::Value;

use base::input::yaml::Room;
use base::redact;

use crate::config::Environment;
use crate::config::aiperf::coerced;

/// Replaces the variables in the texts of a file.
pub(super) struct Substitution<'a> {
    environment: Environment<'a>,
    room: Room,
    /// Whether a text that is only a variable may become a number.
    coerces: bool,
}

impl<'a> Substitution<'a> {
    pub(super) fn new(environment: Environment<'a>) -> Self {
        Self { environment, room: Room::default(), coerces: false }
    }

    /// Replaces variables as AIPerf does: a text that is only a variable becomes true, false or a number.
    pub(super) fn of_aiperf(environment: Environment<'a>) -> Self {
        Self { coerces: true, ..Self::new(environment) }
    }

    /// Replaces variables in all texts of `value`.
    pub(super) fn substitute(&mut self, value: Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => {
                let inside = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
                let is_only = self.coerces && inside.is_some_and(|it| !it.contains('}'));
                let replaced = self.in_text(&text)?;
                if is_only { coerced(replaced) } else { Value::String(replaced) }
            }
            Value::Sequence(items) => {
                let items = items.into_iter().map(|item| self.substitute(item));
                Value::Sequence(items.collect::<Result<_, _>>()?)
            }
            Value::Mapping(members) => {
                let member = |(name, value)| Ok((name, self.substitute(value)?));
                Value::Mapping(members.into_iter().map(member).collect::<Result<_, String>>()?)
            }
            other => other,
        })
    }

    /// Replaces the variables in `text`. `$${` is a literal `${`.
    fn in_text(&mut self, text: &str) -> Result<String, String> {
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
            let value = variable(inside, self.environment)?;
            self.room.take(&value)?;
            replaced.push_str(&value);
            rest = after;
        }
        replaced.push_str(rest);
        Ok(replaced)
    }
}

/// Returns arguments with the values of all variables in `text` whose names are those of secrets, for what is
/// printed to be redacted.
pub(super) fn secrets(text: &str, environment: Environment<'_>) -> Vec<String> {
    let inside = text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next());
    let names = inside.map(str::trim).filter(|name| redact::is_secret_name(name));
    let values = names.filter_map(|name| environment.get(name));
    let arguments = values.map(|value| format!("--api-key={value}"));
    std::iter::once(String::new()).chain(arguments).collect()
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
        Substitution::new(Environment::new(&lookup)).in_text(text)
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
    fn a_variable_alone_is_a_value_in_files_of_aiperf() {
        for (value, expected) in [
            ("True", Value::Bool(true)),
            ("30", Value::from(30)),
            ("-1.50", Value::from(-1.5)),
            ("0.5", Value::from(0.5)),
            // What would be written in another way is a text.
            ("007", Value::from("007")),
            ("1e5", Value::from("1e5")),
            ("99999999999999999999", Value::from("99999999999999999999")),
            ("1.2.3", Value::from("1.2.3")),
            ("-", Value::from("-")),
        ] {
            let lookup = |_: &str| Some(value.to_owned());
            let mut substitution = Substitution::of_aiperf(Environment::new(&lookup));
            assert_eq!(substitution.substitute("${X}".into()).unwrap(), expected, "{value}");
            let inside = substitution.substitute("a${X}".into()).unwrap();
            assert_eq!(inside, Value::from(format!("a{value}")));
            let mut others = Substitution::new(Environment::new(&lookup));
            assert_eq!(others.substitute("${X}".into()).unwrap(), Value::from(value));
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

    #[test]
    fn the_values_of_a_file_are_limited() {
        let environment = |_: &str| Some("x".repeat(1 << 20));
        let mut substitution = Substitution::new(Environment::new(&environment));
        let four = Value::Sequence(vec![Value::from("${BIG}${BIG}"); 2]);
        assert!(substitution.substitute(four).is_ok());
        let error = substitution.substitute(Value::from("${BIG}")).unwrap_err();
        assert_eq!(error, "the values of variables exceed 4 MiB");
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
