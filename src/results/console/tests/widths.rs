//! Every table at the widths of terminals.

use base::statistics::Bounded;
use measure::judge::Gate;
use measure::metrics::SteadyState;
use measure::metrics::fixture;
use measure::metrics::health::{LoadHealth, LoadVerdict};
use measure::metrics::metric::{Observation, RecordValues, Value};
use measure::metrics::time_breakdown::{Divided, Division, Part, Stage, TimeBreakdown};

use super::*;
use crate::console::capacity::render_confirmed;
use crate::console::explain::{Slow, explained};
use crate::tables;

/// Renders at four widths, none of whose lines may be longer.
fn at_widths(render: impl Fn(Style) -> String) -> String {
    let shown = [60, 80, 100, 160].map(|width| {
        let text = render(Style { width, colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        format!("{width} columns\n{text}")
    });
    shown.join("\n")
}

#[test]
fn the_tables_of_a_run_at_four_widths() {
    let mut report = usual();
    report.run.tables.client = ClientTables::All;
    insta::assert_snapshot!(at_widths(|style| {
        render(&report, style) + &table::errors(report.errors.iter(), style)
    }));
}

/// A run whose server reports times and metrics, with gates and a steady state.
pub(super) fn with_server() -> RunReport {
    let mut report = usual();
    report.run.gates = ["time_to_first_token:p99<=250ms", "request_throughput>=40"]
        .map(|gate| gate.parse::<Gate>().unwrap())
        .into();
    report.steady_state = Ok(SteadyState {
        start_ns: 1_000_000_000,
        end_ns: 5_000_000_000,
        request_count: 30,
        request_share: 0.75,
        littles_law_residual_percent: None,
        request_throughput_half_width: Some(0.125),
        results: vec![single(tag::REQUEST_THROUGHPUT, 40.25)],
    });
    let part = |stage, mean_ms| Part { stage, mean_ms, bound_ms: 0.5 };
    report.outcome.time_breakdown = Some(TimeBreakdown::Found(Division {
        request_count: 36,
        metrics: vec![Divided {
            metric: tag::REQUEST_LATENCY,
            mean_ms: 200.0,
            parts: vec![
                part(Stage::QueueAndPrefill, 50.0),
                part(Stage::KvTransferAndDecode, 149.0),
                part(Stage::Unattributed, 1.0),
            ],
        }],
    }));
    report.outcome.load_health = Some(LoadHealth {
        verdict: LoadVerdict::TooShort,
        offered_rate: 40.0,
        served_rate: 39.0,
        queue_slope: None,
        latency_drift_percent: None,
        since_seconds: None,
        needed_seconds: Some(17.0),
        needed_requests: Some(335),
        failures: None,
    });
    let series = |engine: &str| SeriesReport {
        endpoint_url: "http://a/metrics".into(),
        labels: std::sync::Arc::from([("engine".into(), engine.into())]),
        stats: server_stats::Stats::Gauge(server_stats::GaugeStats {
            max: 7.0,
            ..server_stats::GaugeStats::default()
        }),
    };
    let metric = |name: &str| MetricReport {
        name: name.into(),
        kind: SeriesKind::Gauge,
        description: "".into(),
        unit: Some("requests".into()),
        series: vec![series("0"), series("1")],
    };
    let mut metrics = ServerMetrics::default();
    let names = ["vllm:num_requests_running", "vllm:num_requests_waiting"];
    metrics.report.metrics.extend(names.map(metric));
    report.server_metrics = Some(metrics);
    report
}

#[test]
fn the_other_tables_of_a_run_at_four_widths() {
    let report = with_server();
    insta::assert_snapshot!(at_widths(|style| {
        let metrics = report.server_metrics.as_ref().map(|metrics| &metrics.report);
        [
            tables::of_run(&report)
                .iter()
                .map(|it| layout::Table::render_table(it, style))
                .collect(),
            gates::render(&report.gates(), style),
            server_metrics::render(metrics, style),
        ]
        .concat()
    }));
}

#[test]
fn what_limits_a_run_at_four_widths() {
    let report = with_server();
    let slow = |latency: f64| {
        let mut values = RecordValues::default();
        let mut set = |tag, value| values.set(tag, Value::Scalar(value));
        set(tag::REQUEST_LATENCY, latency);
        set(tag::TIME_TO_FIRST_TOKEN, 50e6);
        set(tag::SERVER_QUEUE_TIME, 40e6);
        set(tag::SERVER_PREFILL_TIME, 9e6);
        set(tag::SERVER_DECODE_TIME, latency - 50e6);
        set(tag::INPUT_SEQUENCE_LENGTH, 550.0);
        set(tag::OUTPUT_SEQUENCE_LENGTH, 32.0);
        Slow::from_observation(&Observation {
            start_wall_ns: 2_000_000_000,
            end_wall_ns: 2_200_000_000,
            values,
            ..fixture::observation()
        })
    };
    let slow = [slow(210e6), slow(205.5e6)];
    let text = explained(&report, &[], &slow, Style { width: 160, colour: false });
    assert!(text.contains("the largest part is KV transfer + decode: 149 ms (74%)"), "{text}");
    insta::assert_snapshot!(at_widths(|style| explained(&report, &[], &slow, style)));
}

#[test]
fn a_confirmed_prediction_at_four_widths() {
    let predicted = |value: f64| Bounded { value, low: 0.9 * value, high: 1.1 * value };
    let compared = [
        ("Request Throughput (requests/sec)".to_owned(), predicted(40.0), 41.0, true),
        ("Request Latency p99 (ms)".to_owned(), predicted(1250.0), 1500.0, false),
    ];
    insta::assert_snapshot!(at_widths(|style| render_confirmed(&compared, style)));
}
