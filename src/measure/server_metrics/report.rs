//! Statistics of server metrics: the content of the files.

mod build;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::redact::ShownUrl;
use client::schedule::PhaseKind;
use client::server_family::SeriesKind;

use super::conservation::Comparison;
use super::store::{Labels, Store};
use crate::metrics::breakdown::PhaseTimes;

pub use build::{build, keys};
pub(super) use build::{median_interval_ns, median_update_interval_ns, update_times};

/// The server metrics of a run, as files and console need them.
#[derive(Debug, Clone, Default)]
pub struct ServerMetrics {
    /// The statistics.
    pub report: ServerMetricsReport,
    /// The series from which they were computed.
    pub store: Arc<Store>,
    /// The comparison of the server's counts with the client's.
    pub conservation: Vec<Comparison>,
}

impl ServerMetrics {
    /// Adds the statistics of each phase, if several are measured: `phases` has all of them in order, and
    /// is empty otherwise.
    pub fn add_phases(&mut self, phases: &[PhaseTimes]) {
        self.report.phases = build::of_phases(&self.store, phases);
    }
}

/// The statistics of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerMetricsReport {
    /// Endpoints and times.
    pub summary: Summary,
    /// Metrics of the profiling phase, sorted by name. If endpoints use a name for different kinds,
    /// there is a metric for each; [`keys`] returns a unique name for each.
    pub metrics: Vec<MetricReport>,
    /// Metrics of the warmup, sorted by name; empty without a warmup.
    pub warmup_metrics: Vec<MetricReport>,
    /// Those of each phase of the run, in order, if several are measured.
    pub phases: Vec<Vec<MetricReport>>,
}

/// Endpoints and times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// The configured URLs, in order.
    pub endpoints_configured: Vec<ShownUrl>,
    /// The endpoints that exposed metrics, by the URL that was scraped, which differs from the
    /// configured one if `/prometheus/metrics` was used instead.
    pub endpoints_successful: Vec<ShownUrl>,
    /// Information about each endpoint that exposed metrics, in the same order.
    pub endpoint_info: Vec<(ShownUrl, EndpointInfo)>,
    /// The phases that statistics cover.
    pub windows: Windows,
}

/// The wall time of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its start.
    pub start_ns: u64,
    /// Its end, after its last request was completed.
    pub end_ns: u64,
}

/// The phases of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// Absent without a warmup.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub warmup: Option<Window>,
    /// Absent if the run ended before it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profiling: Option<Window>,
}

/// The wall time of a phase, and those of the phases before and after it.
#[derive(Debug, Clone, Copy)]
pub struct PhaseWindow {
    pub before: Option<Window>,
    pub own: Window,
    pub after: Option<Window>,
}

impl Windows {
    /// Returns the window of the phases of this kind together; `None` if there are none.
    #[must_use]
    pub fn around(&self, kind: PhaseKind) -> Option<PhaseWindow> {
        let own = self.for_kind(kind)?;
        Some(match kind {
            PhaseKind::Warmup => PhaseWindow { before: None, own, after: self.profiling },
            PhaseKind::Profiling => PhaseWindow { before: self.warmup, own, after: None },
        })
    }

    #[must_use]
    pub const fn for_kind(&self, kind: PhaseKind) -> Option<Window> {
        match kind {
            PhaseKind::Warmup => self.warmup,
            PhaseKind::Profiling => self.profiling,
        }
    }
}

