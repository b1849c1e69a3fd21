//! A configuration file as it is written, and with the values of variables.

use serde_json::{Number, Value};

use base::environment::Environment;
use base::input::yaml::{self, Room};

use super::substitution::substitute;

/// A document as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Scalar(Value),
    /// A scalar with references to variables, whose type is determined by its text.
    Substituted(String),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

/// Parses a document.
pub(super) fn parsed(text: &str) -> Result<Node, String> {
    let value = yaml::parsed(text).map_err(|why| format!("is {why}"))?;
    Node::from_value(value)
}

impl Node {
    fn from_value(value: serde_norway::Value) -> Result<Self, String> {
        use serde_norway::Value as Yaml;
        Ok(match value {
            Yaml::Null => Self::Scalar(Value::Null),
            Yaml::Bool(value) => Self::Scalar(value.into()),
            Yaml::Number(number) => {
                let whole = number.as_i64().map(Number::from);
                let whole = whole.or_else(|| number.as_u64().map(Number::from));
                let number = whole.or_else(|| Number::from_f64(number.as_f64()?));
                Self::Scalar(number.ok_or("has a number that is not finite")?.into())
            }
            Yaml::String(text) => Self::Scalar(text.into()),
            Yaml::Sequence(items) => {
                let items = items.into_iter().map(Self::from_value);
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Yaml::Mapping(members) => {
                let member = |(key, value)| match key {
                    Yaml::String(key) => Ok((key, Self::from_value(value)?)),
                    _ => Err("has a key that is not text".to_owned()),
                };
                Self::Members(members.into_iter().map(member).collect::<Result<_, _>>()?)
            }
            Yaml::Tagged(_) => return Err("has a tag (!), which is not supported".to_owned()),
        })
    }

    /// Returns the document with the values of the variables that its scalars refer to.
    ///
    /// # Errors
    ///
    /// Returns the place of a reference that is not valid, and the reason.
    pub(super) fn substituted(&self, given: Environment<'_>) -> Result<Self, String> {
        self.replaced(given, &mut Room::default(), "")
    }

    fn replaced(
        &self,
        given: Environment<'_>,
        room: &mut Room,
        path: &str,
    ) -> Result<Self, String> {
        Ok(match self {
            Self::Scalar(Value::String(text)) => {
                let replaced = substitute(text, given, room);
                match replaced.map_err(|reason| format!("{path} {reason}"))? {
                    (text, true) => Self::Substituted(text),
                    (text, false) => Self::Scalar(text.into()),
                }
            }
            Self::List(items) => {
                let items = items.iter().enumerate();
                let items =
                    items.map(|(at, it)| it.replaced(given, room, &format!("{path}[{at}]")));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Self::Members(members) => {
                let member = |(key, node): &(String, Self)| {
                    Ok((key.clone(), node.replaced(given, room, &child(path, key))?))
                };
                Self::Members(members.iter().map(member).collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    /// Returns the value of a member.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Members(members) = self else { return None };
        members.iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }
}

/// Returns the place of the member `key` of what is at `path`.
pub(super) fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the value of a scalar by the core schema of YAML 1.2.
pub(super) fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => {
            let is_number = text.bytes().all(|it| it.is_ascii_digit() || b"+-.eE".contains(&it));
            let number = text.strip_prefix('+').unwrap_or(text);
            let whole = || number.parse::<i64>().ok().map(Value::from);
            let real = || Number::from_f64(number.parse().ok()?).map(Value::Number);
            let found = if is_number { whole().or_else(real) } else { None };
            found.unwrap_or_else(|| text.into())
        }
    }
}
