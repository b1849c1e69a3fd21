//! The description of a run in its files, and the model and server of each request.

use std::collections::BTreeMap;
use std::fs;

use base::units::Nanos;
use mock_server::Script;
use serde_json::{Value, json};

use crate::support::load::mock;
use crate::support::run::{Run, aiperf, profile, profile_command};

#[test]
fn a_run_says_what_it_was_made_with() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "4", "--random-seed", "7"]).succeeded();
    let info = run.summary()["run_info"].clone();
    assert_eq!(info["program"]["name"], "aiperf");
    assert_eq!(info["program"]["version"], env!("CARGO_PKG_VERSION"));
    let host = &info["host"];
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(host["kernel"], kernel.trim());
    assert_eq!(host["name"], fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
    assert_eq!(host["arch"], std::env::consts::ARCH);
    assert!(host["cores"].as_u64() >= Some(1) && host["memory_bytes"].as_u64() > Some(1 << 20));
    assert_eq!(info["tokenizer"]["name"], "builtin");
    assert_eq!(info["tokenizer"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(info["random_seed"], 7);
    // The mock server's metrics are vLLM's.
    let url = format!("{}/v1/chat/completions", server.url().trim_end_matches('/'));
    assert_eq!(info["servers"], json!([{"url": url, "name": "vllm"}]));
    // The same instant as without a time zone, and its offset.
    let start = run.summary()["start_time"].as_str().unwrap().to_owned();
    let zoned = info["start_time"].as_str().unwrap();
    let offset = zoned.strip_prefix(&start).unwrap();
    assert!(offset.len() == 6 && offset.starts_with(['+', '-']), "{zoned}");
    let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(run.summary()["run_info"], info);
}

#[test]
fn a_run_says_what_its_machine_did() {
    // The kernel counts CPU time in hundredths of a second.
    let server = mock(Script { ttft: Nanos::from_millis(50.0), ..Script::default() });
    let run = profile(&server.url(), &["--request-count", "4"]).succeeded();
    let host = run.summary()["run_info"]["host"].clone();
    // As the kernel formats it.
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    assert_eq!(host["core_list"], allowed.trim());
    let did = run.summary()["client_health"]["host"].clone();
    let steal = did["steal"]["percent"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&steal), "{did}");
    assert!(did["network"].is_null(), "the server is on this machine: {did}");
    let text = run.text("profile_export_console.txt");
    assert!(text.contains("of the CPU time stolen"), "{text}");
    let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(run.summary()["client_health"]["host"], did);
    assert_eq!(run.text("profile_export_console.txt"), text);
}

#[test]
fn the_tokenizers_file_is_named_by_its_hash() {
    let server = mock(Script::default());
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");
    let directory = tempfile::tempdir().unwrap();
    let base = ["profile", "--model", "m", "--request-count", "2", "--ui", "none", "--isl", "9"];
    let mut command = aiperf(&base);
    command.args(["--url", &server.url(), "--tokenizer", tokenizer]);
    assert!(command.arg("--artifact-dir").arg(directory.path()).status().unwrap().success());
    let told = crate::support::run::summary(directory.path())["run_info"]["tokenizer"].clone();
    // With coreutils, as a user would check it.
    let file = format!("{tokenizer}/tokenizer.json");
    let output = std::process::Command::new("sha256sum").arg(file).output().unwrap();
    let sum = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, json!({"name": tokenizer, "sha256": sum.split(' ').next().unwrap()}));
}

fn counts(groups: &Value) -> BTreeMap<String, f64> {
    let groups = groups.as_object().unwrap().iter();
    groups
        .map(|(name, group)| (name.clone(), group["request_count"]["avg"].as_f64().unwrap()))
        .collect()
}

#[test]
fn requests_of_several_models_and_servers_are_told_apart() {
    let (one, other) = (mock(Script::default()), mock(Script::default()));
    let urls = format!("{},{}", one.url(), other.url());
    let directory = tempfile::tempdir().unwrap();
    let base = ["profile", "--model", "a,b,c", "--request-count", "12", "--ui", "none"];
    let rest = ["--url", &urls, "--tokenizer", "builtin", "--isl", "20", "--osl", "4"];
    let mut command = aiperf(&[&base[..], &rest].concat());
    let output = command.arg("--artifact-dir").arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let of = |url: String| format!("{}/v1/chat/completions", url.trim_end_matches('/'));
    let (one, other) = (of(one.url()), of(other.url()));
    // Models and servers are used in turn: the session's number modulo 3 and 2.
    let path = directory.path().join("profile_export.jsonl");
    for record in crate::support::run::json_lines(&path) {
        let metadata = &record["metadata"];
        let session = metadata["session_num"].as_u64().unwrap();
        assert_eq!(metadata["model"], ["a", "b", "c"][session as usize % 3]);
        assert_eq!(metadata["url"], [one.as_str(), &other][session as usize % 2]);
        assert_eq!(metadata["endpoint_type"], "chat");
    }
    let summary = crate::support::run::summary(directory.path());
    let models = ["a", "b", "c"].map(|name| (name.to_owned(), 4.0));
    assert_eq!(counts(&summary["by_model"]), BTreeMap::from(models));
    assert_eq!(counts(&summary["by_url"]), BTreeMap::from([(one, 6.0), (other, 6.0)]));
    let tokens = |group: &Value| group["total_osl"]["avg"].as_f64().unwrap();
    let sum: f64 = summary["by_model"].as_object().unwrap().values().map(tokens).sum();
    assert_eq!(sum, tokens(&summary));
    let output = aiperf(&["report"]).arg(directory.path()).output().unwrap();
    assert!(output.status.success());
    let again = crate::support::run::summary(directory.path());
    assert_eq!((&again["by_model"], &again["by_url"]), (&summary["by_model"], &summary["by_url"]));
}

#[test]
fn a_run_names_the_ci_job_that_it_is_part_of() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &["--request-count", "2"]);
    command.envs([
        ("GITLAB_CI", "true"),
        ("CI_PIPELINE_ID", "1842"),
        ("CI_JOB_NAME", "bench"),
        ("CI_PROJECT_URL", "https://user:a-token@gitlab.example.com/group/project"),
        ("CI_COMMIT_SHA", "5c6e7f8"),
    ]);
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let text = run.text("profile_export_aiperf.json");
    let summary: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "cicd.pipeline.run.id": "1842",
        "cicd.pipeline.task.name": "bench",
        "vcs.provider.name": "gitlab",
        "vcs.repository.url.full": "https://gitlab.example.com/group/project",
        "vcs.ref.head.revision": "5c6e7f8",
    });
    assert_eq!(summary["run_info"]["ci"], expected);
    assert!(!text.contains("a-token"));
}
