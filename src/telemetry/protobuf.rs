//! Protobuf messages assembled from encoded parts.
//!
//! Protocol Buffers allow fields in any order, and concatenated messages are one message with the
//! repeated fields of all.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use prost::Message as _;

/// Maximum size of a request. By default, collectors reject gRPC messages above 4 MiB.
pub(super) const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024 - 1;

/// Maximum size of the field key and the length of a nested message.
pub(super) const FRAME: usize = 6;

pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "aiperf".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Returns bytes that identify a set of attributes, whatever their order.
pub(super) fn attributes_key(attributes: &[KeyValue]) -> Vec<u8> {
    let mut pairs: Vec<_> =
        attributes.iter().map(KeyValue::encode_length_delimited_to_vec).collect();
    pairs.sort_unstable();
    pairs.concat()
}
