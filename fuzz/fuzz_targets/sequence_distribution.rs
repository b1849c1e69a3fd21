//! Any `--seq-dist` is rejected, or is a distribution that sums to 1.
#![no_main]

use aiperf::dataset::SequenceDistribution;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(distribution) = SequenceDistribution::parse(text) {
        let pairs = distribution.pairs();
        let total: f64 = pairs.iter().map(|pair| pair.probability).sum();
        assert!((total - 1.0).abs() < 1e-5, "{total}");
        assert!(pairs.iter().all(|pair| pair.probability >= 0.0));
    }
});
