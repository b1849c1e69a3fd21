//! Errors and exit codes for common mistakes.

use std::fs;

use mock_server::Script;

use crate::support::load::{faulty, mock};
use crate::support::run::{aiperf, profile};

#[test]
fn a_refused_key_leads_to_the_flag_for_keys() {
    let server = faulty("every=1:status=401");
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let run = profile(&server.url(), &["--request-count", "4"]);
    assert_eq!(run.exit_code(), Some(1));
    let said = words(run.stdout());
    assert!(said.contains("All 4 requests failed: 401 Unauthorized: "), "{said}");
    assert!(said.contains("with --api-key or AIPERF_API_KEY"), "{said}");
    assert!(said.contains("Try: aiperf chat --url "), "{said}");
    assert!(!said.contains("Requests/s"), "there are no results: {said}");
    let run = profile(&server.url(), &["--request-count", "4", "--api-key", "wrong"]);
    assert!(words(run.stdout()).contains("does not accept the key"), "{}", run.stdout());
}

#[test]
fn tls_to_a_port_of_plain_http_is_told() {
    let server = mock(Script::default());
    let url = server.url().replace("http://", "https://");
    let run = profile(&url, &["--request-count", "1", "--no-server-metrics"]);
    let summary = run.summary();
    let message = summary["error_summary"][0]["error_details"]["message"].as_str().unwrap();
    assert!(message.contains("use an http:// URL"), "{message}");
}

#[test]
fn files_that_are_missing_or_malformed_are_wrong_usage_alike() {
    let directory = tempfile::tempdir().unwrap();
    let malformed = directory.path().join("malformed.jsonl");
    fs::write(&malformed, "{\"text\": \"a\"}\n{\"text\": \n").unwrap();
    let empty = directory.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    let missing = directory.path().join("missing.jsonl");
    for path in [malformed, empty, missing] {
        let path = path.to_str().unwrap();
        let run = profile("http://127.0.0.1:9", &["--input-file", path]);
        assert_eq!(run.exit_code(), Some(2), "{path}: {}", run.stderr());
        assert!(run.stderr().contains(path), "{}", run.stderr());
    }
}

#[test]
fn a_file_without_a_count_of_requests_is_sent_whole_and_that_is_told() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prompts.jsonl");
    let line = |number: usize| format!("{{\"text\": \"prompt {number}\"}}\n");
    fs::write(&file, (0..13).map(line).collect::<String>()).unwrap();
    let run = profile(&server.url(), &["--input-file", file.to_str().unwrap()]).succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 13.0);
    assert!(run.stderr().contains("13 conversations once each"), "{}", run.stderr());
    assert_eq!(run.summary()["input_config"]["phases"][0]["sessions"], 13);
}

#[test]
fn short_names_of_metrics_are_objectives() {
    let server = mock(Script::default());
    let flags = ["--request-count", "2", "--goodput", "ttft:5000 TPOT:5000 e2el:9000"];
    let run = profile(&server.url(), &flags).succeeded();
    let slos = &run.summary()["input_config"]["slos"];
    for tag in ["time_to_first_token", "inter_token_latency"] {
        assert_eq!(slos[tag], 5000.0, "{slos}");
    }
    assert_eq!(slos["request_latency"], 9000.0);
    let run = profile(&server.url(), &["--goodput", "ttft:1 time_to_first_token:2"]);
    assert_eq!(run.exit_code(), Some(2));
}

#[test]
fn an_address_after_the_model_is_that_of_the_server() {
    let server = mock(Script::default());
    let host = server.url().replace("http://", "");
    for given in [vec!["-m", "mock-model", &host], vec![&*host, "-m", "mock-model"]] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = aiperf(&["profile"]);
        let output = command.args(&given).args(["--request-count", "4", "--artifact-dir"]);
        let output = output.arg(directory.path()).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.starts_with("mock-model\n"), "{given:?}: {output:?}");
        assert!(stdout.contains("4 of 4 requests succeeded in "), "{given:?}: {stdout}");
    }
}

#[test]
fn a_text_or_csv_file_is_not_a_dataset_and_that_is_told() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("prompts.csv", "id,prompt\n1,Hello\n"), ("prompts.txt", "Hello\n")] {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        let run = profile("http://127.0.0.1:9", &["--input-file", path.to_str().unwrap()]);
        assert_eq!(run.exit_code(), Some(2), "{}", run.stderr());
        let said = "not JSON: each line of a dataset is an object, such as {\"text\": \"Hello\"}";
        assert!(run.stderr().contains(said), "{}", run.stderr());
    }
}
