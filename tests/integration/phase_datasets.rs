//! Phases with datasets of their own: what they send, and what the files say of it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use mock_server::Script;
use serde_json::{Value, json};

use crate::support::load::mock;
use crate::support::run::{aiperf, json_lines, profile, summary};

/// Two phases with the same lengths, and one with others between them.
const LENGTHS: [&str; 6] = [
    "--phase",
    "short: isl=20, osl=3, request-count=4",
    "--phase",
    "long: isl=120, osl=6, request-count=3, dataset-sampling-strategy=shuffle",
    "--phase",
    "again: osl=3, request-count=2",
];

/// Runs `aiperf profile` with its files in `directory`; the prompts are those of the `flags`.
fn run(url: &str, directory: &Path, flags: &[&str]) -> Output {
    let model = ["profile", "--model", "mock-model", "--tokenizer", "builtin", "--streaming"];
    let mut command = aiperf(&[&model[..], &["--ui", "none", "--url", url], flags].concat());
    command.arg("--artifact-dir").arg(directory).output().unwrap()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Recomputes the summary of `directory` from its records.
fn reported(directory: &Path) -> Value {
    fs::remove_file(directory.join("profile_export_aiperf.json")).unwrap();
    succeeded(&aiperf(&["report"]).arg(directory).output().unwrap());
    summary(directory)
}

/// The values of `pointer` in the records of a phase, in the order of the requests.
fn of_phase<'a>(records: &'a [Value], phase: &str, pointer: &str) -> Vec<&'a Value> {
    let own = records.iter().filter(|record| record["metadata"]["phase_name"] == phase);
    own.map(|record| record.pointer(pointer).unwrap()).collect()
}

#[test]
fn each_phase_sends_its_own_lengths() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &LENGTHS).succeeded();
    let (records, before) = (run.records(), run.summary());
    for (phase, count, input, output) in
        [("short", 4, 20, 3), ("long", 3, 120, 6), ("again", 2, 20, 3)]
    {
        let lengths = of_phase(&records, phase, "/metrics/input_sequence_length/value");
        assert_eq!(lengths, vec![&json!(input); count], "{phase}");
        let lengths = of_phase(&records, phase, "/metrics/output_sequence_length/value");
        assert_eq!(lengths, vec![&json!(output); count], "{phase}");
    }
    // The first and the last phase share a part of 4 + 2 conversations, so that nothing is sent twice.
    let ids: HashSet<&str> =
        records.iter().map(|it| it["metadata"]["conversation_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 9);
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    assert_eq!(inputs["data"].as_array().unwrap().len(), 9);
    let config = &before["run_info"]["config"];
    let parts = config["dataset"]["parts"].as_array().unwrap();
    let entries: Vec<_> = parts.iter().map(|it| &it["source"]["synthetic"]["entries"]).collect();
    assert_eq!(entries, [&json!(6), &json!(3)]);
    let phases = config["schedule"]["phases"].as_array().unwrap();
    assert_eq!(phases.iter().map(|it| &it["dataset"]).collect::<Vec<_>>(), [0, 1, 0]);
    let shown = before["phases"].as_array().unwrap().iter().map(|phase| &phase["dataset"]);
    let (short, long) = ("20 input tokens, 3 output", "120 input tokens, 6 output");
    assert_eq!(shown.collect::<Vec<_>>(), [short, long, short]);
    assert!(run.stdout().contains("Dataset"), "{}", run.stdout());
    // Nothing was read.
    assert_eq!(before["run_info"].get("dataset"), None);

    let after = reported(run.directory.path());
    assert_eq!(after["phases"], before["phases"]);
}

#[test]
fn a_dry_run_counts_the_tokens_of_each_phase() {
    let run = profile("http://localhost:1", &[&LENGTHS[..], &["--dry-run=json"]].concat());
    assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
    let shown: Value = serde_json::from_str(&run.stdout()).unwrap();
    // 4 · 20 + 3 · 120 + 2 · 20 tokens, and 4 · 3 + 3 · 6 + 2 · 3 requested.
    assert_eq!(shown["requests"], 9);
    assert_eq!(shown["input_tokens"], 480.0);
    assert_eq!(shown["output_tokens_requested"], 36.0);
}

#[test]
fn phases_read_different_files() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let one = file(
        "one.jsonl",
        "{\"session_id\": \"s\", \"text\": \"alpha one\", \"timestamp\": 0}\n\
         {\"session_id\": \"t\", \"text\": \"alpha two\", \"timestamp\": 10}\n",
    );
    let two = file("two.jsonl", "{\"session_id\": \"s\", \"text\": \"beta\"}\n");
    let phases = [
        format!("first: input-file={one}, request-count=3"),
        "made: isl=30, osl=2, request-count=2".to_owned(),
        format!("second: input-file={two}, request-count=1"),
        format!("replayed: input-file={one}, fixed-schedule=true"),
    ];
    let phases: Vec<&str> = phases.iter().flat_map(|phase| ["--phase", phase.as_str()]).collect();
    let place = directory.path().join("out");
    let flags = [&phases[..], &["--export-level", "raw", "--random-seed", "1"]].concat();
    let output = run(&server.url(), &place, &flags);
    succeeded(&output);
    let mut sent = json_lines(&place.join("profile_export_raw.jsonl"));
    sent.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
    let texts = |phase| of_phase(&sent, phase, "/payload/messages/0/content");
    assert_eq!(texts("first"), ["alpha one", "alpha two", "alpha one"]);
    assert_eq!(texts("second"), ["beta"]);
    assert_eq!(texts("replayed"), ["alpha one", "alpha two"]);
    let lengths = of_phase(&sent, "made", "/payload/max_completion_tokens");
    assert_eq!(lengths, [&json!(2); 2]);
    // The files name the same session.
    let ids = |phase| of_phase(&sent, phase, "/metadata/conversation_id");
    assert_eq!(ids("first"), ["s", "t", "s"]);
    assert_eq!(ids("second"), ["s_"]);

    // Both files have three requests, of which one is sent three times and another twice.
    let before = summary(&place);
    let account = json!({"read": 3, "left_out": {}, "sent": 3, "repeated": 3});
    assert_eq!(before["run_info"]["dataset"], account);
    let shown = before["phases"].as_array().unwrap().iter().map(|phase| &phase["dataset"]);
    let made = "30 input tokens, 2 output";
    assert_eq!(shown.collect::<Vec<_>>(), ["one.jsonl", made, "two.jsonl", "one.jsonl"]);
    assert_eq!(reported(&place)["run_info"]["dataset"], account);
}

