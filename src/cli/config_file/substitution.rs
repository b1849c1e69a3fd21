//! Environment variables in the values of a configuration file: `${NAME}`, and `${NAME:default}`.

use serde_norway::Value;

use base::input::yaml::Room;

use crate::config::Environment;

/// Replaces the variables in the texts of a file.
pub(super) struct Substitution<'a> {
    environment: Environment<'a>,
    room: Room,
}

impl<'a> Substitution<'a> {
    pub(super) fn new(environment: Environment<'a>) -> Self {
        Self { environment, room: Room::default() }
    }

    /// Replaces variables in all texts of `value`.
    pub(super) fn substitute(&mut self, value: Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.in_text(&text)?),
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
