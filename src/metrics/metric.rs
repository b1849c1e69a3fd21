//! What a row of the catalogue says, and the values it produces.

use bitflags::bitflags;

use crate::endpoint::{ParsedResponse, Usage};
use crate::record::{RequestError, RequestRecord};
use crate::schedule::PhaseKind;
use crate::units::{Nanos, Unit};

/// A metric's name in every artifact, as in `time_to_first_token`.
pub type MetricTag = &'static str;

/// One row of the catalogue.
#[derive(Debug)]
pub struct Metric {
    /// Name in every artifact.
    pub tag: MetricTag,
    /// Title in console and CSV.
    pub header: &'static str,
    /// Title where room is short.
    pub short_header: &'static str,
    /// One sentence: what it measures.
    pub brief: &'static str,
    /// How it is computed, and when it is absent.
    pub formula: &'static str,
    /// Unit of the values in memory.
    pub unit: Unit,
    /// Unit of the values in artifacts and console.
    pub display_unit: Unit,
    /// Whether values are whole numbers.
    pub value_type: ValueType,
    /// When it is computed and shown.
    pub flags: MetricFlags,
    /// The console table it is in.
    pub group: ConsoleGroup,
    /// Its place in that table; `None` comes last.
    pub order: Option<u32>,
    /// Tags of the metrics that its formula reads.
    pub requires: &'static [MetricTag],
    /// The computation.
    pub kind: Kind,
}

/// How a metric comes about.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A value for each request.
    Record(fn(&Facts<'_>, &RecordValues) -> Option<Value>),
    /// A fold over requests.
    Aggregate(Fold, fn(&Observation, &Settings) -> Option<f64>),
    /// Computed from other results: the argument looks a result up by tag.
    Derived(fn(&dyn Fn(MetricTag) -> Option<f64>) -> Option<f64>),
    /// The sum of a record metric over all requests that have it.
    SumOf(MetricTag),
}

impl Kind {
    /// `record`, `aggregate` or `derived`.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Record(_) => "record",
            Self::Aggregate(..) => "aggregate",
            Self::Derived(_) | Self::SumOf(_) => "derived",
        }
    }
}

/// Thresholds and objectives that some metrics compare with.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Service level objectives (`--goodput`), in display units.
    pub objectives: Vec<Objective>,
    /// Percent by which server and client may differ in token counts
    /// (`AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD`, 10).
    pub usage_diff_threshold_percent: f64,
    /// Percent by which output length may miss what was asked for
    /// (`AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD`, 5).
    pub osl_mismatch_threshold_percent: f64,
    /// Tokens by which it may at most
    /// (`AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD`, 50).
    pub osl_mismatch_threshold_tokens: f64,
    /// Whether token counts are the server's (`--use-server-token-count`).
    pub use_server_token_count: bool,
    /// Whether internal and experimental metrics are shown.
    pub developer_mode: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            objectives: Vec::new(),
            usage_diff_threshold_percent: 10.0,
            osl_mismatch_threshold_percent: 5.0,
            osl_mismatch_threshold_tokens: 50.0,
            use_server_token_count: false,
            developer_mode: false,
        }
    }
}

/// A service level objective: a bound on a record metric, in its display unit.
/// Metrics where larger is better must reach it, others must not pass it.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// The metric.
    pub tag: MetricTag,
    /// The bound.
    pub threshold: f64,
}

/// How an aggregate folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Adds.
    Sum,
    /// Keeps the smallest.
    Min,
    /// Keeps the largest.
    Max,
}

/// The type of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Whole numbers.
    Int,
    /// Numbers.
    Float,
    /// A list of whole numbers for each request.
    IntList,
}

/// A value in the metric's own unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// One number.
    Scalar(f64),
    /// Several.
    List(Vec<f64>),
}

bitflags! {
    /// When a metric is computed and shown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MetricFlags: u32 {
        /// Only for streamed responses.
        const STREAMING_ONLY = 1;
        /// Only for failed requests.
        const ERROR_ONLY = 1 << 1;
        /// Only for endpoints that produce tokens.
        const PRODUCES_TOKENS_ONLY = 1 << 2;
        /// Higher is better.
        const LARGER_IS_BETTER = 1 << 3;
        /// About aiperf itself; shown in developer mode only.
        const INTERNAL = 1 << 4;
        /// Only for audio endpoints.
        const SUPPORTS_AUDIO_ONLY = 1 << 5;
        /// Only for image endpoints.
        const SUPPORTS_IMAGE_ONLY = 1 << 6;
        /// Only for models that report reasoning apart.
        const SUPPORTS_REASONING = 1 << 7;
        /// May change; shown in developer mode only.
        const EXPERIMENTAL = 1 << 8;
        /// Only with service level objectives.
        const GOODPUT = 1 << 9;
        /// Not in the records of single requests.
        const NO_INDIVIDUAL_RECORDS = 1 << 10;
        /// Only for endpoints that tokenise their input.
        const TOKENIZES_INPUT_ONLY = 1 << 11;
        /// Only with HTTP trace data.
        const HTTP_TRACE_ONLY = 1 << 12;
        /// Only for video endpoints.
        const SUPPORTS_VIDEO_ONLY = 1 << 13;
        /// Only where the server reports usage.
        const USAGE_DIFF_ONLY = 1 << 14;
        /// Only for endpoints that produce video.
        const PRODUCES_VIDEO_ONLY = 1 << 15;
        /// Streamed tokens.
        const STREAMING_TOKENS_ONLY = Self::STREAMING_ONLY.bits() | Self::PRODUCES_TOKENS_ONLY.bits();
    }
}

