//! Traces without their texts, and runs that replay them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use mock_server::Script;
use serde_json::Value;

use crate::support::load::mock;
use crate::support::run::{aiperf, json_lines, profile_command, summary};

fn anonymize(input: &Path, output: &Path, extra: &[&str]) -> Output {
    aiperf(&["anonymize"]).arg(input).arg(output).args(extra).output().unwrap()
}

/// The texts in the attributes of spans, also in the JSON that they may contain.
fn attributes(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| attributes(item, found)),
        Value::Object(members) => {
            for (name, member) in members {
                let inside = if name == "stringValue" { texts } else { attributes };
                inside(member, found);
            }
        }
        _ => {}
    }
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => texts(&inner, found),
            _ => found.push(text.clone()),
        },
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        _ => {}
    }
}

#[test]
fn production_traces_are_replayed_without_their_texts() {
    let directory = tempfile::tempdir().unwrap();
    let golden = Path::new("tests/golden/otel-traces");
    for name in ["genai-openai-1.3b0.otlp.jsonl", "openinference-openai-0.1.66.otlp.jsonl"] {
        let shared = directory.path().join(name);
        let output = anonymize(&golden.join(name), &shared, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let result = fs::read_to_string(&shared).unwrap();
        let mut found = Vec::new();
        for line in json_lines(&golden.join(name)) {
            attributes(&line, &mut found);
        }
        assert!(found.len() > 20);
        for text in found {
            let letters: Vec<char> = text.chars().collect();
            for window in letters.windows(8).map(|it| it.iter().collect::<String>()) {
                assert!(!result.contains(&window), "{name}: {window}");
            }
        }

        let server = mock(Script::default());
        let run = directory.path().join(format!("run-{name}"));
        let flags = ["--input-file", shared.to_str().unwrap(), "--no-fixed-schedule"];
        let more = ["--ignore-trace-delays", "--no-server-metrics"];
        let output = profile_command(&server.url(), &run, &[&flags[..], &more].concat());
        let output = { output }.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let requests: usize = json_lines(&shared)
            .iter()
            .map(|document| document["requests"].as_array().unwrap().len())
            .sum();
        assert_eq!(summary(&run)["request_count"]["avg"], requests as f64);
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_of_any_format_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let input = Path::new("tests/golden/otel-traces/genai-openai-1.3b0.otlp.jsonl");
    let from_file = aiperf(&["analyze-trace"]).arg(input).output().unwrap();
    assert!(String::from_utf8_lossy(&from_file.stdout).contains("Sessions:"));
    let piped = |command: &[&str]| {
        let mut cat = Command::new("cat").arg(input).stdout(Stdio::piped()).spawn().unwrap();
        let pipe = cat.stdout.take().unwrap();
        let output = aiperf(command).stdin(pipe).output().unwrap();
        cat.wait().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(piped(&["analyze-trace", "/dev/stdin"]), from_file.stdout);
    let shared = directory.path().join("shared.jsonl");
    piped(&["anonymize", "/dev/stdin", shared.to_str().unwrap()]);
    assert_eq!(json_lines(&shared).len(), 1);
}

#[test]
fn nothing_is_overwritten_and_what_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("in.jsonl"), directory.path().join("out.jsonl"));
    fs::write(&input, "{\"text_input\": \"hello\", \"output_length\": 3}\n").unwrap();
    fs::write(&output, "mine").unwrap();
    let refused = anonymize(&input, &output, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("exists already"));
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine");

    fs::remove_file(&output).unwrap();
    let written = anonymize(&input, &output, &["--block-size", "16"]);
    let stdout = String::from_utf8_lossy(&written.stdout).into_owned();
    let expected =
        "weka_trace, 1 conversations with 1 requests, 1 input tokens in 1 different blocks";
    assert!(stdout.contains(expected), "{stdout}");
    fs::write(&input, "{\"text_input\": 5}\n").unwrap();
    let refused = anonymize(&input, &directory.path().join("other"), &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("line 1"), "{stderr}");
}
