//! What a row of the catalogue says, and the values it produces.

use std::collections::HashMap;

use bitflags::bitflags;

use super::timeline::{Curve, Span};
use crate::endpoint::{ParsedResponse, Usage};
use crate::record::{RequestError, RequestRecord};
use crate::schedule::PhaseKind;
use crate::units::{Nanos, Unit};

/// A metric's name in every artifact, as in `time_to_first_token`.
pub type MetricTag = &'static str;

/// Something for each metric. Every value of every request is looked up in some
/// of these, so they hash fast: tags are ours, nobody picks them to collide.
pub type TagMap<T> = HashMap<MetricTag, T, foldhash::fast::RandomState>;

/// One row of the catalogue.
#[derive(Debug, Clone, Copy)]
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

impl ConsoleGroup {
    /// As the catalogue's listing writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Effective => "effective",
            Self::Active => "active",
            Self::Usage => "usage",
            Self::Cache => "cache",
            Self::Prediction => "prediction",
            Self::Audio => "audio",
            Self::Reasoning => "reasoning",
            Self::Default => "default",
        }
    }
}

impl Metric {
    const fn new(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        value_type: ValueType,
        kind: Kind,
    ) -> Self {
        Self {
            tag,
            header,
            short_header: header,
            brief: "",
            formula: "",
            unit,
            display_unit: unit,
            value_type,
            flags: MetricFlags::empty(),
            group: ConsoleGroup::Default,
            order: None,
            requires: &[],
            kind,
        }
    }

    /// A row with a number for each request; whole unless [`Metric::float`] says otherwise.
    #[must_use]
    pub const fn record(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Int, Kind::Record(compute))
    }

    /// A row with a list of whole numbers for each request.
    #[must_use]
    pub const fn record_list(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Facts<'_>) -> Option<Vec<f64>>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::IntList, Kind::RecordList(compute))
    }

    /// A row that folds over requests.
    #[must_use]
    pub const fn aggregate(tag: MetricTag, header: &'static str, unit: Unit, kind: Kind) -> Self {
        Self::new(tag, header, unit, ValueType::Int, kind)
    }

    /// A row computed from other results.
    #[must_use]
    pub const fn derived(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&dyn Totals) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::Derived(compute))
    }

    /// A row that is the sum of a record metric, whose tag is the only one in `of`.
    #[must_use]
    pub const fn sum_of(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(tag, header, unit, ValueType::Int, Kind::SumOf(of[0]));
        row.requires = of;
        row
    }

    /// A row that is a percentile of a record metric, whose tag is the only one in `of`.
    #[must_use]
    pub const fn percentile_of(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        percent: f64,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row =
            Self::new(tag, header, unit, ValueType::Float, Kind::PercentileOf(of[0], percent));
        row.requires = of;
        row
    }

    /// A row that follows a curve over the time of a phase.
    #[must_use]
    pub const fn over_time(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        curve: Curve,
        span: Span,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::OverTime(curve, span))
    }

    /// A row with the values of a record metric, whose tag is the only one in `of`,
    /// and an infinite one for each request that failed.
    #[must_use]
    pub const fn with_failures(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(tag, header, unit, ValueType::Float, Kind::WithFailures(of[0]));
        row.requires = of;
        row
    }

    /// With a title for where room is short.
    #[must_use]
    pub const fn short(mut self, header: &'static str) -> Self {
        self.short_header = header;
        self
    }

    /// With what it measures, in one sentence, and how it is computed.
    #[must_use]
    pub const fn says(mut self, brief: &'static str, formula: &'static str) -> Self {
        self.brief = brief;
        self.formula = formula;
        self
    }

    /// Shown in `unit` instead of its own.
    #[must_use]
    pub const fn shown_in(mut self, unit: Unit) -> Self {
        self.display_unit = unit;
        self
    }

    /// With values that need not be whole.
    #[must_use]
    pub const fn float(mut self) -> Self {
        self.value_type = ValueType::Float;
        self
    }

    /// With values that are whole.
    #[must_use]
    pub const fn int(mut self) -> Self {
        self.value_type = ValueType::Int;
        self
    }

    /// With flags.
    #[must_use]
    pub const fn flagged(mut self, flags: MetricFlags) -> Self {
        self.flags = flags;
        self
    }

    /// In a console table, at a place in it.
    #[must_use]
    pub const fn at(mut self, group: ConsoleGroup, order: u32) -> Self {
        self.group = group;
        self.order = Some(order);
        self
    }

    /// In no console table.
    #[must_use]
    pub const fn off_console(mut self) -> Self {
        self.group = ConsoleGroup::None;
        self
    }

    /// Reading the metrics of these tags.
    #[must_use]
    pub const fn requires(mut self, tags: &'static [MetricTag]) -> Self {
        self.requires = tags;
        self
    }

    /// Whether users see it at all: internal and experimental metrics are for
    /// `developer_mode`.
    #[must_use]
    pub const fn is_exported(&self, developer_mode: bool) -> bool {
        developer_mode
            || !self.flags.intersects(MetricFlags::INTERNAL.union(MetricFlags::EXPERIMENTAL))
    }

    /// Whether the console shows it: exported, in a group, and not of errors only.
    #[must_use]
    pub const fn is_on_console(&self, developer_mode: bool) -> bool {
        self.is_exported(developer_mode)
            && !matches!(self.group, ConsoleGroup::None)
            && !self.flags.intersects(MetricFlags::ERROR_ONLY)
    }

    /// `value`, in the metric's own unit, as its display unit has it.
    #[must_use]
    pub fn to_display(&self, value: f64) -> f64 {
        self.unit.convert(value, self.display_unit)
    }
}

