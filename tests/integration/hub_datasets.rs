//! Datasets that the program downloads from a hub.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use mock_server::Script;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::hub::{CONVERTED, Hub, commit, exgentic_session, golden, sha256};
use crate::support::load::mock;
use crate::support::run::{Run, aiperf};

/// Adds the variables of the hub at `endpoint`, with the cache in `cache`.
fn at(command: &mut Command, endpoint: SocketAddr, cache: &Path) {
    command
        .env("HF_ENDPOINT", format!("http://{endpoint}"))
        .env("HF_HUB_CACHE", cache)
        .env("HF_TOKEN", "hf_secret");
}

/// Profiles a mock server with prompts from the hub at `endpoint`.
fn run(endpoint: SocketAddr, cache: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Run {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "mock-model", "--tokenizer", "builtin"]);
    command.args(["--url", &server.url(), "--ui", "simple", "--artifact-dir"]);
    command.arg(directory.path()).args(flags);
    at(&mut command, endpoint, cache);
    command.envs(variables.iter().copied());
    Run { output: command.output().unwrap(), directory }
}

/// The messages of the first requests of all conversations.
fn messages(run: &Run) -> Vec<Value> {
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    let bodies = inputs["data"].as_array().unwrap().iter();
    bodies.map(|entry| entry["payloads"][0]["messages"].clone()).collect()
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

fn cache() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn an_interrupted_download_is_continued_and_then_found_in_the_cache() {
    let file = golden("chat.parquet");
    let hub = Hub::default().with("org/chat", CONVERTED, "default/train/0000.parquet", &file);
    let hub = hub.interrupting(1);
    let cache = cache();
    let flags = ["--hf-dataset", "org/chat", "--request-count", "4"];
    let address = hub.start();
    let first = run(address, cache.path(), &flags, &[]).succeeded();
    let system = json!({"role": "system", "content": "Be brief."});
    let first_turn = json!({"role": "user", "content": "Name a colour."});
    assert_eq!(messages(&first), [json!([system, first_turn]), user("Hello, world!")]);
    // The first conversation has two turns, and the second one.
    assert_eq!(first.records().len(), 4);

    let ranges = hub.requests().iter().filter(|it| it.contains("range: bytes=")).count();
    assert!(ranges >= 1, "{:?}", hub.requests());
    let stderr = first.stderr();
    assert!(stderr.contains("downloading default/train/0000.parquet of org/chat"), "{stderr}");
    assert!(!stderr.contains("hf_secret"), "{stderr}");
    let commit = commit(CONVERTED);
    let repository = cache.path().join("datasets--org--chat");
    assert_eq!(fs::read_to_string(repository.join("refs/refs/convert/parquet")).unwrap(), commit);
    for path in [
        format!("blobs/{}", sha256(&file)),
        format!("snapshots/{commit}/default/train/0000.parquet"),
    ] {
        assert!(fs::read(repository.join(&path)).unwrap() == file, "{path}");
    }

    let before = hub.requests().len();
    let offline = run(address, cache.path(), &flags, &[("HF_HUB_OFFLINE", "1")]).succeeded();
    assert_eq!(messages(&offline), messages(&first));
    assert_eq!(hub.requests().len(), before);
    let other = ["--hf-dataset", "org/other", "--request-count", "4"];
    let missing = run(address, cache.path(), &other, &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(missing.exit_code(), Some(1));
    assert!(
        missing.stderr().contains("HF_HUB_OFFLINE forbids downloading it"),
        "{}",
        missing.stderr()
    );
}

#[test]
fn own_files_are_selected_by_split_column_and_filter() {
    let rows = "{\"topic\": \"a\", \"ask\": \"One\"}\n{\"topic\": \"b\", \"ask\": \"Two\"}\n\
                {\"topic\": \"b\", \"ask\": \"Three\"}\n";
    let hub = Hub::default().with("org/plain", "v1", "test.jsonl", rows.as_bytes()).with(
        "org/plain",
        "v1",
        "train.jsonl",
        b"{\"ask\": \"other\"}",
    );
    let (address, cache) = (hub.start(), cache());
    let base = ["--hf-dataset", "org/plain@v1", "--request-count", "2", "--hf-split", "test"];
    let all = |more: &[&'static str]| [&base[..], more].concat();
    let chosen = all(&["--hf-column", "ask", "--dataset-filter", "topic=b"]);
    let found = run(address, cache.path(), &chosen, &[]).succeeded();
    assert_eq!(messages(&found), [user("Two"), user("Three")]);
    let config = &found.summary()["input_config"]["datasets"][0];
    assert_eq!(config["path"], "hf://datasets/org/plain@v1");

    for (flags, code, words) in [
        (all(&[]), 2, "--hf-column: is required, since no column of org/plain"),
        (all(&["--hf-column", "x"]), 2, "its columns are topic, ask"),
        (
            all(&["--hf-column", "ask", "--dataset-filter", "x=b"]),
            2,
            "--dataset-filter: the dataset",
        ),
        (all(&["--hf-column", "ask", "--dataset-filter", "topic=x"]), 1, "no usable conversation"),
        (all(&["--isl", "5"]), 2, "cannot be combined with --public-dataset or --hf-dataset"),
        (
            vec!["--hf-dataset", "org/none"],
            1,
            "cannot load the dataset org/none: it does not exist",
        ),
        (vec!["--hf-dataset", "../x"], 1, "\"../x\" is not a valid name on the hub"),
    ] {
        let failed = run(address, cache.path(), &flags, &[]);
        let stderr = failed.stderr();
        assert_eq!(failed.exit_code(), Some(code), "{flags:?}: {stderr}");
        assert!(stderr.contains(words), "{flags:?}: {stderr}");
    }
}

#[test]
fn public_datasets_have_their_own_places_and_columns() {
    let sharegpt = json!([{"conversations": [
        {"from": "human", "value": "Tell me something about the sea."},
        {"from": "gpt", "value": "The sea is large, deep and salty."},
        {"from": "human", "value": "And now about the mountains."},
        {"from": "gpt", "value": "Mountains are high."},
    ]}]);
    let hub = Hub::default()
        .with("openai/gsm8k", CONVERTED, "main/test/0000.parquet", &golden("gsm8k.parquet"))
        .with("openai/gsm8k", CONVERTED, "socratic/test/0000.parquet", b"not used")
        .with("Lin-Chen/MMStar", CONVERTED, "val/val/0000.parquet", &golden("mmstar.parquet"))
        .with(
            "anon8231489123/ShareGPT_Vicuna_unfiltered",
            "main",
            "ShareGPT_V3_unfiltered_cleaned_split.json",
            sharegpt.to_string().as_bytes(),
        );
    let (address, cache) = (hub.start(), cache());
    let sent = |name: &str| {
        let flags = ["--public-dataset", name, "--request-count", "2"];
        messages(&run(address, cache.path(), &flags, &[]).succeeded())
    };
    assert_eq!(
        sent("spec_al_gsm8k"),
        [user("How many legs have 3 cats?"), user("What is 6 times 7?")]
    );
    assert_eq!(sent("sharegpt"), [user("Tell me something about the sea.")]);
    let parts = &sent("mmstar")[0][0]["content"];
    assert_eq!(parts[0], json!({"type": "text", "text": "What is this?"}));
    let image = parts[1]["image_url"]["url"].as_str().unwrap();
    assert!(image.starts_with("data:image/gif;base64,R0lGODlh"), "{image}");
}

/// Two documents, of which the second has a sub-agent.
const TRACES: &str = r#"{"id": "a", "block_size": 16, "hash_id_scope": "local", "requests": [{"t": 0, "type": "n", "in": 40, "out": 3, "hash_ids": [1, 2, 3]}]}
{"id": "b", "block_size": 16, "hash_id_scope": "local", "requests": [{"t": 0, "type": "s", "in": 16, "out": 3, "hash_ids": null}, {"t": 0.1, "type": "subagent", "agent_id": "x", "in": null, "requests": [{"t": 0, "type": "n", "in": 20, "out": 2}]}]}
"#;

#[test]
fn traces_of_agents_are_downloaded_and_replayed() {
    let hub = Hub::default().with("org/traces", "v1", "data/train.jsonl", TRACES.as_bytes());
    let cache = cache();
    let address = hub.start();
    let flags = ["--hf-weka-dataset", "org/traces@v1", "--num-sessions", "2"];
    let replayed = run(address, cache.path(), &flags, &[]).succeeded();
    let requests = replayed.records();
    let mut lengths: Vec<(&str, u64)> = requests
        .iter()
        .map(|record| {
            let input = &record["metrics"]["input_sequence_length"]["value"];
            (record["metadata"]["conversation_id"].as_str().unwrap(), input.as_u64().unwrap())
        })
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [("a", 40), ("b", 16), ("b::sa:x", 20)]);

    // The longer trace is left out.
    let flags = [&flags[..2], &["--max-context-length", "30", "--request-count", "2"]].concat();
    let short = run(address, cache.path(), &flags, &[]).succeeded();
    let ids: Vec<_> =
        short.records().iter().map(|it| it["metadata"]["conversation_id"].clone()).collect();
    assert!(ids.iter().all(|id| id != "a"), "{ids:?}");

    // Not a trace.
    let plain = Hub::default().with("org/chat", "v1", "train.jsonl", br#"{"prompt": "Hi."}"#);
    let flags = ["--hf-weka-dataset", "org/chat@v1", "--request-count", "1"];
    let failed = run(plain.start(), cache.path(), &flags, &[]);
    assert!(!failed.output.status.success());
    assert!(failed.stderr().contains("row 1: missing field `id`"), "{}", failed.stderr());
}

#[test]
fn sessions_of_agents_are_downloaded_at_their_revision_and_filtered() {
    let rows = [("a", "codex"), ("b", "openai_solo"), ("c", "openai_solo")];
    let rows = rows.map(|(id, harness)| exgentic_session(id, harness, None));
    let revision = "70036b93a04e61b0ea2706a68b962f4f26774587";
    let repository = "Exgentic/agent-llm-traces";
    let hub =
        Hub::default().with(repository, revision, "data/train.jsonl", rows.join("\n").as_bytes());
    let cache = cache();
    let address = hub.start();
    let flags = ["--public-dataset", "exgentic", "--concurrency", "1", "--dataset-filter"];
    let wanted = ["harness=openai_solo", "source_model=gpt-4.1", "--num-sessions", "2"];
    let replayed = run(address, cache.path(), &[&flags[..], &wanted].concat(), &[]).succeeded();
    let inputs: Value = serde_json::from_str(&replayed.text("inputs.json")).unwrap();
    let sessions = inputs["data"].as_array().unwrap();
    let ids: Vec<_> = sessions.iter().map(|it| it["session_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["b", "c"]);
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    for (number, messages) in [
        (0, json!([said("user", "b")])),
        (1, json!([said("user", "b"), said("assistant", "recorded"), said("user", "more")])),
    ] {
        let body = &sessions[0]["payloads"][number];
        assert_eq!(body["messages"], messages);
        assert_eq!(
            (&body["temperature"], &body["max_completion_tokens"]),
            (&json!(0.5), &json!(3))
        );
    }
    let mut records = replayed.records();
    let time = |record: &Value, name: &str| record["metadata"][name].as_u64().unwrap();
    records.sort_by_key(|record| time(record, "request_start_ns"));
    let turns: Vec<_> = records
        .iter()
        .map(|it| (it["metadata"]["conversation_id"].clone(), time(it, "turn_index")))
        .collect();
    assert_eq!(turns, [(json!("b"), 0), (json!("b"), 1), (json!("c"), 0), (json!("c"), 1)]);
    let pause = time(&records[1], "request_start_ns") - time(&records[0], "request_end_ns");
    assert!(pause >= 20_000_000, "{pause} ns");
    let dataset = &replayed.summary()["run_info"]["dataset"];
    assert_eq!((&dataset["read"], &dataset["left_out"]), (&json!(6), &json!({"filtered": 2})));

    for (filter, code, words) in [
        ("benchmark=swebench", 2, "the dataset does not have a column \"benchmark\""),
        ("harness=x", 1, "no usable conversation: 6 of another category, or not selected"),
    ] {
        let flags = [&flags[..], &[filter]].concat();
        let failed = run(address, cache.path(), &flags, &[]);
        let stderr = failed.stderr();
        assert_eq!(failed.exit_code(), Some(code), "{filter}: {stderr}");
        assert!(stderr.contains(words), "{filter}: {stderr}");
    }
}

#[test]
fn the_public_datasets_are_listed() {
    let table = aiperf(&["datasets"]).output().unwrap();
    assert!(table.status.success());
    let table = String::from_utf8(table.stdout).unwrap();
    let gsm8k = table.lines().find(|line| line.starts_with("spec_al_gsm8k")).unwrap();
    let cells: Vec<&str> = gsm8k.split_whitespace().collect();
    assert_eq!(cells, ["spec_al_gsm8k", "1,319", "MIT", "school", "mathematics", "openai/gsm8k"]);
    let list = aiperf(&["datasets", "--json"]).output().unwrap();
    let list: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list.len(), table.lines().count() - 1);
    let gsm8k = list.iter().find(|public| public["name"] == "spec_al_gsm8k").unwrap();
    assert_eq!((&gsm8k["subset"], &gsm8k["split"]), (&json!("main"), &json!("test")));
}
