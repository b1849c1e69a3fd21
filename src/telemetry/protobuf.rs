//! Protobuf messages assembled from encoded parts.
//!
//! Protocol Buffers allow fields in any order, and concatenated messages are one message with the
//! repeated fields of all.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Maximum size of a request. By default, collectors reject gRPC messages above 4 MiB.
pub(super) const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024 - 1;

/// Maximum size of the field key and the length of a nested message.
pub(super) const FRAME: usize = 6;

pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Appends a field that contains a message, given in parts.
pub(super) fn append(field: u32, pieces: &[&[u8]], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(pieces.iter().map(|piece| piece.len() as u64).sum(), to);
    for piece in pieces {
        to.extend_from_slice(piece);
    }
}

/// Returns bytes that identify a set of attributes, whatever their order.
pub(super) fn attributes_key(attributes: &[KeyValue]) -> Vec<u8> {
    let mut pairs: Vec<_> =
        attributes.iter().map(KeyValue::encode_length_delimited_to_vec).collect();
    pairs.sort_unstable();
    pairs.concat()
}