#[test]
fn files_of_aiperf_have_several_datasets() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("benchmark.yaml");
    let text = |phases: &str| {
        format!(
            "benchmark:\n  model: mock-model\n  endpoint: {{url: \"{}\", streaming: true}}\n  \
             tokenizer: {{name: builtin}}\n  datasets:\n    \
             - {{name: short, type: synthetic, isl: 20, osl: 3}}\n    \
             - name: pairs\n      type: synthetic\n      prompts:\n        sequenceDistribution:\n          \
             - {{isl: 40, osl: 5, probability: 100}}\n  \
             phases:\n    - {{name: warmup, type: concurrency, requests: 2, dataset: pairs}}\n    {phases}\n",
            server.url()
        )
    };
    let show = || {
        let shown = aiperf(&["config", "show", "--config"]).arg(&file).output().unwrap();
        (String::from_utf8_lossy(&shown.stdout) + String::from_utf8_lossy(&shown.stderr))
            .into_owned()
    };
    fs::write(&file, text("- {name: a, type: concurrency, requests: 3, dataset: short}")).unwrap();
    let place = directory.path().join("out");
    let mut command = aiperf(&["profile", "--ui", "none", "--config"]);
    succeeded(&command.arg(&file).arg("--artifact-dir").arg(&place).output().unwrap());
    let records = json_lines(&place.join("profile_export.jsonl"));
    let lengths = |phase| of_phase(&records, phase, "/metrics/input_sequence_length/value");
    assert_eq!(lengths("warmup"), [&json!(40); 2]);
    assert_eq!(lengths("a"), [&json!(20); 3]);

    // The settings in the summary are a file that is read in the same way.
    let before = summary(&place)["input_config"].clone();
    let names = |key: &str, name: &str| -> Vec<Value> {
        before[key].as_array().unwrap().iter().map(|it| it[name].clone()).collect()
    };
    assert_eq!(names("datasets", "name"), ["warmup", "a"]);
    assert_eq!(names("phases", "dataset"), ["warmup", "a"]);
    fs::write(&file, json!({ "benchmark": before }).to_string()).unwrap();
    let shown = show();
    for expected in ["seq-dist=\\\"40.0|0.0,5.0|0.0:100.0", "isl=20.0"] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }

    for (phase, expected) in [
        ("- {name: a, type: concurrency, requests: 3, dataset: long}", "no dataset is named"),
        ("- {name: a, type: concurrency, requests: 3}", "set dataset to one of short, pairs"),
    ] {
        fs::write(&file, text(phase)).unwrap();
        let shown = show();
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
}

#[test]
fn a_comparison_of_servers_has_phases() {
    let (one, two) = (mock(Script::default()), mock(Script::default()));
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["ab", &one.url(), &two.url(), "--pairs", "2", "--"]);
    command.args([
        "--model",
        "mock-model",
        "--tokenizer",
        "builtin",
        "--ui",
        "none",
        "--streaming",
    ]);
    command.args(LENGTHS).args(["--isl", "20"]).arg("--artifact-dir").arg(directory.path());
    let output = command.output().unwrap();
    // Two pairs may not tell whether there is a difference.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
    for block in ["a/profile_runs/run_0001", "b/profile_runs/run_0002"] {
        let summary = summary(&directory.path().join(block));
        let phases = summary["phases"].as_array().unwrap();
        let counts = phases.iter().map(|it| (&it["name"], &it["metrics"]["request_count"]["avg"]));
        let expected = [("short", 4.0), ("long", 3.0), ("again", 2.0)];
        let expected = expected.map(|(name, count)| (json!(name), json!(count)));
        assert_eq!(counts.map(|(a, b)| (a.clone(), b.clone())).collect::<Vec<_>>(), expected);
        // A further warmup is not added, nor a limit on the time of a phase.
        let config = &summary["run_info"]["config"]["schedule"]["phases"];
        assert_eq!(config.as_array().unwrap().len(), 3);
        assert_eq!(config[0]["stop"]["duration"], Value::Null);
    }
}
