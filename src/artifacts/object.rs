//! Writes JSON objects whose names and most texts need no escapes, without serde's tree of calls.

use std::io;

use serde::Serialize;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// An object that is being appended to a buffer.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    /// Begins an object.
    pub(super) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Ends the object.
    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    /// Appends the name of the next member, which must not need escapes.
    fn name(&mut self, name: &'static str) {
        self.out.extend_from_slice(if self.is_empty { b"\"" } else { b",\"" });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.is_empty = false;
    }

    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        self.name(name);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    pub(super) fn number_if_any(&mut self, name: &'static str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    pub(super) fn number_unless_zero(&mut self, name: &'static str, value: u32) {
        if value > 0 {
            self.number(name, value.into());
        }
    }

    pub(super) fn is_true(&mut self, name: &'static str, value: bool) {
        self.name(name);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(super) fn id(&mut self, name: &'static str, id: Uuid) {
        self.name(name);
        let mut buffer = [0; Hyphenated::LENGTH];
        self.quoted(id.hyphenated().encode_lower(&mut buffer));
    }

    pub(super) fn text(&mut self, name: &'static str, text: &str) -> io::Result<()> {
        self.name(name);
        let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        if is_plain {
            self.quoted(text);
            Ok(())
        } else {
            Ok(serde_json::to_writer(&mut *self.out, text)?)
        }
    }

    /// Appends the members of another object, if there is one.
    pub(super) fn members<T: Serialize>(&mut self, object: Option<&T>) -> io::Result<()> {
        let Some(object) = object else { return Ok(()) };
        let text = serde_json::to_string(object)?;
        let members = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(members) = members.filter(|members| !members.is_empty()) {
            if !self.is_empty {
                self.out.push(b',');
            }
            self.out.extend_from_slice(members.as_bytes());
            self.is_empty = false;
        }
        Ok(())
    }

    /// Appends a text that needs no escapes.
    fn quoted(&mut self, text: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }
}
