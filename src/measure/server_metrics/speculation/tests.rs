use std::sync::Arc;

use client::server_family::SeriesKind;

use super::*;
use crate::server_metrics::report::{
    CounterStats, GaugeStats, MetricReport, SeriesReport, Stats, Summary,
};

const URL: &str = "http://a/metrics";

fn report(metrics: Vec<MetricReport>) -> ServerMetricsReport {
    let summary = Summary { endpoints_successful: vec![URL.into()], ..Summary::default() };
    ServerMetricsReport { summary, metrics, ..ServerMetricsReport::default() }
}

fn metric(name: &str, kind: SeriesKind, series: Vec<(&str, Stats)>) -> MetricReport {
    let series = series.into_iter().map(|(position, stats)| SeriesReport {
        endpoint_url: URL.into(),
        labels: [(Arc::from(POSITION), Arc::from(position))].into(),
        stats,
    });
    MetricReport {
        name: name.into(),
        kind,
        description: "".into(),
        unit: None,
        series: series.collect(),
    }
}

fn counters(name: &str, totals: &[(&'static str, f64)]) -> MetricReport {
    let stats = |total| Stats::Counter(CounterStats { total, ..CounterStats::default() });
    let series = totals.iter().map(|(position, total)| (*position, stats(*total)));
    metric(name, SeriesKind::Counter, series.collect())
}

#[test]
fn more_accepted_than_drafted_is_a_doubt() {
    let acceptance = |rate, by_position| Acceptance {
        endpoint_url: URL.into(),
        rate: Some(rate),
        length: None,
        by_position,
    };
    assert!(acceptance(1.0, vec![(0, 1.0)]).doubt().is_none());
    assert!(acceptance(1.02, Vec::new()).doubt().unwrap().contains("more tokens were accepted"));
    assert!(acceptance(0.5, vec![(0, 1.1)]).doubt().is_some());
}

/// 10 drafts of 3 tokens: 9, 6 and 3 accepted at the positions, 18 of 30 in all.
#[test]
fn vllms_counters_are_added_up() {
    let found = acceptance(&report(vec![
        counters("vllm:spec_decode_num_drafts", &[("", 4.0), ("", 6.0)]),
        counters("vllm:spec_decode_num_draft_tokens_total", &[("", 30.0)]),
        counters("vllm:spec_decode_num_accepted_tokens", &[("", 18.0)]),
        counters(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            &[("0", 9.0), ("1", 6.0), ("2", 1.0), ("2", 2.0), ("x", 5.0)],
        ),
    ]));
    let expected = Acceptance {
        endpoint_url: URL.into(),
        rate: Some(0.6),
        length: Some(2.8),
        by_position: vec![(0, 0.9), (1, 0.6), (2, 0.3)],
    };
    assert_eq!(found.len(), 1);
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert_eq!((found[0].rate, found[0].length), (expected.rate, expected.length));
    let pairs = found[0].by_position.iter().zip(&expected.by_position);
    assert!(pairs.clone().all(|(a, b)| a.0 == b.0 && close(a.1, b.1)), "{found:?}");
    assert_eq!(found[0].by_position.len(), 3);
}

/// 4 drafts of 2 tokens, 5 of 8 accepted.
#[test]
fn lmdeploys_counters_are_named_like_vllms() {
    let found = acceptance(&report(vec![
        counters("lmdeploy:spec_decode_num_drafts", &[("", 4.0)]),
        counters("lmdeploy:spec_decode_num_draft_tokens", &[("", 8.0)]),
        counters("lmdeploy:spec_decode_num_accepted_tokens", &[("", 5.0)]),
        counters("lmdeploy:spec_decode_num_accepted_tokens_per_pos", &[("0", 3.0), ("1", 2.0)]),
    ]));
    assert_eq!((found[0].rate, found[0].length), (Some(0.625), Some(2.25)));
    assert_eq!(found[0].by_position, [(0, 0.75), (1, 0.5)]);
}

#[test]
fn sglangs_gauges_are_averaged_and_nothing_is_nothing() {
    let gauge = |avg| Stats::Gauge(GaugeStats { avg, ..GaugeStats::default() });
    let found = acceptance(&report(vec![
        metric(
            "sglang:spec_accept_length",
            SeriesKind::Gauge,
            vec![("", gauge(2.0)), ("", gauge(3.0))],
        ),
        metric(
            "sglang:spec_accept_rate",
            SeriesKind::Gauge,
            vec![("", gauge(0.5)), ("", gauge(0.0))],
        ),
    ]));
    assert_eq!((found[0].length, found[0].rate), (Some(2.5), Some(0.5)));
    assert!(found[0].by_position.is_empty());
    assert!(acceptance(&report(Vec::new())).is_empty());
    let none = counters("vllm:spec_decode_num_drafts", &[("", 0.0)]);
    assert!(acceptance(&report(vec![none])).is_empty());
}