/// How a metric comes about.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One number for each request.
    Record(fn(&Facts<'_>, &RecordValues) -> Option<f64>),
    /// Several numbers for each request.
    RecordList(fn(&Facts<'_>) -> Option<Vec<f64>>),
    /// The number of requests that pass a test. Those that do have the value 1
    /// among their own.
    Count(fn(&RecordValues, &Settings) -> bool),
    /// A sum over requests.
    Sum(fn(&Observation, &Settings) -> Option<f64>),
    /// The earliest of instants, in wall nanoseconds.
    Earliest(fn(&Observation) -> Option<u64>),
    /// The latest of instants, in wall nanoseconds.
    Latest(fn(&Observation) -> Option<u64>),
    /// The sum of a record metric over all requests that have it.
    SumOf(MetricTag),
    /// The percentile, 0 to 100, of a record metric over all values it has, in
    /// the row's own unit.
    PercentileOf(MetricTag, f64),
    /// Statistics of a curve, each value weighed by the time that it lasted.
    OverTime(Curve, Span),
    /// The distribution of a record metric with an infinite value for each request
    /// that failed; absent where none did.
    WithFailures(MetricTag),
    /// Computed from other results.
    Derived(fn(&dyn Totals) -> Option<f64>),
}

impl Kind {
    /// `record`, `aggregate` or `derived`.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Record(_) | Self::RecordList(_) => "record",
            Self::Count(_) | Self::Sum(_) | Self::Earliest(_) | Self::Latest(_) => "aggregate",
            Self::SumOf(_)
            | Self::PercentileOf(..)
            | Self::OverTime(..)
            | Self::WithFailures(_)
            | Self::Derived(_) => "derived",
        }
    }

    /// When it is computed: of each request, over requests, or from totals.
    #[must_use]
    pub(super) const fn stage(&self) -> u8 {
        match self {
            Self::Record(_) | Self::RecordList(_) => 0,
            Self::Count(_) | Self::Sum(_) | Self::Earliest(_) | Self::Latest(_) => 1,
            Self::SumOf(_)
            | Self::PercentileOf(..)
            | Self::OverTime(..)
            | Self::WithFailures(_)
            | Self::Derived(_) => 2,
        }
    }
}

/// Results that derived metrics are computed from.
pub trait Totals {
    /// The aggregate or derived result of `tag`, in its own unit.
    fn total(&self, tag: MetricTag) -> Option<f64>;

    /// The time that rates go by: `benchmark_duration`, or the length of a slice.
    fn duration(&self) -> Option<Nanos>;

    /// The instant of `tag` in wall nanoseconds: an f64 would lose the last 200.
    fn instant(&self, tag: MetricTag) -> Option<u64>;
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
    /// Whether requests are sent at the times that the dataset gives them.
    pub fixed_schedule: bool,
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
            fixed_schedule: false,
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
        /// Only where every request has its own time: a fixed schedule.
        const FIXED_SCHEDULE_ONLY = 1 << 16;
        /// Streamed tokens.
        const STREAMING_TOKENS_ONLY = Self::STREAMING_ONLY.bits() | Self::PRODUCES_TOKENS_ONLY.bits();
    }
}

