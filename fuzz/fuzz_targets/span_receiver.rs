#![no_main]
//! Requests to the receiver of spans: messages of gRPC, bodies of HTTP in protobuf and JSON, with
//! and without compression.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| measure::otlp_receiver::read_any_request(body));
