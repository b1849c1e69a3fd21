//! A workload that was sent, exported as traces and read again is the same workload.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mock_server::Script;
use serde_json::{Value, json};

use crate::support::load::mock;
use crate::support::run::{aiperf, json_lines, profile};

/// Number of sessions; more of them take a minute.
fn sessions() -> usize {
    if std::env::var_os("AIPERF_TEST_ALL").is_some() { 2_000 } else { 200 }
}

/// A text of its own, of some words.
fn text(id: &str, turn: usize, words: usize) -> Value {
    let mut text = format!("{id} asks {turn}:");
    for word in 0..words {
        let _ = write!(text, " {id}word{word}");
    }
    json!([{"role": "user", "content": text}])
}

/// Sessions of one to three turns that arrive in bursts of ten. Every fourth has a sub-agent of two
/// turns, and every eighth another one beside it; all prompts differ from each other.
fn workload(sessions: usize) -> String {
    let mut lines = String::new();
    let mut start = 0;
    for at in 0..sessions {
        start += if at % 10 == 0 { 30 } else { 1 + at * 7919 % 5 };
        let id = format!("s{at}");
        let turn = |id: &str, turn: usize| {
            let words = 3 + (at * 31 + turn * 17) % 40;
            json!({"messages": text(id, turn, words), "max_tokens": 4 + (at + turn) % 12})
        };
        let mut turns: Vec<Value> = (0..=at % 3).map(|place| turn(&id, place)).collect();
        turns[0]["timestamp"] = json!(start);
        let agents = usize::from(at.is_multiple_of(4)) + usize::from(at.is_multiple_of(8));
        let agents: Vec<String> = (0..agents).map(|agent| format!("{id}/{agent}")).collect();
        if !agents.is_empty() {
            turns[0]["spawns"] = json!(agents);
        }
        for agent in &agents {
            let turns = json!([turn(agent, 0), turn(agent, 1)]);
            writeln!(lines, "{}", json!({"session_id": agent, "turns": turns})).unwrap();
        }
        writeln!(lines, "{}", json!({"session_id": id, "turns": turns})).unwrap();
    }
    lines
}

/// The requests and sub-agents of a conversation, in order.
fn shape(requests: &Value) -> String {
    let entries = requests.as_array().unwrap().iter();
    entries
        .map(|entry| match entry["type"].as_str() {
            Some("subagent") => format!("({})", shape(&entry["requests"])),
            _ => "r".to_owned(),
        })
        .collect()
}

/// The sums of input and output tokens of a conversation and its sub-agents.
fn tokens(requests: &Value) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for entry in requests.as_array().unwrap() {
        let found = if entry["type"] == "subagent" {
            tokens(&entry["requests"])
        } else {
            ["in", "out"].map(|name| entry[name].as_f64().unwrap())
        };
        sums = [sums[0] + found[0], sums[1] + found[1]];
    }
    sums
}

/// The conversations of a trace, without their texts.
fn anonymous(trace: &Path, directory: &Path, name: &str) -> Vec<Value> {
    let file = directory.join(name);
    let output = aiperf(&["anonymize"]).arg(trace).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    json_lines(&file)
}

/// The mean share of a prompt's blocks that a prefix cache would have.
fn hit_rate(trace: &Path, directory: &Path) -> f64 {
    let report = directory.join("report.json");
    let flags = ["--block-size", "16", "--output-file", report.to_str().unwrap()];
    let output = aiperf(&["analyze-trace"]).arg(trace).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    report["cache_hit_rate"].as_f64().unwrap()
}

#[test]
fn exported_sessions_are_read_as_they_were_sent() {
    let (server, directory) = (mock(Script::default()), tempfile::tempdir().unwrap());
    let (sent, otlp) = (directory.path().join("sent.jsonl"), directory.path().join("otlp"));
    let count = sessions();
    fs::write(&sent, workload(count)).unwrap();
    let mut flags = vec!["--input-file", sent.to_str().unwrap(), "--no-server-metrics"];
    flags.extend(["--trace-sample", "all", "--otel-file", otlp.to_str().unwrap()]);
    let run = profile(&server.url(), &flags).succeeded();
    let summary = run.summary();
    assert_eq!(summary["telemetry"]["traces"]["lost"], 0);

    // The starts of the sessions in the records, which are those of the spans.
    let first = |record: &Value| {
        let metadata = &record["metadata"];
        let id = metadata["conversation_id"].as_str()?.strip_prefix('s')?.parse::<usize>().ok()?;
        let is_first = metadata["turn_index"] == 0;
        is_first.then(|| (metadata["request_start_ns"].as_u64().unwrap(), id))
    };
    let mut starts: Vec<(u64, usize)> = run.records().iter().filter_map(first).collect();
    starts.sort_unstable();
    assert_eq!(starts.len(), count);

    let traces = otlp.join("traces.jsonl");
    let expected = anonymous(&sent, directory.path(), "expected.jsonl");
    let found = anonymous(&traces, directory.path(), "found.jsonl");
    assert_eq!((expected.len(), found.len()), (count, count));
    let (mut differences, mut sums) = (Vec::new(), [[0.0; 2]; 2]);
    for (found, (start, id)) in found.iter().zip(&starts) {
        let expected = &expected[*id];
        assert_eq!(shape(&found["requests"]), shape(&expected["requests"]), "session {id}");
        let millis = (start - starts[0].0) as f64 / 1e6;
        differences.push((found["timestamp"].as_f64().unwrap() - millis).abs());
        for (sums, of) in sums.iter_mut().zip([found, expected]) {
            let [input, output] = tokens(&of["requests"]);
            *sums = [sums[0] + input, sums[1] + output];
        }
    }
    differences.sort_by(f64::total_cmp);
    let p99 = differences[differences.len() * 99 / 100];
    let [input, output] = [0, 1].map(|of| sums[0][of] / sums[1][of]);
    let rates = [&traces, &sent].map(|trace| hit_rate(trace, directory.path()));
    let figures = format!(
        "{count} sessions: starts differ by {p99:.6} ms at p99; input {input:.5}, output {output:.5} of \
         those sent; hit rates {rates:?}"
    );
    eprintln!("{figures}");
    assert!(p99 <= 1.0, "{figures}");
    assert!((input - 1.0).abs() <= 0.01 && (output - 1.0).abs() <= 0.01, "{figures}");
    assert!(rates[1] > 0.2 && (rates[0] - rates[1]).abs() <= 0.01, "{figures}");
}
