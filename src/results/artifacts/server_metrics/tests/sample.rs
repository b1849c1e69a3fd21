//! A report with the numbers of a nested file.

use std::sync::Arc;

use serde_json::Value;

use base::redact::ShownUrl;
use client::server_family::SeriesKind;
use measure::server_metrics::report::*;
use measure::server_metrics::store::Labels;

pub(super) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn string(value: &Value) -> Arc<str> {
    value.as_str().unwrap().into()
}

pub(super) fn url(value: &Value) -> ShownUrl {
    value.as_str().unwrap().into()
}

pub(super) fn float(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn urls(value: &Value) -> Vec<ShownUrl> {
    items(value).map(url).collect()
}

pub(super) fn report_of(file: &Value) -> ServerMetricsReport {
    let summary = &file["summary"];
    let window = |phase: &str| {
        let range = &summary["phase_time_ranges"][phase];
        Some(Window { start_ns: range["start_ns"].as_u64()?, end_ns: range["end_ns"].as_u64()? })
    };
    let info = |(url, info): (&String, &Value)| (ShownUrl::new(url), info_of(info));
    ServerMetricsReport {
        summary: Summary {
            endpoints_configured: urls(&summary["endpoints_configured"]),
            endpoints_successful: urls(&summary["endpoints_successful"]),
            endpoint_info: members(&summary["endpoint_info"]).map(info).collect(),
            windows: Windows { warmup: window("warmup"), profiling: window("profiling") },
        },
        metrics: metrics_of(&file["metrics"]),
        warmup_metrics: metrics_of(&file["warmup_metrics"]),
        phases: Vec::new(),
    }
}

fn info_of(info: &Value) -> EndpointInfo {
    let whole = |name: &str| info[name].as_u64().unwrap();
    EndpointInfo {
        total_fetches: whole("total_fetches"),
        first_fetch_ns: whole("first_fetch_ns"),
        last_fetch_ns: whole("last_fetch_ns"),
        avg_fetch_latency_ms: float(&info["avg_fetch_latency_ms"]),
        unique_updates: whole("unique_updates"),
        first_update_ns: whole("first_update_ns"),
        last_update_ns: whole("last_update_ns"),
        duration_seconds: float(&info["duration_seconds"]),
        avg_update_interval_ms: float(&info["avg_update_interval_ms"]),
        median_update_interval_ms: info["median_update_interval_ms"].as_f64(),
        failed_fetches: 0,
        profiling: None,
    }
}

fn metrics_of(metrics: &Value) -> Vec<MetricReport> {
    let metric = |(name, metric): (&String, &Value)| {
        let kind: SeriesKind = serde_json::from_value(metric["type"].clone()).unwrap();
        MetricReport {
            name: name.as_str().into(),
            kind,
            description: string(&metric["description"]),
            unit: metric["unit"].as_str().map(Arc::from),
            series: items(&metric["series"]).map(|series| series_of(kind, series)).collect(),
        }
    };
    members(metrics).map(metric).collect()
}

fn series_of(kind: SeriesKind, series: &Value) -> SeriesReport {
    let labels: Labels =
        members(&series["labels"]).map(|(k, v)| (Arc::from(k.as_str()), string(v))).collect();
    let (stats, slices) = (&series["stats"], &series["timeslices"]);
    let stats = match kind {
        SeriesKind::Counter => Stats::Counter(counter_of(stats, slices)),
        SeriesKind::Histogram => Stats::Histogram(histogram_of(stats, &series["buckets"], slices)),
        _ => Stats::Gauge(gauge_of(stats, slices)),
    };
    SeriesReport { endpoint_url: url(&series["endpoint_url"]), labels, stats }
}

fn slices_of<T>(slices: &Value, stats: impl Fn(&Value) -> T) -> Vec<Timeslice<T>> {
    let slice = |slice: &Value| Timeslice {
        start_ns: slice["start_ns"].as_u64().unwrap(),
        end_ns: slice["end_ns"].as_u64().unwrap(),
        is_complete: slice["is_complete"].as_bool().unwrap_or(true),
        stats: stats(slice),
    };
    items(slices).map(slice).collect()
}

fn gauge_of(stats: &Value, slices: &Value) -> GaugeStats {
    GaugeStats {
        avg: float(&stats["avg"]),
        min: float(&stats["min"]),
        max: float(&stats["max"]),
        std: float(&stats["std"]),
        percentiles: PERCENTILES.map(|percentile| float(&stats[format!("p{percentile}")])),
        timeslices: slices_of(slices, |slice| GaugeSlice {
            avg: float(&slice["avg"]),
            min: float(&slice["min"]),
            max: float(&slice["max"]),
        }),
    }
}

fn counter_of(stats: &Value, slices: &Value) -> CounterStats {
    let rates = stats["rate_avg"].as_f64().map(|avg| RateSpread {
        avg,
        min: float(&stats["rate_min"]),
        max: float(&stats["rate_max"]),
        std: float(&stats["rate_std"]),
    });
    CounterStats {
        total: float(&stats["total"]),
        rate: float(&stats["rate"]),
        slice_rates: rates,
        timeslices: slices_of(slices, |slice| CounterSlice {
            total: float(&slice["total"]),
            rate: float(&slice["rate"]),
        }),
        ..CounterStats::default()
    }
}

fn buckets_of(buckets: &Value) -> Buckets {
    members(buckets).map(|(bound, count)| (Arc::from(bound.as_str()), float(count))).collect()
}

fn histogram_of(stats: &Value, buckets: &Value, slices: &Value) -> HistogramStats {
    let slice = |slice: &Value| HistogramSlice {
        count: float(&slice["count"]),
        sum: float(&slice["sum"]),
        avg: float(&slice["avg"]),
        buckets: buckets_of(&slice["buckets"]),
    };
    let counted = HistogramStats {
        count: float(&stats["count"]),
        buckets: Some(buckets_of(buckets)),
        timeslices: slices_of(slices, slice),
        ..HistogramStats::default()
    };
    if counted.count == 0.0 {
        return counted;
    }
    HistogramStats {
        sum: float(&stats["sum"]),
        count_rate: float(&stats["count_rate"]),
        sum_rate: float(&stats["sum_rate"]),
        percentiles: Some(PERCENTILES.map(|p| float(&stats[format!("p{p}_estimate")]))),
        ..counted
    }
}
