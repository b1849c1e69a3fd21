//! The files of a run, written to disk and parsed again.

mod lines;
mod run;
mod scrapes;
mod server_metrics;
pub(crate) mod table;

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use base::units::{Clock, Nanos, Unit};
use measure::metrics::{MetricFlags, Registry, tag};
use results::artifacts::rebuild::{self, ReportError};
use results::artifacts::{ArtifactError, Claim, ExportLevel, Wanted};
use results::console::{self, Style};
use serde_json::{Value, json};

use run::TestRun;

const SUMMARIES: [&str; 3] =
    ["profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_console.txt"];

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/aiperf-0.13").join(name);
    fs::read_to_string(path).unwrap()
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn inputs_can_be_left_out_and_conversations_keep_their_names() {
    let run = TestRun::new(ExportLevel::Records);
    let mut set = run.create();
    set.leave_out_inputs(["c1".to_owned()]);
    for measured in &run.measured {
        set.record(measured);
    }
    let report = run.report();
    set.finish(&report, &console::render_file(&report)).unwrap();
    assert!(!run.directory().join("inputs.json").exists());
    let lines = fs::read_to_string(run.directory().join("profile_export.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["metadata"]["conversation_id"], "c1");
}

#[test]
fn each_export_level_has_its_files() {
    let always = [
        "inputs.json",
        "logs",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "profile_export_console.txt",
        "run_manifest.json",
    ];
    let records = ["profile_export.jsonl", "profile_export.parquet"];
    for (level, more) in [
        (ExportLevel::Summary, &[][..]),
        (ExportLevel::Records, &records),
        (ExportLevel::Raw, &[records[0], records[1], "profile_export_raw.jsonl"]),
    ] {
        let run = TestRun::new(level);
        let written = run.complete();
        let expected: BTreeSet<String> =
            always.iter().chain(more).map(ToString::to_string).collect();
        assert_eq!(names_in(run.directory()), expected, "{level:?}");
        // The log is written separately.
        assert_eq!(written.len(), expected.len() - 1, "{level:?}");
    }
}

/// The texts are those of the streams in `run.rs`.
#[test]
fn outputs_are_in_the_order_of_sessions() {
    let mut run = TestRun::new(ExportLevel::Summary);
    run.config.outputs = true;
    run.measured.reverse();
    run.complete();
    let text = fs::read_to_string(run.directory().join("outputs.json")).unwrap();
    let outputs: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outputs["schema_version"], "1.0");
    let entries = outputs["data"].as_array().unwrap();
    // 60 requests, of which two are of the warmup.
    assert_eq!(entries.len(), 58);
    for (number, entry) in (2..).zip(entries) {
        assert_eq!(entry["session_num"], number);
        assert_eq!(entry["conversation_id"], ["first", "second"][number % 2]);
        assert!(entry["request_end_ns"].as_u64() > entry["request_start_ns"].as_u64());
        if number % 7 == 5 {
            assert_eq!(entry["response_text"], Value::Null, "{number}");
            continue;
        }
        let words: Vec<String> = (0..4 + number % 9).map(|word| format!(" w{word}")).collect();
        assert_eq!(entry["response_text"], words.concat(), "{number}");
        // A cancelled request does not have values.
        if number % 11 != 7 {
            let metrics = entry["metrics"].as_object().unwrap();
            assert_eq!(metrics["output_sequence_length"], 4 + number % 9, "{number}");
            assert_eq!(metrics["input_sequence_length"], 50);
            assert_eq!(metrics.len(), 6);
        }
    }
}

#[test]
fn a_prefix_names_the_files() {
    let mut run = TestRun::new(ExportLevel::Records);
    run.config.prefix = Some("nightly.json".to_owned());
    run.complete();
    for name in
        ["nightly.json", "nightly.csv", "nightly.jsonl", "nightly.parquet", "nightly_console.txt"]
    {
        assert!(run.directory().join(name).is_file(), "{name}");
    }
    // The report finds them through the manifest.
    assert_eq!(
        rebuild::rebuild(run.directory()).unwrap().report.results.len(),
        run.report().results.len()
    );
}

#[test]
fn a_complete_run_is_rebuilt_to_the_last_byte() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let original = SUMMARIES.map(|name| fs::read(run.directory().join(name)).unwrap());
    for name in SUMMARIES {
        fs::remove_file(run.directory().join(name)).unwrap();
    }
    let mut rebuilt = rebuild::rebuild(run.directory()).unwrap();
    assert!(rebuilt.notes.is_empty());
    let console = console::render_file(&rebuilt.report);
    let written = rebuild::write(&mut rebuilt, &console).unwrap();
    assert_eq!(written.len(), 4, "three summaries and the table");
    assert!(rebuilt.notes.is_empty(), "the rows are those of the run");
    for (name, before) in SUMMARIES.iter().zip(original) {
        let after = fs::read(run.directory().join(name)).unwrap();
        assert_eq!(String::from_utf8(after).unwrap(), String::from_utf8(before).unwrap(), "{name}");
    }
}

