//! Any `--trace-sample` is rejected, or selects requests and is the same after it is formatted and
//! parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use telemetry::TraceSample;

fuzz_target!(|text: &str| {
    if let Ok(sample) = text.parse::<TraceSample>() {
        assert_ne!(sample, TraceSample::default());
        assert_eq!(sample.to_string().parse(), Ok(sample));
    }
});
