//! OpenTelemetry traces as workload: what the server receives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::units::Nanos;
use mock_server::{MockServer, Script};
use prost::Message as _;
use serde_json::{Value, json};

use crate::support::left_out::{left_out, python};
use crate::support::load::mock;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::run::{Run, aiperf, json_lines, profile};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/otel-traces").join(name)
}

fn server() -> MockServer {
    mock(Script { ttft: Nanos::from_millis(2.0), ..Script::default() })
}

/// Replays a file once and returns the bodies of the requests, in the order in which they were sent.
fn replayed(file: &Path, extra: &[&str]) -> Vec<Value> {
    let server = server();
    let flags =
        ["--input-file", file.to_str().unwrap(), "--export-level", "raw", "--ignore-trace-delays"];
    let run = profile(&server.url(), &[&flags[..], extra].concat()).succeeded();
    let mut sent: Vec<Value> = json_lines(&run.path("profile_export_raw.jsonl"));
    sent.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
    sent.iter().map(|record| record["payload"].clone()).collect()
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// The two requests of the agent, as its instrumentations recorded them.
fn of_agent(arguments: &str, second_limit: u32) -> [Value; 2] {
    let tools = json!([{"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a place",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}},
                       "required": ["location"]}}}]);
    let first = [said("system", "Answer briefly."), said("user", "What is the weather in Paris?")];
    let rest = [
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function",
             "function": {"name": "get_weather", "arguments": arguments}}]}),
        json!({"role": "tool", "content": "rain, 14 degrees", "tool_call_id": "call_1"}),
    ];
    let both = [&first[..], &rest[..]].concat();
    [
        json!({"messages": first, "tools": tools, "max_completion_tokens": 9, "temperature": 0.2}),
        json!({"messages": both, "tools": tools, "max_completion_tokens": second_limit}),
    ]
}

