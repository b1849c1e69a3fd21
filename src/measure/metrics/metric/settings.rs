//! The settings on which values and results of metrics depend besides the requests.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use base::setting::named;
use base::statistics::Percent;
use client::endpoint::ContextOverflow;

use super::{MetricFlags, Observation};
use crate::metrics::Registry;
use crate::metrics::limit::Operator;
use crate::metrics::tag::{self, MetricTag};

/// From when the latencies count that objectives, gates and searches judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LatencyFrom {
    /// From when the request was sent.
    #[default]
    Sent,
    /// From when it was due.
    Due,
}

named! { LatencyFrom { "sent" => Sent, "due" => Due } }

impl LatencyFrom {
    /// The latencies from when requests were sent, each with the same one from when they were due.
    const PAIRS: [(MetricTag, MetricTag); 2] = [
        (tag::TIME_TO_FIRST_TOKEN, tag::EFFECTIVE_TIME_TO_FIRST_TOKEN),
        (tag::REQUEST_LATENCY, tag::EFFECTIVE_LATENCY),
    ];

    /// Returns the metric to judge where `tag` is named.
    #[must_use]
    pub fn judged_metric(self, tag: MetricTag) -> MetricTag {
        let pair = Self::PAIRS.iter().find(|(sent, _)| *sent == tag);
        pair.filter(|_| self == Self::Due).map_or(tag, |(_, due)| *due)
    }

    /// Returns the latency from when requests were sent that `tag` is the same as from when they were
    /// due.
    #[must_use]
    pub fn sent(tag: MetricTag) -> Option<MetricTag> {
        Self::PAIRS.iter().find(|(_, due)| *due == tag).map(|(sent, _)| *sent)
    }
}

/// Thresholds and objectives of metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Service level objectives (`--goodput`), in display units. When read, those on metrics
    /// that do not exist are left out.
    #[serde(deserialize_with = "known_objectives")]
    pub objectives: Vec<Objective>,
    /// Tolerated difference between server and client token counts, in percent
    /// (`AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD`, 10).
    pub usage_diff_threshold_percent: f64,
    /// Tolerated difference from the requested output length, in percent
    /// (`AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD`, 5).
    pub osl_mismatch_threshold_percent: f64,
    /// Maximum tolerated difference from the requested output length, in tokens
    /// (`AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD`, 50).
    pub osl_mismatch_threshold_tokens: f64,
    /// The percentiles that users name (`--percentiles`) or limit, in ascending order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<Percent>,
    /// From when the latencies count that are judged (`--latency-from`).
    pub latency_from: LatencyFrom,
    /// Fraction of the concurrency, above 0 and at most 1, that is in flight in the steady state
    /// (`--steady-state-fraction`, 0.95).
    pub steady_state_fraction: f64,
    /// Whether the server's token counts are used (`--use-server-token-count`).
    pub use_server_token_count: bool,
    /// Whether the server reports the tokens of the first content event (`--per-chunk-usage`).
    pub per_chunk_usage: bool,
    /// Whether requests are sent at the timestamps of the dataset.
    pub fixed_schedule: bool,
    /// Whether the times that servers report of requests are read (`--server-timing`).
    pub server_timing: bool,
    /// Texts of errors by which a request exceeds the context of the model
    /// (`AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS`).
    pub context_overflow: ContextOverflow,
    /// Whether such requests are only counted, and left out of all other metrics.
    pub skips_context_overflows: bool,
    /// Whether canaries count as requests of the load (`--measure-canaries`).
    #[serde(default)]
    pub measures_canaries: bool,
    /// Whether internal and experimental metrics are shown.
    pub developer_mode: bool,
}

impl Settings {
    /// Returns whether a request is at most counted, and left out of all other metrics.
    pub fn leaves_out(&self, observation: &Observation) -> bool {
        self.leaves_out_canary(observation) || self.skips_overflow(observation)
    }

    /// Returns whether a request is left out of all metrics, since it is a canary.
    pub const fn leaves_out_canary(&self, observation: &Observation) -> bool {
        observation.output.canary.is_some() && !self.measures_canaries
    }

    /// Returns whether a request is only counted, since it exceeds the context of the model.
    pub(crate) fn skips_overflow(&self, observation: &Observation) -> bool {
        let error = observation.error.as_ref().filter(|_| self.skips_context_overflows);
        error.is_some_and(|error| self.context_overflow.matches(error))
    }

    /// Adds percentiles that are computed besides those of every distribution.
    pub fn add_percentiles(&mut self, percents: impl IntoIterator<Item = Percent>) {
        self.percentiles.extend(percents);
        self.percentiles.sort_unstable();
        self.percentiles.dedup();
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            objectives: Vec::new(),
            usage_diff_threshold_percent: 10.0,
            osl_mismatch_threshold_percent: 5.0,
            osl_mismatch_threshold_tokens: 50.0,
            percentiles: Vec::new(),
            latency_from: LatencyFrom::Sent,
            steady_state_fraction: 0.95,
            use_server_token_count: false,
            per_chunk_usage: false,
            fixed_schedule: false,
            server_timing: true,
            context_overflow: ContextOverflow::default(),
            skips_context_overflows: false,
            measures_canaries: false,
            developer_mode: false,
        }
    }
}

/// A service level objective: a threshold for a record metric, in its display unit. Metrics
/// where larger is better must reach it, others must not exceed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The metric.
    #[serde(rename = "metric")]
    pub tag: MetricTag,
    /// The threshold.
    pub threshold: f64,
}

impl Objective {
    /// Returns the operator between the metric and the threshold: `<=`, or `>=` if larger is better.
    pub fn operator(&self) -> Operator {
        let is_reached = Registry::row(self.tag)
            .is_some_and(|metric| metric.flags.contains(MetricFlags::LARGER_IS_BETTER));
        if is_reached { Operator::AtLeast } else { Operator::AtMost }
    }

    /// Returns whether a request with this `value`, in the display unit, meets it.
    pub fn is_met(&self, value: f64) -> bool {
        self.operator().holds(value, self.threshold)
    }
}

fn known_objectives<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Objective>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Found {
        Known(Objective),
        Unknown(IgnoredAny),
    }
    let found = Vec::<Found>::deserialize(from)?.into_iter();
    Ok(found
        .filter_map(|found| match found {
            Found::Known(objective) => Some(objective),
            Found::Unknown(_) => None,
        })
        .collect())
}
