//! Runs that do not name a model: the server's only one is used.

use std::io::Write;
use std::process::Output;

use mock_server::Script;

use crate::support::load::mock;
use crate::support::port::Refusing;
use crate::support::raw_server;
use crate::support::run::{aiperf, summary};

/// Runs `arguments` with the `url` behind them, and with the flags of a small benchmark.
fn run(arguments: &[&str], url: &str, directory: &str) -> Output {
    let flags = ["--request-count", "3", "--isl", "8", "--osl", "2", "--tokenizer", "builtin"];
    let output = ["--ui", "none", "--artifact-dir", directory];
    aiperf(&[arguments, &[url], &flags, &output].concat()).output().unwrap()
}

#[test]
fn the_only_model_of_a_server_need_not_be_named() {
    let models = vec!["the/only one".to_owned()];
    let server = mock(Script { strict_models: true, models, ..Script::default() });
    for (arguments, is_streamed) in [(&["profile", "--url"][..], false), (&[], true)] {
        let directory = tempfile::tempdir().unwrap();
        let output = run(arguments, &server.url(), directory.path().to_str().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary = summary(directory.path());
        assert_eq!(summary["request_count"]["avg"], 3.0);
        assert_eq!(summary["run_info"]["config"]["dataset"]["models"][0], "the/only one");
        assert_eq!(summary["input_config"]["endpoint"]["streaming"], is_streamed);
    }
}

#[test]
fn each_cell_of_a_sweep_has_the_model_of_the_server() {
    let server = mock(Script { strict_models: true, ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let output = run(&["profile", "--concurrency", "1,2", "--url"], &server.url(), path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for cell in ["concurrency_1", "concurrency_2"] {
        assert_eq!(summary(&directory.path().join(cell))["request_count"]["avg"], 3.0);
    }
}

#[test]
fn otherwise_the_error_says_what_the_server_has() {
    let models = ["one", "two"].map(str::to_owned).to_vec();
    let several = mock(Script { models, ..Script::default() });
    let none = raw_server::serve(|_, stream| {
        raw_server::read_request(stream).unwrap();
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"data\":[]}";
        stream.write_all(response.as_bytes()).unwrap();
    });
    let closed = Refusing::new();
    for (url, expected) in [
        (several.url(), "has 2 models: one, two; choose one with --model"),
        (format!("http://{none}"), "did not list one: its list is empty; use --model NAME"),
        (closed.url(), "Connection refused (os error 111). Nothing listens at "),
        (
            several.url().replace("http://", "https://"),
            "The server does not use TLS; use --url http://127.0.0.1:",
        ),
        (
            several.url() + "/v1/v1",
            "404 Not Found: The path `/v1/v1/models` does not exist. The URL has /v1 twice; use --url",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let output = run(&["profile", "--url"], &url, path);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{stderr}");
        assert_eq!(output.status.code(), Some(2), "{stderr}");
    }
}
