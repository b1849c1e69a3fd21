//! `server_metrics_export.json`: the statistics, in a separate object of each series.
//!
//! The types define the file completely. They can be deserialized, too, to compare them with
//! examples from elsewhere.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use base::redact::ShownUrl;
use client::server_family::SeriesKind;
use measure::server_metrics::report::{
    self, MetricReport, PERCENTILES, SeriesReport, ServerMetricsReport, Stats as Statistics,
    Timeslice, Windows,
};

use super::members::{Each, Metric, exported_kind, finite, members, whole};
use crate::artifacts::local_time::local_time;
use crate::artifacts::pairs::Pairs;
use crate::artifacts::whole::pretty;
use crate::run::RunDescription;

/// Version of the file layout.
const SCHEMA_VERSION: &str = "1.1";

/// Writes the file, indented by two spaces.
pub(super) fn write(
    out: &mut dyn Write,
    run: &RunDescription,
    report: &ServerMetricsReport,
) -> io::Result<()> {
    let warmup = (!report.warmup_metrics.is_empty()).then_some(Metrics(&report.warmup_metrics));
    let export = Export {
        schema_version: SCHEMA_VERSION.to_owned(),
        aiperf_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        benchmark_id: Some(run.benchmark_id.to_string()),
        summary: Summary::from_summary(&report.summary),
        metrics_phase: Some("profiling".to_owned()),
        metrics: Metrics(&report.metrics),
        warmup_metrics: warmup,
        phases: (!report.phases.is_empty()).then(|| {
            let names = run.setup.phases.iter().map(|phase| phase.name().to_owned());
            let phase = |(name, metrics)| PhaseExport { name, metrics: Metrics(metrics) };
            names.zip(report.phases.iter().map(Vec::as_slice)).map(phase).collect()
        }),
        input_config: run.input_config.clone(),
    };
    pretty(out, &export)
}

/// The file; `M` is its metrics by name.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::artifacts) struct Export<M> {
    schema_version: String,
    aiperf_version: Option<String>,
    benchmark_id: Option<String>,
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics_phase: Option<String>,
    metrics: M,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup_metrics: Option<M>,
    /// The metrics of each phase, in order, if several are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Vec<PhaseExport<M>>>,
    input_config: Value,
}

/// A phase of a run that measures several.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct PhaseExport<M> {
    /// Its name.
    name: String,
    /// Its metrics by name.
    metrics: M,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Summary {
    endpoints_configured: Vec<ShownUrl>,
    endpoints_successful: Vec<ShownUrl>,
    #[serde(flatten)]
    times: Times,
    endpoint_info: Pairs<EndpointInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_time_ranges: Option<PhaseTimeRanges>,
}

/// Start and end of the time that the statistics cover, in local time. Absent if the run ended
/// before any phase.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Times {
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
}

impl Times {
    pub(super) fn from_windows(windows: Windows) -> Self {
        windows.profiling.or(windows.warmup).map_or_else(Self::default, |window| Self {
            start_time: Some(local_time(window.start_ns)),
            end_time: Some(local_time(window.end_ns)),
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct EndpointInfo {
    total_fetches: u64,
    first_fetch_ns: u64,
    last_fetch_ns: u64,
    avg_fetch_latency_ms: f64,
    unique_updates: u64,
    first_update_ns: u64,
    last_update_ns: u64,
    duration_seconds: f64,
    avg_update_interval_ms: f64,
    median_update_interval_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_fetches: Option<u64>,
    /// Time of the reference scrape, which totals of the profiling phase are compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_ns: Option<u64>,
    /// Time of the phase's final scrape.
    #[serde(skip_serializing_if = "Option::is_none")]
    final_ns: Option<u64>,
}

members! { PhaseTimeRanges { profiling: TimeRange, warmup: TimeRange } }

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct TimeRange {
    start_ns: u64,
    end_ns: u64,
}

impl Summary {
    fn from_summary(summary: &report::Summary) -> Self {
        let range =
            |window: report::Window| TimeRange { start_ns: window.start_ns, end_ns: window.end_ns };
        let info = summary.endpoint_info.iter();
        Self {
            endpoints_configured: summary.endpoints_configured.clone(),
            endpoints_successful: summary.endpoints_successful.clone(),
            times: Times::from_windows(summary.windows),
            endpoint_info: info
                .map(|(url, info)| (Arc::clone(url.text()), EndpointInfo::from_info(info)))
                .collect(),
            phase_time_ranges: Some(PhaseTimeRanges {
                profiling: summary.windows.profiling.map(range),
                warmup: summary.windows.warmup.map(range),
            }),
        }
    }
}

impl EndpointInfo {
    fn from_info(info: &report::EndpointInfo) -> Self {
        Self {
            total_fetches: info.total_fetches,
            first_fetch_ns: info.first_fetch_ns,
            last_fetch_ns: info.last_fetch_ns,
            avg_fetch_latency_ms: info.avg_fetch_latency_ms,
            unique_updates: info.unique_updates,
            first_update_ns: info.first_update_ns,
            last_update_ns: info.last_update_ns,
            duration_seconds: info.duration_seconds,
            avg_update_interval_ms: info.avg_update_interval_ms,
            median_update_interval_ms: info.median_update_interval_ms,
            failed_fetches: Some(info.failed_fetches).filter(|failed| *failed > 0),
            reference_ns: info.profiling.and_then(|edges| edges.reference_ns),
            final_ns: info.profiling.and_then(|edges| edges.final_ns),
        }
    }
}

/// Metrics by name. Summaries are left out, since their quantiles cover the server's whole
/// lifetime.
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::artifacts) struct Metrics<'a>(
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Metric<Vec<Series>>>"))]
    &'a [MetricReport],
);

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = report::keys(self.0).into_iter().zip(self.0);
        let shown = named.filter(|(_, metric)| metric.kind != SeriesKind::Summary);
        serializer.collect_map(shown.map(|(name, metric)| {
            let metric = Metric {
                kind: exported_kind(metric.kind),
                description: Arc::clone(&metric.description),
                unit: metric.unit.clone(),
                series: Each(&metric.series, Series::from_report),
            };
            (name, metric)
        }))
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Series {
    endpoint_url: ShownUrl,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Pairs<Arc<str>>>,
    stats: Stats,
    /// Reasons to doubt totals and rates.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    flags: Vec<Cow<'static, str>>,
    /// How much a total may be off because of requests after the phase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    late_increase: Option<f64>,
    #[serde(skip_serializing_if = "BucketsMember::is_absent", default)]
    buckets: BucketsMember,
    /// The lowest and the highest value that each estimate may have by the buckets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    estimate_bounds: Option<Pairs<EstimateBounds>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    timeslices: Vec<Slice>,
}

/// The number of observations up to each bound.
type Buckets = Pairs<u64>;

/// The buckets of a series.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum BucketsMember {
    /// After a reset.
    Null,
    Counted(Buckets),
    /// The series is not a histogram.
    #[default]
    #[serde(skip)]
    Absent,
}

impl BucketsMember {
    fn from_statistics(stats: &Statistics) -> Self {
        match stats {
            Statistics::Histogram(histogram) => {
                histogram.buckets.as_ref().map_or(Self::Null, |all| Self::Counted(buckets(all)))
            }
            _ => Self::Absent,
        }
    }

