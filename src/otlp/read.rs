//! OTLP/JSON, encoded as protobuf.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, Map, Value};

use base::input::Meter;
use base::input::json::Each;

use super::{
    Bool, Bytes, Count, Double, Enum, Field, Fixed, Form, Id, Integer, Large, LargeSigned, Message,
    Nested, Occurs, Signed, Small, Text, append,
};

/// Encodes the object `text`. Members that are not in the table are skipped, and `null` means that there is no value.
///
/// # Errors
///
/// Fails if it is not JSON, if a field has a value that the message cannot have, or if values are
/// nested too deeply.
pub fn from_json(text: &str, message: &'static Message) -> Result<Vec<u8>, Error> {
    let members: Map<String, Value> = serde_json::from_str(text)?;
    let mut encoded = Vec::new();
    message.encode(&members, &mut encoded).map_err(Error::custom)?;
    Ok(encoded)
}

/// Takes the other fields of an object, encoded, and an element of its list, as text.
pub(crate) type ElementSink<'a> = dyn FnMut(&Arc<[u8]>, &str) -> Result<(), String> + 'a;

/// Gives each element of the list in the field `list` of the object `text` to `sink`, as text, with
/// the other fields of the object, encoded. Only one element at a time is looked at.
///
/// # Errors
///
/// Fails if it is not an object with such a list, if another field is longer than `most` bytes or
/// has a value that the message cannot have, or if `sink` fails. The elements before have been given.
pub fn each_element(
    text: &str,
    message: &'static Message,
    list: u32,
    most: usize,
    sink: &mut ElementSink<'_>,
) -> Result<(), String> {
    let (mut head, mut lists) = (Vec::new(), Vec::new());
    let parts = Parts { message, list, most, head: &mut head, lists: &mut lists };
    deserialize(text, parts)?;
    let head: Arc<[u8]> = head.into();
    lists.into_iter().try_for_each(|list| {
        let each = |element: &RawValue| sink(&head, element.get());
        deserialize(list, Each::new(&Meter::default(), "a list", each))
    })
}

/// Reads the whole of `text`.
fn deserialize<'t>(
    text: &'t str,
    seed: impl DeserializeSeed<'t, Value = ()>,
) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = seed.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    read.map_err(|error| error.to_string())
}

/// The members of an object: those that are encoded, and the texts of its lists.
struct Parts<'o, 'de> {
    message: &'static Message,
    list: u32,
    most: usize,
    head: &'o mut Vec<u8>,
    lists: &'o mut Vec<&'de str>,
}

