//! Parts of a document: their members by type, and which of them were read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

use base::setting::similar;

use super::node::{Node, child, scalar};

/// The places that were read.
#[derive(Debug, Default)]
pub(super) struct Seen(RefCell<BTreeSet<String>>);

impl Seen {
    /// Returns the places in `document` that were not read: values, and the highest parts of which
    /// nothing was.
    pub(super) fn rest(&self, document: &Node) -> Vec<String> {
        let mut rest = Vec::new();
        self.add_rest(document, "", &mut rest);
        rest
    }

    fn add_rest(&self, node: &Node, path: &str, rest: &mut Vec<String>) {
        if !path.is_empty() && !self.has_any(path) {
            rest.push(path.to_owned());
            return;
        }
        match node {
            Node::Members(members) => {
                for (key, member) in members {
                    self.add_rest(member, &child(path, key), rest);
                }
            }
            Node::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_rest(item, &format!("{path}[{index}]"), rest);
                }
            }
            Node::Scalar(_) | Node::Substituted(_) => {}
        }
    }

    /// Returns whether the place, or one within it, was read.
    fn has_any(&self, path: &str) -> bool {
        let seen = self.0.borrow();
        let mut from = seen.range(path.to_owned()..).take_while(|it| it.starts_with(path));
        from.any(|it| matches!(it.as_bytes().get(path.len()), None | Some(b'.' | b'[')))
    }
}

/// Returns a scalar without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The keys that a mapping may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys {
    /// These, with spaces between them.
    Of(&'static str),
    /// Exactly one: which of several things it is. Others than those of OpenTelemetry are allowed.
    One,
    /// Any.
    Any,
}

/// A part of a document, and its place.
pub(super) struct Part<'a> {
    node: &'a Node,
    path: String,
    seen: &'a Seen,
}

impl<'a> Part<'a> {
    /// Returns the whole document; `seen` records what is read of it.
    pub(super) fn root(node: &'a Node, seen: &'a Seen) -> Result<Self, String> {
        Self { node, path: String::new(), seen }.with(Keys::Any)
    }

    /// Returns the part, if it is a mapping with these keys, or empty.
    fn with(self, keys: Keys) -> Result<Self, String> {
        let members: &[(String, Node)] = match self.node {
            Node::Members(members) => members,
            Node::Scalar(Value::Null) => &[],
            _ => return Err(self.wrong("must be a mapping")),
        };
        match keys {
            Keys::One if members.len() != 1 => Err(self.wrong("must have 1 key")),
            Keys::Of(known) => {
                let is_known = |key: &str| known.split(' ').any(|known| known == key);
                let Some((key, _)) = members.iter().find(|(key, _)| !is_known(key)) else {
                    return Ok(self);
                };
                let nearest = similar(key, known.split(' ')).into_iter().next();
                let hint = nearest.map(|name| format!("; did you mean {name}?"));
                let hint = hint.unwrap_or_default();
                Err(self.wrong(&format!("has an unknown key {key:?}{hint}")))
            }
            Keys::One | Keys::Any => Ok(self),
        }
    }

    /// Returns a reason with the place of the part before it.
    pub(super) fn wrong(&self, reason: &str) -> String {
        format!("{} {reason}", self.path).trim_start().to_owned()
    }

    /// Returns a reason with the place of a member before it.
    pub(super) fn wrong_member(&self, key: &str, reason: &str) -> String {
        format!("{} {reason}", child(&self.path, key))
    }

