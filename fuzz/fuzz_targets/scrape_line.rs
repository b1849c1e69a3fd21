//! Any lines are scrapes or are rejected with a reason. Parsed scrapes can be written and parsed
//! again, and any lines result in a report.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use measure::server_metrics::exposition::Exposition;
use measure::server_metrics::{Endpoint, Scrape};
use results::artifacts::rebuild;
use results::artifacts::server_metrics::{ScrapeLineReader, ScrapeLines};
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let record = r#"{"metadata":{"request_start_ns":1,"request_end_ns":2,"benchmark_phase":"profiling"},"metrics":{},"error":null}"#;
    fs::write(directory.path().join("profile_export.jsonl"), format!("{record}\n")).unwrap();
    directory
});

fuzz_target!(|input: &[u8]| {
    let mut reader = ScrapeLineReader::default();
    let path = DIRECTORY.path().join("again.jsonl");
    for text in input.split(|byte| *byte == b'\n') {
        match reader.read(text) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(line) => {
                let mut lines = ScrapeLines::create(&path, 1).unwrap();
                lines.append(&Scrape {
                    index: 0,
                    endpoint: &Endpoint { url: line.endpoint_url.as_ref().into() },
                    times: line.times,
                    phase: line.phase,
                    is_duplicate: line.is_duplicate,
                    exposition: &Exposition::default(),
                    snapshot: &line.snapshot,
                });
                lines.finish().unwrap();
                let written = fs::read(&path).unwrap();
                assert!(ScrapeLineReader::default().read(&written).is_ok());
            }
        }
    }
    fs::write(DIRECTORY.path().join("server_metrics_export.jsonl"), input).unwrap();
    match rebuild::rebuild(DIRECTORY.path()) {
        Ok(mut rebuilt) => drop(rebuild::write(&mut rebuilt, "").unwrap()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
