//! Any bytes are OpenTelemetry traces, or rejected with a message.
#![no_main]

#[path = "shared/otel.rs"]
mod otel;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| otel::load(bytes));
