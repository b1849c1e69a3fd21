//! Any lines of probes of the network result in a report.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use results::artifacts::rebuild;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let record = r#"{"metadata":{"request_start_ns":1,"request_end_ns":2,"benchmark_phase":"profiling"},"metrics":{"request_latency":{"value":1.0,"unit":"ms"}},"error":null}"#;
    fs::write(directory.path().join("profile_export.jsonl"), format!("{record}\n")).unwrap();
    directory
});

fuzz_target!(|input: &[u8]| {
    let probes = DIRECTORY.path().join("profile_export_network_latency.jsonl");
    fs::write(probes, input).unwrap();
    let rebuilt = rebuild::rebuild(DIRECTORY.path()).unwrap();
    for result in rebuilt.report.results {
        assert!(result.stats.avg.is_finite(), "{}", result.metric.tag);
    }
});
