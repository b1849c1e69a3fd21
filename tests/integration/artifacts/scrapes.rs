//! `server_metrics_export.jsonl` and `.parquet`, and the statistics that are computed from them
//! again.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use base::units::Nanos;
use client::schedule::PhaseKind;
use client::server_family::SeriesKind;
use measure::server_metrics::exposition::{Exposition, Format};
use measure::server_metrics::report::{self, ServerMetrics, Window, Windows};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::store::Store;
use measure::server_metrics::{Endpoint, FetchTimes, PhaseMark, Scrape};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use results::artifacts::rebuild;
use results::artifacts::server_metrics::{Formats, ScrapeLines};
use results::artifacts::{ArtifactError, ArtifactSet, ExportLevel};
use results::console::{self, Style};
use serde::Deserialize;
use serde_json::Value;

use super::run::TestRun;
use crate::support::metrics_endpoint::recorded;
use crate::support::python::run_python;

const LINES: &str = "server_metrics_export.jsonl";
const TABLE: &str = "server_metrics_export.parquet";
const STATISTICS: [&str; 2] = ["server_metrics_export.json", "server_metrics_export.csv"];

#[derive(Deserialize)]
struct Fetch {
    request_sent_ns: u64,
    first_byte_ns: u64,
    last_byte_ns: u64,
    body: String,
}

impl Fetch {
    fn times(&self) -> FetchTimes {
        let Self { request_sent_ns, first_byte_ns, last_byte_ns, .. } = *self;
        FetchTimes { request_sent_ns, first_byte_ns, last_byte_ns }
    }
}

/// One scrape per second, starting at second 1.
fn bodies(bodies: &[&str]) -> Vec<Fetch> {
    let fetch = |(second, body): (u64, &&str)| {
        let at = second * 1_000_000_000;
        let body = (*body).to_owned();
        Fetch { request_sent_ns: at - 5, first_byte_ns: at, last_byte_ns: at + 7, body }
    };
    (1..).zip(bodies).map(fetch).collect()
}

/// A run with scrapes, defined by the bodies that each endpoint returned.
struct ServedRun {
    run: TestRun,
    endpoints: Vec<(Endpoint, Vec<Fetch>)>,
    windows: Windows,
}

impl ServedRun {
    fn new(endpoints: Vec<(&str, Vec<Fetch>)>, windows: Windows) -> Self {
        let mut run = TestRun::new(ExportLevel::Records);
        let files = &mut run.config.server_metrics;
        files.endpoints = endpoints.iter().map(|(url, _)| (*url).into()).collect();
        files.formats = Formats { json: true, csv: true, jsonl: true, parquet: true };
        files.slice_duration = Some(Nanos::from_seconds(2.0));
        let endpoints = endpoints
            .into_iter()
            .map(|(url, fetches)| (Endpoint { url: url.into() }, fetches))
            .collect();
        Self { run, endpoints, windows }
    }

    /// vLLM's recorded load in two halves, the first of which is the warmup; the last scrapes come
    /// after both.
    fn vllm() -> Self {
        let fetches: Vec<Fetch> = recorded("vllm/scrapes");
        let at = |number: usize| fetches[number].first_byte_ns;
        let sent = |number: usize| fetches[number].request_sent_ns;
        let (last, middle) = (fetches.len() - 6, fetches.len() / 2);
        let windows = Windows {
            warmup: Some(Window { start_ns: at(6) + 1, end_ns: sent(middle) }),
            profiling: Some(Window { start_ns: at(middle) + 1000, end_ns: sent(last) }),
        };
        Self::new(vec![("http://127.0.0.1:8801/metrics", fetches)], windows)
    }

    /// Returns the phase in which a scrape was requested.
    fn phase(&self, at: u64) -> Option<PhaseMark> {
        let has = |window: Option<Window>| {
            window.is_some_and(|window| (window.start_ns..=window.end_ns).contains(&at))
        };
        if has(self.windows.warmup) {
            Some(PhaseMark { index: 0, kind: PhaseKind::Warmup })
        } else {
            has(self.windows.profiling)
                .then_some(PhaseMark { index: 1, kind: PhaseKind::Profiling })
        }
    }