    fn member(&self, key: &str) -> Option<Part<'a>> {
        let node = self.node.member(key)?;
        Some(Part { node, path: child(&self.path, key), seen: self.seen })
    }

    /// Returns a member with these keys; `None` if it is missing. One without members of its own counts
    /// as read.
    pub(super) fn get(&self, key: &str, keys: Keys) -> Result<Option<Part<'a>>, String> {
        let Some(found) = self.member(key) else { return Ok(None) };
        let found = found.with(keys)?;
        let is_empty = match found.node {
            Node::Members(members) => members.is_empty(),
            _ => true,
        };
        if is_empty {
            found.read();
        }
        Ok(Some(found))
    }

    /// Returns the member `key`, which the part must have.
    pub(super) fn required<T>(&self, key: &str, member: Option<T>) -> Result<T, String> {
        member.ok_or_else(|| self.wrong(&format!("requires {key}")))
    }

    /// Returns the member `key` as `typed` returns it, which is `None` for another type; `None` if it is
    /// missing or null.
    fn scalar<T>(
        &self,
        key: &str,
        expected: &str,
        typed: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(part) = self.member(key) else { return Ok(None) };
        part.read();
        let found = match part.node {
            Node::Scalar(Value::Null) => return Ok(None),
            Node::Scalar(value) => typed(value),
            // It has the type of its value, or is text.
            Node::Substituted(text) => match scalar(text) {
                Value::Null => return Ok(None),
                value => typed(&value).or_else(|| typed(&text.as_str().into())),
            },
            Node::List(_) | Node::Members(_) => None,
        };
        found.map(Some).ok_or_else(|| part.wrong(&format!("must be {expected}")))
    }

    /// Returns a member that is text.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.scalar(key, "text", |value| value.as_str().map(str::to_owned))
    }

    /// Returns a member that is one of these texts.
    pub(super) fn choice(&self, key: &str, names: &[&str]) -> Result<Option<String>, String> {
        let known =
            |value: &Value| value.as_str().filter(|it| names.contains(it)).map(str::to_owned);
        self.scalar(key, &format!("one of {}", names.join(", ")), known)
    }

    /// Returns a member that is true or false.
    pub(super) fn truth(&self, key: &str) -> Result<Option<bool>, String> {
        self.scalar(key, "true or false", Value::as_bool)
    }

    /// Returns a member that is a time in milliseconds.
    pub(super) fn millis(&self, key: &str) -> Result<Option<String>, String> {
        self.scalar(key, "a whole number of at least 0", |value| {
            let number = value.as_f64().filter(|it| *it >= 0.0 && it.fract() == 0.0)?;
            Some(value.as_u64().map_or_else(|| number.to_string(), |whole| whole.to_string()))
        })
    }

    /// Returns a member that is a share of something.
    pub(super) fn share(&self, key: &str) -> Result<Option<f64>, String> {
        self.scalar(key, "a number from 0 to 1", |value| {
            value.as_f64().filter(|share| (0.0..=1.0).contains(share))
        })
    }

    /// Returns a member that is a scalar or a list of scalars.
    pub(super) fn value(&self, key: &str) -> Result<Value, String> {
        let part = self.required(key, self.member(key))?;
        part.read();
        let plain = |node: &Node| match node {
            Node::Scalar(value) => Some(value.clone()),
            Node::Substituted(text) if scalar(text).is_null() => Some(Value::Null),
            Node::Substituted(text) => Some(text.as_str().into()),
            Node::List(_) | Node::Members(_) => None,
        };
        let found = match part.node {
            Node::List(items) => items.iter().map(plain).collect(),
            one => plain(one),
        };
        found.ok_or_else(|| part.wrong("must be a scalar or a list of scalars"))
    }

    /// Returns the items of a list, which are mappings with these keys; none if it is missing.
    pub(super) fn items(&self, key: &str, keys: Keys) -> Result<Vec<Part<'a>>, String> {
        let Some(part) = self.member(key) else { return Ok(Vec::new()) };
        let Node::List(items) = part.node else { return Err(part.wrong("must be a list")) };
        if items.is_empty() {
            return Err(part.wrong("must have at least 1 item"));
        }
        let item = |(index, node)| {
            let path = format!("{}[{index}]", part.path);
            Part { node, path, seen: self.seen }.with(keys)
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Returns the items of a list that the part must have, which are mappings with one key.
    pub(super) fn required_items(&self, key: &str) -> Result<Vec<Part<'a>>, String> {
        self.required(key, self.member(key))?;
        self.items(key, Keys::One)
    }

    fn read(&self) {
        self.seen.0.borrow_mut().insert(self.path.clone());
    }
}
