//! A row of the metric catalogue.

mod flags;
mod stats;
mod values;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::deployment::DeploymentFacts;
use super::gpu::{GpuFacts, Vendor};
use super::session::{SessionCounts, Work};
use super::tag::{self, MetricTag};
use super::timeline::{Curve, Span};
use crate::endpoint::ContextOverflow;
use crate::setting::named;
use crate::units::{Nanos, Unit};

pub use crate::statistics::{Distribution, Percent};
pub use flags::{ConsoleGroup, MetricFlags};
pub use stats::{MetricResult, Statistic, Stats};
pub(crate) use values::Facts;
pub use values::{MeasuredRecord, Observation, RecordValues, Value};

/// How a metric depends on the duration of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByDuration {
    /// Inversely proportional: a count or a sum divided by the duration.
    Rate,
    /// Proportional: the price of the time that something took.
    Cost,
}

/// A row of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in all files.
    pub tag: MetricTag,
    /// Title in the console and in CSV.
    pub header: &'static str,
    /// Short title, for narrow columns.
    pub short_header: &'static str,
    /// What it measures, in one sentence.
    pub brief: &'static str,
    /// Its formula, and when it is absent.
    pub formula: &'static str,
    /// Unit of the values in memory.
    pub unit: Unit,
    /// Unit of the values in files and console.
    pub display_unit: Unit,
    /// Type of the values.
    pub value_type: ValueType,
    /// When it is computed and shown.
    pub flags: MetricFlags,
    /// Its console table.
    pub group: ConsoleGroup,
    /// Its position in that table; `None` is last.
    pub order: Option<u32>,
    /// Tags of the metrics that its formula uses.
    pub requires: &'static [MetricTag],
    /// How it is computed.
    pub kind: Kind,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "`requires` keeps the reference")]
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

    /// Creates a record metric with one number per request; whole unless [`Metric::float`] is
    /// called.
    #[must_use]
    pub const fn record(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Int, Kind::Record(compute))
    }

    /// Creates a record metric with a list of whole numbers per request.
    #[must_use]
    pub(crate) const fn record_list(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Facts<'_>) -> Option<Vec<f64>>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::IntList, Kind::RecordList(compute))
    }

    /// Creates an aggregate metric, which folds over requests.
    #[must_use]
    pub(crate) const fn aggregate(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        kind: Kind,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Int, kind)
    }

    /// Creates a derived metric, computed from other results.
    #[must_use]
    pub(crate) const fn derived(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&dyn Totals) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::Derived(compute))
    }

    /// Creates the sum of a record metric, whose tag is the only one in `of`.
    #[must_use]
    pub(crate) const fn sum_of(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(tag, header, unit, ValueType::Int, Kind::SumOf(of[0]));
        row.requires = of;
        row
    }

    /// Creates a percentile of a record metric, whose tag is the only one in `of`.
    #[must_use]
    pub(crate) const fn percentile_of(
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

    /// Creates the share in percent that the sum of a record metric is of that of another one. Their tags
    /// are those in `of`.
    #[must_use]
    pub(crate) const fn share_of(
        tag: MetricTag,
        header: &'static str,
        of: &'static [MetricTag; 2],
    ) -> Self {
        let kind = Kind::ShareOf(of[0], of[1]);
        let mut row = Self::new(tag, header, Unit::Percent, ValueType::Float, kind);
        row.requires = of;
        row
    }

    /// Creates a metric with time-weighted statistics of a curve over a phase.
    #[must_use]
    pub(crate) const fn over_time(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        curve: Curve,
        span: Span,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::OverTime(curve, span))
    }

    /// Creates a metric with the values of a record metric, whose tag is the only one in `of`,
    /// and an infinite value for each failed request.
    #[must_use]
    pub(crate) const fn with_failures(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(tag, header, unit, ValueType::Float, Kind::WithFailures(of[0]));
        row.requires = of;
        row
    }

    /// Creates a metric with the values of a record metric, whose tag is the only one in `of`,
    /// less the round-trip time of the network.
    #[must_use]
    pub(crate) const fn less_round_trip(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(tag, header, unit, ValueType::Int, Kind::LessRoundTrip(of[0]));
        row.requires = of;
        row
    }

    /// Creates the metric with the round-trip time of the network.
    #[must_use]
    pub(crate) const fn round_trip(tag: MetricTag, header: &'static str, unit: Unit) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::RoundTrip)
    }

    /// Creates a metric of the GPUs of `vendor`.
    #[must_use]
    pub(crate) const fn of_gpus(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        vendor: Vendor,
        compute: fn(&GpuFacts<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::OfGpus(vendor, compute))
    }

    /// Creates a metric of what serves the model and what that costs.
    #[must_use]
    pub(crate) const fn of_deployment(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&DeploymentFacts<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::OfDeployment(compute))
    }

    /// Creates a metric with one number per completed session; whole unless [`Metric::float`] is
    /// called.
    #[must_use]
    pub(crate) const fn of_session(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Work) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Int, Kind::OfSession(compute))
    }

    /// Creates a metric of all sessions together.
    #[must_use]
    pub(crate) const fn of_sessions(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&SessionCounts) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, Kind::OfSessions(compute))
    }

    /// Sets the short title.
    #[must_use]
    pub(crate) const fn short(mut self, header: &'static str) -> Self {
        self.short_header = header;
        self
    }

    /// Sets the description and the formula.
    #[must_use]
    pub(crate) const fn says(mut self, brief: &'static str, formula: &'static str) -> Self {
        self.brief = brief;
        self.formula = formula;
        self
    }

    /// Sets the display unit.
    #[must_use]
    pub(crate) const fn shown_in(mut self, unit: Unit) -> Self {
        self.display_unit = unit;
        self
    }

    /// Makes the values floating-point numbers.
    #[must_use]
    pub(crate) const fn float(mut self) -> Self {
        self.value_type = ValueType::Float;
        self
    }

    /// Makes the values whole numbers.
    #[must_use]
    pub(crate) const fn int(mut self) -> Self {
        self.value_type = ValueType::Int;
        self
    }

    /// Sets the flags.
    #[must_use]
    pub const fn flagged(mut self, flags: MetricFlags) -> Self {
        self.flags = flags;
        self
    }

    /// Sets the console table and the position in it.
    #[must_use]
    pub(crate) const fn at(mut self, group: ConsoleGroup, order: u32) -> Self {
        self.group = group;
        self.order = Some(order);
        self
    }

    /// Removes the metric from the console.
    #[must_use]
    pub(crate) const fn off_console(mut self) -> Self {
        self.group = ConsoleGroup::None;
        self
    }

    /// Returns how it depends on the duration of the benchmark; `None` if it does not.
    #[must_use]
    pub(crate) fn by_duration(&self) -> Option<ByDuration> {
        match self.unit {
            Unit::PricePerMillionTokens | Unit::PricePerRequest => Some(ByDuration::Cost),
            Unit::TokensPerSecondPerGpu | Unit::RequestsPerSecondPerGpu => Some(ByDuration::Rate),
            _ => self.requires.contains(&tag::BENCHMARK_DURATION).then_some(ByDuration::Rate),
        }
    }

    /// Sets the tags of the metrics that it depends on.
    #[must_use]
    pub(crate) const fn requires(mut self, tags: &'static [MetricTag]) -> Self {
        self.requires = tags;
        self
    }

    /// Returns whether its values may be negative.
    #[must_use]
    pub(crate) fn is_signed(&self) -> bool {
        [
            tag::OSL_MISMATCH_DIFF_PCT,
            tag::SERVER_UNATTRIBUTED_TIME,
            tag::SERVER_UNATTRIBUTED_TIME_TO_FIRST_TOKEN,
        ]
        .contains(&self.tag)
    }

    /// Returns whether records of `failed`, or of successful, requests have it.
    #[must_use]
    pub(crate) const fn is_of(&self, failed: bool) -> bool {
        self.is_counted_of(failed) || (failed && self.flags.contains(MetricFlags::HTTP_TRACE_ONLY))
    }

    /// Returns whether statistics include its values of `failed`, or of successful, requests.
    /// HTTP timing of failed requests is only in their records.
    #[must_use]
    pub(crate) const fn is_counted_of(&self, failed: bool) -> bool {
        self.flags.contains(MetricFlags::ERROR_ONLY) == failed
    }

    /// Returns whether it is visible: internal and experimental metrics only in
    /// `developer_mode`.
    #[must_use]
    pub const fn is_exported(&self, developer_mode: bool) -> bool {
        developer_mode
            || !self.flags.intersects(MetricFlags::INTERNAL.union(MetricFlags::EXPERIMENTAL))
    }

    /// Returns whether the console shows it: exported, in a group, and not only for errors.
    #[must_use]
    pub const fn is_on_console(&self, developer_mode: bool) -> bool {
        self.is_exported(developer_mode)
            && !matches!(self.group, ConsoleGroup::None)
            && !self.flags.intersects(MetricFlags::ERROR_ONLY)
    }

    /// Returns whether its results can have a finite value of `statistic`.
    #[must_use]
    pub(crate) fn has(&self, statistic: Statistic) -> bool {
        match self.kind {
            Kind::Record(_)
            | Kind::RecordList(_)
            | Kind::RoundTrip
            | Kind::LessRoundTrip(_)
            | Kind::OfSession(_) => true,
            Kind::OverTime(..) => ["avg", "min", "max", "std", "p50", "p90", "p95", "p99"]
                .iter()
                .any(|name| statistic == *name),
            Kind::WithFailures(_) => {
                matches!(statistic, Statistic::Percentile(_) | Statistic::Min | Statistic::Count)
            }
            _ => statistic == Statistic::Avg,
        }
    }

    /// Converts `value` from the metric's own unit to its display unit.
    #[must_use]
    pub fn to_display(&self, value: f64) -> f64 {
        self.unit.convert(value, self.display_unit)
    }
}

