//! Any exposition results in a report with complete files. No number is missing because JSON cannot
//! represent it, and the report is rebuilt identically from the lines.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use base::units::Nanos;
use client::schedule::PhaseKind;
use libfuzzer_sys::fuzz_target;
use measure::server_metrics::exposition::{Exposition, Format};
use measure::server_metrics::report::{ServerMetricsReport, build};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::store::Store;
use measure::server_metrics::{Endpoint, FetchTimes, PhaseMark, Scrape};
use results::artifacts::rebuild;
use results::artifacts::server_metrics::{JsonLayout, ScrapeLines};
use serde_json::Value;
use tempfile::TempDir;

/// Ends a body; it never occurs in an exposition.
const END: u8 = 0xff;
/// Separates two scrapes.
const INTERVAL: u64 = 333_000_000;
/// Length of the slices.
const SLICE: Nanos = Nanos(500_000_000);

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let at = INTERVAL * 3;
    let record = format!(
        r#"{{"metadata":{{"request_start_ns":{at},"request_end_ns":{at},"benchmark_phase":"profiling"}},"metrics":{{}},"error":null}}"#
    );
    fs::write(directory.path().join("profile_export.jsonl"), record + "\n").unwrap();
    directory
});

/// Scrapes the bodies of `input`, the first two before the phase, into a store and into the lines
/// at `path`.
fn scrape(input: &[u8], path: &Path) -> Store {
    let endpoint = Endpoint { url: "http://a/metrics".into() };
    let mut store = Store::new([endpoint.url.clone()]);
    let mut lines = ScrapeLines::create(path, 1).unwrap();
    let mut before = None;
    for (number, body) in (1..).zip(input.split(|byte| *byte == END)) {
        let format = if body.ends_with(b"# EOF\n") { Format::OpenMetrics } else { Format::Text };
        let Ok(exposition) = Exposition::parse(body, format) else { continue };
        let snapshot = Snapshot::from_exposition(&exposition);
        let first_byte_ns = number * INTERVAL;
        let times = FetchTimes {
            request_sent_ns: first_byte_ns,
            first_byte_ns,
            last_byte_ns: first_byte_ns,
        };
        let is_duplicate = before.replace(body) == Some(body);
        if is_duplicate {
            store.repeat(0, times);
        } else {
            store.push(0, times, &snapshot);
        }
        let profiling = PhaseMark { index: 0, kind: PhaseKind::Profiling };
        lines.append(&Scrape {
            index: 0,
            endpoint: &endpoint,
            times,
            phase: (number > 2).then_some(profiling),
            is_duplicate,
            exposition: &exposition,
            snapshot: &snapshot,
        });
    }
    lines.finish().unwrap();
    store
}

/// Returns the statistics from the lines, and the JSON file in this layout.
fn rebuilt(layout: JsonLayout) -> Option<(ServerMetricsReport, Value)> {
    let mut rebuilt = rebuild::rebuild(DIRECTORY.path()).unwrap();
    rebuilt.server_metrics.json_layout = layout;
    let metrics = rebuilt.report.server_metrics.as_ref()?.report.clone();
    rebuild::write(&mut rebuilt, "").unwrap();
    let json = fs::read(DIRECTORY.path().join("server_metrics_export.json")).unwrap();
    Some((metrics, serde_json::from_slice(&json).unwrap()))
}

/// Returns whether a value is null, except in buckets.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name != "buckets" && has_null(value))
        }
        _ => false,
    }
}

fuzz_target!(|input: &[u8]| {
    let store = scrape(input, &DIRECTORY.path().join("server_metrics_export.jsonl"));
    for layout in [JsonLayout::Nested, JsonLayout::Flat] {
        let Some((report, json)) = rebuilt(layout) else { return };
        let windows = report.summary.windows;
        drop(build(&store, windows, Some(SLICE)));
        let ours = build(&store, windows, None);
        // As text, since NaN is not equal to itself.
        assert_eq!(format!("{:?}", ours.metrics), format!("{:?}", report.metrics));
        assert!(!has_null(&json["metrics"]), "{json:#}");
    }
});