#[test]
fn the_server_receives_the_requests_of_the_recorded_agent() {
    for (name, arguments, second_limit) in [
        ("genai-openai-1.3b0", r#"{"location":"Paris"}"#, 9),
        ("traceloop-openai-0.40.14", r#"{"location": "Paris"}"#, 64),
        ("openinference-openai-0.1.66", r#"{"location": "Paris"}"#, 9),
    ] {
        let sent = replayed(&golden(&format!("{name}.otlp.jsonl")), &[]);
        assert_eq!(sent.len(), 2, "{name}");
        for (body, expected) in sent.iter().zip(of_agent(arguments, second_limit)) {
            for (member, value) in expected.as_object().unwrap() {
                assert_eq!(&body[member], value, "{name}: {member}");
            }
            assert_eq!(body["model"], "mock-model", "{name}");
        }
        assert!(sent[1].get("temperature").is_none(), "{name}");
    }
}

/// The same agent, recorded now by the instrumentations as they are published.
#[test]
fn the_server_receives_the_requests_of_an_agent_that_is_recorded_now() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record_otel_traces.py");
    for (name, arguments) in [
        ("genai", r#"{"location":"Paris"}"#),
        ("openllmetry", r#"{"location":"Paris"}"#),
        ("openinference", r#"{"location": "Paris"}"#),
    ] {
        let file = directory.path().join(format!("{name}.jsonl"));
        let output = Command::new(&python).arg(&script).arg(name).arg(&file).output().unwrap();
        if output.status.code() == Some(77) {
            left_out(&format!("the Python package of {name}, an instrumentation,"));
            continue;
        }
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let sent = replayed(&file, &[]);
        assert_eq!(sent.len(), 2, "{name}");
        for (body, expected) in sent.iter().zip(of_agent(arguments, 9)) {
            for (member, value) in expected.as_object().unwrap() {
                assert_eq!(&body[member], value, "{name}: {member}");
            }
        }
        assert!(sent[1].get("temperature").is_none(), "{name}");
    }
}

#[test]
fn later_requests_have_the_responses_of_the_run_or_the_recorded_ones() {
    let file = golden("inference-perf-simple_chain.json");
    let recorded: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let of_span = |at: usize, name: &str| {
        recorded["spans"][at]["attributes"][name].as_str().unwrap().to_owned()
    };
    let asked = [
        "What is the capital of France?",
        "Tell me more about Paris landmarks.",
        "How tall is the Eiffel Tower exactly?",
    ];
    for outputs in ["live", "recorded"] {
        let sent = replayed(&file, &["--replay-outputs", outputs]);
        assert_eq!(sent.len(), 3);
        let mut history = Vec::new();
        for (at, body) in sent.iter().enumerate() {
            history.push(said("user", asked[at]));
            assert_eq!(body["messages"], json!(history), "{outputs}");
            // The mock server answers with words of its own, which all later requests repeat.
            let recorded = of_span(at, "gen_ai.output.text");
            let answer = match sent.get(at + 1).filter(|_| outputs == "live") {
                Some(next) => next["messages"][2 * at + 1]["content"].as_str().unwrap(),
                None => &recorded,
            };
            assert!(!answer.is_empty());
            assert_eq!(answer == recorded, outputs == "recorded" || at == 2, "{outputs}");
            history.push(said("assistant", answer));
        }
    }
}

#[test]
fn a_tree_of_requests_is_sent_as_one() {
    let server = server();
    let file = golden("inference-perf-fan_in_dependencies.json");
    let flags = ["--input-file", file.to_str().unwrap(), "--inter-turn-delay-cap-seconds", "0.05"];
    let run = profile(&server.url(), &flags).succeeded();
    assert_eq!(run.records().len(), 4);
    let stats = &run.summary()["branch_stats"];
    assert_eq!((&stats["children_spawned"], &stats["children_completed"]), (&json!(2), &json!(2)));
    let account = &run.summary()["run_info"]["dataset"];
    assert_eq!(account, &json!({"read": 4, "left_out": {}, "sent": 4, "repeated": 0}));
}

#[test]
fn a_file_is_validated_and_its_faults_are_named() {
    let valid = |path: &Path| {
        let output = aiperf(&["validate", "otel"]).arg(path).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (is_valid, said) = valid(&golden("genai-openai-1.3b0.otlp.jsonl"));
    assert!(is_valid && said.contains("valid otel, 1 conversations with 2 requests"), "{said}");
    // The example of OpenTelemetry does not have a request to a model.
    let (is_valid, said) = valid(&golden("otlp-proto-example-trace.json"));
    assert!(!is_valid && said.contains("contains no usable conversation"), "{said}");
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("traces.jsonl");
    let good = fs::read_to_string(golden("genai-openai-1.3b0.otlp.jsonl")).unwrap();
    fs::write(&broken, format!("{good}\n{{\"resourceSpans\": 3}}\n")).unwrap();
    let (is_valid, said) = valid(&broken);
    assert!(!is_valid && said.contains("traces.jsonl, line 3:"), "{said}");
}

/// Replays the traces that a run has exported: the same sessions send prompts of the same lengths,
/// and ask for as many tokens.
#[test]
fn traces_of_a_run_are_a_workload() {
    let server = server();
    let collector = OtlpReceiver::grpc();
    let flags = "--trace-sample all --num-sessions 60 --session-turns-mean 2 \
                 --session-turns-stddev 1 --isl-stddev 5 --concurrency 8 --random-seed 4";
    let mut extra: Vec<&str> = flags.split_whitespace().collect();
    let url = collector.url();
    extra.extend(["--otel-url", &url]);
    let recorded = profile(&server.url(), &extra).succeeded();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("traces.proto");
    // An export is encoded like the traces of a file.
    let framed = collector.traces().into_iter().flat_map(|export| {
        let message = export.message.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&length[..], &message].concat()
    });
    fs::write(&file, framed.collect::<Vec<u8>>()).unwrap();
    let flags =
        ["--input-file", file.to_str().unwrap(), "--no-fixed-schedule", "--concurrency", "8"];
    let again = profile(&server.url(), &flags).succeeded();
    // For each session, the lengths of its prompts and responses.
    let sessions = |run: &Run| -> Vec<Vec<[u64; 2]>> {
        let mut sessions: BTreeMap<String, BTreeMap<u64, [u64; 2]>> = BTreeMap::new();
        for record in run.records() {
            let metadata = &record["metadata"];
            let tokens = ["input_sequence_length", "output_sequence_length"]
                .map(|name| record["metrics"][name]["value"].as_u64().unwrap());
            let session = metadata["x_correlation_id"].as_str().unwrap().to_owned();
            let turn = metadata["turn_index"].as_u64().unwrap();
            assert!(sessions.entry(session).or_default().insert(turn, tokens).is_none());
        }
        let mut lengths: Vec<_> =
            sessions.into_values().map(|turns| turns.into_values().collect()).collect();
        lengths.sort();
        lengths
    };
    let lengths = sessions(&recorded);
    assert_eq!(lengths.len(), 60);
    assert!(lengths.iter().any(|turns: &Vec<_>| turns.len() > 2));
    assert_eq!(sessions(&again), lengths);
}
