//! Writes JSON objects whose names and most texts need no escapes, without serde's tree of calls.

use std::io;

use uuid::fmt::Hyphenated;

use measure::metrics::fields::FieldValue;

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

    /// Appends a member, unless its value is absent.
    pub(super) fn field(&mut self, name: &'static str, value: FieldValue<'_>) -> io::Result<()> {
        match value {
            FieldValue::Absent | FieldValue::Count(0) => {}
            FieldValue::Int(value) => self.number(name, value),
            FieldValue::Count(count) => self.number(name, count.into()),
            FieldValue::Bool(value) => {
                self.name(name);
                self.out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            FieldValue::Text(text) => self.text(name, &text)?,
            FieldValue::Id(id) => {
                self.name(name);
                let mut buffer = [0; Hyphenated::LENGTH];
                self.quoted(id.hyphenated().encode_lower(&mut buffer));
            }
            FieldValue::List(list) => {
                self.name(name);
                serde_json::to_writer(&mut *self.out, &list)?;
            }
            FieldValue::Times(times) if times.is_empty() => {}
            FieldValue::Times(times) => {
                self.name(name);
                serde_json::to_writer(&mut *self.out, &times)?;
            }
        }
        Ok(())
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.name(name);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn text(&mut self, name: &'static str, text: &str) -> io::Result<()> {
        self.name(name);
        let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        if is_plain {
            self.quoted(text);
            Ok(())
        } else {
            Ok(serde_json::to_writer(&mut *self.out, text)?)
        }
    }

    /// Appends a text that needs no escapes.
    fn quoted(&mut self, text: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }
}
