//! Reports built from files of other programs reproduce these files.

mod sample;

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use base::redact::ShownUrl;
use client::endpoint::EndpointType;
use client::server_family::SeriesKind;
use measure::server_metrics::report::*;

use super::{csv, flat, json as nested};
use crate::run::RunDescription;

use sample::{float, members, report_of, string};

pub(super) fn golden(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::fs::read_to_string(directory.join(name)).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn description(input_config: &Value) -> RunDescription {
    RunDescription {
        benchmark_id: Uuid::from_u128(7),
        streaming: true,
        input_config: input_config.clone(),
        ..RunDescription::for_endpoint_type(EndpointType::CHAT)
    }
}

fn nested_file(report: &ServerMetricsReport) -> Value {
    let mut out = Vec::new();
    nested::write(&mut out, &description(&json!({})), report).unwrap();
    parsed(std::str::from_utf8(&out).unwrap())
}

fn flat_file(report: &ServerMetricsReport) -> Value {
    let mut out = Vec::new();
    flat::write(&mut out, report).unwrap();
    parsed(std::str::from_utf8(&out).unwrap())
}

fn csv_file(report: &ServerMetricsReport) -> String {
    let mut out = Vec::new();
    csv::write(&mut out, report).unwrap();
    String::from_utf8(out).unwrap()
}

/// Replaces members that are specific to this program or run.
fn settle(file: &mut Value, like: &Value) {
    for name in ["schema_version", "aiperf_version", "benchmark_id", "input_config"] {
        file[name] = like[name].clone();
    }
    // The mean of a histogram is derived from the other numbers in the file, which are rounded.
    for phase in ["metrics", "warmup_metrics"] {
        let Some(metrics) = file.get_mut(phase).and_then(Value::as_object_mut) else { continue };
        for (name, metric) in metrics {
            for (at, series) in metric["series"].as_array_mut().unwrap().iter_mut().enumerate() {
                // Neither AIPerf nor the examples have them.
                series.as_object_mut().unwrap().shift_remove("estimate_bounds");
                let theirs = &like[phase][name]["series"][at]["stats"]["avg"];
                let Some(ours) = series["stats"].get_mut("avg") else { continue };
                let (a, b) = (float(ours), float(theirs));
                assert!((a - b).abs() <= 2e-2 * b.abs(), "{name}: {a} {b}");
                *ours = theirs.clone();
            }
        }
    }
}

#[test]
fn the_file_of_aiperf_comes_out_again() {
    let theirs = parsed(&golden("aiperf-0.13/server_metrics_export.json"));
    let mut ours = nested_file(&report_of(&theirs));
    assert_eq!(ours["schema_version"], theirs["schema_version"]);
    // Local time: only minutes and hours depend on the time zone.
    for (name, end) in [("start_time", ":54.681160"), ("end_time", ":59.215038")] {
        assert!(string(&ours["summary"][name]).ends_with(end), "{}", ours["summary"][name]);
        ours["summary"][name] = theirs["summary"][name].clone();
    }
    settle(&mut ours, &theirs);
    assert_eq!(ours, theirs);
    let order = |file: &Value| members(file).map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(order(&ours), order(&theirs));
    assert_eq!(order(&ours["summary"]), order(&theirs["summary"]));
    // The order of all other members, number by number.
    assert_eq!(ours["metrics"].to_string(), theirs["metrics"].to_string());
}

#[test]
fn the_examples_of_the_layout_come_out_again() {
    for name in ["minimal.json", "collection.json"] {
        let mut theirs = parsed(&golden(&format!("server-metrics/{name}")));
        let mut ours = nested_file(&report_of(&theirs));
        settle(&mut ours, &theirs);
        // Members that 1.1 adds; the examples contain no windows.
        assert_eq!(
            ours.as_object_mut().unwrap().shift_remove("metrics_phase").unwrap(),
            "profiling"
        );
        let summary = ours["summary"].as_object_mut().unwrap();
        assert_eq!(summary.shift_remove("phase_time_ranges").unwrap(), json!({}));
        for time in ["start_time", "end_time"] {
            theirs["summary"].as_object_mut().unwrap().shift_remove(time).unwrap();
        }
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn the_table_of_aiperf_comes_out_again() {
    let mut report = report_of(&parsed(&golden("aiperf-0.13/server_metrics_export.json")));
    report.metrics.sort_by(|a, b| a.name.cmp(&b.name));
    // Without comments.
    let theirs = golden("aiperf-0.13/server_metrics_export.csv");
    let lines = theirs.split_inclusive('\n').filter(|line| !line.starts_with('#'));
    assert_eq!(csv_file(&report), lines.collect::<String>());
}

// Cases that are not in any example.

fn series(labels: &[(&str, &str)], stats: Stats) -> SeriesReport {
    SeriesReport {
        endpoint_url: "http://h:1/metrics".into(),
        labels: labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value))).collect(),
        stats,
    }
}