    /// Processes all scrapes in order of time, into a store and lines.
    fn scrape(&self, mut lines: Option<&mut ScrapeLines>) -> Store {
        let urls = self.run.config.server_metrics.endpoints.clone();
        let mut store = Store::new(urls);
        let mut all: Vec<(usize, usize)> = Vec::new();
        for (number, (_, fetches)) in self.endpoints.iter().enumerate() {
            all.extend((0..fetches.len()).map(|fetch| (number, fetch)));
        }
        all.sort_by_key(|(number, fetch)| self.endpoints[*number].1[*fetch].first_byte_ns);
        for (index, number) in all {
            let (endpoint, fetches) = &self.endpoints[index];
            let fetch = &fetches[number];
            let is_duplicate = number > 0 && fetches[number - 1].body == fetch.body;
            let exposition = Exposition::parse(fetch.body.as_bytes(), Format::Text).unwrap();
            let snapshot = Snapshot::from_exposition(&exposition);
            let times = fetch.times();
            if is_duplicate {
                store.repeat(index, times);
            } else {
                store.push(index, times, &snapshot);
            }
            if let Some(lines) = &mut lines {
                lines.append(&Scrape {
                    index,
                    endpoint,
                    times,
                    phase: self.phase(times.request_sent_ns),
                    is_duplicate,
                    exposition: &exposition,
                    snapshot: &snapshot,
                });
            }
        }
        store
    }

    fn metrics(&self, store: Store) -> ServerMetrics {
        let slices = self.run.config.server_metrics.slice_duration;
        ServerMetrics {
            report: report::build(&store, self.windows, slices),
            store: Arc::new(store),
            ..ServerMetrics::default()
        }
    }

    /// The open files of a run that was scraped to its end.
    fn scraped(&self) -> (ArtifactSet, Store) {
        self.scraped_into(self.run.create())
    }

    fn scraped_into(&self, mut set: ArtifactSet) -> (ArtifactSet, Store) {
        for measured in &self.run.measured {
            set.record(measured);
        }
        let mut lines = set.open_scrapes().unwrap();
        let store = self.scrape(lines.as_mut());
        if let Some(lines) = lines {
            set.close_scrapes(lines);
        }
        (set, store)
    }

