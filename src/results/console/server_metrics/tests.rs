use client::server_family::SeriesKind;
use measure::server_metrics::report::{
    CounterStats, GaugeStats, HistogramStats, MetricReport, Resets, Stats,
};

use super::*;

fn series(endpoint: &str, labels: &[(&str, &str)], stats: Stats) -> SeriesReport {
    let labels = labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value)));
    SeriesReport { endpoint_url: endpoint.into(), labels: labels.collect(), stats }
}

fn gauge(max: f64) -> Stats {
    Stats::Gauge(GaugeStats { max, ..GaugeStats::default() })
}

fn metric(name: &str, kind: SeriesKind, unit: &str, series: Vec<SeriesReport>) -> MetricReport {
    MetricReport {
        name: Arc::from(name),
        kind,
        description: Arc::from(""),
        unit: Some(Arc::from(unit)),
        series,
    }
}

fn text(metrics: Vec<MetricReport>) -> String {
    let report = ServerMetricsReport { metrics, ..ServerMetricsReport::default() };
    render(Some(&report), Style::FILE)
}

/// The line that contains `part`.
fn line<'a>(text: &'a str, part: &str) -> &'a str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} in\n{text}"))
}

const A: &str = "http://a:8000/metrics";

#[test]
fn numbers_have_four_significant_digits() {
    let cases = [
        (0.0, "0"),
        (1.0, "1"),
        (0.012_345_6, "0.01235"),
        (0.5, "0.5"),
        (12.345_6, "12.35"),
        (999.96, "1000"),
        (123_456.7, "123,457"),
        (-1234.5, "-1,234"),
        (1e-7, "1.000e-7"),
        (1e300, "1.000e300"),
        (f64::NAN, "N/A"),
    ];
    for (value, expected) in cases {
        assert_eq!(figure(value), expected, "{value}");
    }
}

#[test]
fn series_are_told_apart_by_what_differs() {
    let labels = |engine| [("engine", engine), ("model_name", "tiny")];
    let gauge_series = |endpoint, engine, max| series(endpoint, &labels(engine), gauge(max));
    let text = text(vec![metric(
        "vllm:num_requests_waiting",
        SeriesKind::Gauge,
        "requests",
        vec![
            gauge_series(A, "0", 2.0),
            gauge_series(A, "1", 7.0),
            gauge_series("http://b:8000/metrics", "0", 1.0),
        ],
    )]);
    assert!(text.contains("aiperf | Server Metrics: vLLM"), "{text}");
    let first = line(&text, "vllm:num_requests_waiting");
    assert!(first.contains("a:8000, engine=1") && first.contains(" 7 │"), "{text}");
    assert!(first.contains("max") && first.contains("requests"), "{text}");
    assert!(line(&text, "b:8000, engine=0").contains(" 1 │"), "{text}");
    assert!(!text.contains("tiny"), "{text}");
}

#[test]
fn a_single_series_needs_no_name_and_a_rate_is_per_second() {
    let stats = Stats::Counter(CounterStats { rate: 1234.5, ..CounterStats::default() });
    let of = vec![series(A, &[("model_name", "tiny")], stats)];
    let text = text(vec![metric("vllm:generation_tokens", SeriesKind::Counter, "tokens", of)]);
    let row = line(&text, "vllm:generation_tokens");
    assert!(row.contains("1,234") && row.contains("tokens/s"), "{text}");
    assert!(!row.contains("tiny") && !row.contains("a:8000"), "{text}");
}

#[test]
fn rows_are_bounded_and_the_rest_is_counted() {
    let many = (0..40).map(|at| series(A, &[("reason", &format!("r{at}"))], gauge(f64::from(at))));
    let name = "vllm:num_requests_waiting_by_reason";
    let text = text(vec![metric(name, SeriesKind::Gauge, "requests", many.collect())]);
    assert!(text.contains("reason=r39") && text.contains("reason=r34"), "{text}");
    assert!(!text.contains("reason=r33") && text.contains("34 more, lower"), "{text}");
}

#[test]
fn an_empty_histogram_has_no_value_and_nothing_steers_the_terminal() {
    let empty = Stats::Histogram(HistogramStats::default());
    let hostile = |value: &str| series(A, &[("reason", value)], gauge(1.0));
    let text = text(vec![
        metric(
            "vllm:time_to_first_token_seconds",
            SeriesKind::Histogram,
            "s\x1b[2J",
            vec![series(A, &[], empty)],
        ),
        metric(
            "vllm:num_requests_waiting_by_reason",
            SeriesKind::Gauge,
            "requests",
            vec![hostile("\x1b[31mred"), hostile(&"long".repeat(100))],
        ),
    ]);
    assert!(line(&text, "vllm:time_to_first_token_seconds").contains("N/A"), "{text}");
    assert!(!text.contains('\x1b') && text.contains('…'), "{text}");
}

#[test]
fn a_column_of_series_is_there_where_a_metric_has_several() {
    let labels_of = |names: &[&str]| {
        let several = names.iter().map(|name| series(A, &[("engine", name)], gauge(1.0)));
        let name = "vllm:num_requests_waiting";
        text(vec![metric(name, SeriesKind::Gauge, "requests", several.collect())])
    };
    assert!(line(&labels_of(&["0", "1"]), "Statistic").contains("Series"));
    assert!(!line(&labels_of(&["0"]), "Statistic").contains("Series"));
}

#[test]
fn labels_without_a_value_are_not_named() {
    let error_series = |error| series(A, &[("error", error), ("status", "x")], gauge(1.0));
    let several = vec![error_series(""), error_series("late")];
    let text = text(vec![metric("vllm:num_requests_waiting", SeriesKind::Gauge, "", several)]);
    assert!(text.contains("error=late") && !text.contains("error= "), "{text}");
}

#[test]
fn what_makes_numbers_doubtful_is_marked() {
    let anew = CounterStats {
        rate: 2.5,
        resets: Some(Resets { reset_count: 1, total_with_resets: 9.0 }),
        ..CounterStats::default()
    };
    let metrics = vec![metric(
        "vllm:generation_tokens",
        SeriesKind::Counter,
        "tokens",
        vec![series(A, &[], Stats::Counter(anew))],
    )];
    assert!(line(&text(metrics), "generation").contains("2.5 (reset)"));
}

#[test]
fn without_a_table_a_line_says_so() {
    let unknown = text(vec![metric("up", SeriesKind::Gauge, "", vec![series(A, &[], gauge(1.0))])]);
    assert!(unknown.starts_with("Server metrics: no table"), "{unknown}");
    assert!(render(None, Style::FILE).starts_with("Server metrics: none collected"));
}