#[test]
fn without_a_manifest_the_summary_is_gone_by() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let original = fs::read_to_string(run.directory().join(SUMMARIES[0])).unwrap();
    fs::remove_file(run.directory().join("run_manifest.json")).unwrap();
    let mut rebuilt = rebuild::rebuild(run.directory()).unwrap();
    rebuild::write(&mut rebuilt, "").unwrap();
    let again = fs::read_to_string(run.directory().join(SUMMARIES[0])).unwrap();
    assert_eq!(again, original);
}

#[test]
fn records_alone_still_give_statistics() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    for name in ["run_manifest.json", SUMMARIES[0]] {
        fs::remove_file(run.directory().join(name)).unwrap();
    }
    let rebuilt = rebuild::rebuild(run.directory()).unwrap().report;
    let report = run.report();
    for tag in [tag::TIME_TO_FIRST_TOKEN, tag::INTER_TOKEN_LATENCY, tag::REQUEST_THROUGHPUT] {
        assert_eq!(rebuilt.average(tag), report.average(tag), "{tag}");
        assert!(rebuilt.average(tag).is_some(), "{tag}");
    }
    assert!(!rebuilt.is_complete());
}

#[test]
fn a_killed_run_keeps_what_was_flushed() {
    let run = TestRun::new(ExportLevel::Records);
    let mut set = run.create();
    for measured in &run.measured {
        set.record(measured);
    }
    set.tick(base::units::Clock::now());
    // A killed run: no file is complete, and the last line is truncated.
    std::mem::forget(set);
    let path = run.directory().join("profile_export.jsonl");
    let text = fs::read(&path).unwrap();
    let lines = text.split_inclusive(|byte| *byte == b'\n').count();
    assert_eq!(lines, run.measured.len());
    assert!(text.ends_with(b"\n"));
    fs::write(&path, &text[..text.len() - 10]).unwrap();

    let rebuilt = rebuild::rebuild(run.directory()).unwrap();
    assert_eq!(rebuilt.notes.len(), 1);
    assert!(rebuilt.notes[0].contains("is incomplete"), "{}", rebuilt.notes[0]);
    let report = rebuilt.report;
    assert!(report.outcome.incomplete_reason.is_some());
    assert_eq!(report.run.cli_command, run.description.cli_command);
    let count = |tag| report.average(tag).unwrap_or(0.0);
    let expected = run.measured.iter().filter(|m| run::is_profiling(m)).count() as f64 - 1.0;
    assert_eq!(count(tag::REQUEST_COUNT) + count(tag::ERROR_REQUEST_COUNT), expected);
}

