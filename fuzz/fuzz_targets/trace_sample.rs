//! Any `--trace-sample` is refused, or asks for something and reads the same again.
#![no_main]

use aiperf::telemetry::TraceSample;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(sample) = text.parse::<TraceSample>() {
        assert_ne!(sample, TraceSample::default());
        assert_eq!(sample.to_string().parse(), Ok(sample));
    }
});
