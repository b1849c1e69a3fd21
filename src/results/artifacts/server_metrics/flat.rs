//! `server_metrics_export.json` in its earlier layout: statistics beside the
//! labels, endpoints by host and port.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use base::redact::ShownUrl;
use client::server_family::SeriesKind;
use measure::server_metrics::report::{
    self, CounterStats, GaugeStats, HistogramStats, MetricReport, PERCENTILES, SeriesReport,
    ServerMetricsReport, Stats, SummaryStats,
};
use measure::server_metrics::store::bound;

use super::endpoint_ids::EndpointIds;
use super::json::{Times, buckets};
use super::members::{Each, Metric, exported_kind, finite, members, whole};
use crate::artifacts::pairs::Pairs;
use crate::artifacts::whole::pretty;

/// Writes the file, indented by two spaces.
pub(super) fn write(out: &mut dyn Write, report: &ServerMetricsReport) -> io::Result<()> {
    let ids = EndpointIds::from_urls(&report.summary.endpoints_successful);
    let export = Export {
        summary: Summary::new(&report.summary, &ids),
        metrics: Metrics { metrics: &report.metrics, ids: &ids },
    };
    pretty(out, &export)
}

/// The file; `M` is its metrics by name.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::artifacts) struct Export<M> {
    summary: Summary,
    metrics: M,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    endpoints_configured: Vec<Arc<str>>,
    endpoints_successful: Vec<Arc<str>>,
    #[serde(flatten)]
    times: Times,
    endpoint_info: Pairs<EndpointInfo>,
}

members! {
    EndpointInfo {
        endpoint_url: ShownUrl, duration_seconds: f64, scrape_count: u64,
        avg_scrape_latency_ms: f64, avg_scrape_period_ms: f64, failed_fetches: u64,
    }
}

impl Summary {
    fn new(summary: &report::Summary, ids: &EndpointIds) -> Self {
        let configured = EndpointIds::from_urls(&summary.endpoints_configured);
        let all =
            |urls: &[ShownUrl], ids: &EndpointIds| urls.iter().map(|url| ids.of_url(url)).collect();
        let info = summary.endpoint_info.iter();
        Self {
            endpoints_configured: all(&summary.endpoints_configured, &configured),
            endpoints_successful: all(&summary.endpoints_successful, ids),
            times: Times::from_windows(summary.windows),
            endpoint_info: info
                .map(|(url, info)| (ids.of_url(url), EndpointInfo::new(url, info)))
                .collect(),
        }
    }
}

impl EndpointInfo {
    fn new(url: &ShownUrl, info: &report::EndpointInfo) -> Self {
        let seconds = info.last_fetch_ns.saturating_sub(info.first_fetch_ns) as f64 / 1e9;
        let periods = info.total_fetches.saturating_sub(1);
        Self {
            endpoint_url: Some(url.clone()),
            duration_seconds: Some(seconds),
            scrape_count: Some(info.total_fetches),
            avg_scrape_latency_ms: finite(info.avg_fetch_latency_ms),
            avg_scrape_period_ms: (periods > 0).then(|| seconds * 1e3 / periods as f64),
            failed_fetches: Some(info.failed_fetches).filter(|failed| *failed > 0),
        }
    }
}

/// Metrics by name, including summaries.
pub(in crate::artifacts) struct Metrics<'a> {
    metrics: &'a [MetricReport],
    ids: &'a EndpointIds,
}

#[cfg(test)]
impl schemars::JsonSchema for Metrics<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Metrics".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        std::collections::BTreeMap::<String, Metric<Vec<Series>>>::json_schema(generator)
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = report::keys(self.metrics).into_iter().zip(self.metrics);
        serializer.collect_map(named.map(|(name, metric)| {
            let unit = match metric.kind {
                SeriesKind::Info => Some(Arc::from("info")),
                _ => metric.unit.clone(),
            };
            let metric = Metric {
                kind: exported_kind(metric.kind),
                description: Arc::clone(&metric.description),
                unit,
                series: Each(&metric.series, |series| Series::new(metric.kind, series, self.ids)),
            };
            (name, metric)
        }))
    }
}

members! {
    Series {
        endpoint: Arc<str>, endpoint_url: ShownUrl, labels: Pairs<Arc<str>>,
        observation_count: u64, avg: f64, min: f64, max: f64, std: f64,
        p50: f64, p90: f64, p95: f64, p99: f64, estimated_percentiles: bool,
        delta: f64, rate_per_second: f64,
        rate_avg: f64, rate_min: f64, rate_max: f64, rate_std: f64,
        observations_per_second: f64, buckets: Pairs<u64>, quantiles: Pairs<f64>,
        reset_count: u64, total_with_resets: f64, flags: Vec<Cow<'static, str>>,
        late_increase: f64,
    }
}

