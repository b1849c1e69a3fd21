//! What the endpoints said, summed up: the content of the exports.

mod build;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::conservation::Comparison;
use super::snapshot::Kind;
use super::store::{Labels, Store};

pub(super) use build::median_update_interval_ns;
pub use build::{build, endpoint_info, keys};

/// The server's side of a run, as files and console need it.
#[derive(Debug, Clone, Default)]
pub struct ServerMetrics {
    /// The statistics.
    pub report: ServerMetricsReport,
    /// The series behind them.
    pub store: Arc<Store>,
    /// The server's counts beside the client's.
    pub conservation: Vec<Comparison>,
}

/// The statistics of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerMetricsReport {
    /// Endpoints and times.
    pub summary: Summary,
    /// Of the profiling phase, sorted by name. A name that endpoints use for different
    /// kinds has a metric for each; [`keys`] gives each a name of its own.
    pub metrics: Vec<MetricReport>,
    /// Of the warmup, sorted by name; empty without one.
    pub warmup_metrics: Vec<MetricReport>,
}

/// Endpoints and times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// URLs that were to be scraped, in the order configured.
    pub endpoints_configured: Vec<Arc<str>>,
    /// Those that gave metrics, by the URL that was scraped: another one where
    /// `/prometheus/metrics` had them.
    pub endpoints_successful: Vec<Arc<str>>,
    /// What is known of each that gave metrics, in the same order.
    pub endpoint_info: Vec<(Arc<str>, EndpointInfo)>,
    /// The phases, which are what statistics are of.
    pub windows: Windows,
}

/// The time that statistics are of: wall time, both ends included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The phase began.
    pub start_ns: u64,
    /// The phase ended: the time of its final scrape.
    pub end_ns: u64,
}

/// The phases of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// Absent without a warmup.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub warmup: Option<Window>,
    /// Absent where the run ended before it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profiling: Option<Window>,
}

/// How an endpoint was scraped, over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointInfo {
    /// Fetches that succeeded.
    pub total_fetches: u64,
    /// Time of the first.
    pub first_fetch_ns: u64,
    /// Time of the last.
    pub last_fetch_ns: u64,
    /// Mean time from request to the end of the answer, in milliseconds.
    pub avg_fetch_latency_ms: f64,
    /// Fetches that said something new.
    pub unique_updates: u64,
    /// Time of the first of them.
    pub first_update_ns: u64,
    /// Time of the last of them.
    pub last_update_ns: u64,
    /// From the first to the last of them, in seconds.
    pub duration_seconds: f64,
    /// Mean time between them, in milliseconds; 0 where there is but one.
    pub avg_update_interval_ms: f64,
    /// Median time between them, in milliseconds; `None` below two intervals.
    pub median_update_interval_ms: Option<f64>,
    /// Fetches that failed.
    pub failed_fetches: u64,
}

/// One metric, over all endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricReport {
    /// Its name in files.
    pub name: Arc<str>,
    /// What its series are.
    pub kind: Kind,
    /// `# HELP`; empty without one.
    pub description: Arc<str>,
    /// Its unit, where one is declared or can be inferred.
    pub unit: Option<Arc<str>>,
    /// Its series, sorted by endpoint and labels.
    pub series: Vec<SeriesReport>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesReport {
    /// The endpoint that exposes it.
    pub endpoint_url: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its statistics.
    pub stats: Stats,
}

/// The statistics of a series, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Stats {
    /// Of a gauge, an info or an unknown.
    Gauge(GaugeStats),
    /// Of a counter.
    Counter(CounterStats),
    /// Of a histogram.
    Histogram(HistogramStats),
    /// Of a summary.
    Summary(SummaryStats),
}

/// The values p1 to p99 that are exported, in order.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// Of samples: each counts the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GaugeStats {
    /// Mean.
    pub avg: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Sample standard deviation (ddof 1); 0 for a single sample.
    pub std: f64,
    /// At each of [`PERCENTILES`], numpy's linear method.
    pub percentiles: [f64; 9],
    /// With `--slice-duration`.
    pub timeslices: Vec<Timeslice<GaugeSlice>>,
}

/// Of the change of a cumulative number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CounterStats {
    /// Last less reference; 0 where that is negative.
    pub total: f64,
    /// `total` per second from the reference to the last sample; 0 where no time passed.
    pub rate: f64,
    /// Of the rates of complete slices; with `--slice-duration`.
    pub slice_rates: Option<RateSpread>,
    /// Of the rates between the samples where the value changed, the mean weighted by
    /// time; `None` where it did not rise.
    pub point_rates: Option<RateSpread>,
    /// Where it fell: the server began anew.
    pub resets: Option<Resets>,
    /// With `--slice-duration`.
    pub timeslices: Vec<Timeslice<CounterSlice>>,
}

/// How a rate varied, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateSpread {
    /// Mean.
    pub avg: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Sample standard deviation (ddof 1); 0 for a single rate.
    pub std: f64,
}

/// A cumulative number that fell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Resets {
    /// How often.
    pub reset_count: u64,
    /// The change when each fall is taken as a start from zero.
    pub total_with_resets: f64,
}

/// Of the observations that a histogram counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramStats {
    /// Number of the observations; whole.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Observations per second.
    pub count_rate: f64,
    /// Sum per second.
    pub sum_rate: f64,
    /// At each of [`PERCENTILES`]; `None` where nothing can be estimated.
    pub percentiles: Option<[f64; 9]>,
    /// Upper bound as sent and the observations up to it; `None` after a reset.
    pub buckets: Option<Buckets>,
    /// Where its count fell: the server began anew.
    pub resets: Option<Resets>,
    /// With `--slice-duration`.
    pub timeslices: Vec<Timeslice<HistogramSlice>>,
}

/// Upper bounds as sent, ascending, and the observations up to each.
pub type Buckets = Vec<(Arc<str>, f64)>;

/// Of a summary: quantiles as last sent, over the server's whole life.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SummaryStats {
    /// Quantile as sent and its value, ascending.
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

/// A part of the phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timeslice<T> {
    /// Its start.
    pub start_ns: u64,
    /// Its end, which belongs to the next one.
    pub end_ns: u64,
    /// It is as long as the others.
    pub is_complete: bool,
    /// Its statistics.
    pub stats: T,
}

/// A gauge's statistics in a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GaugeSlice {
    /// Mean.
    pub avg: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
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
    /// Number of the observations.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Their mean; 0 without any.
    pub avg: f64,
    /// Upper bound as sent and the observations up to it.
    pub buckets: Buckets,
}
