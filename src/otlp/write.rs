//! Encoded messages, written as OTLP/JSON.
//!
//! Requests are encoded as protobuf first, since most of them are assembled from encoded parts.

use std::fmt::Write as _;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use prost::encoding::decode_varint;

use base::input::protobuf::{Content, each_field};

use super::{
    Bool, Bytes, Count, Double, Enum, Field, Fixed, Form, Id, Integer, Large, LargeSigned, Message,
    Nested, Occurs, Signed, Small, Text,
};

/// Maximum nesting of messages, as in prost's decoder.
const MAX_DEPTH: usize = 100;

/// Converts the encoded message `body` to JSON. `None` if it is not valid protobuf, or nested too
/// deeply.
pub fn to_json(body: &[u8], message: &Message) -> Option<String> {
    // JSON is between two and three times as long.
    let mut json = String::with_capacity(3 * body.len());
    write(body, message, MAX_DEPTH, &mut json)?;
    Some(json)
}

/// Writes a message that has at most `depth` further levels.
fn write(body: &[u8], message: &Message, depth: usize, json: &mut String) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let mut values: Vec<Vec<Content<'_>>> = vec![Vec::new(); message.0.len()];
    let mut are_valid = true;
    each_field(body, &mut |number, content, _| {
        // Unknown fields are left out.
        let known = message.0.iter().zip(&mut values).find(|(field, _)| field.number == number);
        if let Some((field, values)) = known {
            are_valid &= push(content, field.form, values).is_some();
        }
        Ok(())
    })
    .ok()?;
    are_valid.then_some(())?;
    json.push('{');
    let present = message.0.iter().zip(values).filter(|(_, values)| !values.is_empty());
    for (index, (field, values)) in present.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(json, "{comma}\"{}\":", field.name).ok()?;
        write_field(field, &values, depth, json)?;
    }
    json.push('}');
    Some(())
}

/// Adds a value, or each of those that are packed into it.
fn push<'b>(content: Content<'b>, form: Form, values: &mut Vec<Content<'b>>) -> Option<()> {
    match (content, form) {
        (Content::Bytes(mut packed), Count) => {
            while !packed.is_empty() {
                values.push(Content::Number(decode_varint(&mut packed).ok()?));
            }
        }
        (Content::Bytes(packed), Large | Double) => {
            let (numbers, rest) = packed.as_chunks();
            values.extend(numbers.iter().map(|bytes| Content::Number(u64::from_le_bytes(*bytes))));
            rest.is_empty().then_some(())?;
        }
        _ => values.push(content),
    }
    Some(())
}

fn write_field(
    field: &Field,
    values: &[Content<'_>],
    depth: usize,
    json: &mut String,
) -> Option<()> {
    if field.occurs != Occurs::Repeated {
        // As in protobuf, the last value applies.
        return write_value(*values.last()?, field.form, depth, json);
    }
    json.push('[');
    for (index, value) in values.iter().enumerate() {
        json.push_str(if index == 0 { "" } else { "," });
        write_value(*value, field.form, depth, json)?;
    }
    json.push(']');
    Some(())
}

fn write_value(value: Content<'_>, form: Form, depth: usize, json: &mut String) -> Option<()> {
    match (form, value) {
        (Text, Content::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).ok()?;
            json.push_str(&serde_json::to_string(text).ok()?);
        }
        (Id, Content::Bytes(bytes)) => {
            json.push('"');
            for byte in bytes {
                write!(json, "{byte:02x}").ok()?;
            }
            json.push('"');
        }
        (Bytes, Content::Bytes(bytes)) => {
            write!(json, "\"{}\"", BASE64_STANDARD.encode(bytes)).ok()?;
        }
        (Nested(message), Content::Bytes(bytes)) => write(bytes, message, depth, json)?,
        (Bool, Content::Number(number)) => {
            json.push_str(if number == 0 { "false" } else { "true" });
        }
        (Small | Fixed, Content::Number(number)) => write!(json, "{number}").ok()?,
        (Enum(_), Content::Number(number)) => write!(json, "{}", number.cast_signed()).ok()?,
        (Signed, Content::Number(number)) => {
            // The "zigzag" encoding of protobuf.
            let half = (number >> 1).cast_signed();
            write!(json, "{}", if number & 1 == 0 { half } else { !half }).ok()?;
        }
        (Large | Count, Content::Number(number)) => write!(json, "\"{number}\"").ok()?,
        (LargeSigned | Integer, Content::Number(number)) => {
            write!(json, "\"{}\"", number.cast_signed()).ok()?;
        }
        (Double, Content::Number(number)) => write_double(f64::from_bits(number), json)?,
        _ => return None,
    }
    Some(())
}

/// Writes a number, or its name if JSON has none for it.
fn write_double(number: f64, json: &mut String) -> Option<()> {
    if number.is_nan() {
        json.push_str("\"NaN\"");
    } else if number.is_infinite() {
        json.push_str(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    } else {
        json.push_str(&serde_json::to_string(&number).ok()?);
    }
    Some(())
}
