//! Traces from files: what their prompts share, how they are changed and analyzed, and trees of
//! conversations.

use std::fs;
use std::path::{Path, PathBuf};

use base::units::Nanos;
use mock_server::{MockServer, Script};
use serde_json::{Value, json};

use crate::report_page;
use crate::support::load::mock;
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, json_lines, profile};

const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/traces").join(name)
}

fn server() -> MockServer {
    mock(Script { ttft: Nanos::from_millis(2.0), ..Script::default() })
}

/// Sends the requests of `shared.jsonl` one after the other, and compares their prompts with the
/// blocks of `expected`.
fn assert_shared(extra: &[&str], expected: &str) {
    let server = server();
    let trace = golden("shared.jsonl");
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "m", "--streaming", "--ui", "none"]);
    command.args(["--url", &server.url(), "--tokenizer", TOKENIZER, "--input-file"]).arg(trace);
    command.args(["--isl-block-size", "64", "--no-fixed-schedule", "--concurrency", "1"]);
    command.args(["--export-level", "raw", "--artifact-dir"]).arg(directory.path()).args(extra);
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    fs::write(run.path("expected.jsonl"), expected).unwrap();
    let case = json!({"trace": run.path("expected.jsonl"), "tokenizer": TOKENIZER, "block": 64});
    fs::write(run.path("case.json"), case.to_string()).unwrap();
    run_python("tests/check_trace_prompts.py", run.directory.path());
}

#[test]
fn prompts_share_the_tokens_that_their_hash_ids_share() {
    assert_shared(&[], &fs::read_to_string(golden("shared.jsonl")).unwrap());
}

#[test]
fn multiplied_prompts_share_what_aiperf_makes_them_share() {
    let flags = "--synthesis-prefix-len-multiplier 2 --synthesis-prompt-len-multiplier 1.5";
    let flags: Vec<&str> = flags.split(' ').collect();
    // AIPerf leaves a prompt without hash IDs as it is.
    let expected = fs::read_to_string(golden("shared-x2.jsonl")).unwrap();
    let own = expected.replace(r#""input_length": 200"#, r#""input_length": 300"#);
    assert_ne!(own, expected);
    assert_shared(&flags, &own);
}

#[test]
fn a_changed_trace_has_its_times_and_outputs() {
    let server = server();
    let trace = golden("shared.jsonl");
    let flags = "--isl-block-size 64 --synthesis-speedup-ratio 0.5 \
                 --synthesis-output-len-multiplier 3.5 --synthesis-max-osl 6 \
                 --synthesis-prefix-root-multiplier 2 --synthesis-max-isl 450";
    let mut extra = vec!["--input-file", trace.to_str().unwrap()];
    extra.extend(flags.split_whitespace());
    let run = profile(&server.url(), &extra).succeeded();
    let records = run.records();
    // One prompt is too long.
    assert_eq!(records.len(), 9);
    let synthesis = &run.summary()["input_config"]["datasets"][0]["synthesis"];
    let expected = json!({"speedup_ratio": 0.5, "output_len_multiplier": 3.5,
        "prefix_root_multiplier": 2, "max_isl": 450, "max_osl": 6});
    assert_eq!(synthesis, &expected);
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    for session in inputs["data"].as_array().unwrap() {
        assert_eq!(session["payloads"][0]["max_completion_tokens"], 6);
    }
}

/// Five of ten lines are longer than the limit, and the others are sent twice, but for one.
#[test]
fn what_a_run_leaves_out_of_a_trace_is_shown_everywhere() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    let line = |n: u32| format!("{{\"input_length\": {}, \"output_length\": 10}}\n", 100 * n);
    fs::write(&trace, (1..=10).map(line).collect::<String>()).unwrap();
    let flags = ["--input-file", trace.to_str().unwrap(), "--max-context-length", "510"];
    let profiled = |more: &[&str]| profile(&server.url(), &[&flags[..], more].concat()).succeeded();

    let run = profiled(&["--request-count", "9", "--html"]);
    let text = "10 requests read, 5 sent, 5 left out: 5 longer than --max-context-length; 4 more sent \
                as repetitions";
    let account = json!({
        "read": 10, "left_out": {"max_context_length": 5}, "sent": 5, "repeated": 4,
    });
    assert_eq!(run.summary()["run_info"]["dataset"], account);
    assert_eq!(run.records().len(), 9);
    for shown in [run.stdout(), run.text("profile_export_console.txt"), run.text("report.html")] {
        // Tables wrap their lines.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&shown).contains(&words(text)), "{shown}");
    }
    let again = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(run.summary()["run_info"]["dataset"], account);

    let short = profiled(&["--request-count", "3"]);
    let account = json!({
        "read": 10, "left_out": {"max_context_length": 5, "not_reached": 2}, "sent": 3,
        "repeated": 0,
    });
    assert_eq!(short.summary()["run_info"]["dataset"], account);
    let dry = profiled(&["--request-count", "3", "--dry-run=json"]);
    let shown: Value = serde_json::from_str(&dry.stdout()).unwrap();
    assert_eq!(shown["dataset"], account);
    let dry = profiled(&["--request-count", "9", "--dry-run"]);
    assert!(dry.stdout().contains(&format!("Dataset:        {text}")), "{}", dry.stdout());

    let whole = profile(&server.url(), &[&flags[..2], &["--request-count", "10"]].concat());
    assert!(!whole.succeeded().stdout().contains("dataset:"));
}