/// The console table a metric is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConsoleGroup {
    /// No table: exported only.
    None,
    /// As users and the server have it: over all the time, and from when requests
    /// were due.
    Effective,
    /// Over the time in which there was something to do.
    Active,
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
    /// Images that the request bears.
    pub images: u64,
    /// Seconds that its sound plays; `None` without any, or where one does not say it.
    pub audio_seconds: Option<f64>,
}

impl Facts<'_> {
    /// Nanoseconds from the request's start to the arrival of the `n`th piece of content.
    #[must_use]
    pub fn until_content(&self, n: usize) -> Option<f64> {
        self.response.content.get(n).map(|piece| self.since_start(piece.arrival))
    }

    /// Nanoseconds from the request's start to `at`.
    #[must_use]
    pub fn since_start(&self, at: Nanos) -> f64 {
        at.since(self.record.start).0 as f64
    }

    /// A field of the usage the server reported.
    #[must_use]
    pub fn usage(&self, field: fn(&Usage) -> Option<u64>) -> Option<f64> {
        self.response.usage.as_ref().and_then(field).map(|tokens| tokens as f64)
    }
}

/// The values of one request by metric, in order of computation: a metric comes
/// after those it requires.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordValues {
    values: Vec<(&'static str, Value)>,
}

impl RecordValues {
    /// No values, with room for `count`.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self { values: Vec::with_capacity(count) }
    }

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

    /// Every tag with its value.
    pub fn iter(&self) -> impl Iterator<Item = (MetricTag, &Value)> {
        self.values.iter().map(|(tag, value)| (*tag, value))
    }

    /// Drops the values of tags that `keep` refuses.
    pub fn retain(&mut self, keep: impl Fn(MetricTag) -> bool) {
        self.values.retain(|(tag, _)| keep(tag));
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
    /// Wall time at which its response ended or it failed.
    pub end_wall_ns: u64,
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

/// Statistics over values. Most aggregate and derived metrics have only `avg`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    /// Mean, or the single value.
    pub avg: f64,
    /// The distribution, for record metrics and what is followed over time.
    pub distribution: Option<Distribution>,
}

/// Statistics that need a distribution.
///
/// Percentiles interpolate linearly between order statistics, as numpy's
/// default does; `std` is the population's. What a metric has not is no number,
/// and no artifact has it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Distribution {
    /// Number of values; 0 where they are weighed, not counted.
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

impl Distribution {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        count: 0,
        sum: f64::NAN,
        min: f64::NAN,
        max: f64::NAN,
        std: f64::NAN,
        p1: f64::NAN,
        p5: f64::NAN,
        p10: f64::NAN,
        p25: f64::NAN,
        p50: f64::NAN,
        p75: f64::NAN,
        p90: f64::NAN,
        p95: f64::NAN,
        p99: f64::NAN,
    };
}