/// The console table a metric is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConsoleGroup {
    /// None: exported only.
    None,
    /// API-reported usage.
    Usage,
    /// Cache tokens.
    Cache,
    /// Predicted tokens.
    Prediction,
    /// Audio tokens.
    Audio,
    /// Reasoning tokens.
    Reasoning,
    /// The main table.
    Default,
}

/// What record metrics are computed from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The request.
    pub record: &'a RequestRecord,
    /// Its response.
    pub response: &'a ParsedResponse,
    /// Why it failed, if it did: the transport's error or the response's.
    pub error: Option<&'a RequestError>,
    /// Tokens of the whole prompt: context, earlier turns and answers, this turn.
    pub input_tokens: Option<u64>,
    /// Tokens of the output text without reasoning.
    pub output_tokens: Option<u64>,
    /// Tokens of the reasoning text, where there was any.
    pub reasoning_tokens: Option<u64>,
    /// Output tokens that were asked for.
    pub requested_output_tokens: Option<u64>,
}

impl Facts<'_> {
    /// Arrival of the `n`th piece of content.
    #[must_use]
    pub fn content_arrival(&self, n: usize) -> Option<Nanos> {
        self.response.content.get(n).map(|piece| piece.arrival)
    }

    /// The usage the server reported.
    #[must_use]
    pub const fn usage(&self) -> Option<&Usage> {
        self.response.usage.as_ref()
    }
}

/// The values of one request by metric, in catalogue order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordValues {
    values: Vec<(&'static str, Value)>,
}

impl RecordValues {
    /// Adds a value; the last one of a tag counts.
    pub fn push(&mut self, tag: MetricTag, value: Value) {
        self.values.push((tag, value));
    }

    /// The value of `tag`.
    #[must_use]
    pub fn get(&self, tag: &str) -> Option<&Value> {
        self.values.iter().rev().find(|(have, _)| *have == tag).map(|(_, value)| value)
    }

    /// The value of `tag`, if it is one number.
    #[must_use]
    pub fn scalar(&self, tag: &str) -> Option<f64> {
        match self.get(tag) {
            Some(Value::Scalar(value)) => Some(*value),
            _ => None,
        }
    }

    /// Every tag with its value, in catalogue order.
    pub fn iter(&self) -> impl Iterator<Item = (MetricTag, &Value)> {
        self.values.iter().map(|(tag, value)| (*tag, value))
    }
}

/// What statistics need of a request: all of it is in its JSONL line, so that
/// results can be rebuilt from the file.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Phase of the request.
    pub phase: PhaseKind,
    /// Wall time of its start, in nanoseconds since the epoch.
    pub start_wall_ns: u64,
    /// Output tokens that were asked for.
    pub requested_output_tokens: Option<u64>,
    /// Why it failed, if it did.
    pub error: Option<RequestError>,
    /// Its record metrics.
    pub values: RecordValues,
}

/// A request with everything that was found out about it.
#[derive(Debug, Clone)]
pub struct MeasuredRecord {
    /// As the transport saw it.
    pub record: RequestRecord,
    /// Its response, read.
    pub response: ParsedResponse,
    /// Its values.
    pub observation: Observation,
}

/// Statistics of a metric over a phase, in its display unit.
#[derive(Debug, Clone)]
pub struct MetricResult {
    /// The row.
    pub metric: &'static Metric,
    /// The statistics.
    pub stats: Stats,
}

/// Statistics over values. An aggregate or derived metric has only `avg`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    /// Mean, or the single value.
    pub avg: f64,
    /// The distribution, for record metrics.
    pub distribution: Option<Distribution>,
}

/// Statistics that need a distribution.
///
/// Percentiles interpolate linearly between order statistics, as numpy's
/// default does; `std` is the population's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Population standard deviation.
    pub std: f64,
    /// 1st percentile.
    pub p1: f64,
    /// 5th percentile.
    pub p5: f64,
    /// 10th percentile.
    pub p10: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}
