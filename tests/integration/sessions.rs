//! Statistics of sessions: how long they took, where their time went, and how they ended.

use std::collections::BTreeMap;

use base::units::Nanos;
use mock_server::Script;
use serde_json::{Value, json};

use crate::support::load::{faults, mock};
use crate::support::run::{Run, aiperf, json_lines, profile};

const FILE: &str = "profile_export_sessions.jsonl";

/// Session datasets as files: `main` has three turns, the second 30 ms after the first response, and
/// starts `sub` after its first, for which the third waits.
fn tree() -> String {
    let user = |text: &str| json!([{"role": "user", "content": text}]);
    let main = json!({"session_id": "main", "turns": [
        {"messages": user("first")},
        {"messages": user("second"), "delay": 30, "spawns": [{"children": ["sub"], "join_at": 2}]},
        {"messages": user("third")},
    ]});
    let sub = json!({"session_id": "sub", "turns": [{"messages": user("of the sub-agent")}]});
    format!("{main}\n{sub}\n")
}

fn with_dataset(url: &str, kind: &str, text: &str, extra: &[&str]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dataset.jsonl");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let own = ["--custom-dataset-type", kind, "--input-file", file];
    profile(url, &[&own, extra].concat()).succeeded()
}

fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn metric(line: &Value, tag: &str) -> f64 {
    line["metrics"][tag]["value"].as_f64().unwrap()
}

/// Returns the requests of each session, in the order of their starts.
fn by_session(run: &Run) -> BTreeMap<u64, Vec<Value>> {
    let mut sessions: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for record in run.records() {
        sessions.entry(ns(&record["metadata"]["session_num"])).or_default().push(record);
    }
    sessions
}

