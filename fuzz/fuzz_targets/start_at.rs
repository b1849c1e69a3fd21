//! Any `--start-at` is rejected, or is the same time after it is formatted and parsed again.
#![no_main]

use client::schedule::start_at;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match start_at(text) {
        Ok(nanos) => {
            let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
            assert_eq!(start_at(&format!("{seconds}.{rest:09}")), Ok(nanos));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
