//! How files are encoded: JSON, or messages with their lengths, each of it compressed or not.
//!
//! The Collector's file exporter writes JSON on lines. With `format: proto` or with compression, it
//! writes messages, each after its length in four bytes, of which the first is the highest.

use std::io::{BufReader, Cursor, Read};

use super::super::packed::{is_packed, unpacked};
use super::super::{Fault, document_fault};
use super::span::Item;
use super::{document, protobuf};

/// Maximum length of a message in bytes, also after decompression.
const MAX_MESSAGE_BYTES: u64 = 128 << 20;

/// How often a file may be compressed.
const MAX_LAYERS: usize = 3;

/// Returns whether a file that begins with these bytes is compressed, or has messages with lengths.
/// JSON does not begin like that.
pub(in crate::dataset::file) fn is_binary(bytes: &[u8]) -> bool {
    is_packed(bytes) || is_framed(bytes)
}

/// The first byte of a length is that of no text, since messages are not that long.
fn is_framed(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| u64::from(*first) << 24 <= MAX_MESSAGE_BYTES)
}

/// Reads a whole file, and gives its items to `sink`.
pub(super) fn read(input: Box<dyn Read + '_>, sink: &mut dyn FnMut(Item)) -> Result<(), Fault> {
    layer(input, MAX_LAYERS, sink)
}

fn layer(
    mut input: Box<dyn Read + '_>,
    layers: usize,
    sink: &mut dyn FnMut(Item),
) -> Result<(), Fault> {
    let mut start = Vec::new();
    input.by_ref().take(4).read_to_end(&mut start).map_err(Fault::Read)?;
    let first = start.clone();
    let is_framed = is_framed(&start);
    let whole = BufReader::with_capacity(1 << 16, Cursor::new(start).chain(input));
    if is_packed(&first) && layers == 0 {
        return Err(Fault::Line(1, format!("compressed more than {MAX_LAYERS} times")));
    }
    if is_packed(&first) {
        layer(unpacked(&first, whole).map_err(Fault::Read)?, layers - 1, sink)
    } else if is_framed {
        messages(whole, sink)
    } else {
        document::read(whole, sink).map_err(document_fault)
    }
}

fn messages(mut input: impl Read, sink: &mut dyn FnMut(Item)) -> Result<(), Fault> {
    for number in 1.. {
        let fault = |why: String| Fault::Entry(number, why);
        let mut length = Vec::new();
        input.by_ref().take(4).read_to_end(&mut length).map_err(Fault::Read)?;
        let length = match <[u8; 4]>::try_from(length) {
            Ok(length) => u64::from(u32::from_be_bytes(length)),
            Err(rest) if rest.is_empty() => return Ok(()),
            Err(_) => return Err(fault("the file ends within the length of a message".to_owned())),
        };
        if length > MAX_MESSAGE_BYTES {
            return Err(fault(format!(
                "the message has {length} bytes, more than {MAX_MESSAGE_BYTES}"
            )));
        }
        let mut message = Vec::new();
        input.by_ref().take(length).read_to_end(&mut message).map_err(Fault::Read)?;
        if (message.len() as u64) < length {
            return Err(fault(format!(
                "the file ends after {} of the {length} bytes of a message",
                message.len()
            )));
        }
        read_message(&message, sink).map_err(fault)?;
    }
    Ok(())
}

fn read_message(message: &[u8], sink: &mut dyn FnMut(Item)) -> Result<(), String> {
    let mut plain = Vec::new();
    let message = if is_packed(message) {
        let read = unpacked(message, message)
            .and_then(|decoder| decoder.take(MAX_MESSAGE_BYTES + 1).read_to_end(&mut plain));
        read.map_err(|error| format!("the message cannot be decompressed: {error}"))?;
        &plain[..]
    } else {
        message
    };
    if message.len() as u64 > MAX_MESSAGE_BYTES {
        return Err(format!("the message has more than {MAX_MESSAGE_BYTES} bytes uncompressed"));
    }
    if message.first() == Some(&b'{') {
        document::read(message, sink).map_err(|error| super::super::json_reason(&error))
    } else {
        protobuf::read(message, sink)
    }
}
