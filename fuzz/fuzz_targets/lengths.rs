//! Any `--isl`, `--seq-dist` or file of lengths is rejected, or has lengths that can be drawn.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use dataset::{Length, RecordedLengths, SequenceDistribution};
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

fuzz_target!(|text: &str| {
    if let Ok(length) = Length::parse(text) {
        // It is written to files.
        serde_json::to_string(&length).unwrap();
    }
    if let Ok(distribution) = SequenceDistribution::parse(text) {
        let pairs = distribution.pairs();
        let total: f64 = pairs.iter().map(|pair| pair.probability).sum();
        assert!((total - 1.0).abs() < 1e-5, "{total}");
        assert!(pairs.iter().all(|pair| pair.probability >= 0.0));
    }
    fs::write(FILE.path(), text).unwrap();
    drop(RecordedLengths::read(FILE.path()));
});