    /// Writes every file; returns the report they contain.
    fn complete(&self) -> ServerMetrics {
        let (set, mut store) = self.scraped();
        store.failed(0, 3);
        let metrics = self.metrics(store);
        let mut report = self.run.report();
        report.server_metrics = Some(metrics.clone());
        set.finish(&report, &console::render(&report, Style::FILE)).unwrap();
        metrics
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.run.directory().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn remove(&self, names: &[&str]) {
        for name in names {
            fs::remove_file(self.path(name)).unwrap();
        }
    }

    /// Rebuilds and writes the files; returns the notes.
    fn report(&self) -> Vec<String> {
        let mut rebuilt = rebuild::rebuild(self.run.directory()).unwrap();
        rebuild::write(&mut rebuilt, "").unwrap();
        rebuilt.notes
    }
}

#[test]
fn scrapes_give_every_file_again_to_the_last_byte() {
    let served = ServedRun::vllm();
    served.complete();
    let files = [STATISTICS[0], STATISTICS[1], TABLE];
    let original = files.map(|name| served.bytes(name));
    served.remove(&files);
    assert_eq!(served.report(), [""; 0]);
    for (name, original) in files.iter().zip(original) {
        assert!(served.bytes(name) == original, "{name}");
    }
}

#[test]
fn endpoints_that_moved_failed_or_never_answered_come_back_too() {
    let steps = ["a 1\n", "a 1\n", "a 2\n# TYPE b_total counter\nb_total 3\n", "a 4\n"];
    let windows =
        Windows { warmup: None, profiling: Some(Window { start_ns: 1, end_ns: 3_500_000_000 }) };
    let mut served = ServedRun::new(
        vec![
            ("http://one/metrics", bodies(&steps)),
            ("http://silent/metrics", Vec::new()),
            ("http://two/metrics", bodies(&steps[1..])),
        ],
        windows,
    );
    let moved = "http://two/prometheus/metrics";
    served.endpoints[2].0.url = moved.into();
    let (set, mut store) = served.scraped();
    store.failed(1, 7);
    store.moved(2, moved.into());
    let mut report = served.run.report();
    report.server_metrics = Some(served.metrics(store));
    set.finish(&report, "").unwrap();
    let original = STATISTICS.map(|name| served.bytes(name));
    served.remove(&STATISTICS);
    served.report();
    assert!(STATISTICS.map(|name| served.bytes(name)) == original);
    let json: Value = serde_json::from_slice(&original[0]).unwrap();
    assert_eq!(json["summary"]["endpoints_configured"].as_array().unwrap().len(), 3);
    // Three of four bodies were new.
    assert_eq!(json["summary"]["endpoint_info"]["http://one/metrics"]["unique_updates"], 3);
}

#[test]
fn a_killed_run_is_reported_by_its_lines() {
    let served = ServedRun::vllm();
    let (set, store) = served.scraped();
    drop(set);
    let rebuilt = rebuild::rebuild(served.run.directory()).unwrap().report;
    let metrics = rebuilt.server_metrics.unwrap();
    // No scrape marks the start of profiling; the first scrape of that phase is used instead.
    let profiling = served.windows.profiling.unwrap();
    let windows = metrics.report.summary.windows;
    assert_eq!(windows.profiling.unwrap().end_ns, profiling.end_ns);
    let starts = store.endpoints()[0].scrapes().iter().map(|scrape| scrape.request_sent_ns);
    let first = starts.filter(|at| *at >= profiling.start_ns).min();
    assert_eq!(Some(windows.profiling.unwrap().start_ns), first);
    assert_eq!(windows.warmup.unwrap().end_ns, served.windows.warmup.unwrap().end_ns);
    let slices = served.run.config.server_metrics.slice_duration;
    assert_eq!(metrics.report, report::build(&store, windows, slices));
}

/// Asserts that all numbers in `ours` and `theirs` are equal except for rounding.
fn assert_close(path: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            assert!(ours.keys().eq(theirs.keys()), "{path}");
            for (key, value) in ours {
                assert_close(&format!("{path}/{key}"), value, &theirs[key]);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{path}");
            for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                assert_close(&format!("{path}/{number}"), ours, theirs);
            }
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            let most = 1e-9 * ours.abs().max(theirs.abs()).max(1e-6);
            assert!((ours - theirs).abs() <= most, "{path}: {ours} {theirs}");
        }
        _ => assert_eq!(ours, theirs, "{path}"),
    }
}

#[test]
fn samples_give_the_statistics_of_the_profiling_phase() {
    let served = ServedRun::vllm();
    served.complete();
    let original: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    served.remove(&[LINES]);
    // The existing file contains more than the samples determine, and is kept.
    assert_eq!(served.report(), [""; 0]);
    assert_eq!(serde_json::from_slice::<Value>(&served.bytes(STATISTICS[0])).unwrap(), original);
    let table = served.bytes(TABLE);
    served.remove(&STATISTICS);
    let notes = served.report();
    assert!(notes[0].contains("does not contain the warmup or summaries"), "{notes:?}");
    assert!(served.bytes(TABLE) == table);
    let again: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    for member in ["summary", "metrics", "input_config"] {
        assert_close(member, &again[member], &original[member]);
    }
    assert!(original["warmup_metrics"].is_object());
    assert!(again["warmup_metrics"].is_null());
    assert!(served.path(STATISTICS[1]).is_file());
}