fn metric(name: &str, kind: SeriesKind, series: Vec<SeriesReport>) -> MetricReport {
    MetricReport { name: name.into(), kind, description: "d".into(), unit: None, series }
}

fn report(metrics: Vec<MetricReport>) -> ServerMetricsReport {
    let url: ShownUrl = "http://h:1/metrics".into();
    let summary = Summary {
        endpoints_configured: vec![url.clone()],
        endpoints_successful: vec![url],
        ..Summary::default()
    };
    ServerMetricsReport { summary, metrics, warmup_metrics: Vec::new(), phases: Vec::new() }
}

fn one(name: &str, kind: SeriesKind, stats: Stats) -> ServerMetricsReport {
    report(vec![metric(name, kind, vec![series(&[], stats)])])
}

fn only_series(file: &Value, name: &str) -> Map<String, Value> {
    let mut series = file["metrics"][name]["series"][0].as_object().unwrap().clone();
    series.retain(|name, _| !name.starts_with("endpoint"));
    series
}

fn reset_histogram() -> Stats {
    Stats::Histogram(HistogramStats {
        count: 3.0,
        sum: 6.0,
        count_rate: 1.0,
        sum_rate: 2.0,
        resets: Some(Resets { reset_count: 1, total_with_resets: 8.0 }),
        ..HistogramStats::default()
    })
}

#[test]
fn resets_are_told() {
    let report = one("h", SeriesKind::Histogram, reset_histogram());
    let expected = json!({
        "stats": {
            "count": 3, "sum": 6.0, "avg": 2.0, "count_rate": 1.0, "sum_rate": 2.0,
            "reset_count": 1, "total_with_resets": 8.0,
        },
        "flags": ["reset"],
        "buckets": null,
    });
    assert_eq!(Value::Object(only_series(&nested_file(&report), "h")), expected);
    let expected = json!({
        "observation_count": 3, "avg": 2.0, "delta": 6.0, "rate_per_second": 2.0,
        "observations_per_second": 1.0, "reset_count": 1, "total_with_resets": 8.0,
        "flags": ["reset"],
    });
    assert_eq!(Value::Object(only_series(&flat_file(&report), "h")), expected);
    let row = csv_file(&report);
    assert!(row.ends_with("3,1.0000,6.0000,2.0000,2.0000,,,,,,,,,,d,,reset\r\n"), "{row}");

    let counter = CounterStats {
        resets: Some(Resets { reset_count: 2, total_with_resets: 5.0 }),
        ..CounterStats::default()
    };
    let report = one("c", SeriesKind::Counter, Stats::Counter(counter));
    let expected = json!({
        "stats": {"total": 0.0, "rate": 0.0, "reset_count": 2, "total_with_resets": 5.0},
        "flags": ["reset"],
    });
    assert_eq!(Value::Object(only_series(&nested_file(&report), "c")), expected);
    let expected = json!({
        "delta": 0.0, "reset_count": 2, "total_with_resets": 5.0, "flags": ["reset"],
    });
    assert_eq!(Value::Object(only_series(&flat_file(&report), "c")), expected);
}

#[test]
fn a_histogram_without_observations_has_no_slices() {
    let timeslices = vec![Timeslice {
        start_ns: 1,
        end_ns: 2,
        is_complete: true,
        stats: HistogramSlice::default(),
    }];
    let sliced = |count, resets| {
        let histogram = HistogramStats {
            count,
            resets,
            timeslices: timeslices.clone(),
            ..HistogramStats::default()
        };
        let report = one("h", SeriesKind::Histogram, Stats::Histogram(histogram));
        only_series(&nested_file(&report), "h").contains_key("timeslices")
    };
    assert!(!sliced(0.0, None));
    assert!(sliced(1.0, None));
    // Counts from before a restart are in the slices only.
    assert!(sliced(0.0, Some(Resets { reset_count: 1, total_with_resets: 8.0 })));
}

