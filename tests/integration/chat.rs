//! `aiperf chat`, and the commands that send nothing: `validate` and `plugins`.

use std::io::Write as _;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use mock_server::{Config, MockServer};
use serde_json::{Value, json};

use crate::support::raw_server::{read_request, serve, write};
use crate::support::run::aiperf;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_message_has_a_response_and_its_speed() {
    let server = MockServer::start(Config::default()).unwrap();
    for endpoint in ["chat", "completions", "responses", "messages", "gemini"] {
        let output = aiperf(&["chat", "-m", "mock-model", "--tokenizer", "builtin", "-q", "Hello"])
            .args(["--url", &server.url(), "--endpoint-type", endpoint, "--max-tokens", "7"])
            .output()
            .unwrap();
        let text = stdout(&output);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (response, speed) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(!response.trim().is_empty(), "{endpoint}: {text}");
        assert!(speed.starts_with("[TTFT ") && speed.contains(" ms, 7 tokens, "), "{speed}");
        assert!(speed.ends_with(" ms]"), "{speed}");
    }
}

/// Chats with a server that responds `one`, `two` and so on; returns the messages of each request.
fn chat(flags: &[&str], input: &str) -> (Vec<Value>, Output) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let address = serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(body["messages"].clone());
                seen.len()
            };
            let word = ["one", "two", "three"][number - 1];
            let delta = json!({"choices": [{"index": 0, "delta": {"content": word}}]});
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            let events = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
            write(stream, format!("{head} {}\r\n\r\n{events}", events.len()).as_bytes());
        }
    });
    let mut command = aiperf(&["chat", "-m", "m", "--tokenizer", "builtin"]);
    command.args(["--url", &format!("http://{address}")]).args(flags).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let requests = requests.lock().unwrap().clone();
    (requests, output)
}

#[test]
fn requests_repeat_the_history() {
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let system = said("system", "Be brief.");
    let (requests, output) = chat(&["--system-prompt", "Be brief."], "A\n\nB\nexit\nC\n");
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(text.contains("one\n[TTFT") && text.contains("two\n[TTFT"), "{text}");
    let first = json!([system, said("user", "A")]);
    let second = json!([system, said("user", "A"), said("assistant", "one"), said("user", "B")]);
    assert_eq!(requests, [first, second]);

    let (requests, _) = chat(&["--no-history"], "A\nB");
    assert_eq!(requests, [json!([said("user", "A")]), json!([said("user", "B")])]);
}

#[test]
fn a_chat_without_a_server_fails() {
    let flags = ["chat", "-m", "m", "--tokenizer", "builtin", "-q", "x", "--url"];
    for (more, code, why) in [
        (&["http://127.0.0.1:1"][..], 1, "refused"),
        (&["http://127.0.0.1:1", "--endpoint-type", "embeddings"], 2, "does not stream text"),
        (&["ftp://x"], 2, "the scheme must be http or https"),
    ] {
        let output = aiperf(&flags).args(more).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn files_are_validated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.jsonl");
    let line = r#"{"timestamp": 0, "input_length": 600, "output_length": 8, "hash_ids": [1, 2]}"#;
    std::fs::write(&path, format!("{line}\n{line}\n")).unwrap();
    let path = path.to_str().unwrap();
    for arguments in [
        // As AIPerf has it.
        vec!["validate", "mooncake-trace", path],
        vec!["validate", "mooncake_trace", "--input", path],
        vec!["dataset", "validate", path],
        vec!["dataset", "validate", "--input", path],
        vec!["dataset", "validate", "--type", "mooncake-trace", path],
    ] {
        let output = aiperf(&arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected = format!("{path}: valid mooncake_trace, 2 conversations with 2 requests\n");
        assert_eq!(stdout(&output), expected);
    }
    for arguments in
        [&["x", path][..], &["--type", "sharegpt", "otel", path], &["a", "b", path], &[]]
    {
        let output = aiperf(&["dataset", "validate"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    std::fs::write(path, format!("{line}\n{{\"input_length\": -1}}\n")).unwrap();
    let output = aiperf(&["validate", "mooncake-trace", path]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("trace.jsonl, line 2: "), "{error}");
}

#[test]
fn what_is_built_in_is_listed() {
    let list = aiperf(&["plugins", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let names = |category: &str| list[category].as_array().unwrap().clone();
    assert!(names("endpoint").contains(&json!("chat")));
    assert!(names("dataset_loader").contains(&json!("weka_trace")));
    assert!(names("prompt_corpus").contains(&json!("sonnet")));
    let one = aiperf(&["plugins", "ui"]).output().unwrap();
    assert_eq!(stdout(&one), "ui (--ui)\n  dashboard\n  simple\n  none\n");
    let unknown = aiperf(&["plugins", "x"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("expected one of endpoint,"));
}