/// Scrapes of an endpoint over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointInfo {
    /// Number of successful scrapes.
    pub total_fetches: u64,
    /// Time of the first.
    pub first_fetch_ns: u64,
    /// Time of the last.
    pub last_fetch_ns: u64,
    /// Mean time from the request to the end of the response, in milliseconds.
    pub avg_fetch_latency_ms: f64,
    /// Number of scrapes with new values.
    pub unique_updates: u64,
    /// Time of the first of them.
    pub first_update_ns: u64,
    /// Time of the last of them.
    pub last_update_ns: u64,
    /// From the first to the last of them, in seconds.
    pub duration_seconds: f64,
    /// Mean time between them, in milliseconds; 0 if there is only one.
    pub avg_update_interval_ms: f64,
    /// Median time between them, in milliseconds; `None` with fewer than two intervals.
    pub median_update_interval_ms: Option<f64>,
    /// Number of failed scrapes.
    pub failed_fetches: u64,
    /// The scrapes that delimit the statistics of the profiling phase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profiling: Option<Edges>,
}

/// The scrapes that delimit a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edges {
    /// Time of the reference scrape, which cumulative values are compared with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reference_ns: Option<u64>,
    /// Time of the final scrape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub final_ns: Option<u64>,
    /// Whether the reference scrape is at the start of the phase.
    pub has_exact_start: bool,
    /// Whether the final scrape is at the end of the phase.
    pub has_exact_end: bool,
}

/// One metric, over all endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricReport {
    /// Its name in files.
    pub name: Arc<str>,
    /// The kind of its series.
    pub kind: SeriesKind,
    /// `# HELP`; empty without one.
    pub description: Arc<str>,
    /// Its unit, if it is declared or can be inferred.
    pub unit: Option<Arc<str>>,
    /// Its series, sorted by endpoint and labels.
    pub series: Vec<SeriesReport>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesReport {
    /// The endpoint that exposes it.
    pub endpoint_url: ShownUrl,
    /// Its labels.
    pub labels: Labels,
    /// Its statistics.
    pub stats: Stats,
}

/// The statistics of a series, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Stats {
    /// Statistics of a gauge, info or unknown metric.
    Gauge(GaugeStats),
    /// Statistics of a counter.
    Counter(CounterStats),
    /// Statistics of a histogram.
    Histogram(HistogramStats),
    /// Statistics of a summary.
    Summary(SummaryStats),
}

/// The percentiles p1 to p99 that are exported, in order.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// Statistics of samples, each with the same weight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GaugeStats {
    /// Mean.
    pub avg: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Sample standard deviation (ddof 1); 0 for a single sample.
    pub std: f64,
    /// The values at each of [`PERCENTILES`], by numpy's linear method.
    pub percentiles: [f64; 9],
    /// Statistics of time slices, with `--slice-duration`.
    pub timeslices: Vec<Timeslice<GaugeSlice>>,
}

/// Statistics of the change of a cumulative value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CounterStats {
    /// Last value minus the reference; 0 if that is negative.
    pub total: f64,
    /// `total` per second from the reference to the final scrape; 0 if no time passed.
    pub rate: f64,
    /// Statistics of the rates of complete slices, with `--slice-duration`.
    pub slice_rates: Option<RateSpread>,
    /// Statistics of the rates between samples with changed values, the mean weighted by time;
    /// `None` if the value did not increase.
    pub point_rates: Option<RateSpread>,
    /// Decreases of the value, at which the server restarted.
    pub resets: Option<Resets>,
    /// Other reasons for doubt.
    pub doubts: Doubts,
    /// Statistics of time slices, with `--slice-duration`.
    pub timeslices: Vec<Timeslice<CounterSlice>>,
}

/// Statistics of a rate, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateSpread {
    /// Mean.
    pub avg: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Sample standard deviation (ddof 1); 0 for a single rate.
    pub std: f64,
}

/// The decreases of a cumulative value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Resets {
    /// Their number.
    pub reset_count: u64,
    /// The change if each decrease is treated as a restart from zero.
    pub total_with_resets: f64,
}