impl<'de> DeserializeSeed<'de> for Parts<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let text = members.next_value::<&RawValue>()?.get();
            match self.message.field(&name) {
                Some(field) if field.number == self.list => self.lists.push(text),
                Some(_) if text.len() > self.most => {
                    return Err(A::Error::custom("a resource or scope is too long"));
                }
                Some(field) => {
                    let value = serde_json::from_str(text).map_err(A::Error::custom)?;
                    field.encode(&value, self.head).map_err(A::Error::custom)?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

impl Message {
    /// Returns the name in JSON of the field with this name of JSON or of the protobuf files.
    pub fn name(&self, name: &str) -> Option<&'static str> {
        self.field(name).map(|field| field.name)
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        self.0.iter().find(|field| field.name == name || is_in_snake_case(field.name, name))
    }

    fn encode(&self, members: &Map<String, Value>, to: &mut Vec<u8>) -> Result<(), String> {
        members.iter().try_for_each(|(name, value)| match self.field(name) {
            Some(field) => field.encode(value, to),
            None => Ok(()),
        })
    }
}

/// Returns whether `name` is `camel`, which is in lowerCamelCase, in `snake_case`.
fn is_in_snake_case(camel: &str, name: &str) -> bool {
    let snake = camel.chars().flat_map(|letter| {
        let separator = letter.is_ascii_uppercase().then_some('_');
        separator.into_iter().chain([letter.to_ascii_lowercase()])
    });
    name.contains('_') && snake.eq(name.chars())
}

impl Field {
    /// Appends the field with its value.
    fn encode(&self, value: &Value, to: &mut Vec<u8>) -> Result<(), String> {
        match (self.occurs, value) {
            (_, Value::Null) => Ok(()),
            (Occurs::Repeated, Value::Array(list)) => self.encode_list(list, to),
            (Occurs::Repeated, _) => Err(format!("`{}` must be a list", self.name)),
            _ => self.encode_one(value, to),
        }
    }

    fn encode_list(&self, list: &[Value], to: &mut Vec<u8>) -> Result<(), String> {
        if matches!(self.form, Text | Bytes | Id | Nested(_)) {
            return list.iter().try_for_each(|value| self.encode_one(value, to));
        }
        // Numbers follow each other without keys.
        let mut packed = Vec::new();
        for value in list {
            let (wire, number) = self.number(value)?;
            put(wire, number, &mut packed);
        }
        if !packed.is_empty() {
            append(self.number, &[&packed], to);
        }
        Ok(())
    }

    /// Appends the field with a value that is not a list.
    fn encode_one(&self, value: &Value, to: &mut Vec<u8>) -> Result<(), String> {
        let is_written = |has_value: bool| has_value || self.occurs != Occurs::Once;
        match (self.form, value) {
            (Nested(message), Value::Object(members)) => {
                let mut encoded = Vec::new();
                message.encode(members, &mut encoded)?;
                append(self.number, &[&encoded], to);
            }
            (Text | Id | Bytes, Value::String(text)) => {
                let bytes = bytes(self.form, text).ok_or_else(|| self.invalid())?;
                if is_written(!bytes.is_empty()) {
                    append(self.number, &[&bytes], to);
                }
            }
            _ => {
                let (wire, number) = self.number(value)?;
                if is_written(number != 0) {
                    encode_key(self.number, wire, to);
                    put(wire, number, to);
                }
            }
        }
        Ok(())
    }

    fn number(&self, value: &Value) -> Result<(WireType, u64), String> {
        number(self.form, value).ok_or_else(|| self.invalid())
    }

    fn invalid(&self) -> String {
        format!("the value of `{}` is not valid", self.name)
    }
}

fn put(wire: WireType, number: u64, to: &mut Vec<u8>) {
    match wire {
        WireType::SixtyFourBit => to.extend_from_slice(&number.to_le_bytes()),
        WireType::ThirtyTwoBit => to.extend(number.to_le_bytes().into_iter().take(4)),
        _ => encode_varint(number, to),
    }
}

/// Returns the bytes that a text stands for.
fn bytes(form: Form, text: &str) -> Option<Cow<'_, [u8]>> {
    Some(match form {
        Id => id(text)?.into(),
        Bytes => BASE64_STANDARD.decode(text).ok()?.into(),
        _ => text.as_bytes().into(),
    })
}

/// Returns a number as it is encoded; `None` if its type does not have it.
fn number(form: Form, value: &Value) -> Option<(WireType, u64)> {
    match (form, value) {
        (Bool, _) => Some((WireType::Varint, value.as_bool()?.into())),
        (Double, _) => {
            // The parser of Rust knows "NaN", "Infinity" and "-Infinity".
            let text = value.as_str().map(str::parse);
            let number = text.map_or_else(|| value.as_f64(), Result::ok)?;
            Some((WireType::SixtyFourBit, number.to_bits()))
        }
        (Enum(number_of), Value::String(name)) => {
            let number = number_of(name).map(i128::from).or_else(|| name.parse().ok());
            integer(form, number?)
        }
        (_, Value::String(text)) => integer(form, text.parse().ok()?),
        (_, Value::Number(number)) => integer(form, number.as_i128()?),
        _ => None,
    }
}

fn integer(form: Form, number: i128) -> Option<(WireType, u64)> {
    let small = u32::try_from(number).ok().map(u64::from);
    let signed = i32::try_from(number).ok().map(i64::from);
    let large_signed = i64::try_from(number).ok().map(i64::cast_unsigned);
    let large = u64::try_from(number).ok();
    Some(match form {
        Small => (WireType::Varint, small?),
        Fixed => (WireType::ThirtyTwoBit, small?),
        Enum(_) => (WireType::Varint, signed?.cast_unsigned()),
        Signed => {
            (WireType::Varint, signed.map(|number| (number << 1) ^ (number >> 63))?.cast_unsigned())
        }
        Count => (WireType::Varint, large?),
        Large => (WireType::SixtyFourBit, large?),
        Integer => (WireType::Varint, large_signed?),
        LargeSigned => (WireType::SixtyFourBit, large_signed?),
        Text | Bytes | Id | Bool | Double | Nested(_) => return None,
    })
}

/// Returns the bytes of an ID in hexadecimal digits; none for an empty one.
fn id(digits: &str) -> Option<Vec<u8>> {
    // The parser of numbers would accept a sign.
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes = (0..digits.len()).step_by(2).map(byte);
    if is_hexadecimal && digits.len() <= 32 { bytes.collect() } else { None }
}
