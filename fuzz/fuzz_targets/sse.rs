//! Any bytes are an event, whose data is not longer than its lines.
#![no_main]

use client::endpoint::sse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|event: &[u8]| {
    let data = sse::data(event).data;
    assert!(data.is_none_or(|data| data.len() <= event.len()));
});