#[test]
fn samples_of_a_server_that_grows_are_rebuilt_too() {
    let [frontend, worker] =
        ["frontend", "worker"].map(|name| recorded::<Fetch>(&format!("dynamo/scrapes_{name}")));
    let profiling = Window {
        start_ns: frontend[2].first_byte_ns + 1,
        end_ns: frontend.last().unwrap().request_sent_ns,
    };
    let served = ServedRun::new(
        vec![("http://frontend/metrics", frontend), ("http://worker/metrics", worker)],
        Windows { warmup: None, profiling: Some(profiling) },
    );
    served.complete();
    let original: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    served.remove(&[LINES, STATISTICS[0], STATISTICS[1]]);
    served.report();
    let again: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    for member in ["summary", "metrics"] {
        assert_close(member, &again[member], &original[member]);
    }
}

#[test]
fn samples_of_buckets_that_come_and_go_are_rebuilt_too() {
    let body = |buckets: &[(&str, u64)]| {
        let line = |(le, count): &(&str, u64)| format!("h_bucket{{le=\"{le}\"}} {count}\n");
        let lines: String = buckets.iter().map(line).collect();
        let count = buckets.last().unwrap().1;
        format!("# TYPE h histogram\n{lines}h_sum {count}\nh_count {count}\n")
    };
    let all = [
        body(&[("1", 5), ("+Inf", 10)]),
        // The reference contains neither of the bounds that appear later.
        body(&[("+Inf", 20)]),
        body(&[("1", 15), ("2", 18), ("+Inf", 30)]),
        body(&[("1", 16), ("2", 20), ("+Inf", 33)]),
    ];
    let profiling = Window { start_ns: 2_000_000_001, end_ns: 3_999_999_990 };
    let served = ServedRun::new(
        vec![("http://a/metrics", bodies(&all.each_ref().map(String::as_str)))],
        Windows { warmup: None, profiling: Some(profiling) },
    );
    served.complete();
    let original: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    let buckets = &original["metrics"]["h"]["series"][0]["buckets"];
    assert_eq!(buckets, &serde_json::json!({"+Inf": 13}));
    served.remove(&[LINES, STATISTICS[0], STATISTICS[1]]);
    served.report();
    let again: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    assert_close("metrics", &again["metrics"], &original["metrics"]);
}

#[test]
fn other_readers_find_what_the_server_sent() {
    let served = ServedRun::vllm();
    served.complete();
    run_python("tests/read_server_parquet.py", served.run.directory());
}

/// The rows of the table, each with its cells that are not null by column.
fn rows(path: &Path) -> Vec<Value> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let cell = |field: &Field| match field {
        Field::Str(text) => Some(text.clone().into()),
        Field::Long(number) => Some((*number).into()),
        Field::Double(number) => Some((*number).into()),
        Field::Null => None,
        other => panic!("{other}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let cells =
            row.get_column_iter().filter_map(|(name, field)| Some((name.clone(), cell(field)?)));
        Value::Object(cells.collect())
    });
    rows.collect()
}

