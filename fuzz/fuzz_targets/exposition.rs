//! Any bytes are an exposition or an error that names a line of theirs.
#![no_main]

use aiperf::server_metrics::exposition::{Exposition, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let lines = body.iter().filter(|byte| **byte == b'\n').count() + 1;
    for format in [Format::Text, Format::OpenMetrics] {
        match Exposition::parse(body, format) {
            Ok(read) => assert!(read.samples.iter().all(|sample| read.family(sample).is_some())),
            Err(error) => assert!((1..=lines).contains(&error.line)),
        }
    }
});