/// Returns the time in which any of `records` was in flight, in nanoseconds: each nanosecond counts
/// once.
fn busy(records: &[Value]) -> u64 {
    let mut until = 0;
    let mut busy = 0;
    for record in records {
        let of = &record["metadata"];
        let (start, end) = (ns(&of["request_start_ns"]), ns(&of["request_end_ns"]));
        busy += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    busy
}

fn value(summary: &Value, tag: &str, statistic: &str) -> f64 {
    summary[tag][statistic].as_f64().unwrap_or_else(|| panic!("{tag} {statistic}"))
}

/// Runs `aiperf report` on the directory of a run.
fn rebuild(run: &Run) {
    let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn sessions_are_what_their_records_add_up_to() {
    let server = mock(Script { ttft: Nanos::from_millis(2.0), ..Script::default() });
    let flags = [
        "--num-sessions",
        "5",
        "--concurrency",
        "2",
        "--tables",
        "all",
        "--html",
        "--goodput",
        "time_to_first_token<=3600s",
        "--gate",
        "session_duration:avg<=3600s",
        "--gate",
        "session_count>=5",
    ];
    let run = with_dataset(&server.url(), "dag_jsonl", &tree(), &flags);
    let (records, lines) = (by_session(&run), json_lines(&run.path(FILE)));
    assert_eq!((records.len(), lines.len()), (5, 5));
    for line in &lines {
        let own = &records[&ns(&line["session_num"])];
        let of = |record: &Value, key: &str| ns(&record["metadata"][key]);
        let start = own.iter().map(|record| of(record, "request_start_ns")).min().unwrap();
        let end = own.iter().map(|record| of(record, "request_end_ns")).max().unwrap();
        assert_eq!((ns(&line["start_ns"]), ns(&line["end_ns"])), (start, end));
        assert_eq!((own.len(), metric(line, "session_turns")), (4, 4.0));
        assert_eq!(line["outcome"], "completed");
        assert_eq!(line["conversation_id"], "main");
        let millis = |nanos: u64| nanos as f64 / 1e6;
        assert_eq!(metric(line, "session_duration"), millis(end - start));
        assert_eq!(metric(line, "session_server_time"), millis(busy(own)));
        let parts = ["session_server_time", "session_delay_time", "session_schedule_time"];
        let sum: f64 = parts.iter().map(|tag| metric(line, tag)).sum();
        assert!((sum - millis(end - start)).abs() < 1e-5, "{sum}");
        let tokens = |tag: &str| -> f64 { own.iter().map(|record| metric(record, tag)).sum() };
        assert_eq!(metric(line, "session_input_tokens"), tokens("input_sequence_length"));
        assert_eq!(metric(line, "session_output_tokens"), tokens("output_sequence_length"));
        let first = metric(&own[0], "time_to_first_token");
        assert_eq!(metric(line, "session_first_time_to_first_token"), first);

        let conversations = line["conversations"].as_array().unwrap();
        let names: Vec<&Value> = conversations.iter().map(|one| &one["conversation_id"]).collect();
        assert_eq!(names, ["main", "sub"]);
        let [main, sub] = [0, 1].map(|at| &conversations[at]);
        assert_eq!(sub["parent_correlation_id"], main["x_correlation_id"]);
        assert_eq!((metric(main, "session_turns"), metric(sub, "session_turns")), (3.0, 1.0));
        // The 30 ms pass in any case; how much of them without a request depends on the sub-agent.
        let of_main: Vec<Value> = own
            .iter()
            .filter(|record| record["metadata"]["conversation_id"] == "main")
            .cloned()
            .collect();
        let delayed = &of_main[1]["metadata"];
        assert_eq!(delayed["turn_delay_ns"], 30_000_000);
        assert!(metric(main, "session_delay_time") >= 30.0);
        let last: Vec<&Value> = of_main.iter().map(|it| &it["metadata"]["is_final_turn"]).collect();
        assert_eq!(last, [false, false, true]);
    }
    let summary = run.summary();
    for (tag, expected) in [
        ("session_count", 5.0),
        ("error_session_count", 0.0),
        ("cancelled_session_count", 0.0),
        ("good_session_count", 5.0),
        ("good_session_fraction", 1.0),
    ] {
        assert_eq!(value(&summary, tag, "avg"), expected, "{tag}");
    }
    let mut durations: Vec<f64> =
        lines.iter().map(|line| metric(line, "session_duration")).collect();
    durations.sort_by(f64::total_cmp);
    assert_eq!(value(&summary, "session_duration", "p50"), durations[2]);
    assert_eq!(value(&summary, "session_duration", "max"), durations[4]);
    let seconds = value(&summary, "benchmark_duration", "avg");
    let rate = value(&summary, "session_throughput", "avg");
    assert!((rate * seconds / 5.0 - 1.0).abs() < 1e-9, "{rate}");
    assert!(run.text("profile_export_aiperf.csv").contains("Session Duration (ms),"));
    for text in ["Sessions: 5 completed; duration p50 ", "LLM Metrics: Sessions"] {
        assert!(run.stdout().contains(text), "{text}: {}", run.stdout());
    }
    assert!(run.text("report.html").contains("Session Server Time (ms)"));

    rebuild(&run);
    assert_eq!(json_lines(&run.path(FILE)), lines);
    let again = run.summary();
    let of_sessions = summary.as_object().unwrap().keys().filter(|tag| tag.contains("session"));
    for tag in of_sessions.filter(|tag| summary[*tag].get("unit").is_some()) {
        assert_eq!(again[tag], summary[tag], "{tag}");
    }
}

#[test]
fn failed_and_unfinished_sessions_are_counted_apart() {
    // The fourth and the following requests get an error.
    let server = mock(Script { faults: faults(&["requests=4,5:status=500"]), ..Script::default() });
    let three = ["--session-turns-mean", "3", "--concurrency", "1", "--request-count", "8"];
    let run = profile(&server.url(), &three).succeeded();
    // Sessions of three, of three with two failures, and of two turns, since no more may be sent.
    let lines = json_lines(&run.path(FILE));
    let ends: Vec<&Value> = lines.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(ends, ["completed", "failed", "cancelled"]);
    assert_eq!(ns(&lines[1]["failed_turns"]), 2);
    let summary = run.summary();
    for tag in ["session_count", "error_session_count", "cancelled_session_count"] {
        assert_eq!(value(&summary, tag, "avg"), 1.0, "{tag}");
    }
    assert_eq!(value(&summary, "session_duration", "count"), 1.0);
    let said = "Sessions: 1 completed, 1 failed, 1 cut off by the end of the run; duration p50 ";
    assert!(run.stdout().contains(said), "{}", run.stdout());
}

#[test]
fn sessions_of_single_turns_are_not_mentioned() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "3"]).succeeded();
    assert!(!run.path(FILE).exists());
    assert_eq!(run.summary().get("session_count"), None);
    assert!(!run.stdout().contains("Session"));
    let member = |record: &Value| record["metadata"].get("is_final_turn").is_some();
    assert!(!run.records().iter().any(member));
}

#[test]
fn a_file_without_ends_of_sessions_says_nothing_about_them() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--session-turns-mean", "2", "--num-sessions", "2"]);
    let run = run.succeeded();
    // As an earlier version wrote it.
    let mut records = json_lines(&run.path("profile_export.jsonl"));
    for record in &mut records {
        record["metadata"].as_object_mut().unwrap().remove("is_final_turn");
    }
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    std::fs::write(run.path("profile_export.jsonl"), lines.join("\n") + "\n").unwrap();
    rebuild(&run);
    assert_eq!(run.summary().get("session_count"), None);
    assert_eq!(value(&run.summary(), "request_count", "avg"), 4.0);
}