#[test]
fn rows_are_what_rose_since_the_reference() {
    let before = "# TYPE c_total counter\nc_total{value=\"x\"} 10\n\
        # TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n\
        # TYPE g_seconds gauge\n# HELP g_seconds How long.\ng_seconds 1.5\n";
    let after = "# TYPE c_total counter\nc_total{value=\"x\"} 4\nc_total{value=\"new\"} 6\n\
        # TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 5\nh_sum 9.5\nh_count 5\n\
        # TYPE g_seconds gauge\n# HELP g_seconds How long.\ng_seconds 2.5\n\
        # TYPE s summary\ns_sum 1\ns_count 1\n";
    let second = 1_000_000_000;
    let windows = Windows {
        warmup: None,
        profiling: Some(Window { start_ns: second + 1, end_ns: 2 * second - 10 }),
    };
    let served = ServedRun::new(vec![("http://u/metrics", bodies(&[before, after]))], windows);
    served.complete();
    let row = |name: &str, kind: &str, more: Value| {
        let mut row = serde_json::json!({
            "endpoint_url": "http://u/metrics", "metric_name": name, "metric_type": kind,
            "timestamp_ns": 2 * second,
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let expected = [
        // The value decreased: the server restarted.
        row("c", "counter", serde_json::json!({"label_value": "x", "value": 0.0})),
        row("c", "counter", serde_json::json!({"label_value": "new", "value": 6.0})),
        row(
            "g_seconds",
            "gauge",
            serde_json::json!({"unit": "seconds", "description": "How long.", "value": 2.5}),
        ),
        row(
            "h",
            "histogram",
            serde_json::json!({"sum": 5.5, "count": 2.0, "bucket_le": "1", "bucket_count": 0.0}),
        ),
        row(
            "h",
            "histogram",
            serde_json::json!({"sum": 5.5, "count": 2.0, "bucket_le": "+Inf", "bucket_count": 2.0}),
        ),
    ];
    assert_eq!(rows(&served.path(TABLE)), expected);
    served.remove(&[LINES, STATISTICS[0], STATISTICS[1]]);
    let notes = served.report();
    assert!(notes[0].contains("nor the counts of a series after it was reset"), "{notes:?}");
    let json: Value = serde_json::from_slice(&served.bytes(STATISTICS[0])).unwrap();
    let labels = &json["metrics"]["c"]["series"];
    assert_eq!(labels[0]["labels"], serde_json::json!({"value": "new"}));
    assert_eq!(labels[0]["stats"]["total"], 6.0);
}

#[test]
fn the_table_says_what_it_is_of() {
    let served = ServedRun::vllm();
    let metrics = served.complete();
    let reader = SerializedFileReader::new(File::open(served.path(TABLE)).unwrap()).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| {
        let key = format!("aiperf.{key}");
        pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap()
    };
    let profiling = served.windows.profiling.unwrap();
    assert_eq!(value("schema_version"), "1.0");
    assert_eq!(value("benchmark_id"), served.run.description.benchmark_id.to_string());
    let end = served.run.report().outcome.end_wall_ns;
    let end = chrono::DateTime::from_timestamp_nanos(end.cast_signed());
    let end = end.format("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string();
    assert_eq!(value("export_timestamp_utc"), end);
    assert_eq!(value("time_filter_start_ns"), profiling.start_ns.to_string());
    assert_eq!(value("time_filter_end_ns"), profiling.end_ns.to_string());
    assert_eq!(value("concurrency"), "4");
    assert_eq!(value("request_rate"), "10.0");
    assert_eq!(value("endpoint_urls"), "[\"http://127.0.0.1:8801/metrics\"]");
    let of = |kinds: &[SeriesKind]| {
        metrics.report.metrics.iter().filter(|metric| kinds.contains(&metric.kind)).count()
    };
    let types: Value = serde_json::from_str(&value("metric_type_counts")).unwrap();
    assert_eq!(types["gauge"], of(&[SeriesKind::Gauge, SeriesKind::Info]));
    assert_eq!(types["counter"], of(&[SeriesKind::Counter]));
    assert_eq!(types["histogram"], of(&[SeriesKind::Histogram]));
}

#[test]
fn many_rows_are_several_groups_and_come_back() {
    let second = 1_000_000_000;
    let body = |scrape: u32| -> String {
        let series = |series: u32| {
            let (few, all) = (scrape * series, scrape * series + scrape);
            format!(
                "h_bucket{{s=\"{series}\",le=\"1\"}} {few}\nh_bucket{{s=\"{series}\",le=\"2\"}} {all}\n\
                 h_bucket{{s=\"{series}\",le=\"+Inf\"}} {all}\nh_sum{{s=\"{series}\"}} {all}\n\
                 h_count{{s=\"{series}\"}} {all}\n"
            )
        };
        format!("# TYPE h histogram\n{}", (0..250).map(series).collect::<String>())
    };
    let all: Vec<String> = (0..100).map(body).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let profiling = Window { start_ns: second + 1, end_ns: 100 * second - 10 };
    let windows = Windows { warmup: None, profiling: Some(profiling) };
    let served = ServedRun::new(vec![("http://u/metrics", bodies(&all))], windows);
    served.complete();
    let reader = SerializedFileReader::new(File::open(served.path(TABLE)).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 250 * 99 * 3);
    assert_eq!(reader.num_row_groups(), 2);
    // The buckets of one scrape are split between both groups.
    assert_ne!(reader.metadata().row_group(0).num_rows() % 3, 0);
    let original = served.bytes(STATISTICS[0]);
    served.remove(&[LINES, STATISTICS[0]]);
    served.report();
    assert!(served.bytes(STATISTICS[0]) == original);
}

#[test]
fn a_line_that_is_not_a_scrape_is_named_and_left_out_and_so_is_a_cut_one() {
    let served = ServedRun::vllm();
    let scrapes = served.endpoints[0].1.len();
    served.complete();
    let whole = served.bytes(LINES);
    let text = String::from_utf8(whole.clone()).unwrap();
    fs::write(served.path(LINES), &whole[..whole.len() - 20]).unwrap();
    let notes = rebuild::rebuild(served.run.directory()).unwrap().notes;
    assert!(notes[0].contains("the last line (line "), "{notes:?}");
    let broken = text.replacen("\n{\"endpoint_url\"", "\n{\"endpoint\"", 1);
    fs::write(served.path(LINES), broken).unwrap();
    let rebuilt = rebuild::rebuild(served.run.directory()).unwrap();
    assert_eq!(rebuilt.notes.len(), 1, "{:?}", rebuilt.notes);
    assert!(rebuilt.notes[0].contains("line 2: not a valid scrape"), "{:?}", rebuilt.notes);
    assert!(rebuilt.notes[0].contains("it is ignored"), "{:?}", rebuilt.notes);
    let info = rebuilt.report.server_metrics.unwrap().report.summary.endpoint_info;
    assert_eq!(info[0].1.total_fetches, scrapes as u64 - 1);
}

#[test]
fn lines_that_cannot_be_used_leave_the_clients_results_alone() {
    let served = ServedRun::vllm();
    served.complete();
    let original = served.bytes(STATISTICS[0]);
    let whole = served.bytes(LINES);
    // An endpoint whose metric types are not in any line.
    let foreign = r#"{"endpoint_url":"http://new/metrics","timestamp_ns":1,"endpoint_latency_ns":1,"metrics":{"a":[{"value":1.0}]},"request_sent_ns":1,"first_byte_ns":1}"#;
    let both = [&whole[..], format!("{foreign}\n{foreign}\n").as_bytes()].concat();
    fs::write(served.path(LINES), both).unwrap();
    let notes = served.report();
    assert!(notes[0].contains("it and another line are ignored"), "{notes:?}");
    assert!(notes[0].contains("no line so far contains the type of a"), "{notes:?}");
    assert!(served.bytes(STATISTICS[0]) == original, "the others' are the same again");
    // A file that cannot be read.
    served.remove(&[LINES]);
    fs::create_dir(served.path(LINES)).unwrap();
    let notes = served.report();
    assert!(notes[0].contains("cannot read") && notes[0].contains("left unchanged"), "{notes:?}");
    assert!(served.bytes(STATISTICS[0]) == original);
    let records = rebuild::rebuild(served.run.directory()).unwrap().report.results;
    assert!(!records.is_empty());
}

#[test]
fn lines_and_tables_of_others_leave_the_files_alone() {
    let served = ServedRun::vllm();
    served.complete();
    let original = served.bytes(STATISTICS[0]);
    let foreign = r#"{"endpoint_url":"http://u/metrics","timestamp_ns":1,"endpoint_latency_ns":1,"metrics":{"a":[{"value":1.0}]},"request_sent_ns":1,"first_byte_ns":1}"#;
    fs::write(served.path(LINES), format!("{foreign}\n{foreign}\n")).unwrap();
    let notes = served.report();
    assert!(notes[0].contains("left unchanged"), "{notes:?}");
    assert!(served.bytes(STATISTICS[0]) == original);
    // Neither scrapes nor a readable table.
    served.remove(&[LINES, STATISTICS[0]]);
    fs::write(served.path(TABLE), b"PAR1 and no more").unwrap();
    let notes = served.report();
    assert!(notes[0].contains("cannot read"), "{notes:?}");
    served.remove(&[TABLE]);
    assert_eq!(served.report(), [""; 0]);
    assert!(!served.path(STATISTICS[0]).exists());
}

#[test]
fn a_damaged_table_is_a_note() {
    let served = ServedRun::vllm();
    served.complete();
    let table = served.bytes(TABLE);
    served.remove(&[LINES, STATISTICS[0], STATISTICS[1]]);
    for at in (4..table.len()).step_by(table.len() / 20) {
        let mut damaged = table.clone();
        for byte in &mut damaged[at..(at + 8).min(table.len())] {
            *byte ^= 0x5a;
        }
        fs::write(served.path(TABLE), damaged).unwrap();
        // If the damage is in a value, the result is a different value.
        let _ = rebuild::rebuild(served.run.directory()).unwrap();
    }
}

#[test]
fn a_full_disk_is_told_at_the_end() {
    let served = ServedRun::vllm();
    let claim = served.run.claim();
    std::os::unix::fs::symlink("/dev/full", served.path(LINES)).unwrap();
    let (set, store) = served.scraped_into(served.run.create_in(&claim).unwrap());
    let mut report = served.run.report();
    report.server_metrics = Some(served.metrics(store));
    let error = set.finish(&report, "").unwrap_err();
    let ArtifactError::Incomplete { written, failures, .. } = error else { panic!("{error}") };
    let failed: Vec<_> = failures.iter().map(|failure| failure.path.clone()).collect();
    assert_eq!(failed, [served.path(LINES)]);
    assert!(written.contains(&served.path(TABLE)));
}

#[test]
fn paths_that_cannot_be_written_are_told_before_the_run() {
    for name in [LINES, TABLE] {
        let served = ServedRun::vllm();
        let run = &served.run;
        let claim = run.claim();
        fs::create_dir(served.path(name)).unwrap();
        let error =
            run.create_in(&claim).and_then(|mut set| set.open_scrapes().map(drop)).unwrap_err();
        assert!(matches!(error, ArtifactError::NotWritable { .. }), "{error}");
    }
}

#[test]
fn a_run_that_writes_no_scrapes_opens_no_file_for_them() {
    let mut served = ServedRun::vllm();
    served.run.config.server_metrics.formats.jsonl = false;
    let mut set = served.run.create();
    assert!(set.open_scrapes().unwrap().is_none());
    assert!(!served.path(LINES).exists());
    served.run.config.server_metrics.endpoints.clear();
    drop(served.run.create());
    assert!(!served.path(TABLE).exists());
}

#[test]
fn no_file_of_scrapes_is_left_where_none_succeeded() {
    let served = ServedRun::new(vec![("http://silent/metrics", Vec::new())], Windows::default());
    drop(served.scraped());
    assert!(!served.path(LINES).exists());
}

#[test]
fn lines_are_handed_over_by_number_and_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(LINES);
    let mut lines = ScrapeLines::create(&path, 3).unwrap();
    let endpoint = Endpoint { url: "http://u/metrics".into() };
    let second = 1_000_000_000;
    let mut on_disk = Vec::new();
    // The first is due, as is any that is at least a second after the last one that was due.
    for after_ns in [0, 1, 2, 3, second + 4, second + 5] {
        let last_byte_ns = 5 * second + after_ns;
        lines.append(&Scrape {
            index: 0,
            endpoint: &endpoint,
            times: FetchTimes { last_byte_ns, ..FetchTimes::default() },
            phase: None,
            is_duplicate: false,
            exposition: &Exposition::default(),
            snapshot: &Snapshot::default(),
        });
        on_disk.push(fs::read_to_string(&path).unwrap().lines().count());
    }
    assert_eq!(on_disk, [1, 1, 1, 4, 5, 5]);
    lines.flush();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 6);
    assert_eq!(lines.finish().unwrap(), path);
}
