use std::sync::Arc;

use base::redact::ShownUrl;

use super::*;
use crate::server_metrics::report::{CounterStats, GaugeStats, HistogramStats, Stats};

fn metric(name: &str, kind: SeriesKind, values: &[f64]) -> MetricReport {
    let stats = |value: f64| match kind {
        SeriesKind::Counter => {
            Stats::Counter(CounterStats { rate: value, ..CounterStats::default() })
        }
        SeriesKind::Histogram => Stats::Histogram(HistogramStats {
            percentiles: (value > 0.0).then_some([value; 9]),
            ..HistogramStats::default()
        }),
        _ => Stats::Gauge(GaugeStats { max: value, ..GaugeStats::default() }),
    };
    let series = |value: &f64| SeriesReport {
        endpoint_url: ShownUrl::from("http://a/metrics"),
        labels: Arc::from([]),
        stats: stats(*value),
    };
    MetricReport {
        name: Arc::from(name),
        kind,
        description: Arc::from(""),
        unit: None,
        series: values.iter().map(series).collect(),
    }
}

fn names(metrics: Vec<MetricReport>) -> Vec<(&'static str, Vec<String>)> {
    let report = ServerMetricsReport { metrics, ..ServerMetricsReport::default() };
    let name = |shown: &WatchedMetric<'_>| shown.metric.name.to_string();
    families(&report)
        .into_iter()
        .map(|(family, shown)| (family.title, shown.iter().map(name).collect()))
        .collect()
}

#[test]
fn servers_are_known_by_their_metrics_and_there_may_be_several() {
    let found = names(vec![
        metric("dynamo_frontend_requests", SeriesKind::Counter, &[1.0]),
        metric("python_gc_objects_collected", SeriesKind::Counter, &[1.0]),
        metric("vllm:generation_tokens", SeriesKind::Counter, &[1.0]),
        metric("vllm:num_requests_waiting", SeriesKind::Gauge, &[1.0]),
    ]);
    let vllm = vec!["vllm:num_requests_waiting".to_owned(), "vllm:generation_tokens".to_owned()];
    let dynamo = vec!["dynamo_frontend_requests".to_owned()];
    assert_eq!(found, [("vLLM", vllm), ("Dynamo", dynamo)]);
    assert_eq!(names(vec![metric("up", SeriesKind::Gauge, &[1.0])]), []);
}

#[test]
fn an_earlier_name_counts_only_where_the_later_one_is_missing() {
    let earlier = || metric("vllm:gpu_cache_usage_perc", SeriesKind::Gauge, &[0.5]);
    let later = || metric("vllm:kv_cache_usage_perc", SeriesKind::Gauge, &[0.5]);
    assert_eq!(names(vec![earlier()])[0].1, ["vllm:gpu_cache_usage_perc"]);
    assert_eq!(names(vec![earlier(), later()])[0].1, ["vllm:kv_cache_usage_perc"]);
    // A metric of the same name but another kind is a different metric.
    assert_eq!(names(vec![metric("vllm:kv_cache_usage_perc", SeriesKind::Counter, &[1.0])]), []);
}

#[test]
fn the_greatest_comes_first_and_what_has_no_value_is_left_out() {
    let metrics =
        vec![metric("trtllm_request_queue_time_seconds", SeriesKind::Histogram, &[0.1, 0.0, 3.0])];
    let report = ServerMetricsReport { metrics, ..ServerMetricsReport::default() };
    let values = families(&report)[0].1[0].values();
    assert_eq!(values.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [3.0, 0.1]);
}

#[test]
fn a_counter_that_stood_still_is_shown_only_where_none_rose() {
    let mut requests = metric("dynamo_frontend_requests", SeriesKind::Counter, &[5.0, 0.0, 0.0]);
    let values = |metric: &MetricReport| {
        let metrics = vec![metric.clone()];
        let report = ServerMetricsReport { metrics, ..ServerMetricsReport::default() };
        let values = families(&report)[0].1[0].values();
        values.iter().map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert_eq!(values(&requests), [5.0]);
    // An endpoint has a row even without load.
    requests.series[2].endpoint_url = "http://idle/metrics".into();
    assert_eq!(values(&requests), [5.0, 0.0]);
    let failures = metric("nv_inference_request_failure", SeriesKind::Counter, &[0.0, 0.0]);
    assert_eq!(values(&failures), [0.0, 0.0]);
    let waiting = metric("vllm:num_requests_waiting", SeriesKind::Gauge, &[2.0, 0.0]);
    assert_eq!(values(&waiting), [2.0, 0.0]);
}

#[test]
fn each_metric_is_named_once_and_has_a_statistic_of_its_kind() {
    let mut seen = std::collections::HashSet::new();
    for watched in client::server_family::ALL.iter().flat_map(|family| family.watched) {
        assert!(seen.insert(watched.name), "{} twice", watched.name);
        let any = metric(watched.name, watched.kind, &[1.0]);
        let value = any.series[0].stats.named(watched.statistic.name());
        assert!(value.is_some(), "{}", watched.name);
    }
}
