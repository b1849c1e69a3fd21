//! How files are encoded: JSON, or messages with their lengths, each of it compressed or not.
//!
//! The Collector's file exporter writes JSON on lines. With `format: proto` or with compression, it
//! writes messages, each after its length in four bytes, of which the first is the highest.

use std::io::{BufRead as _, Read as _};

use base::input::packed::{inflated, is_packed};
use base::input::{Input, MAX_PART_BYTES};

use super::super::{Fault, document_fault, json_reason};
use super::span::Item;
use super::{document, protobuf};

/// The highest first byte of a length. No text begins with it, and no message is that long.
const FIRST_BYTE: u8 = 8;

/// Returns whether a file that begins with these bytes has messages with lengths. JSON does not begin
/// like that.
pub(in crate::file) fn is_framed(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| *first <= FIRST_BYTE)
}

/// Reads a whole file, and gives its items to `sink`.
pub(super) fn read(mut input: Input<'_>, sink: &mut dyn FnMut(Item)) -> Result<(), Fault> {
    if is_framed(input.fill_buf().map_err(Fault::Read)?) {
        messages(input, sink)
    } else {
        document::read(input, sink).map_err(document_fault)
    }
}

fn messages(mut input: Input<'_>, sink: &mut dyn FnMut(Item)) -> Result<(), Fault> {
    let meter = input.meter();
    for number in 1.. {
        let fault = |why: String| Fault::Entry(number, why);
        let mut length = Vec::new();
        input.by_ref().take(4).read_to_end(&mut length).map_err(Fault::Read)?;
        let length = match <[u8; 4]>::try_from(length) {
            Ok(length) => u64::from(u32::from_be_bytes(length)),
            Err(rest) if rest.is_empty() => return Ok(()),
            Err(_) => return Err(fault("the file ends within the length of a message".to_owned())),
        };
        if length > MAX_PART_BYTES {
            return Err(fault(format!(
                "the message has {length} bytes, more than {MAX_PART_BYTES}"
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
        meter.part().map_err(Fault::Read)?;
        if is_packed(&message) {
            let plain = inflated(&message, MAX_PART_BYTES)
                .map_err(|error| fault(format!("the message cannot be decompressed: {error}")))?;
            meter.unpacked(plain.len() as u64).map_err(Fault::Read)?;
            message = plain;
        }
        read_message(&message, sink).map_err(fault)?;
    }
    Ok(())
}

fn read_message(message: &[u8], sink: &mut dyn FnMut(Item)) -> Result<(), String> {
    if message.first() == Some(&b'{') {
        document::read(message.into(), sink).map_err(|error| json_reason(&error))
    } else {
        protobuf::read(message, sink)
    }
}
