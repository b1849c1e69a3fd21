//! A row of the metric catalogue.

mod flags;
mod settings;
mod stats;
mod values;

use base::units::{Nanos, Unit};

use super::deployment::DeploymentFacts;
use super::gpu::{GpuFacts, Vendor};
use super::session::{SessionCounts, Work};
use super::tag::{self, MetricTag};
use super::timeline::{Curve, Span};

pub use base::statistics::{Distribution, Percent};
pub use flags::{ConsoleGroup, MetricFlags};
pub use settings::{LatencyFrom, Objective, Settings};
pub use stats::{MetricResult, Statistic, Stats};
pub use values::{Facts, MeasuredRecord, Observation, RecordValues, Value};

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
    /// A description in one sentence.
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
    pub kind: MetricKind,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "`requires` keeps the reference")]
impl Metric {
    const fn new(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        value_type: ValueType,
        kind: MetricKind,
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
        Self::new(tag, header, unit, ValueType::Int, MetricKind::Record(compute))
    }

    /// Creates a record metric with a list of whole numbers per request.
    #[must_use]
    pub(crate) const fn record_list(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Facts<'_>) -> Option<Vec<f64>>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::IntList, MetricKind::RecordList(compute))
    }

    /// Creates an aggregate metric, which folds over requests.
    #[must_use]
    pub const fn aggregate(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        kind: MetricKind,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Int, kind)
    }

    /// Creates a derived metric, computed from other results.
    #[must_use]
    pub const fn derived(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&dyn Totals) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, MetricKind::Derived(compute))
    }

    /// Creates the sum of a record metric, whose tag is the only one in `of`.
    #[must_use]
    pub(crate) const fn sum_of(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(tag, header, unit, ValueType::Int, MetricKind::SumOf(of[0]));
        row.requires = of;
        row
    }

    /// Creates a percentile of a record metric, whose tag is the only one in `of`.
    #[must_use]
    pub const fn percentile_of(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        percent: f64,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row = Self::new(
            tag,
            header,
            unit,
            ValueType::Float,
            MetricKind::PercentileOf(of[0], percent),
        );
        row.requires = of;
        row
    }

    /// Creates the share in percent that the sum of a record metric is of that of another one. Their tags
    /// are those in `of`.
    #[must_use]
    pub const fn share_of(
        tag: MetricTag,
        header: &'static str,
        of: &'static [MetricTag; 2],
    ) -> Self {
        let kind = MetricKind::ShareOf(of[0], of[1]);
        let mut row = Self::new(tag, header, Unit::Percent, ValueType::Float, kind);
        row.requires = of;
        row
    }

    /// Creates a metric with time-weighted statistics of a curve over a phase.
    #[must_use]
    pub const fn over_time(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        curve: Curve,
        span: Span,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, MetricKind::OverTime(curve, span))
    }

    /// Creates a metric with the values of a record metric, whose tag is the only one in `of`,
    /// and an infinite value for each failed request.
    #[must_use]
    pub const fn with_failures(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        of: &'static [MetricTag; 1],
    ) -> Self {
        let mut row =
            Self::new(tag, header, unit, ValueType::Float, MetricKind::WithFailures(of[0]));
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
        let mut row =
            Self::new(tag, header, unit, ValueType::Int, MetricKind::LessRoundTrip(of[0]));
        row.requires = of;
        row
    }

    /// Creates the metric with the round-trip time of the network.
    #[must_use]
    pub const fn round_trip(tag: MetricTag, header: &'static str, unit: Unit) -> Self {
        Self::new(tag, header, unit, ValueType::Float, MetricKind::RoundTrip)
    }

    /// Creates a metric of the GPUs of `vendor`.
    #[must_use]
    pub const fn of_gpus(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        vendor: Vendor,
        compute: fn(&GpuFacts<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, MetricKind::OfGpus(vendor, compute))
    }

    /// Creates a metric of what serves the model and what that costs.
    #[must_use]
    pub(crate) const fn of_deployment(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&DeploymentFacts<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, MetricKind::OfDeployment(compute))
    }

    /// Creates a metric with one number per completed session; whole unless [`Metric::float`] is
    /// called.
    #[must_use]
    pub const fn of_session(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&Work) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Int, MetricKind::OfSession(compute))
    }

    /// Creates a metric of all sessions together.
    #[must_use]
    pub const fn of_sessions(
        tag: MetricTag,
        header: &'static str,
        unit: Unit,
        compute: fn(&SessionCounts) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, ValueType::Float, MetricKind::OfSessions(compute))
    }

    /// Sets the short title.
    #[must_use]
    pub const fn short(mut self, header: &'static str) -> Self {
        self.short_header = header;
        self
    }

    /// Sets the description and the formula.
    #[must_use]
    pub const fn says(mut self, brief: &'static str, formula: &'static str) -> Self {
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
    pub const fn float(mut self) -> Self {
        self.value_type = ValueType::Float;
        self
    }

    /// Makes the values whole numbers.
    #[must_use]
    pub const fn int(mut self) -> Self {
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
    pub const fn at(mut self, group: ConsoleGroup, order: u32) -> Self {
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
    pub const fn requires(mut self, tags: &'static [MetricTag]) -> Self {
        self.requires = tags;
        self
    }

    /// Returns whether its values may be negative.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        [
            tag::OSL_MISMATCH_DIFF_PCT,
            tag::SERVER_UNATTRIBUTED_TIME,
            tag::SERVER_UNATTRIBUTED_TIME_TO_FIRST_TOKEN,
        ]
        .contains(&self.tag)
    }

    /// Returns whether records of `failed`, or of successful, requests have it.
    #[must_use]
    pub const fn is_of(&self, failed: bool) -> bool {
        self.is_counted_of(failed) || (failed && self.flags.contains(MetricFlags::HTTP_TRACE_ONLY))
    }

    /// Returns whether statistics include its values of `failed`, or of successful, requests.
    /// HTTP timing of failed requests is only in their records.
    #[must_use]
    pub const fn is_counted_of(&self, failed: bool) -> bool {
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
    pub fn has(&self, statistic: Statistic) -> bool {
        match self.kind {
            MetricKind::Record(_)
            | MetricKind::RecordList(_)
            | MetricKind::RoundTrip
            | MetricKind::LessRoundTrip(_)
            | MetricKind::OfSession(_) => true,
            MetricKind::OverTime(..) => ["avg", "min", "max", "std", "p50", "p90", "p95", "p99"]
                .iter()
                .any(|name| statistic == *name),
            MetricKind::WithFailures(_) => {
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
pub enum MetricKind {
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

impl MetricKind {
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