#[test]
fn a_killed_run_keeps_what_was_compressed_and_flushed() {
    let mut run = TestRun::new(ExportLevel::Records);
    run.config.compress_jsonl = true;
    let mut set = run.create();
    let mut now = Clock::now();
    let halves = run.measured.split_at(run.measured.len() / 2);
    for half in [halves.0, halves.1] {
        for measured in half {
            set.record(measured);
        }
        now = now + Nanos::from_millis(2000.0);
        set.tick(now);
    }
    // A killed run: the frame does not have an end.
    std::mem::forget(set);
    let requests = || {
        let rebuilt = rebuild::rebuild(run.directory()).unwrap();
        assert!(rebuilt.notes.is_empty());
        let count = |tag| rebuilt.report.average(tag).unwrap_or(0.0);
        (count(tag::REQUEST_COUNT) + count(tag::ERROR_REQUEST_COUNT)) as usize
    };
    let expected = |part: &[_]| part.iter().filter(|m| run::is_profiling(m)).count();
    assert_eq!(requests(), expected(&run.measured));
    // The last write was incomplete.
    let path = run.directory().join("profile_export.jsonl.zst");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    assert_eq!(requests(), expected(halves.0));
    // Nothing was flushed.
    fs::write(&path, "").unwrap();
    assert!(matches!(rebuild::rebuild(run.directory()).unwrap_err(), ReportError::Empty { .. }));
    // A damaged disk is not the end of a killed run.
    let mut damaged = bytes;
    damaged.iter_mut().skip(100).step_by(7).for_each(|byte| *byte ^= 0x55);
    fs::write(&path, damaged).unwrap();
    let error = rebuild::rebuild(run.directory()).unwrap_err();
    assert!(
        matches!(error, ReportError::NoRecords { .. } | ReportError::Malformed { .. }),
        "{error}"
    );
}

#[test]
fn compressed_lines_are_those_of_other_runs() {
    let mut run = TestRun::new(ExportLevel::Raw);
    run.complete();
    let names = ["profile_export.jsonl", "profile_export_raw.jsonl"];
    let plain = names.map(|name| fs::read(run.directory().join(name)).unwrap());
    run.config.compress_jsonl = true;
    run.complete();
    for (name, plain) in names.iter().zip(plain) {
        // That of the earlier run was moved aside.
        assert!(!run.directory().join(name).exists());
        let file = fs::File::open(run.directory().join(format!("{name}.zst"))).unwrap();
        assert!(file.metadata().unwrap().len() < plain.len() as u64 / 2);
        assert_eq!(zstd::decode_all(file).unwrap(), plain, "{name}");
    }
    let summary = run.directory().join("profile_export_aiperf.json");
    let before = fs::read(&summary).unwrap();
    fs::remove_file(&summary).unwrap();
    let mut rebuilt = rebuild::rebuild(run.directory()).unwrap();
    rebuild::write(&mut rebuilt, "").unwrap();
    assert!(rebuilt.notes.is_empty(), "{:?}", rebuilt.notes);
    assert_eq!(fs::read(&summary).unwrap(), before);
    // Decompressed by the user.
    let name = "profile_export.jsonl";
    let file = fs::File::open(run.directory().join(format!("{name}.zst"))).unwrap();
    fs::write(run.directory().join(name), zstd::decode_all(file).unwrap()).unwrap();
    fs::remove_file(run.directory().join(format!("{name}.zst"))).unwrap();
    rebuild::write(&mut rebuild::rebuild(run.directory()).unwrap(), "").unwrap();
    assert_eq!(fs::read(&summary).unwrap(), before);
}

#[test]
fn a_damaged_line_is_named() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let path = run.directory().join("profile_export.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"metadata\"", "metadata", 1)).unwrap();
    let error = rebuild::rebuild(run.directory()).unwrap_err();
    assert!(matches!(error, ReportError::Malformed { line: 1, .. }), "{error}");
    fs::write(&path, "").unwrap();
    assert!(matches!(rebuild::rebuild(run.directory()).unwrap_err(), ReportError::Empty { .. }));
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        rebuild::rebuild(run.directory()).unwrap_err(),
        ReportError::NoRecords { .. }
    ));
}

