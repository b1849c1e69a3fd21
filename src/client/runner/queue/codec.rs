//! Encoding of records: `MessagePack` without names, one frame per record, each with a prefix of
//! four bytes for its length.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::record::RequestRecord;

/// Bytes of a frame's length prefix.
const LENGTH: usize = size_of::<u32>();

/// A record and its payload.
#[derive(Serialize)]
struct Frame<'a> {
    record: &'a RequestRecord,
    /// Absent if it is the shared payload of its conversation.
    payload: Option<Payload<'a>>,
}

/// Written in one piece, unlike a slice with serde.
struct Payload<'a>(&'a [u8]);

impl Serialize for Payload<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[derive(Deserialize)]
struct OwnFrame<'a> {
    record: RequestRecord,
    #[serde(borrow)]
    payload: Option<&'a [u8]>,
}

/// Encodes `record` as a frame. The payload is left out if it is the one in `shared` at the index
/// of its conversation.
pub(super) fn encode(record: &RequestRecord, shared: &[Bytes]) -> Result<Vec<u8>, String> {
    let payload = (!has_shared_payload(record, shared)).then_some(Payload(&record.payload));
    let mut frame = vec![0; LENGTH];
    frame.reserve(record.body.bytes.len() + 1024);
    rmp_serde::encode::write(&mut frame, &Frame { record, payload }).map_err(|e| e.to_string())?;
    let length = u32::try_from(frame.len() - LENGTH).map_err(|e| e.to_string())?;
    frame[..LENGTH].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Decodes the first frame of `bytes`; returns its record and the remaining bytes.
pub(super) fn decode<'a>(
    bytes: &'a [u8],
    shared: &[Bytes],
) -> Result<(RequestRecord, &'a [u8]), String> {
    let cut = || "a frame is truncated".to_owned();
    let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (frame, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    let OwnFrame { mut record, payload } =
        rmp_serde::from_slice(frame).map_err(|error| error.to_string())?;
    record.payload = match payload {
        Some(payload) => Bytes::copy_from_slice(payload),
        None => shared_payload(&record, shared)
            .cloned()
            .ok_or_else(|| "a record refers to an unknown conversation".to_owned())?,
    };
    Ok((record, rest))
}

/// Returns whether the payload of `record` is the one in `shared` at the index of its conversation.
pub fn has_shared_payload(record: &RequestRecord, shared: &[Bytes]) -> bool {
    shared_payload(record, shared).is_some_and(|ours| is_same(ours, &record.payload))
}

/// Returns the payload that a first turn shares with all other sessions of its conversation.
fn shared_payload<'a>(record: &RequestRecord, shared: &'a [Bytes]) -> Option<&'a Bytes> {
    if record.turn.turn == 0 { shared.get(record.turn.conversation) } else { None }
}

/// Returns whether both refer to the same memory.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}