/// Statistics of a histogram's observations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramStats {
    /// Number of observations, a whole number.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Observations per second.
    pub count_rate: f64,
    /// Sum per second.
    pub sum_rate: f64,
    /// The values at each of [`PERCENTILES`]; `None` if they cannot be estimated.
    pub percentiles: Option<[f64; 9]>,
    /// Upper bounds as exposed, with the number of observations up to each; `None` after a reset.
    pub buckets: Option<Buckets>,
    /// A value that no observation exceeds, as far as the client knows.
    pub greatest: Option<f64>,
    /// Decreases of its count, at which the server restarted.
    pub resets: Option<Resets>,
    /// Other reasons for doubt.
    pub doubts: Doubts,
    /// Statistics of time slices, with `--slice-duration`.
    pub timeslices: Vec<Timeslice<HistogramSlice>>,
}

/// Reasons to doubt the total of a cumulative value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Doubts {
    /// There was no reference scrape at the start of the phase.
    pub(crate) has_inexact_start: bool,
    /// There was no final scrape at the end of the phase.
    pub(crate) has_inexact_end: bool,
    /// Its first value is far larger than its later increases, so it may include counts from before
    /// it was exposed. Rates begin at that value.
    pub(crate) has_large_first_value: bool,
    /// By how much it increased after the final scrape, if it is not known to be because of the
    /// client's requests.
    pub late_increase: Option<f64>,
}

/// The statistics other than percentiles that [`Stats::named`] knows.
const STATISTICS: &[&str] =
    &["avg", "min", "max", "std", "total", "rate", "count", "sum", "count_rate", "sum_rate"];

impl Stats {
    /// Returns whether a series of some kind has the statistic `name`.
    #[must_use]
    pub fn has_any(name: &str) -> bool {
        STATISTICS.contains(&name) || percentile(name).is_some()
    }

    /// Returns the statistic `name` as in the files, if the series has it; a percentile of a
    /// histogram also without `_estimate`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<f64> {
        let value = match (self, name) {
            (Self::Gauge(gauge), "avg") => gauge.avg,
            (Self::Gauge(gauge), "min") => gauge.min,
            (Self::Gauge(gauge), "max") => gauge.max,
            (Self::Gauge(gauge), "std") => gauge.std,
            (Self::Gauge(gauge), _) => gauge.percentiles[percentile(name)?],
            (Self::Counter(counter), "total") => counter.total,
            (Self::Counter(counter), "rate") => counter.rate,
            (Self::Histogram(histogram), "count") => histogram.count,
            (Self::Histogram(histogram), "sum") => histogram.sum,
            (Self::Histogram(histogram), "avg") => histogram.sum / histogram.count,
            (Self::Histogram(histogram), "count_rate") => histogram.count_rate,
            (Self::Histogram(histogram), "sum_rate") => histogram.sum_rate,
            (Self::Histogram(histogram), _) => histogram.percentiles?[percentile(name)?],
            (Self::Counter(_) | Self::Summary(_), _) => return None,
        };
        Some(value).filter(|value| value.is_finite())
    }

    /// Returns by how much its value, or the number of its observations, increased after the final
    /// scrape, if it is not known to be because of the client's requests.
    #[must_use]
    pub const fn late_increase(&self) -> Option<f64> {
        match self {
            Self::Counter(CounterStats { doubts, .. })
            | Self::Histogram(HistogramStats { doubts, .. }) => doubts.late_increase,
            Self::Gauge(_) | Self::Summary(_) => None,
        }
    }

    /// Returns the reasons to doubt totals and rates, by their names in files.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let (has_reset, doubts) = match self {
            Self::Counter(CounterStats { resets, doubts, .. })
            | Self::Histogram(HistogramStats { resets, doubts, .. }) => (resets.is_some(), doubts),
            Self::Gauge(_) | Self::Summary(_) => return Vec::new(),
        };
        let all = [
            (has_reset, "reset"),
            (doubts.has_inexact_start, "inexact_start"),
            (doubts.has_inexact_end, "inexact_end"),
            (doubts.has_large_first_value, "large_first_value"),
            (doubts.late_increase.is_some(), "late_increase"),
        ];
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, name)| name).collect()
    }
}

