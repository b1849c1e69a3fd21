//! Messages made of pieces that are encoded already.
//!
//! Protocol Buffers allow fields in any order, and messages one behind the other
//! are one message with the repeated fields of all.

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Collectors refuse gRPC messages above 4 MiB unless they are told otherwise.
pub(super) const MOST_REQUEST_BYTES: usize = 4 * 1024 * 1024 - 1;

/// Field key and length of a message within another, at most.
pub(super) const FRAME: usize = 6;

/// Who makes the messages.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Appends a field that holds a message, given in pieces.
pub(super) fn append(field: u32, pieces: &[&[u8]], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(pieces.iter().map(|piece| piece.len() as u64).sum(), to);
    for piece in pieces {
        to.extend_from_slice(piece);
    }
}
