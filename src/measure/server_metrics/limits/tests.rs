use std::sync::Arc;

use base::redact::ShownUrl;
use client::server_family::SeriesKind;

use super::*;
use crate::server_metrics::report::{Doubts, MetricReport, SeriesReport};

fn report(name: &str, stats: HistogramStats) -> ServerMetricsReport {
    let series = SeriesReport {
        endpoint_url: ShownUrl::new("http://a/metrics"),
        labels: Arc::default(),
        stats: Stats::Histogram(stats),
    };
    let metric = MetricReport {
        name: name.into(),
        kind: SeriesKind::Histogram,
        description: "".into(),
        unit: None,
        series: vec![series],
    };
    ServerMetricsReport { metrics: vec![metric], ..ServerMetricsReport::default() }
}

/// 200 observations, of which the last one is estimated at 0.609 s.
fn first_tokens() -> HistogramStats {
    let buckets = [("0.5", 190.0), ("0.75", 200.0), ("+Inf", 200.0)];
    HistogramStats {
        count: 200.0,
        percentiles: Some([0.1, 0.1, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.609]),
        buckets: Some(buckets.map(|(bound, count)| (bound.into(), count)).to_vec()),
        ..HistogramStats::default()
    }
}

fn limited(name: &str, stats: HistogramStats) -> HistogramStats {
    let limits = ClientLimits { requests: 200, first_token: Some(0.56e9), request: 2e9 };
    let mut report = report(name, stats);
    limits.apply(&mut report);
    match report.metrics.remove(0).series.remove(0).stats {
        Stats::Histogram(histogram) => histogram,
        _ => HistogramStats::default(),
    }
}

#[test]
fn no_estimate_is_beyond_what_the_client_measured() {
    let name = "vllm:time_to_first_token_seconds";
    let found = limited(name, first_tokens());
    let percentiles = found.percentiles.unwrap();
    assert_eq!((percentiles[7], percentiles[8]), (0.5, 0.56));
    // The 198th and 199th value are in the bucket from 0.5 to 0.75 s.
    assert_eq!(found.percentile_bounds().unwrap()[8], (0.5, Some(0.56)));
    assert_eq!(first_tokens().percentile_bounds().unwrap()[8], (0.5, Some(0.75)));
    assert_eq!(first_tokens().percentile_bounds().unwrap()[0], (0.0, Some(0.5)));
}

#[test]
fn other_requests_and_other_times_are_not_limited() {
    let name = "vllm:time_to_first_token_seconds";
    let unchanged = |name: &str, stats: HistogramStats| {
        assert_eq!(limited(name, stats.clone()), stats, "{name}");
    };
    unchanged("vllm:inter_token_latency_seconds", first_tokens());
    unchanged("vllm:e2e_request_latency_seconds", {
        HistogramStats { count: 201.0, ..first_tokens() }
    });
    let doubts = Doubts { has_inexact_start: true, ..Doubts::default() };
    unchanged(name, HistogramStats { doubts, ..first_tokens() });
    // The server's own counts contradict the client's time.
    let buckets = Some(vec![("1".into(), 0.0), ("2".into(), 200.0), ("+Inf".into(), 200.0)]);
    unchanged(name, HistogramStats { buckets, ..first_tokens() });
}

#[test]
fn above_the_last_bound_only_the_client_knows() {
    let buckets = Some(vec![("0.1".into(), 100.0), ("+Inf".into(), 200.0)]);
    let stats = HistogramStats { buckets, ..first_tokens() };
    assert_eq!(stats.percentile_bounds().unwrap()[8], (0.1, None));
    let found = limited("vllm:e2e_request_latency_seconds", stats);
    assert_eq!(found.percentile_bounds().unwrap()[8], (0.1, Some(2.0)));
    // The median is between the last value of one bucket and the first of the other.
    assert_eq!(found.percentile_bounds().unwrap()[4], (0.05, Some(1.05)));
}

#[test]
fn a_limit_is_of_the_series_and_in_the_unit_of_a_time() {
    let mut found = report("sglang:per_stage_req_latency_seconds", first_tokens());
    let series = &mut found.metrics[0].series;
    let mut others = series[0].clone();
    let stage = |name: &str| Arc::from([(Arc::from("stage"), Arc::from(name))]);
    series[0].labels = stage("prefill_forward");
    others.labels = stage("chunked_prefill");
    series.push(others);
    let limits = ClientLimits { requests: 200, first_token: Some(0.56e9), request: 0.6e9 };
    limits.apply(&mut found);
    let p99 = |series: &SeriesReport| series.stats.named("p99");
    let all: Vec<_> = found.metrics[0].series.iter().map(p99).collect();
    assert_eq!(all, [Some(0.6), Some(0.609)]);
    // In milliseconds, 560 is far above every bound.
    let name = "nv_inference_first_response_histogram_ms";
    assert_eq!(limited(name, first_tokens()).percentiles, first_tokens().percentiles);
    let scaled = HistogramStats {
        percentiles: first_tokens().percentiles.map(|all| all.map(|value| value * 1e3)),
        buckets: Some(vec![("500".into(), 190.0), ("750".into(), 200.0), ("+Inf".into(), 200.0)]),
        ..first_tokens()
    };
    assert_eq!(limited(name, scaled).percentiles.unwrap()[8], 560.0);
}