#[test]
fn what_is_not_finite_is_left_out() {
    let gauge = GaugeStats {
        avg: f64::INFINITY,
        min: 1.0,
        max: 2.0,
        std: f64::NAN,
        percentiles: [1.5; 9],
        timeslices: Vec::new(),
    };
    let report = one("g", SeriesKind::Gauge, Stats::Gauge(gauge));
    let stats = &nested_file(&report)["metrics"]["g"]["series"][0]["stats"];
    let names: Vec<_> = members(stats).map(|(name, _)| name.as_str()).collect();
    let percentiles = PERCENTILES.map(|percentile| format!("p{percentile}"));
    let expected: Vec<_> =
        ["min", "max"].into_iter().chain(percentiles.iter().map(String::as_str)).collect();
    assert_eq!(names, expected);
    assert!(csv_file(&report).contains("g,,,1.0000,2.0000,,1.5000,"), "{}", csv_file(&report));
    assert!(!flat_file(&report).to_string().contains("null"));
}

#[test]
fn infos_and_summaries_are_where_they_belong() {
    let one = GaugeStats { avg: 1.0, min: 1.0, max: 1.0, ..GaugeStats::default() };
    let summary = SummaryStats {
        quantiles: [("0.5".into(), 2.0), ("0.99".into(), 3.0)].into(),
        count: 4.0,
        sum: 10.0,
        count_rate: 0.5,
        sum_rate: 1.25,
    };
    let labels = [("a", "1"), ("b", "2")];
    let report = report(vec![
        metric("i_info", SeriesKind::Info, vec![series(&labels, Stats::Gauge(one))]),
        metric("s", SeriesKind::Summary, vec![series(&[], Stats::Summary(summary))]),
    ]);
    let file = nested_file(&report);
    assert_eq!(file["metrics"]["i_info"]["type"], "gauge");
    assert_eq!(file["metrics"]["i_info"]["series"][0]["stats"]["avg"], 1.0);
    assert_eq!(file["metrics"].get("s"), None);

    let file = flat_file(&report);
    assert_eq!(file["metrics"]["i_info"]["unit"], "info");
    let expected = json!({"labels": {"a": "1", "b": "2"}});
    assert_eq!(Value::Object(only_series(&file, "i_info")), expected);
    let expected = json!({
        "observation_count": 4, "avg": 2.5, "p50": 2.0, "p99": 3.0,
        "estimated_percentiles": false, "delta": 10.0, "rate_per_second": 1.25,
        "observations_per_second": 0.5, "quantiles": {"0.5": 2.0, "0.99": 3.0},
    });
    assert_eq!(Value::Object(only_series(&file, "s")), expected);

    let expected =
        "Endpoint,Metric,Key,Value,Description\r\nh:1,i_info,a,1,d\r\nh:1,i_info,b,2,d\r\n";
    assert_eq!(csv_file(&report), expected);
}

#[test]
fn two_kinds_of_one_name_are_both_there() {
    let report = report(vec![
        metric("x", SeriesKind::Gauge, vec![series(&[], Stats::Gauge(GaugeStats::default()))]),
        metric(
            "x",
            SeriesKind::Counter,
            vec![series(&[], Stats::Counter(CounterStats::default()))],
        ),
    ]);
    for file in [nested_file(&report), flat_file(&report)] {
        let names: Vec<_> = members(&file["metrics"]).map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x", "x (counter)"]);
    }
}

#[test]
fn fetches_that_failed_are_told_and_times_without_meaning_are_not() {
    let mut report = report(Vec::new());
    let url = report.summary.endpoints_successful[0].clone();
    let info = EndpointInfo {
        total_fetches: 3,
        first_fetch_ns: 1_000_000_000,
        last_fetch_ns: 2_000_000_000,
        avg_fetch_latency_ms: 4.0,
        failed_fetches: 2,
        ..EndpointInfo::default()
    };
    report.summary.endpoint_info = vec![(url, info)];
    let summary = &nested_file(&report)["summary"];
    let nested = &summary["endpoint_info"]["http://h:1/metrics"];
    assert_eq!(nested["failed_fetches"], 2);
    assert_eq!(nested["median_update_interval_ms"], Value::Null);
    assert_eq!(summary.get("start_time"), None);
    let expected = json!({
        "endpoint_url": "http://h:1/metrics", "duration_seconds": 1.0, "scrape_count": 3,
        "avg_scrape_latency_ms": 4.0, "avg_scrape_period_ms": 500.0, "failed_fetches": 2,
    });
    let flat = flat_file(&report);
    assert_eq!(flat["summary"]["endpoints_configured"], json!(["h:1"]));
    assert_eq!(flat["summary"]["endpoint_info"], json!({"h:1": expected}));
    assert_eq!(csv_file(&report), "");
}

