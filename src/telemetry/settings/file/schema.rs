//! The schemas of the configuration file, and the types of its values.
//!
//! `schema-*.json` are those that OpenTelemetry publishes, without titles and descriptions
//! (<https://github.com/open-telemetry/opentelemetry-configuration>, Apache License 2.0). Their
//! keywords are those of JSON Schema that this module knows; a test compares its verdicts with those of
//! a complete implementation.

use serde_json::{Map, Number, Value};

use super::substitution::substitute;
use crate::environment::Environment;
use crate::input::yaml::{self, Room};
use crate::setting::similar;

const V1_0: &str = include_str!("schema-1.0.json");
const V1_1: &str = include_str!("schema-1.1.json");

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
    Node::of(value)
}

impl Node {
    fn of(value: serde_norway::Value) -> Result<Self, String> {
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
                let items = items.into_iter().map(Self::of);
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Yaml::Mapping(members) => {
                let member = |(key, value)| match key {
                    Yaml::String(key) => Ok((key, Self::of(value)?)),
                    _ => Err("has a key that is not text".to_owned()),
                };
                Self::Members(members.into_iter().map(member).collect::<Result<_, _>>()?)
            }
            Yaml::Tagged(_) => return Err("has a tag (!), which is not supported".to_owned()),
        })
    }

    /// Returns the document with the values of the variables that its scalars refer to.
    pub(super) fn substituted(&self, given: Environment<'_>) -> Result<Self, String> {
        self.replaced(given, &mut Room::default())
    }

    fn replaced(&self, given: Environment<'_>, room: &mut Room) -> Result<Self, String> {
        Ok(match self {
            Self::Scalar(Value::String(text)) => match substitute(text, given, room)? {
                (text, true) => Self::Substituted(text),
                (text, false) => Self::Scalar(text.into()),
            },
            Self::List(items) => {
                let items = items.iter().map(|it| it.replaced(given, room));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Self::Members(members) => {
                let member = |(key, node): &(String, Self)| {
                    let node = node.replaced(given, room).map_err(|reason| within(key, &reason))?;
                    Ok::<_, String>((key.clone(), node))
                };
                Self::Members(members.iter().map(member).collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        })
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Self::Members(members) = self else { return None };
        members.iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }
}

/// Returns the reason with the place that it is about before it: `a` and `b.c must be …` are
/// `a.b.c must be …`.
fn within(key: &str, reason: &str) -> String {
    let separator = if reason.starts_with('[') {
        ""
    } else if is_place(reason) {
        "."
    } else {
        " "
    };
    format!("{key}{separator}{reason}")
}

/// Returns whether a reason begins with a place, and not with a verb.
fn is_place(reason: &str) -> bool {
    !["has ", "must ", "requires ", "is "].iter().any(|verb| reason.starts_with(verb))
}

/// The schema of a version.
pub(super) struct Schema(Value);

impl Schema {
    /// Returns the schema for the version that a document states.
    ///
    /// # Errors
    ///
    /// If there is none: for a later minor version, the newest one is used.
    pub(super) fn of(document: &Node) -> Result<Self, String> {
        let Some(Node::Scalar(Value::String(format))) = document.member("file_format") else {
            return Err("requires file_format: \"1.0\", in quotes".to_owned());
        };
        let minor: Option<u32> = format.strip_prefix("1.").and_then(|minor| minor.parse().ok());
        let text = match minor {
            Some(0) => V1_0,
            Some(1) => V1_1,
            Some(_) => {
                tracing::warn!("{}: aiperf reads the later file_format as 1.1", super::NAME);
                V1_1
            }
            None => return Err("file_format must be \"1.0\" or \"1.1\"".to_owned()),
        };
        serde_json::from_str(text).map(Self).map_err(|error| error.to_string())
    }

    /// Returns `document` with types, if it has this schema.
    ///
    /// # Errors
    ///
    /// Returns the first place that differs, and how.
    pub(super) fn typed(&self, document: &Node) -> Result<Value, String> {
        self.value(document, &self.0)
    }

    /// Returns the schema that `schema` refers to, or itself.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema.get("$ref").and_then(Value::as_str);
        let name = name.and_then(|name| name.strip_prefix("#/$defs/"));
        let found = name.and_then(|name| self.0.get("$defs")?.get(name));
        found.map_or(schema, |found| self.resolved(found))
    }

    fn value(&self, node: &Node, schema: &Value) -> Result<Value, String> {
        let schema = self.resolved(schema);
        if let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) {
            let mut found = alternatives.iter().filter_map(|it| self.value(node, it).ok());
            // A reference has the type of its value, if that is allowed.
            let written = match node {
                Node::Substituted(text) => found.find(|it| *it == scalar(text)),
                _ => found.next(),
            };
            return written
                .or_else(|| found.next())
                .ok_or_else(|| "must have another type".to_owned());
        }
        let types = types(schema);
        let accepts = |kind: &str| types.is_empty() || types.contains(&kind);
        match node {
            Node::Members(members) if accepts("object") => self.members(members, schema),
            Node::List(items) if accepts("array") => self.items(items, schema),
            Node::Scalar(value) if accepts_scalar(value, &accepts) => {
                checked(value.clone(), schema)
            }
            Node::Substituted(text) => {
                let as_written = Some(scalar(text)).filter(|it| accepts_scalar(it, &accepts));
                let as_text = || accepts("string").then(|| Value::from(text.as_str()));
                let value = as_written.or_else(as_text);
                checked(value.ok_or_else(|| expected(&types))?, schema)
            }
            _ => Err(expected(&types)),
        }
    }

    fn members(&self, members: &[(String, Node)], schema: &Value) -> Result<Value, String> {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let mut found = Map::new();
        for (key, node) in members {
            let of = known.and_then(|known| known.get(key)).or(others);
            let value = match of {
                Some(Value::Bool(false)) => {
                    let names =
                        known.into_iter().flat_map(|known| known.keys().map(String::as_str));
                    let nearest = similar(key, names).into_iter().next();
                    let hint = nearest.map(|name| format!("; did you mean {name}?"));
                    let hint = hint.unwrap_or_default();
                    return Err(format!("has an unknown key {key:?}{hint}"));
                }
                Some(schema @ Value::Object(_)) => self.value(node, schema),
                _ => self.value(node, &Value::Null),
            };
            found.insert(key.clone(), value.map_err(|reason| within(key, &reason))?);
        }
        for name in list(schema, "required").filter_map(Value::as_str) {
            if !found.contains_key(name) {
                return Err(format!("requires {name}"));
            }
        }
        sized(found.len(), schema, ["minProperties", "maxProperties"], "key")?;
        Ok(found.into())
    }

    fn items(&self, items: &[Node], schema: &Value) -> Result<Value, String> {
        let of = schema.get("items").unwrap_or(&Value::Null);
        let typed = items.iter().enumerate().map(|(index, item)| {
            self.value(item, of).map_err(|reason| within(&format!("[{index}]"), &reason))
        });
        let typed: Vec<Value> = typed.collect::<Result<_, _>>()?;
        sized(typed.len(), schema, ["minItems", "maxItems"], "item")?;
        Ok(typed.into())
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        _ => list(schema, "type").filter_map(Value::as_str).collect(),
    }
}

