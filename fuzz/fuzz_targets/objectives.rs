//! Any `--goodput` is rejected, or names each metric once with a finite limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::metrics::parse_objectives;

fuzz_target!(|text: &str| {
    if let Ok(objectives) = parse_objectives(text) {
        let mut tags: Vec<_> = objectives.iter().map(|objective| objective.tag.name()).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), objectives.len());
        assert!(objectives.iter().all(|objective| objective.threshold.is_finite()));
    }
});
