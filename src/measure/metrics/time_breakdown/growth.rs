//! How the difference of two mean latencies consists of those of their parts.

use serde::Serialize;

use super::Stage;
use crate::metrics::registry::Registry;
use crate::metrics::tag::MetricTag;

/// Significant digits of a difference in a sentence.
const DIGITS: i32 = 3;
/// Maximum number of decimals in a sentence: microseconds.
const MAX_DECIMALS: i32 = 3;

/// The difference of two mean latencies as the sum of those of their parts. Only means add up, not
/// percentiles.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Growth {
    /// The latency.
    pub metric: MetricTag,
    /// By how many milliseconds its mean grew; negative if it fell.
    pub difference_ms: f64,
    /// The parts, the largest change first.
    pub parts: Vec<PartGrowth>,
}

/// The difference of a part of a mean latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PartGrowth {
    pub stage: Stage,
    pub difference_ms: f64,
}

impl Growth {
    /// Compares the mean parts of the latency `metric`, in milliseconds and in order of time; `None`
    /// if they are not of the same stages.
    pub fn between(metric: MetricTag, from: &[(Stage, f64)], to: &[(Stage, f64)]) -> Option<Self> {
        let is_same = from.iter().map(|(stage, _)| stage).eq(to.iter().map(|(stage, _)| stage));
        if !is_same || from.is_empty() {
            return None;
        }
        let pairs = from.iter().zip(to);
        let part = |((stage, from), (_, to)): (&(Stage, f64), &(Stage, f64))| PartGrowth {
            stage: *stage,
            difference_ms: to - from,
        };
        let mut parts: Vec<PartGrowth> = pairs.map(part).collect();
        let difference_ms = parts.iter().map(|part| part.difference_ms).sum();
        parts.sort_by(|a, b| b.difference_ms.abs().total_cmp(&a.difference_ms.abs()));
        Some(Self { metric, difference_ms, parts })
    }

    /// States the difference and its parts: `Mean time to first token grew by 12.0 ms: queue +11.0,
    /// prefill +0.8, unattributed +0.2.` Parts that would be 0 are left out. `between` states what was
    /// compared, such as ` from concurrency 8 to concurrency 16`.
    pub fn sentence(&self, between: &str) -> String {
        let magnitude = self.difference_ms.abs();
        let digits = if magnitude > 0.0 { magnitude.log10().floor() as i32 + 1 } else { 1 };
        let places = (DIGITS - digits).clamp(1, MAX_DECIMALS);
        let (decimals, least) = (places as usize, 0.5 * 0.1_f64.powi(places));
        let shown = |part: &&PartGrowth| part.difference_ms.abs() >= least;
        let part = |part: &PartGrowth| {
            format!("{} {:+.decimals$}", part.stage.title_within(), part.difference_ms)
        };
        let parts: Vec<String> = self.parts.iter().filter(shown).map(part).collect();
        let latency = Registry::row(self.metric).map_or("latency", |metric| metric.header);
        let verb = if self.difference_ms < 0.0 { "fell" } else { "grew" };
        format!(
            "Mean {} {verb} by {magnitude:.decimals$} ms{between}: {}.",
            latency.to_lowercase(),
            parts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tag;

    const BEFORE: [(Stage, f64); 3] =
        [(Stage::Queue, 2.0), (Stage::Prefill, 30.0), (Stage::Unattributed, 1.0)];

    #[test]
    fn parts_add_up_and_the_largest_is_first() {
        let after = [(Stage::Queue, 13.0), (Stage::Prefill, 30.8), (Stage::Unattributed, 1.2)];
        let growth = Growth::between(tag::TIME_TO_FIRST_TOKEN, &BEFORE, &after).unwrap();
        assert!((growth.difference_ms - 12.0).abs() < 1e-9);
        assert_eq!(
            growth.sentence(""),
            "Mean time to first token grew by 12.0 ms: queue +11.0, prefill +0.8, unattributed +0.2."
        );
        let back = Growth::between(tag::TIME_TO_FIRST_TOKEN, &after, &BEFORE).unwrap();
        assert_eq!(
            back.sentence(" from a to b"),
            "Mean time to first token fell by 12.0 ms from a to b: queue -11.0, prefill -0.8, \
             unattributed -0.2."
        );
    }

    #[test]
    fn small_parts_are_left_out_and_small_totals_have_more_digits() {
        let growth_of =
            |queue, decode| [(Stage::Queue, queue), (Stage::KvTransferAndDecode, decode)];
        let growth = |to: &[(Stage, f64)]| {
            Growth::between(tag::REQUEST_LATENCY, &growth_of(0.0, 0.0), to).unwrap().sentence("")
        };
        assert_eq!(
            growth(&growth_of(0.04, 120.0)),
            "Mean request latency grew by 120.0 ms: KV transfer + decode +120.0."
        );
        assert_eq!(
            growth(&growth_of(0.012, -0.002)),
            "Mean request latency grew by 0.010 ms: queue +0.012, KV transfer + decode -0.002."
        );
    }

    #[test]
    fn other_stages_are_not_compared() {
        let other = [(Stage::QueueAndPrefill, 32.0), (Stage::Unattributed, 1.0)];
        assert_eq!(Growth::between(tag::TIME_TO_FIRST_TOKEN, &BEFORE, &other), None);
        assert_eq!(Growth::between(tag::TIME_TO_FIRST_TOKEN, &BEFORE, &BEFORE[..2]), None);
        assert_eq!(Growth::between(tag::TIME_TO_FIRST_TOKEN, &[], &[]), None);
    }
}