impl HistogramStats {
    /// Returns whether its count is doubtful.
    #[must_use]
    pub(crate) fn is_doubtful(&self) -> bool {
        self.resets.is_some() || self.doubts != Doubts::default()
    }

    /// Limits the percentiles to `most`, unless the buckets have larger observations.
    pub fn limit(&mut self, most: f64) {
        let bounds = self.percentile_bounds();
        let fits = bounds.is_some_and(|all| all.iter().all(|(least, _)| *least <= most));
        if let Some(percentiles) = self.percentiles.as_mut().filter(|_| fits) {
            *percentiles = percentiles.map(|value| value.min(most));
            self.greatest = Some(most);
        }
    }

    /// Returns the lowest and the highest value that each of [`PERCENTILES`] may have by the buckets;
    /// the highest is absent above the last bound. `None` without buckets or observations.
    ///
    /// The percentile is interpolated between two observations, and so are the bounds of their buckets.
    #[must_use]
    pub fn percentile_bounds(&self) -> Option<[(f64, Option<f64>); 9]> {
        let buckets = self.buckets.as_ref().filter(|_| self.count >= 1.0)?;
        let uppers: Vec<f64> =
            buckets.iter().map(|(name, _)| name.parse().unwrap_or(f64::INFINITY)).collect();
        let first = uppers.first()?.min(0.0);
        // The bounds of the bucket with the observation of this rank, from 0.
        let of_rank = |rank: f64| {
            let at = buckets.iter().position(|(_, count)| *count > rank)?;
            let low = at.checked_sub(1).map_or(first, |before| uppers[before]);
            Some((low, self.greatest.map_or(uppers[at], |most| uppers[at].min(most))))
        };
        let mut all = [(0.0, None); 9];
        for (bounds, percent) in all.iter_mut().zip(PERCENTILES) {
            let place = f64::from(percent) / 100.0 * (self.count - 1.0);
            let ((low, high), (next_low, next_high)) =
                (of_rank(place.floor())?, of_rank(place.ceil())?);
            let share = place.fract();
            let between = |from: f64, to: f64| share.mul_add(to - from, from);
            let high = if next_high.is_infinite() { next_high } else { between(high, next_high) };
            *bounds = (between(low, next_low), Some(high).filter(|high| high.is_finite()));
        }
        Some(all)
    }
}

/// Returns the index in [`PERCENTILES`] of a name such as `p99` or `p99_estimate`.
fn percentile(name: &str) -> Option<usize> {
    let name = name.strip_suffix("_estimate").unwrap_or(name);
    let percent: u8 = name.strip_prefix('p')?.parse().ok()?;
    PERCENTILES.iter().position(|known| *known == percent)
}

/// Upper bounds as exposed, ascending, with the number of observations up to each.
pub type Buckets = Vec<(Arc<str>, f64)>;

/// Statistics of a summary, with the latest quantiles, which cover the server's whole lifetime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SummaryStats {
    /// Quantiles as exposed, ascending, with their values.
    pub quantiles: BTreeMap<Arc<str>, f64>,
    /// Number of observations in the phase.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Observations per second.
    pub count_rate: f64,
    /// Sum per second.
    pub sum_rate: f64,
}

/// A time slice of the phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timeslice<T> {
    /// Its start.
    pub start_ns: u64,
    /// Its end (exclusive).
    pub end_ns: u64,
    /// Whether it has the full length.
    pub is_complete: bool,
    /// Its statistics.
    pub stats: T,
}

/// A gauge's statistics in a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GaugeSlice {
    /// Mean.
    pub avg: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

/// A counter's statistics in a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CounterSlice {
    /// Its change.
    pub total: f64,
    /// Its change per second.
    pub rate: f64,
}

/// A histogram's statistics in a slice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramSlice {
    /// Number of observations.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Their mean; 0 if there are none.
    pub avg: f64,
    /// Upper bounds as exposed, with the number of observations up to each.
    pub buckets: Buckets,
}