    const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Stats {
    Gauge(GaugeStats),
    Counter(CounterStats),
    Histogram(HistogramStats),
}

members! {
    GaugeStats {
        avg: f64, min: f64, max: f64, std: f64,
        p1: f64, p5: f64, p10: f64, p25: f64, p50: f64, p75: f64, p90: f64, p95: f64, p99: f64,
    }
}

members! {
    CounterStats {
        total: f64, rate: f64, rate_avg: f64, rate_min: f64, rate_max: f64, rate_std: f64,
        reset_count: u64, total_with_resets: f64,
    }
}

members! {
    HistogramStats {
        count: u64, sum: f64, avg: f64, count_rate: f64, sum_rate: f64,
        p1_estimate: f64, p5_estimate: f64, p10_estimate: f64, p25_estimate: f64,
        p50_estimate: f64, p75_estimate: f64, p90_estimate: f64, p95_estimate: f64,
        p99_estimate: f64, reset_count: u64, total_with_resets: f64,
    }
}

members! {
    EstimateBounds { min: f64, max: f64 }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Slice {
    Gauge(GaugeSlice),
    Counter(CounterSlice),
    Histogram(HistogramSlice),
}

members! {
    GaugeSlice { start_ns: u64, end_ns: u64, is_complete: bool, avg: f64, min: f64, max: f64 }
}

members! {
    CounterSlice { start_ns: u64, end_ns: u64, is_complete: bool, total: f64, rate: f64 }
}

members! {
    HistogramSlice {
        start_ns: u64, end_ns: u64, is_complete: bool,
        count: u64, sum: f64, avg: f64, buckets: Buckets,
    }
}

impl Series {
    fn from_report(series: &SeriesReport) -> Self {
        let (stats, timeslices) = match &series.stats {
            Statistics::Gauge(gauge) => (
                Stats::Gauge(GaugeStats::from_stats(gauge)),
                gauge.timeslices.iter().map(GaugeSlice::from_timeslice).map(Slice::Gauge).collect(),
            ),
            Statistics::Counter(counter) => (
                Stats::Counter(CounterStats::from_stats(counter)),
                counter
                    .timeslices
                    .iter()
                    .map(CounterSlice::from_timeslice)
                    .map(Slice::Counter)
                    .collect(),
            ),
            Statistics::Histogram(histogram) => (
                Stats::Histogram(HistogramStats::from_stats(histogram)),
                slices(histogram)
                    .iter()
                    .map(HistogramSlice::from_timeslice)
                    .map(Slice::Histogram)
                    .collect(),
            ),
            // Their metrics are left out.
            Statistics::Summary(_) => (Stats::Gauge(GaugeStats::default()), Vec::new()),
        };
        Self {
            endpoint_url: series.endpoint_url.clone(),
            labels: series.labels.iter().cloned().collect::<Pairs<_>>().unless_empty(),
            stats,
            flags: series.stats.flags().into_iter().map(Cow::Borrowed).collect(),
            late_increase: series.stats.late_increase(),
            buckets: BucketsMember::from_statistics(&series.stats),
            estimate_bounds: estimate_bounds(&series.stats),
            timeslices,
        }
    }
}

/// Returns the bounds of the estimated percentiles that a histogram has.
fn estimate_bounds(stats: &Statistics) -> Option<Pairs<EstimateBounds>> {
    let Statistics::Histogram(histogram) = stats else { return None };
    let bounds = histogram.percentile_bounds().filter(|_| histogram.percentiles.is_some())?;
    let named = PERCENTILES.iter().zip(bounds).map(|(percent, (min, max))| {
        let bounds = EstimateBounds { min: finite(min), max: max.and_then(finite) };
        (format!("p{percent}").into(), bounds)
    });
    Some(named.collect())
}

/// Returns the slices of a histogram; none without observations.
fn slices(histogram: &report::HistogramStats) -> &[report::Timeslice<report::HistogramSlice>] {
    if histogram.count > 0.0 || histogram.resets.is_some() { &histogram.timeslices } else { &[] }
}

/// Returns buckets with integer counts.
pub(super) fn buckets(buckets: &report::Buckets) -> Buckets {
    buckets.iter().map(|(bound, count)| (Arc::clone(bound), whole(*count))).collect()
}

impl GaugeStats {
    fn from_stats(stats: &report::GaugeStats) -> Self {
        let [p1, p5, p10, p25, p50, p75, p90, p95, p99] = stats.percentiles.map(finite);
        let [avg, min, max, std] = [stats.avg, stats.min, stats.max, stats.std].map(finite);
        Self { avg, min, max, std, p1, p5, p10, p25, p50, p75, p90, p95, p99 }
    }
}

impl CounterStats {
    fn from_stats(stats: &report::CounterStats) -> Self {
        let rates = stats.slice_rates;
        Self {
            total: finite(stats.total),
            rate: finite(stats.rate),
            rate_avg: rates.and_then(|rates| finite(rates.avg)),
            rate_min: rates.and_then(|rates| finite(rates.min)),
            rate_max: rates.and_then(|rates| finite(rates.max)),
            rate_std: rates.and_then(|rates| finite(rates.std)),
            reset_count: stats.resets.map(|resets| resets.reset_count),
            total_with_resets: stats.resets.and_then(|resets| finite(resets.total_with_resets)),
        }
    }
}

impl HistogramStats {
    /// Returns the statistics; without observations, only that there were none.
    fn from_stats(stats: &report::HistogramStats) -> Self {
        let counted = Self {
            count: Some(whole(stats.count)),
            reset_count: stats.resets.map(|resets| resets.reset_count),
            total_with_resets: stats.resets.and_then(|resets| finite(resets.total_with_resets)),
            ..Self::default()
        };
        if stats.count <= 0.0 {
            return counted;
        }
        let estimates = stats.percentiles.map_or([None; 9], |values| values.map(finite));
        let [p1, p5, p10, p25, p50, p75, p90, p95, p99] = estimates;
        Self {
            sum: finite(stats.sum),
            avg: finite(stats.sum / stats.count),
            count_rate: finite(stats.count_rate),
            sum_rate: finite(stats.sum_rate),
            p1_estimate: p1,
            p5_estimate: p5,
            p10_estimate: p10,
            p25_estimate: p25,
            p50_estimate: p50,
            p75_estimate: p75,
            p90_estimate: p90,
            p95_estimate: p95,
            p99_estimate: p99,
            ..counted
        }
    }
}

/// Returns the member that only slices of less than the full length have.
fn unless_complete<T>(slice: &Timeslice<T>) -> Option<bool> {
    (!slice.is_complete).then_some(false)
}

impl GaugeSlice {
    fn from_timeslice(slice: &Timeslice<report::GaugeSlice>) -> Self {
        Self {
            start_ns: Some(slice.start_ns),
            end_ns: Some(slice.end_ns),
            is_complete: unless_complete(slice),
            avg: finite(slice.stats.avg),
            min: finite(slice.stats.min),
            max: finite(slice.stats.max),
        }
    }
}

impl CounterSlice {
    fn from_timeslice(slice: &Timeslice<report::CounterSlice>) -> Self {
        Self {
            start_ns: Some(slice.start_ns),
            end_ns: Some(slice.end_ns),
            is_complete: unless_complete(slice),
            total: finite(slice.stats.total),
            rate: finite(slice.stats.rate),
        }
    }
}

impl HistogramSlice {
    fn from_timeslice(slice: &Timeslice<report::HistogramSlice>) -> Self {
        Self {
            start_ns: Some(slice.start_ns),
            end_ns: Some(slice.end_ns),
            is_complete: unless_complete(slice),
            count: Some(whole(slice.stats.count)),
            sum: finite(slice.stats.sum),
            avg: finite(slice.stats.avg),
            buckets: Some(buckets(&slice.stats.buckets)),
        }
    }
}

#[cfg(test)]
mod tests;
