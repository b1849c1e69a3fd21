//! Any bytes are an exposition or an error that names a line. All parts of an exposition can be
//! formatted, stored and summarized.
#![no_main]

use base::units::Nanos;
use libfuzzer_sys::fuzz_target;
use measure::server_metrics::FetchTimes;
use measure::server_metrics::exposition::{Exposition, Format};
use measure::server_metrics::report::{self, Window, Windows};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::store::Store;

const SECOND: u64 = 1_000_000_000;

fuzz_target!(|body: &[u8]| {
    let lines = body.iter().filter(|byte| **byte == b'\n').count() + 1;
    let mut store = Store::new(["http://server/metrics".into()]);
    for (second, format) in [(1, Format::Text), (2, Format::OpenMetrics)] {
        match Exposition::parse(body, format) {
            Ok(read) => {
                assert!(read.samples.iter().all(|sample| read.family(sample).is_some()));
                let at = second * SECOND;
                let times = FetchTimes { request_sent_ns: at, first_byte_ns: at, last_byte_ns: at };
                store.push(0, times, &Snapshot::from_exposition(&read));
            }
            Err(error) => assert!((1..=lines).contains(&error.line)),
        }
    }
    let window = Window { start_ns: SECOND / 2, end_ns: 3 * SECOND };
    let windows = Windows { warmup: None, profiling: Some(window) };
    drop(report::build(&store, windows, Some(Nanos(SECOND))));
});
