//! Any messages with their lengths are OpenTelemetry traces or log records in protobuf, or rejected
//! with a message.
#![no_main]

#[path = "shared/otel.rs"]
mod otel;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte of each piece is its length.
    let mut framed = Vec::new();
    let mut rest = bytes;
    while let Some((length, tail)) = rest.split_first() {
        let (message, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend(message);
        rest = tail;
    }
    otel::load(&framed);
});