impl Series {
    fn new(kind: SeriesKind, series: &SeriesReport, ids: &EndpointIds) -> Self {
        let named = Self {
            endpoint: Some(ids.of_url(&series.endpoint_url)),
            endpoint_url: Some(series.endpoint_url.clone()),
            labels: series.labels.iter().cloned().collect::<Pairs<_>>().unless_empty(),
            flags: Some(series.stats.flags().into_iter().map(Cow::Borrowed).collect())
                .filter(|flags: &Vec<_>| !flags.is_empty()),
            late_increase: series.stats.late_increase(),
            ..Self::default()
        };
        match &series.stats {
            Stats::Gauge(_) if kind == SeriesKind::Info => named,
            Stats::Gauge(stats) => named.gauge(stats),
            Stats::Counter(stats) => named.counter(stats),
            Stats::Histogram(stats) => named.histogram(stats),
            Stats::Summary(stats) => named.summary(stats),
        }
    }

    /// Sets the statistics of a gauge. One that never changed has only its value.
    fn gauge(self, stats: &GaugeStats) -> Self {
        let avg = finite(stats.avg);
        if stats.min == stats.max {
            return Self { observation_count: Some(1), avg, ..self };
        }
        let [min, max, std] = [stats.min, stats.max, stats.std].map(finite);
        Self { avg, min, max, std, ..self }.percentiles(&stats.percentiles, false)
    }

    /// Sets the statistics of a counter; without rates if it did not increase.
    fn counter(self, stats: &CounterStats) -> Self {
        let delta = finite(stats.total);
        let this = Self { delta, ..self }.resets(stats.resets);
        if stats.total <= 0.0 {
            return this;
        }
        let rates = stats.point_rates;
        Self {
            rate_per_second: finite(stats.rate),
            rate_avg: rates.and_then(|rates| finite(rates.avg)),
            rate_min: rates.and_then(|rates| finite(rates.min)),
            rate_max: rates.and_then(|rates| finite(rates.max)),
            rate_std: rates.and_then(|rates| finite(rates.std)),
            ..this
        }
    }

    fn histogram(self, stats: &HistogramStats) -> Self {
        let this = self.resets(stats.resets).observations(
            stats.count,
            stats.sum,
            stats.count_rate,
            stats.sum_rate,
        );
        if stats.count <= 0.0 {
            return this;
        }
        let this = Self { buckets: stats.buckets.as_ref().map(buckets), ..this };
        match &stats.percentiles {
            Some(percentiles) => this.percentiles(percentiles, true),
            None => this,
        }
    }

    fn summary(self, stats: &SummaryStats) -> Self {
        let this = self.observations(stats.count, stats.sum, stats.count_rate, stats.sum_rate);
        if stats.count <= 0.0 {
            return this;
        }
        let at = |quantile: f64| {
            let found = stats.quantiles.iter().find(|(text, _)| bound(text) == quantile);
            found.and_then(|(_, value)| finite(*value))
        };
        let finite_only = |(text, value): (&Arc<str>, &f64)| Some((text.clone(), finite(*value)?));
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            estimated_percentiles: Some(false),
            quantiles: Some(stats.quantiles.iter().filter_map(finite_only).collect()),
            ..this
        }
    }

    /// Sets the statistics of a distribution; without observations, only that there were none.
    fn observations(self, count: f64, sum: f64, count_rate: f64, sum_rate: f64) -> Self {
        let this = Self { observation_count: Some(whole(count)), ..self };
        if count <= 0.0 {
            return this;
        }
        Self {
            avg: finite(sum / count),
            delta: finite(sum),
            rate_per_second: finite(sum_rate),
            observations_per_second: finite(count_rate),
            ..this
        }
    }

    /// Sets the four percentiles from those at [`PERCENTILES`].
    fn percentiles(self, all: &[f64; 9], are_estimates: bool) -> Self {
        let at = |percentile: u8| {
            let position = PERCENTILES.iter().position(|other| *other == percentile)?;
            finite(all[position])
        };
        Self {
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            estimated_percentiles: Some(are_estimates),
            ..self
        }
    }

    fn resets(self, resets: Option<report::Resets>) -> Self {
        Self {
            reset_count: resets.map(|resets| resets.reset_count),
            total_with_resets: resets.and_then(|resets| finite(resets.total_with_resets)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