/// Returns the value of a scalar by the core schema of YAML 1.2.
fn scalar(text: &str) -> Value {
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

fn accepts_scalar(value: &Value, accepts: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::Null => accepts("null"),
        Value::Bool(_) => accepts("boolean"),
        Value::Number(number) => {
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            accepts("number") || (is_whole && accepts("integer"))
        }
        Value::String(_) => accepts("string"),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns the value of a scalar, if it is within the limits.
fn checked(value: Value, schema: &Value) -> Result<Value, String> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(&value)
    {
        let names: Vec<String> =
            allowed.iter().filter(|it| !it.is_null()).map(super::part::plain).collect();
        return Err(format!("must be one of {}", names.join(", ")));
    }
    let Some(number) = value.as_f64() else { return Ok(value) };
    let limit = |key| schema.get(key).and_then(Value::as_f64);
    let checks = [
        ("minimum", f64::ge as fn(&f64, &f64) -> bool, "at least"),
        ("maximum", f64::le, "at most"),
        ("exclusiveMinimum", f64::gt, "above"),
    ];
    for (key, is_within, words) in checks {
        if let Some(limit) = limit(key).filter(|limit| !is_within(&number, limit)) {
            return Err(format!("must be {words} {limit}"));
        }
    }
    Ok(value)
}

fn sized(length: usize, schema: &Value, keys: [&str; 2], noun: &str) -> Result<(), String> {
    let [least, most] = keys.map(|key| schema.get(key).and_then(Value::as_u64));
    let plural = |count: u64| if count == 1 { noun.to_owned() } else { format!("{noun}s") };
    match (least, most) {
        (Some(least), _) if (length as u64) < least => {
            Err(format!("must have at least {least} {}", plural(least)))
        }
        (_, Some(most)) if length as u64 > most => {
            Err(format!("must have at most {most} {}", plural(most)))
        }
        _ => Ok(()),
    }
}

fn expected(types: &[&str]) -> String {
    let words = types.iter().filter(|it| **it != "null").map(|kind| match *kind {
        "object" => "a mapping",
        "array" => "a list",
        "string" => "text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        other => other,
    });
    format!("must be {}", words.collect::<Vec<_>>().join(" or "))
}
