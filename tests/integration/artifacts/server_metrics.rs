//! `server_metrics_export.json` and `.csv`, read by pandas and jq if these are installed.

use std::fs;
use std::sync::Arc;

use base::redact::ShownUrl;
use base::units::Nanos;
use client::server_family::SeriesKind;
use measure::server_metrics::FetchTimes;
use measure::server_metrics::exposition::{Exposition, Format};
use measure::server_metrics::report::{
    CounterSlice, CounterStats, Doubts, EndpointInfo, GaugeSlice, GaugeStats, HistogramSlice,
    HistogramStats, MetricReport, RateSpread, Resets, SeriesReport, ServerMetrics,
    ServerMetricsReport, Stats, Summary, SummaryStats, Timeslice, Window, Windows, build,
};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::store::Store;
use results::artifacts::server_metrics::{Formats, JsonLayout};
use results::artifacts::{ArtifactError, ExportLevel, rebuild};
use serde_json::{Value, json};

use super::run::TestRun;
use crate::support::metrics_endpoint::recorded;
use crate::support::python::run_python;

const FIRST: &str = "http://node1:8000/metrics";
const SECOND: &str = "http://node2:9000/metrics";
const START: u64 = 1_765_411_635_639_590_410;
const SLICE: u64 = 2_000_000_000;

fn gauge(from: f64, to: f64) -> Stats {
    let slice = |at: u64, is_complete, avg| Timeslice {
        start_ns: START + at * SLICE,
        end_ns: START + (at + 1) * SLICE,
        is_complete,
        stats: GaugeSlice { avg, min: from, max: to },
    };
    Stats::Gauge(GaugeStats {
        avg: f64::midpoint(from, to),
        min: from,
        max: to,
        std: (to - from) / 3.0,
        percentiles: [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0]
            .map(|percentile| from + (to - from) * percentile / 100.0),
        timeslices: vec![slice(0, true, 5.0), slice(1, false, 31.67)],
    })
}

fn first_slice<T>(stats: T) -> Timeslice<T> {
    Timeslice { start_ns: START, end_ns: START + SLICE, is_complete: true, stats }
}

fn counter(total: f64, rate: f64) -> Stats {
    let spread = RateSpread { avg: rate * 1.01, min: 0.0, max: rate * 4.0, std: rate / 3.0 };
    let slice = CounterSlice { total, rate };
    Stats::Counter(CounterStats {
        total,
        rate,
        slice_rates: (total > 0.0).then_some(spread),
        point_rates: (total > 0.0).then_some(spread),
        resets: None,
        doubts: Doubts::default(),
        timeslices: vec![first_slice(slice)],
    })
}

fn histogram(count: f64, sum: f64) -> Stats {
    let buckets = vec![("0.5".into(), (count / 2.0).floor()), ("+Inf".into(), count)];
    let slice = HistogramSlice { count, sum, avg: sum / count.max(1.0), buckets: buckets.clone() };
    Stats::Histogram(HistogramStats {
        count,
        sum,
        count_rate: count / 22.0,
        sum_rate: sum / 22.0,
        percentiles: (count > 0.0).then_some([0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 1.1, 1.2, 1.375]),
        buckets: Some(buckets),
        greatest: None,
        resets: None,
        doubts: Doubts::default(),
        timeslices: vec![first_slice(slice)],
    })
}

fn after_a_reset() -> Stats {
    Stats::Histogram(HistogramStats {
        count: 4.0,
        sum: 2.0,
        count_rate: 0.2,
        sum_rate: 0.1,
        resets: Some(Resets { reset_count: 1, total_with_resets: 9.0 }),
        ..HistogramStats::default()
    })
}

fn summary() -> Stats {
    Stats::Summary(SummaryStats {
        quantiles: [("0.5".into(), 0.1), ("0.99".into(), 0.5)].into(),
        count: 10.0,
        sum: 1.5,
        count_rate: 0.5,
        sum_rate: 0.075,
    })
}

fn series(endpoint_url: &str, labels: &[(&str, &str)], stats: Stats) -> SeriesReport {
    let labels = labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value)));
    SeriesReport { endpoint_url: endpoint_url.into(), labels: labels.collect(), stats }
}