#[test]
fn cells_are_neither_formulas_nor_several_lines() {
    let hostile = [("=cmd", "+1+cmd"), ("avg", "-1"), ("b", "@x"), ("label_avg", "two\n\nlines")];
    let zero = || Stats::Gauge(GaugeStats::default());
    let mut gauge = metric("g", SeriesKind::Gauge, vec![series(&hostile, zero())]);
    gauge.description = "=1+1, \"quoted\"".into();
    let text = csv_file(&report(vec![gauge]));
    let (header, row) = text.split_once("\r\n").unwrap();
    assert!(header.ends_with(",p99,'=cmd,label_label_avg,b,label_avg,Description"), "{header}");
    let expected = ",0.0000,'+1+cmd,-1,'@x,two\\n\\nlines,\"'=1+1, \"\"quoted\"\"\"\r\n";
    assert!(row.ends_with(expected), "{row}");
}

/// Returns the cells of each section.
fn sections(text: &str) -> Vec<Vec<Vec<String>>> {
    let section = |text: &str| {
        let mut reader =
            ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect());
        rows.collect()
    };
    text.split("\r\n\r\n").map(section).collect()
}

proptest! {
    #[test]
    fn whatever_a_server_says_stays_in_its_cell(
        said in prop::collection::btree_map("(?s)\\PC{1,8}", "(?s).{0,12}", 1..4),
        description in "(?s).{0,20}",
    ) {
        let labels: Vec<_> = said.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let zero = || Stats::Gauge(GaugeStats::default());
        let mut metrics = vec![
            metric("g", SeriesKind::Gauge, vec![series(&labels, zero())]),
            metric("i", SeriesKind::Info, vec![series(&labels, zero())]),
        ];
        for metric in &mut metrics {
            metric.description = description.as_str().into();
        }
        let report = report(metrics);
        let found = sections(&csv_file(&report));
        prop_assert_eq!(found.len(), 2);
        prop_assert_eq!(found[0].len(), 2);
        prop_assert_eq!(found[1].len(), 1 + said.len());
        let plain = |cell: &str| {
            let cell = cell.strip_prefix('\'').unwrap_or(cell);
            cell.replace("\\r", "\r").replace("\\n", "\n")
        };
        for (row, (name, value)) in found[1][1..].iter().zip(&said) {
            // Quotes at the start and backslashes may be the server's own.
            let same = |cell: &String, text: &String| plain(cell) == plain(text);
            prop_assert!(same(&row[2], name) && same(&row[3], value), "{:?} {:?}", row, value);
        }
        let header: std::collections::BTreeSet<_> = found[0][0].iter().collect();
        prop_assert_eq!(header.len(), found[0][0].len(), "no two columns of one name");
        for file in [nested_file(&report), flat_file(&report)] {
            let labels = &file["metrics"]["g"]["series"][0]["labels"];
            prop_assert_eq!(labels, &serde_json::to_value(&said).unwrap());
        }
    }

    #[test]
    fn numbers_are_json_whatever_they_are(values in prop::array::uniform9(any::<f64>())) {
        let [avg, min, max, std, ..] = values;
        let gauge = GaugeStats { avg, min, max, std, percentiles: values, timeslices: Vec::new() };
        let histogram = HistogramStats {
            count: avg,
            sum: min,
            count_rate: max,
            sum_rate: std,
            percentiles: Some(values),
            buckets: Some(vec![("+Inf".into(), avg)]),
            ..HistogramStats::default()
        };
        let report = report(vec![
            metric("g", SeriesKind::Gauge, vec![series(&[], Stats::Gauge(gauge))]),
            metric("h", SeriesKind::Histogram, vec![series(&[], Stats::Histogram(histogram))]),
        ]);
        prop_assert!(!nested_file(&report)["metrics"].to_string().contains("null"));
        prop_assert!(!flat_file(&report)["metrics"].to_string().contains("null"));
        let table = csv_file(&report);
        prop_assert!(!table.contains("inf") && !table.contains("NaN"), "{}", table);
    }
}
