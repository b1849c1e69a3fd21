//! Parts of a document, and which of them were read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

/// The places that were read.
#[derive(Debug, Default)]
pub(super) struct Seen(RefCell<BTreeSet<String>>);

impl Seen {
    /// Returns the places in `document` that were not read: values, and the highest parts of which
    /// nothing was.
    pub(super) fn rest(&self, document: &Value) -> Vec<String> {
        let mut rest = Vec::new();
        self.add_rest(document, "", &mut rest);
        rest
    }

    fn add_rest(&self, value: &Value, path: &str, rest: &mut Vec<String>) {
        if !path.is_empty() && !self.has_any(path) {
            rest.push(path.to_owned());
            return;
        }
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    self.add_rest(member, &child(path, key), rest);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_rest(item, &format!("{path}[{index}]"), rest);
                }
            }
            _ => {}
        }
    }

    /// Returns whether the place, or one within it, was read.
    fn has_any(&self, path: &str) -> bool {
        let seen = self.0.borrow();
        let mut from = seen.range(path.to_owned()..).take_while(|it| it.starts_with(path));
        from.any(|it| matches!(it.as_bytes().get(path.len()), None | Some(b'.' | b'[')))
    }
}

fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns a scalar without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A part of a document, and its place.
pub(super) struct Part<'a> {
    value: &'a Value,
    path: String,
    seen: &'a Seen,
}

impl<'a> Part<'a> {
    /// Returns the whole document; `seen` records what is read of it.
    pub(super) fn root(value: &'a Value, seen: &'a Seen) -> Self {
        Self { value, path: String::new(), seen }
    }

    /// Returns the place of the part.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns a member, which may be null; `None` if it is missing. One without members of its own
    /// counts as read.
    pub(super) fn get(&self, key: &str) -> Option<Part<'a>> {
        let value = self.value.get(key)?;
        let found = Part { value, path: child(&self.path, key), seen: self.seen };
        let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        if is_empty {
            found.read();
        }
        Some(found)
    }

    /// Returns a scalar member as text; `None` if it is missing or null.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        let part =
            self.get(key).filter(|part| !part.value.is_object() && !part.value.is_array())?;
        part.read();
        (!part.value.is_null()).then(|| plain(part.value))
    }

    /// Returns the value of a member.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        let part = self.get(key)?;
        part.read();
        Some(part.value)
    }

    /// Returns the items of a list; none if it is missing.
    pub(super) fn items(&self, key: &str) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let part = self.get(key);
        let items = part.as_ref().and_then(|part| part.value.as_array());
        let items: Vec<_> = items.into_iter().flatten().collect();
        let (path, seen) = (part.map(|part| part.path).unwrap_or_default(), self.seen);
        items.into_iter().enumerate().map(move |(index, value)| Part {
            value,
            path: format!("{path}[{index}]"),
            seen,
        })
    }

    fn read(&self) {
        self.seen.0.borrow_mut().insert(self.path.clone());
    }
}