fn metric(
    name: &str,
    kind: SeriesKind,
    unit: Option<&str>,
    series: Vec<SeriesReport>,
) -> MetricReport {
    let description = match kind {
        // Characters that end a section, start a formula or end a cell if they are not escaped.
        SeriesKind::Unknown => "=cmd|' /C calc'!A0\n\n\"quoted\", and, more\r\nlines",
        _ => "Something in words.",
    };
    let unit = unit.map(Arc::from);
    MetricReport { name: name.into(), kind, description: description.into(), unit, series }
}

/// Every kind of series, from two endpoints, with labels that need escaping.
fn metrics() -> Vec<MetricReport> {
    let constant = || gauge(1.0, 1.0);
    let model = [("model", "Qwen/Qwen3-0.6B")];
    let hostile = [("avg", "-1"), ("model", "a,b;\"c\"\n\nd"), ("path", "@SUM(1)")];
    let lengths = vec![
        series(FIRST, &model, histogram(50.0, 40.0)),
        series(SECOND, &model, histogram(0.0, 0.0)),
        series(SECOND, &[], after_a_reset()),
    ];
    let requests = vec![
        series(FIRST, &[("status", "ok")], counter(50.0, 2.23)),
        series(SECOND, &[("status", "error")], counter(0.0, 0.0)),
        series(SECOND, &[("status", "ok")], counter(60.0, 2.75)),
    ];
    let bytes = vec![
        series(FIRST, &model, counter(318_092.0, 14_206.5)),
        series(SECOND, &model, counter(8.0, 0.5)),
    ];
    let tokens = vec![
        series(FIRST, &model, counter(5275.0, 242.15)),
        series(SECOND, &model, counter(25.0, 1.25)),
    ];
    let running = vec![
        series(FIRST, &[], gauge(0.0, 50.0)),
        series(FIRST, &hostile, constant()),
        series(SECOND, &model, gauge(1e-9, 1e18)),
    ];
    let config = [("block_size", "16"), ("cache_dtype", "auto"), ("expression", "=1+1")];
    vec![
        metric("dynamo_component_inflight_requests", SeriesKind::Gauge, Some("requests"), running),
        metric("dynamo_component_request_bytes", SeriesKind::Counter, Some("bytes"), bytes),
        metric("dynamo_component_requests", SeriesKind::Counter, Some("requests"), requests),
        metric("dynamo_frontend_output_tokens", SeriesKind::Counter, Some("tokens"), tokens),
        metric("odd", SeriesKind::Unknown, None, vec![series(FIRST, &[], gauge(-2.0, 3.0))]),
        metric("quantiles", SeriesKind::Summary, None, vec![series(FIRST, &model, summary())]),
        metric(
            "vllm:cache_config_info",
            SeriesKind::Info,
            None,
            vec![series(FIRST, &config, constant())],
        ),
        metric("vllm:e2e_request_latency_seconds", SeriesKind::Histogram, Some("seconds"), lengths),
    ]
}

fn server_metrics() -> ServerMetrics {
    let info = EndpointInfo {
        total_fetches: 144,
        first_fetch_ns: START,
        last_fetch_ns: START + 11 * SLICE,
        avg_fetch_latency_ms: 2.5,
        unique_updates: 72,
        first_update_ns: START,
        last_update_ns: START + 10 * SLICE,
        duration_seconds: 20.0,
        avg_update_interval_ms: 281.690_140_845_070_4,
        median_update_interval_ms: Some(334.012_710_5),
        failed_fetches: 1,
        profiling: None,
    };
    let urls: Vec<ShownUrl> = vec![FIRST.into(), SECOND.into()];
    let windows = Windows {
        warmup: Some(Window { start_ns: START - SLICE, end_ns: START - 1 }),
        profiling: Some(Window { start_ns: START, end_ns: START + 11 * SLICE }),
    };
    let warmup = metric("up", SeriesKind::Gauge, None, vec![series(FIRST, &[], gauge(1.0, 1.0))]);
    let report = ServerMetricsReport {
        summary: Summary {
            endpoints_configured: urls.clone(),
            endpoints_successful: urls.clone(),
            endpoint_info: urls.into_iter().map(|url| (url, info)).collect(),
            windows,
        },
        metrics: metrics(),
        warmup_metrics: vec![warmup],
        phases: Vec::new(),
    };
    ServerMetrics { report, ..ServerMetrics::default() }
}

/// A run that scraped both endpoints.
fn scraping() -> TestRun {
    let mut run = TestRun::new(ExportLevel::Summary);
    run.config.server_metrics.endpoints = vec![FIRST.into(), SECOND.into()];
    run
}

