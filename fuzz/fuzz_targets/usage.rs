//! Any JSON can be parsed as a usage object.
#![no_main]

use client::endpoint::Usage;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fuzz_target!(|json: &[u8]| {
    if let Ok(json) = serde_json::from_slice::<&RawValue>(json) {
        let mut usage = Usage::default();
        usage.merge(json);
        let once = usage;
        usage.merge(json);
        assert_eq!(usage, once);
    }
});