#[test]
fn a_path_that_cannot_be_written_fails_before_the_run() {
    let blocked = |name: &str| {
        let run = TestRun::new(ExportLevel::Records);
        let claim = run.claim();
        fs::create_dir(run.directory().join(name)).unwrap();
        run.create_in(&claim).unwrap_err()
    };
    for name in ["profile_export_aiperf.json", "profile_export.jsonl", "profile_export.parquet"] {
        let error = blocked(name);
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.to_string().contains("--artifact-dir"), "{error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let directory = file.path().join("below-a-file");
    let error = Claim::take(Wanted { directory: &directory, prefix: None, overwrite: false });
    let error = error.unwrap_err();
    assert!(matches!(error, ArtifactError::Directory { .. }), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_one_file_only() -> io::Result<()> {
    let run = TestRun::new(ExportLevel::Records);
    let claim = run.claim();
    std::os::unix::fs::symlink("/dev/full", run.directory().join("profile_export.jsonl"))?;
    let mut set = run.create_in(&claim).unwrap();
    for measured in &run.measured {
        set.record(measured);
        set.tick(base::units::Clock::now());
    }
    let error = set.finish(&run.report(), "").unwrap_err();
    let ArtifactError::Incomplete { written, failures, .. } = error else { panic!("{error}") };
    assert_eq!(failures.len(), 1);
    assert!(failures[0].path.ends_with("profile_export.jsonl"));
    assert!(written.iter().any(|path| path.ends_with("profile_export_aiperf.json")));
    assert!(run.directory().join("profile_export.parquet").is_file());
    Ok(())
}

#[test]
fn no_secret_reaches_a_file() {
    let mut run = TestRun::new(ExportLevel::Raw);
    run.config.http_trace = true;
    run.complete();
    for name in names_in(run.directory()) {
        if let Ok(bytes) = fs::read(run.directory().join(&name)) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(run::SECRET), "{name} has the secret");
        }
    }
    let lines = fs::read_to_string(run.directory().join("profile_export.jsonl")).unwrap();
    assert!(lines.contains(r#""Authorization":"<redacted>""#));
}

#[test]
fn inputs_are_the_bodies_by_conversation() {
    let run = TestRun::new(ExportLevel::Summary);
    run.complete();
    let text = fs::read_to_string(run.directory().join("inputs.json")).unwrap();
    let inputs: Value = serde_json::from_str(&text).unwrap();
    let payloads = json!([{"model": "m", "messages": []}]);
    let sessions =
        ["first", "second"].map(|id| json!({"session_id": id, "payloads": payloads.clone()}));
    assert_eq!(inputs, json!({"data": sessions}));
}

#[test]
fn the_summary_has_the_keys_of_aiperf() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let text = fs::read_to_string(run.directory().join(SUMMARIES[0])).unwrap();
    let ours: Value = serde_json::from_str(&text).unwrap();
    let sample: Value = serde_json::from_str(&golden(SUMMARIES[0])).unwrap();
    for (key, theirs) in sample.as_object().unwrap() {
        if theirs.get("unit").is_none() {
            // Only GPU telemetry is missing.
            assert!(ours.get(key).is_some() || key == "telemetry_data", "{key}");
            continue;
        }
        let metric = Registry::find(key).unwrap_or_else(|| panic!("{key} is not written"));
        assert_eq!(metric.display_unit.label(), theirs["unit"], "{key}");
        // This run did not use any connection.
        let Some(ours) = ours.get(key) else {
            assert!(metric.flags.contains(MetricFlags::HTTP_TRACE_ONLY), "{key}");
            continue;
        };
        let keys =
            |entry: &Value| -> Vec<String> { entry.as_object().unwrap().keys().cloned().collect() };
        // More requests fail here, so more percentiles are infinite.
        let mut theirs = keys(theirs);
        theirs.retain(|name| !key.starts_with("adj_") || ours.get(name).is_some());
        assert_eq!(keys(ours), theirs, "{key}");
    }
    assert!(ours["adj_request_latency"].get("p50").is_some());
}

#[test]
fn the_summary_says_what_the_run_did() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let summary = crate::support::run::summary(run.directory());
    let metrics =
        summary.as_object().unwrap().iter().filter(|(_, member)| member.get("unit").is_some());
    for (tag, entry) in metrics {
        assert_eq!(entry["unit"], Registry::find(tag).unwrap().display_unit.label(), "{tag}");
    }
    assert_eq!(summary["schema_version"], "1.4");
    assert_eq!(summary["aiperf_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(summary["benchmark_id"], summary["run_info"]["benchmark_id"]);
    assert_eq!((&summary["is_complete"], &summary["was_cancelled"]), (&json!(true), &json!(false)));
    // The warmup has its own times: its two requests are 100 ms apart.
    let warmup = &summary["warmup_metrics"];
    assert!(warmup["effective_concurrency"]["avg"].is_f64());
    assert_ne!(warmup["effective_concurrency"]["avg"], summary["effective_concurrency"]["avg"]);
    assert_eq!(warmup["request_count"]["avg"], 2.0);
    assert_eq!(summary["run_info"]["random_seed"], 7);
    let errors = summary["error_summary"].as_array().unwrap();
    let failures: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
    let failed = run.measured.iter().filter(|measured| measured.observation.error.is_some());
    assert_eq!(failures, failed.count() as u64);
    let start = summary["start_time"].as_str().unwrap();
    assert_eq!(start.len(), "2026-11-21T01:54:54.681160".len());
    assert_eq!(summary["telemetry"]["exports_ok"], 3);
    the_clients_health_is_whole(&summary["client_health"], &run);
}

/// As in [`TestRun`]: every second request has a due time, and all of these are 1.234 µs late.
fn the_clients_health_is_whole(health: &Value, run: &TestRun) {
    let profiling: Vec<_> = run.measured.iter().filter(|m| run::is_profiling(m)).collect();
    let requests = profiling.len() as u64;
    let late = 0.001_234;
    let due = profiling.iter().filter(|m| m.record.due.is_some()).count() as u64;
    let slip =
        json!({"count": due, "avg": late, "p50": late, "p90": late, "p99": late, "max": late});
    assert_eq!(health["schedule_slip_ms"], slip);
    // They did not wait for anything but their due time.
    assert_eq!(health["client_slip_ms"], slip);
    let asleep = profiling.iter().filter(|m| m.record.due_while_asleep).count() as u64;
    assert_eq!(health["schedule_slip_idle_ms"]["count"], asleep);
    assert_eq!(health["schedule_slip_loaded_ms"]["count"], due - asleep);
    let events: usize = profiling.iter().map(|m| m.record.body.events.len()).sum();
    let (lag, uncertainty) = (&health["read_lag_ms"], &health["stamp_uncertainty_ms"]);
    assert_eq!(lag["count"], events);
    assert_eq!((&lag["p99"], &lag["max"]), (&json!(0.0035), &json!(0.0035)));
    assert_eq!(uncertainty["count"], events);
    assert_eq!(uncertainty["max"], 0.0045);
    // A percentile of the histogram is at most 0.8% too high.
    let median = uncertainty["p50"].as_f64().unwrap();
    assert!((0.0025..=0.00252).contains(&median), "{median}");
    // Half of the reads do not have a timestamp. If it is unknown how long the client waited for a core,
    // they were as late as the others.
    let knows_waits = fs::exists("/proc/thread-self/schedstat").unwrap();
    let error = &health["arrival_error_ms"];
    assert_eq!(error["count"], events);
    assert_eq!(error["max"], if knows_waits { 0.0045 } else { 0.0035 });
    // A retried request could have been sent from 120 ns on, and the others when they were due.
    let delays = profiling.iter().map(|m| {
        let late = if m.record.due.is_some() { 1_234 } else { 0 };
        f64::from(late + if m.record.retry_count > 0 { 1_234 - 120 } else { 0 }) / 1e6
    });
    let mean = delays.sum::<f64>() / requests as f64;
    let rates = &health["throughput_bounds"];
    assert!((rates["delay_ms"].as_f64().unwrap() - mean).abs() < 1e-12, "{rates}");
    let latency = &health["error_bounds_ms"]["request_latency"];
    for name in ["avg", "p50", "p99"] {
        let bound = |member: &str| latency[name][member].as_f64().unwrap();
        assert!(bound("value") > 0.0 && bound("below") > 0.0, "{name}");
        assert!(bound("likely_below") > 0.0 && bound("likely_below") <= bound("below"), "{name}");
        assert_eq!((bound("above"), bound("likely_above")), (0.0, 0.0), "{name}");
    }
    let (median, tail) = (&latency["p50"], &latency["p99"]);
    assert!(latency["count"].as_u64().unwrap() < 368);
    assert!(median["sample_below"].is_f64() && median["sample_above"].is_f64());
    assert!(median.get("requests_needed").is_none() && tail.get("sample_above").is_none());
    assert_eq!(tail["requests_needed"], 368);
    let reads = json!({"total": 2 * requests, "kernel_stamped": requests, "kernel_share": 0.5});
    assert_eq!(health["reads"], reads);
    let queue = json!({
        "budget_bytes": 1000, "peak_bytes": 900, "pauses": 1, "spilled_records": 0,
        "spilled_bytes": 0, "kept_over_budget": 0, "lost_records": 0,
    });
    assert_eq!(health["queue"], queue);
    let cpu = &health["cpu"];
    let expected = json!({
        "workers": 2, "worker_max": 0.75, "worker_mean": 0.5, "process": 1.3, "cores": cpu["cores"],
    });
    assert_eq!(*cpu, expected);
    assert!(cpu["cores"].as_u64() >= Some(1));
    assert_eq!(health["rate_ratio"], 0.97);
    assert_eq!(health["concurrency_ratio"], 0.75);
    assert_eq!(health["retries"], 1);
    // One send was delayed.
    assert_eq!(health["verdict"], "suspect");
    let [reason] = &health["reasons"].as_array().unwrap()[..] else { panic!("{health}") };
    assert_eq!(reason["verdict"], "suspect");
    let text = |name: &str| reason[name].as_str().unwrap();
    assert!(text("finding").starts_with("1 send was delayed (1.7% of the requests)"));
    assert!(text("advice").contains("--record-processors"));
    let console = fs::read_to_string(run.directory().join(SUMMARIES[2])).unwrap();
    assert!(console.contains("Client health: suspect (slip p99 0.00 ms, "), "{console}");
    assert!(console.contains("  - 1 send was delayed"), "{console}");
}

#[test]
fn what_a_killed_run_does_not_tell_of_the_client_is_not_made_up() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    for name in ["run_manifest.json", SUMMARIES[0]] {
        fs::remove_file(run.directory().join(name)).unwrap();
    }
    let health = rebuild::rebuild(run.directory()).unwrap().report.outcome.client_health.unwrap();
    let before = run.report().outcome.client_health.unwrap();
    assert_eq!(health.schedule_slip_ms, before.schedule_slip_ms);
    assert_eq!(health.retries, Some(1));
    assert!(health.error_bounds_ms.is_some());
    assert_eq!(health.error_bounds_ms, before.error_bounds_ms);
    let rest = (health.verdict, health.reads, health.queue, health.cpu, health.rate_ratio);
    assert_eq!(rest, (None, None, None, None, None));
    // Without a verdict the console does not mention it.
    assert!(
        !console::render(&rebuild::rebuild(run.directory()).unwrap().report, Style::FILE)
            .contains("Client health")
    );
}

#[test]
fn the_csv_has_the_rows_and_labels_of_aiperf() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let ours = fs::read_to_string(run.directory().join(SUMMARIES[1])).unwrap();
    let sample = golden(SUMMARIES[1]);
    let sections = |text: &str| -> Vec<Vec<String>> {
        let blocks = text.split("\r\n\r\n").take(2);
        blocks.map(|block| block.lines().map(str::to_owned).collect()).collect()
    };
    let (ours, sample) = (sections(&ours), sections(&sample));
    assert_eq!(ours.len(), 2);
    for (ours, sample) in ours.iter().zip(&sample) {
        assert_eq!(ours[0], sample[0]);
        let label = |row: &String| row.split(',').next().unwrap().to_owned();
        let labels: Vec<String> = ours[1..].iter().map(label).collect();
        // Labels in both files are in the same order.
        let theirs: Vec<String> =
            sample[1..].iter().map(label).filter(|label| labels.contains(label)).collect();
        let common: Vec<String> =
            labels.iter().filter(|label| theirs.contains(label)).cloned().collect();
        assert_eq!(common, theirs);
        assert!(theirs.len() >= 7, "{theirs:?}");
    }
    let row = |label: &str| ours[1].iter().find(|row| row.starts_with(label)).unwrap();
    let successes = run.measured.iter().filter(|m| run::is_good(m)).count();
    assert_eq!(*row("Request Count"), format!("Request Count,{successes}.00"));
    assert_eq!(Unit::Requests.label(), "requests");
}

#[test]
fn numpy_finds_the_same_statistics() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    crate::support::python::run_python("tests/check_profile_export.py", run.directory());
}