fn assert_close(found: &Value, expected: &Value, path: &str) {
    if let (Value::Object(found), Value::Object(expected)) = (found, expected) {
        let keys: Vec<_> = expected.keys().collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), keys, "{path}");
        for key in keys {
            assert_close(&found[key], &expected[key], &format!("{path}.{key}"));
        }
    } else {
        let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
        let most = 1e-12 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= most, "{path}: {found}, expected {expected}");
    }
}

#[test]
fn a_trace_is_analyzed_as_aiperf_analyzes_it() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("deep/report.json");
    let trace = golden("shared.jsonl");
    let (trace, report) = (trace.to_str().unwrap(), report.to_str().unwrap());
    for arguments in [
        vec!["analyze-trace", trace, "64", report],
        vec!["analyze-trace", "--input-file", trace, "--block-size", "64", "--output-file", report],
    ] {
        let output = aiperf(&arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        for line in ["Total requests:   10", "Unique prefixes:  20", "Prefix groups:    2"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("Theoretical Hit Rates"), "{text}");
        let read = |path: &Path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_close(&read(Path::new(report)), &read(&golden("shared-analysis.json")), "report");
        fs::remove_file(report).unwrap();
    }
    // Blocks of 512 tokens, of which the prompts have too many.
    let output = aiperf(&["analyze-trace", trace]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("line 1: 5 blocks of 512 tokens exceed"), "{error}");
}