/// Which instants decide: those of the highest rank that occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Counts only if no request has an instant of its own.
    Substitute,
    /// What the metric is defined by.
    Own,
}

/// How a metric is computed.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One number per request.
    Record(fn(&Facts<'_>, &RecordValues) -> Option<f64>),
    /// A list of numbers per request.
    RecordList(fn(&Facts<'_>) -> Option<Vec<f64>>),
    /// The number of requests that satisfy a condition; each of those has the value 1.
    Count(fn(&RecordValues, &Settings) -> bool),
    /// The number of requests for which a condition is true; requests to which it does not apply
    /// do not have an answer, and without any answer the metric is absent.
    Tally(fn(&Observation, &Settings) -> Option<bool>),
    /// The earliest instant, in wall clock nanoseconds.
    Earliest(fn(&Observation) -> Option<u64>),
    /// The latest of the instants of the highest rank, in wall clock nanoseconds.
    Latest(fn(&Observation) -> (Rank, u64)),
    /// The sum of a record metric over all requests that have it.
    SumOf(MetricTag),
    /// The percentile (0 to 100) of all values of a record metric, in the row's own unit.
    PercentileOf(MetricTag, f64),
    /// The share in percent that the sum of the first record metric is of that of the second one, with
    /// the first sum as its `sum` and the second one as its `count`.
    ShareOf(MetricTag, MetricTag),
    /// Statistics of a curve, each value weighted by its duration.
    OverTime(Curve, Span),
    /// The distribution of a record metric with an infinite value for each failed request;
    /// absent if none failed.
    WithFailures(MetricTag),
    /// The round-trip time of the network, in nanoseconds: one number, so that all statistics are
    /// the same.
    RoundTrip,
    /// The values of a record metric less the round-trip time of the network, at least 0.
    LessRoundTrip(MetricTag),
    /// Computed from other results.
    Derived(fn(&dyn Totals) -> Option<f64>),
    /// One number per completed session, computed after the run.
    OfSession(fn(&Work) -> Option<f64>),
    /// Computed after the run from the numbers of sessions.
    OfSessions(fn(&SessionCounts) -> Option<f64>),
    /// Computed after the run from the energy of one vendor's GPUs and other results.
    OfGpus(Vendor, fn(&GpuFacts<'_>) -> Option<f64>),
    /// Computed after the run from what serves the model, its cost and other results.
    OfDeployment(fn(&DeploymentFacts<'_>) -> Option<f64>),
}

impl Kind {
    /// Returns `record`, `aggregate` or `derived`.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Record(_) | Self::RecordList(_) => "record",
            Self::Count(_) | Self::Tally(_) | Self::Earliest(_) | Self::Latest(_) => "aggregate",
            Self::SumOf(_)
            | Self::PercentileOf(..)
            | Self::ShareOf(..)
            | Self::OverTime(..)
            | Self::WithFailures(_)
            | Self::RoundTrip
            | Self::LessRoundTrip(_)
            | Self::Derived(_)
            | Self::OfSession(_)
            | Self::OfSessions(_)
            | Self::OfGpus(..)
            | Self::OfDeployment(_) => "derived",
        }
    }
}

/// The results that derived metrics are computed from.
pub trait Totals {
    /// Returns the aggregate or derived result of `tag`, in its own unit.
    fn total(&self, tag: MetricTag) -> Option<f64>;

    /// Returns the time that rates are relative to: `benchmark_duration`, or the length of a
    /// slice.
    fn duration(&self) -> Option<Nanos>;

    /// Returns the instant of `tag` in wall clock nanoseconds, which an f64 cannot represent
    /// exactly.
    fn instant(&self, tag: MetricTag) -> Option<u64>;
}

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
    pub(crate) fn of(self, tag: MetricTag) -> MetricTag {
        let pair = Self::PAIRS.iter().find(|(sent, _)| *sent == tag);
        pair.filter(|_| self == Self::Due).map_or(tag, |(_, due)| *due)
    }

    /// Returns the latency from when requests were sent that `tag` is the same as from when they were
    /// due.
    #[must_use]
    pub(crate) fn sent(tag: MetricTag) -> Option<MetricTag> {
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
    /// How errors say that a request exceeds the context of the model
    /// (`AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS`).
    pub context_overflow: ContextOverflow,
    /// Whether such requests are only counted, and left out of all other metrics.
    pub skips_context_overflows: bool,
    /// Whether internal and experimental metrics are shown.
    pub developer_mode: bool,
}

impl Settings {
    /// Returns whether a request is only counted, and left out of all other metrics.
    pub(crate) fn leaves_out(&self, observation: &Observation) -> bool {
        let error = observation.error.as_ref().filter(|_| self.skips_context_overflows);
        error.is_some_and(|error| self.context_overflow.is_it(error))
    }

    /// Adds percentiles that are computed besides those of every distribution.
    pub(crate) fn add_percentiles(&mut self, percents: impl IntoIterator<Item = Percent>) {
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

/// The type of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Whole numbers.
    Int,
    /// Floating-point numbers.
    Float,
    /// A list of whole numbers per request.
    IntList,
}
