//! What a row of the catalogue says, and the values it produces.

mod flags;
mod stats;
mod values;

use std::collections::HashMap;

use super::timeline::{Curve, Span};
use crate::units::{Nanos, Unit};

pub use flags::{ConsoleGroup, MetricFlags};
pub use stats::{Distribution, MetricResult, Stats};
pub use values::{Facts, MeasuredRecord, Observation, RecordValues, Value};

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