#[test]
fn traces_of_any_format_are_analyzed() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report.json");
    let trace = directory.path().join("trace.jsonl");
    // One agent of three turns, with a sub-agent of two turns and a fork of one.
    fs::write(&trace, tree()).unwrap();
    let flags = ["--block-size", "16", "--output-file", report.to_str().unwrap()];
    let output = aiperf(&["analyze-trace", trace.to_str().unwrap()]).args(flags).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Sessions:         1\nDepth of trees:   1\n"), "{text}");
    assert!(text.contains("Sub-Agents per Session"), "{text}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!((&found["total_sessions"], &found["max_tree_depth"]), (&json!(1), &json!(1)));
    assert_eq!(found["total_requests"], 6);
    assert_eq!(
        (&found["turns_stats"]["max"], &found["sub_agents_stats"]["max"]),
        (&json!(3.0), &json!(2.0))
    );
    // One session does not have times between sessions.
    assert!(found["session_gap_seconds_stats"].is_null() && found["arrival_variation"].is_null());

    let page = directory.path().join("new/page.html");
    let flags = ["--html", page.to_str().unwrap()];
    let output = aiperf(&["analyze-trace", trace.to_str().unwrap()]).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let data = report_page::data(&fs::read_to_string(page).unwrap());
    let sections = data["sections"].as_array().unwrap().iter();
    let titles: Vec<&str> = sections.map(|section| section["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Lengths", "Sharing", "Sessions"]);
    // The turns, sub-agents, levels and number of the only session.
    assert_eq!(data["sections"][2]["tables"][0]["rows"], json!([[3, 2, 1, 1]]));
    assert_eq!(data["figures"][0]["value"], 6.0);
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

fn tree() -> String {
    let lines = [
        json!({"session_id": "root", "turns": [
            {"messages": user("r1"), "spawns": ["side"], "max_tokens": 3},
            {"messages": user("r2"), "extra": {"seed": 7}},
            {"messages": user("r3"), "forks": ["fork"]},
        ]}),
        json!({"session_id": "side", "turns": [{"messages": user("s1")}, {"messages": user("s2")}]}),
        json!({"session_id": "fork", "turns": [{"messages": user("f1"), "delay": 5}]}),
    ];
    lines.map(|line| line.to_string()).join("\n")
}

fn run_tree(extra: &[&str]) -> Run {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tree.jsonl");
    fs::write(&file, tree()).unwrap();
    let mut flags = vec!["--input-file", file.to_str().unwrap(), "--export-level", "raw"];
    flags.extend(extra);
    profile(&server.url(), &flags).succeeded()
}

fn contents(record: &Value) -> Vec<&str> {
    let messages = record["payload"]["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
}

fn roles(record: &Value) -> Vec<&str> {
    let messages = record["payload"]["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn conversations_start_others_and_wait_for_them() {
    let run = run_tree(&["--concurrency", "2", "--num-sessions", "2"]);
    let mut records = json_lines(&run.path("profile_export_raw.jsonl"));
    records.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
    assert_eq!(records.len(), 12);
    for session in 0..2 {
        let of = |text: &str| {
            let is_it = |record: &&Value| {
                record["metadata"]["session_num"] == session
                    && contents(record).last() == Some(&text)
            };
            records.iter().find(is_it).unwrap_or_else(|| panic!("{session} {text}"))
        };
        let time = |text: &str, name: &str| of(text)["metadata"][name].as_u64().unwrap();
        // The second turn waits for the spawn, which runs after the first.
        assert!(time("s1", "request_start_ns") >= time("r1", "request_end_ns"));
        assert!(time("r2", "request_start_ns") >= time("s2", "request_end_ns"));
        assert!(time("f1", "request_start_ns") >= time("r3", "request_end_ns") + 5_000_000);
        assert_eq!(roles(of("s2")), ["user", "assistant", "user"]);
        let fork = contents(of("f1"));
        let asked: Vec<_> = fork.iter().step_by(2).collect();
        assert_eq!(asked, [&"r1", &"r2", &"r3", &"f1"]);
        assert_eq!(fork[..5], contents(of("r3")));
        assert_eq!(roles(of("f1")).iter().filter(|role| **role == "assistant").count(), 3);
        assert_eq!(of("r2")["payload"]["seed"], 7);
        assert_eq!(of("r1")["payload"]["max_completion_tokens"], 3);
        assert_eq!(of("f1")["metadata"]["conversation_id"], "fork");
    }
    let of_tree = |record: &Value, name: &str| record["metadata"][name].as_str().map(str::to_owned);
    for record in &records {
        let id = record["metadata"]["conversation_id"].as_str().unwrap();
        let root = of_tree(record, "root_correlation_id").unwrap();
        let own = of_tree(record, "x_correlation_id").unwrap();
        let parent = of_tree(record, "parent_correlation_id");
        if id == "root" {
            assert_eq!(
                (record["metadata"]["agent_depth"].as_u64(), own, parent),
                (Some(0), root, None)
            );
        } else {
            assert_eq!(record["metadata"]["agent_depth"], 1);
            assert_ne!(own, root);
            // The root is the only conversation that starts others.
            assert_eq!(parent, Some(root));
        }
    }
    // Each session has a spawn and a fork; its second turn waits for the spawn.
    let stats = json!({
        "children_spawned": 4, "children_completed": 4, "children_errored": 0,
        "children_truncated": 0, "children_delayed": 0, "parents_suspended": 2,
        "parents_resumed": 2, "parents_failed_due_to_child_error": 0, "joins_suppressed": 0,
        "graphs_admitted": 0, "graphs_completed_to_end": 0,
    });
    assert_eq!(run.summary()["branch_stats"], stats);
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert_eq!(run.summary()["branch_stats"], stats);
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    let payloads: Vec<_> = inputs["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| {
            (session["session_id"].as_str().unwrap(), session["payloads"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(payloads, [("root", 3), ("side", 2), ("fork", 1)]);
}

/// The second request is of a sub-agent that began while the first one was answered, and ended after the
/// third one was sent.
#[test]
fn sub_agents_that_ran_beside_their_agent_do_so_again() {
    let request = |t: f64, api: f64, blocks: &[u64]| {
        json!({"t": t, "type": "n", "model": "m", "in": 16 * blocks.len(), "out": 4,
               "hash_ids": blocks, "api_time": api})
    };
    let trace = json!({"id": "x", "block_size": 16, "hash_id_scope": "local", "requests": [
        request(0.0, 2.0, &[1, 2]), request(1.0, 9.0, &[1, 8]), request(2.1, 1.0, &[1, 2, 3])]});
    let server = mock(Script { ttft: Nanos::from_millis(1500.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    fs::write(&file, trace.to_string()).unwrap();
    let mut command = aiperf(&["profile", "--model", "m", "--streaming", "--ui", "none"]);
    command.args(["--url", &server.url(), "--tokenizer", TOKENIZER, "--concurrency", "1"]);
    command.args(["--num-sessions", "1", "--input-file"]).arg(&file);
    command.arg("--artifact-dir").arg(directory.path());
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let mut records = run.records();
    records.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
    let of = |at: usize, name: &str| records[at]["metadata"][name].clone();
    let ids: Vec<Value> = (0..3).map(|at| of(at, "conversation_id")).collect();
    assert_eq!(ids, ["x", "x::aux:000", "x"]);
    let time = |at: usize, name: &str| of(at, name).as_u64().unwrap();
    let (started, ended) = ("request_start_ns", "request_end_ns");
    // A second after the request of its agent, which is answered after 1.5 s.
    assert!(time(1, started) - time(0, started) >= 1_000_000_000);
    assert!(time(1, started) < time(0, ended));
    // Its agent does not wait for it.
    assert!(time(2, started) < time(1, ended));
}

#[test]
fn requests_of_a_tree_count_towards_the_limit() {
    for load in [["--concurrency", "1"], ["--request-rate", "500"]] {
        let run = run_tree(&[&["--request-count", "9"][..], &load].concat());
        let texts: Vec<_> =
            run.records().iter().map(|r| r["metadata"]["conversation_id"].clone()).collect();
        assert_eq!(texts.len(), 9, "{texts:?}");
        let stats = run.summary()["branch_stats"].clone();
        let of = |name: &str| stats[name].as_u64().unwrap();
        let ended = ["children_completed", "children_truncated"].map(of).iter().sum::<u64>();
        assert_eq!(of("children_spawned"), ended, "{stats}");
        assert_eq!(of("parents_suspended"), of("parents_resumed") + of("joins_suppressed"));
    }
}

#[test]
fn captures_of_a_directory_are_sent_at_their_times() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let capture = |time: &str, text: &str| {
        let body = json!({"messages": user(text), "max_tokens": 2, "temperature": 0});
        json!({
            "captureData": {"endpointInput": {"data": body.to_string(), "encoding": "JSON"}},
            "eventMetadata": {"eventId": text, "inferenceTime": time},
            "eventVersion": "0",
        })
        .to_string()
    };
    fs::create_dir(directory.path().join("hour")).unwrap();
    let write = |name: &str, line: String| fs::write(directory.path().join(name), line).unwrap();
    write("hour/b.jsonl", capture("2026-11-21T15:04:05.000Z", "first"));
    write("a.jsonl", capture("2026-11-21T15:04:05.050Z", "second"));
    let path = directory.path().to_str().unwrap();
    let run = profile(&server.url(), &["--input-file", path, "--export-level", "raw"]).succeeded();
    let mut records = json_lines(&run.path("profile_export_raw.jsonl"));
    records.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
    let texts: Vec<_> = records.iter().flat_map(contents).collect();
    assert_eq!(texts, ["first", "second"]);
    assert_eq!(records[0]["payload"]["max_completion_tokens"], 2);
    assert!(records[0]["payload"]["temperature"].is_null());
}

#[test]
fn markers_differ_between_sessions_and_are_counted() {
    let server = server();
    let flags = "--cache-bust first_turn_prefix --num-dataset-entries 1 \
                 --session-turns-mean 2 --num-sessions 3 --export-level raw";
    let run = profile(&server.url(), &flags.split_whitespace().collect::<Vec<_>>()).succeeded();
    let raw = json_lines(&run.path("profile_export_raw.jsonl"));
    let marker = |record: &Value| {
        let first = contents(record)[0];
        assert!(first.starts_with("[rid:") && first[17..].starts_with("]\n\n"), "{first}");
        first[5..17].to_owned()
    };
    let mut markers: Vec<String> = raw.iter().map(marker).collect();
    markers.sort();
    assert_eq!(markers.len(), 6);
    assert!(markers.chunks(2).all(|turns| turns[0] == turns[1]));
    markers.dedup();
    assert_eq!(markers.len(), 3);
    // The marker and the two line feeds are at least eight tokens.
    for record in run.records().iter().filter(|record| record["metadata"]["turn_index"] == 0) {
        let input = record["metrics"]["input_sequence_length"]["value"].as_u64().unwrap();
        assert!((26..50).contains(&input), "{input}");
    }
    let payload = tempfile::NamedTempFile::new().unwrap();
    fs::write(&payload, r#"{"messages": [{"role": "user", "content": "x"}]}"#).unwrap();
    let path = payload.path().to_str().unwrap();
    let flags = ["--input-file", path, "--custom-dataset-type", "raw_payload"];
    let refused =
        profile(&server.url(), &[&flags[..], &["--cache-bust", "system-prefix"]].concat());
    assert!(
        refused.stderr().contains("payloads, which are sent unchanged"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn a_synthesized_trace_can_be_sent_and_analyzed() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let arguments = [
        "synthesize",
        "agentic-code",
        "--num-sessions",
        "3",
        "--seed",
        "9",
        "--max-isl",
        "56000",
        "--max-osl",
        "50",
        "--output",
        place,
    ];
    let output = aiperf(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let name = made.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("default_3s_seed9_"), "{name}");
    let lines = json_lines(&made.join("dataset.jsonl"));
    let sessions: std::collections::HashSet<_> =
        lines.iter().map(|line| &line["session_id"]).collect();
    assert_eq!(sessions.len(), 3);
    assert!(lines.iter().all(|line| line["output_length"].as_u64().unwrap() <= 50));
    let read = |file: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(made.join(file)).unwrap()).unwrap()
    };
    let quality = read("quality.json");
    assert_eq!(quality["session_end_stats"]["total_sessions"], 3);
    assert_eq!(quality["session_stats"]["count"], 3);
    assert_eq!(read("manifest.json")["generation_params"]["max_prompt_tokens"], 56_000);
    let trace = made.join("dataset.jsonl");
    let trace = trace.to_str().unwrap();
    let analyzed = aiperf(&["analyze-trace", trace]).output().unwrap();
    let text = String::from_utf8(analyzed.stdout).unwrap();
    assert!(text.contains(&format!("Total requests:   {}", lines.len())), "{text}");
    let flags = ["--input-file", trace, "--no-fixed-schedule", "--ignore-trace-delays"];
    let run = profile(&server.url(), &[&flags[..], &["--request-count", "2"]].concat()).succeeded();
    let first = lines[0]["input_length"].as_f64().unwrap();
    let value = &run.records()[0]["metrics"]["input_sequence_length"]["value"];
    assert_eq!(value.as_f64(), Some(first));
}

/// Sends the requests of `baseten.parquet`. Returns what their bodies ask for, without the model, and the
/// records, both in the order of their rows' times.
fn run_baseten(extra: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let server = server();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/hub/baseten.parquet");
    let flags = [&["--input-file", file, "--export-level", "raw"], extra].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let mut records = json_lines(&run.path("profile_export_raw.jsonl"));
    records.sort_by_key(|it| it["payload"]["messages"][0]["content"].as_str().map(str::len));
    records.sort_by_key(|it| it["metadata"]["conversation_id"] == "s");
    let bodies = records.iter().map(|record| {
        let mut body = record["payload"].as_object().unwrap().clone();
        body.retain(|name, _| !["model", "stream", "stream_options"].contains(&name.as_str()));
        Value::Object(body)
    });
    (bodies.collect(), records)
}

fn asks(prompt: &str, tokens: u32, more: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": prompt}],
        "max_completion_tokens": tokens});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn requests_of_a_table_are_sent_as_they_were_recorded() {
    let (bodies, records) = run_baseten(&[]);
    let hints = json!({"min_tokens": 4, "hash_ids": [11, 12], "block_size": 64});
    // A cancelled request has an output of 0 tokens, and is sent with 1.
    let expected = [
        asks("One", 2, &json!({"min_tokens": 2})),
        asks("Two", 4, &hints),
        asks("Two and three", 1, &json!({"min_tokens": 1, "block_size": 64})),
    ];
    assert_eq!(bodies, expected);
    let sessions = records.iter().map(|it| &it["metadata"]["conversation_id"]);
    assert_eq!(sessions.skip(1).collect::<Vec<_>>(), ["s", "s"]);
    let turns = records.iter().map(|it| &it["metadata"]["turn_index"]);
    assert_eq!(turns.collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn hints_and_minimums_of_a_table_are_left_out_if_it_is_asked_for() {
    let (bodies, records) =
        run_baseten(&["--omit-kv-hints", "--no-fixed-schedule", "--concurrency", "1"]);
    let expected = [
        asks("One", 2, &json!({"min_tokens": 2})),
        asks("Two", 4, &json!({"min_tokens": 4})),
        asks("Two and three", 1, &json!({"min_tokens": 1})),
    ];
    assert_eq!(bodies, expected);
    // Two began at 50 ms and took 50; the turn after it began at 250.
    let time = |at: usize, name: &str| records[at]["metadata"][name].as_u64().unwrap();
    assert!(time(2, "request_start_ns") >= time(1, "request_end_ns") + 150_000_000);

    let (bodies, _) = run_baseten(&["--omit-kv-hints", "--no-force-min-tokens"]);
    let expected = [("One", 2), ("Two", 4), ("Two and three", 1)];
    assert_eq!(bodies, expected.map(|(prompt, tokens)| asks(prompt, tokens, &json!({}))));
}

/// Writes conversations of so many turns, each of which starts the next conversation as `member` says.
fn chained(count: usize, turns: usize, member: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let line = |at: usize| {
        let mut turn = json!({"messages": [{"role": "user", "content": "x"}]});
        if at + 1 < count {
            turn[member] = json!([format!("s{}", at + 1)]);
        }
        let turns = vec![turn; turns];
        format!("{}\n", json!({"session_id": format!("s{at}"), "turns": turns}))
    };
    fs::write(&file, (0..count).map(line).collect::<String>()).unwrap();
    file
}

#[test]
fn trees_that_grow_exponentially_are_rejected_before_the_first_request() {
    // Each has two turns, after which it starts the next one: 2^31 - 1 conversations.
    let file = chained(31, 2, "spawns");
    let output = aiperf(&["validate", "dag-jsonl"]).arg(file.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("\"s0\" starts more than 10000 conversations"), "{stderr}");
    let sent = ["profile", "--model", "m", "--url", "http://127.0.0.1:9", "--input-file"];
    let output = aiperf(&sent).arg(file.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("\"s0\" starts more than 10000 conversations"), "{stderr}");
}

#[test]
fn forks_of_forks_count_once() {
    let file = chained(3000, 1, "forks");
    let output = aiperf(&["validate", "dag-jsonl"]).arg(file.path()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("3,000 conversations with 3,000 requests"), "{stdout}");
}

/// Logs have the greatest number of 32 bits for requests without a limit.
#[test]
fn an_analysis_does_not_depend_on_the_magnitude_of_a_length() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let turn = json!({"text": "one two three", "output_length": i32::MAX});
    fs::write(&file, json!({"turns": [turn, turn]}).to_string()).unwrap();
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = aiperf(&["analyze-trace"]);
    let command = command.arg(file.path()).arg("--output-file").arg(report.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(report.path()).unwrap()).unwrap();
    assert_eq!(report["max_osl"], i32::MAX);
    // The second prompt repeats the first one, and a response of unknown length.
    assert_eq!((&report["min_isl"], &report["max_isl"]), (&json!(3), &json!(6)));
}
