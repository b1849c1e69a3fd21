//! Messages in protobuf, without copies.
//!
//! A message of two bytes would decode to a struct of hundreds. Large messages are therefore walked field
//! by field, and only the inner ones are decoded.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use thiserror::Error;

/// Maximum number of fields of a message that is decoded.
const MAX_FIELDS: usize = 1 << 20;

/// The bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not valid protobuf")]
pub struct Malformed;

/// A field of a message.
#[derive(Clone, Copy)]
pub enum Content<'a> {
    /// A varint, or a fixed number.
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
}

/// Gives each message in the field `wanted` to `sink`.
pub fn each_nested<'a>(
    message: &'a [u8],
    wanted: u32,
    sink: &mut dyn FnMut(&'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    each_field(message, &mut |number, content, _| match content {
        Content::Bytes(bytes) if number == wanted => sink(bytes),
        Content::Number(_) if number == wanted => Err(Malformed),
        _ => Ok(()),
    })
}

/// Gives each field of `message` to `sink`: its number, its content, and both as encoded.
pub fn each_field<'a>(
    message: &'a [u8],
    sink: &mut dyn FnMut(u32, Content<'a>, &'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        let (number, content) = field(&mut rest)?;
        let encoded = before.get(..before.len() - rest.len()).unwrap_or_default();
        sink(number, content, encoded)?;
    }
    Ok(())
}

/// Returns the number and the content of the first field of `rest`, and removes it.
fn field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Content<'a>), Malformed> {
    let (number, wire) = decode_key(rest).map_err(|_| Malformed)?;
    let content = match wire {
        WireType::Varint => Content::Number(decode_varint(rest).map_err(|_| Malformed)?),
        WireType::SixtyFourBit => Content::Number(u64::from_le_bytes(*take(rest)?)),
        WireType::ThirtyTwoBit => Content::Number(u32::from_le_bytes(*take(rest)?).into()),
        WireType::LengthDelimited => {
            let length = decode_varint(rest).map_err(|_| Malformed)?;
            let length = usize::try_from(length).map_err(|_| Malformed)?;
            let (bytes, after) = rest.split_at_checked(length).ok_or(Malformed)?;
            *rest = after;
            Content::Bytes(bytes)
        }
        WireType::StartGroup | WireType::EndGroup => return Err(Malformed),
    };
    Ok((number, content))
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], Malformed> {
    let (bytes, after) = rest.split_first_chunk().ok_or(Malformed)?;
    *rest = after;
    Ok(bytes)
}

/// Decodes a message.
///
/// # Errors
///
/// Fails if it is not valid, or has more than [`MAX_FIELDS`] fields.
pub fn decoded<M: Message + Default>(message: &[u8]) -> Result<M, String> {
    let mut fields = 0;
    let counted = each_field(message, &mut |_, _, _| {
        fields += 1;
        if fields > MAX_FIELDS { Err(Malformed) } else { Ok(()) }
    });
    if counted.is_err() && fields > MAX_FIELDS {
        return Err(format!("a message has more than {MAX_FIELDS} fields"));
    }
    M::decode(message).map_err(|error| error.to_string())
}