fn finish(run: &TestRun, server_metrics: Option<ServerMetrics>) {
    let mut report = run.report();
    report.server_metrics = server_metrics;
    run.create().finish(&report, "").unwrap();
}

/// Moves a file of the previous run next to those of the last.
fn bring_back(run: &TestRun, name: &str) {
    fs::rename(run.directory().join("previous-1").join(name), run.directory().join(name)).unwrap();
}

fn read(run: &TestRun, name: &str) -> Value {
    serde_json::from_slice(&fs::read(run.directory().join(name)).unwrap()).unwrap()
}

#[test]
fn pandas_and_jq_read_what_is_meant() {
    let mut run = scraping();
    finish(&run, Some(server_metrics()));
    run.config.prefix = Some("flat".to_owned());
    run.config.server_metrics.json_layout = JsonLayout::Flat;
    finish(&run, Some(server_metrics()));
    bring_back(&run, "server_metrics_export.json");
    bring_back(&run, "server_metrics_export.csv");
    // Computed by hand from the numbers above.
    let answers = json!({
        "p99_of_latency": 1.375,
        "slow": ["vllm:e2e_request_latency_seconds: p99=1.38s"],
        "bytes": 318_100.0,
        "fastest": [2.75, SECOND],
        "windows": ["2.0s window: avg=5.00", "2.0s window: avg=31.67",
                    "2.0s window: avg=5.00", "2.0s window: avg=31.67",
                    "2.0s window: avg=5.00", "2.0s window: avg=31.67"],
        "gate": true,
        "flat_slow": ["vllm:e2e_request_latency_seconds: p99=1.38s"],
        "flat_tokens": 5300.0,
        "flat_fastest": [242.15, "node1:8000"],
    });
    fs::write(run.directory().join("answers.json"), answers.to_string()).unwrap();
    run_python("tests/read_server_metrics.py", run.directory());
}

/// Returns the statistics of recorded scrapes, the first quarter of which is the warmup.
fn of_captures(names: &[&str]) -> ServerMetrics {
    let captures: Vec<_> = names.iter().map(|name| recorded(name)).collect();
    let url = |capture: &Vec<Value>| ShownUrl::new(capture[0]["url"].as_str().unwrap());
    let mut store = Store::new(captures.iter().map(url));
    for (endpoint, capture) in captures.iter().enumerate() {
        for scrape in capture {
            let body = scrape["body"].as_str().unwrap().as_bytes();
            let exposition = Exposition::parse(body, Format::Text).unwrap();
            let at = |name: &str| scrape[name].as_u64().unwrap();
            let times = FetchTimes {
                request_sent_ns: at("request_sent_ns"),
                first_byte_ns: at("first_byte_ns"),
                last_byte_ns: at("last_byte_ns"),
            };
            store.push(endpoint, times, &Snapshot::from_exposition(&exposition));
        }
    }
    let scrapes = &captures[0];
    let at = |scrape: &Value| scrape["request_sent_ns"].as_u64().unwrap();
    let (start, end) = (at(&scrapes[scrapes.len() / 4]), at(&scrapes[scrapes.len() - 1]));
    let windows = Windows {
        warmup: Some(Window { start_ns: at(&scrapes[0]), end_ns: start - 2 }),
        profiling: Some(Window { start_ns: start - 1, end_ns: end - 1 }),
    };
    let report = build(&store, windows, Some(Nanos::from_seconds(2.0)));
    ServerMetrics { report, store: Arc::new(store), ..ServerMetrics::default() }
}

#[test]
fn pandas_reads_what_real_servers_expose() {
    for (captures, least) in [
        (&["vllm/scrapes"][..], 80),
        (&["llamacpp/scrapes"], 8),
        (&["dynamo/scrapes_frontend", "dynamo/scrapes_worker"], 80),
    ] {
        let server_metrics = of_captures(captures);
        let all: usize = server_metrics.report.metrics.iter().map(|m| m.series.len()).sum();
        assert!(all >= least, "{captures:?} {all}");
        assert!(!server_metrics.report.warmup_metrics.is_empty());
        let mut run = scraping();
        finish(&run, Some(server_metrics.clone()));
        run.config.prefix = Some("flat".to_owned());
        run.config.server_metrics.json_layout = JsonLayout::Flat;
        finish(&run, Some(server_metrics));
        bring_back(&run, "server_metrics_export.json");
        bring_back(&run, "server_metrics_export.csv");
        run_python("tests/read_server_metrics.py", run.directory());
    }
}

#[test]
fn the_files_are_of_the_run() {
    let run = scraping();
    finish(&run, Some(server_metrics()));
    let file = read(&run, "server_metrics_export.json");
    let keys: Vec<_> = file.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "schema_version",
        "aiperf_version",
        "benchmark_id",
        "summary",
        "metrics_phase",
        "metrics",
        "warmup_metrics",
        "input_config",
    ];
    assert_eq!(keys, expected);
    assert_eq!(file["schema_version"], "1.1");
    assert_eq!(file["aiperf_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(file["benchmark_id"], run.description.benchmark_id.to_string());
    assert_eq!(file["input_config"], run.description.input_config);
    assert_eq!(file["summary"]["phase_time_ranges"]["profiling"]["start_ns"], START);
    assert_eq!(file["summary"]["endpoint_info"][FIRST]["failed_fetches"], 1);
    let slices = &file["metrics"]["dynamo_component_inflight_requests"]["series"][0]["timeslices"];
    assert_eq!((slices[0].get("is_complete"), &slices[1]["is_complete"]), (None, &json!(false)));
    assert_eq!(file["metrics"]["odd"].get("unit"), None);
    assert_eq!(file["warmup_metrics"]["up"]["series"][0]["stats"]["avg"], 1.0);
    let table = fs::read_to_string(run.directory().join("server_metrics_export.csv")).unwrap();
    assert!(table.starts_with("Endpoint,Type,Metric,Unit,avg,min,max,std,p1,"), "{table}");
    assert!(!table.contains("\nnode1:8000,gauge,up"), "the warmup is not in the table");
}

#[test]
fn only_what_is_asked_for_is_written() {
    let files = ["server_metrics_export.json", "server_metrics_export.csv"];
    let there = |run: &TestRun| files.map(|name| run.directory().join(name).exists());
    let mut run = scraping();
    finish(&run, Some(server_metrics()));
    assert_eq!(there(&run), [true, true]);
    run.config.server_metrics.formats =
        Formats { json: false, ..run.config.server_metrics.formats };
    let set = run.create();
    let mut report = run.report();
    report.server_metrics = Some(server_metrics());
    let written = set.finish(&report, "").unwrap();
    assert_eq!(there(&run), [false, true]);
    assert!(written.iter().any(|path| path.ends_with(files[1])));

    run.config.server_metrics.endpoints.clear();
    finish(&run, None);
    assert_eq!(there(&run), [false, false]);
    // Scraped, but without a result.
    let run = scraping();
    finish(&run, Some(server_metrics()));
    finish(&run, None);
    assert_eq!(there(&run), [false, false]);
}

#[test]
fn paths_are_tried_before_the_run_where_they_are_needed() {
    for name in ["server_metrics_export.json", "server_metrics_export.csv"] {
        let mut run = scraping();
        let claim = run.claim();
        fs::create_dir(run.directory().join(name)).unwrap();
        let create = |run: &TestRun| run.create_in(&claim).map(drop);
        let error = create(&run).unwrap_err();
        assert!(matches!(error, ArtifactError::NotWritable { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        let formats = Formats { json: false, csv: false, jsonl: false, parquet: false };
        run.config.server_metrics.formats = formats;
        create(&run).unwrap();
    }
}

#[test]
fn a_rebuilt_report_writes_them_as_the_run_did() {
    let mut run = TestRun::new(ExportLevel::Records);
    run.config.server_metrics.endpoints = vec![FIRST.into(), SECOND.into()];
    run.config.server_metrics.json_layout = JsonLayout::Flat;
    let mut set = run.create();
    for measured in &run.measured {
        set.record(measured);
    }
    let mut report = run.report();
    report.server_metrics = Some(server_metrics());
    set.finish(&report, "").unwrap();
    let names = ["server_metrics_export.json", "server_metrics_export.csv"];
    let files = || names.map(|name| fs::read_to_string(run.directory().join(name)).unwrap());
    let original = files();
    for name in names {
        fs::remove_file(run.directory().join(name)).unwrap();
    }
    let mut rebuilt = rebuild::rebuild(run.directory()).unwrap();
    rebuilt.report.server_metrics = Some(server_metrics());
    rebuild::write(&mut rebuilt, "").unwrap();
    assert_eq!(files(), original);
}
