//! What the log says of each request and event.

use mock_server::{EventKind, read_write_log};

use super::*;

/// Returns the kinds and choices of the events of a request.
fn outline(log: &RequestLog) -> Vec<(EventKind, u64, u64)> {
    log.events.iter().map(|event| (event.kind, event.choice, event.tokens)).collect()
}

#[test]
fn an_event_has_its_kind_and_its_choice() {
    use EventKind::{Content, End, Open, Reasoning, Usage, Whole};
    let server = serve(Script { reasoning_tokens: 1, ..Script::default() });
    let mut request = chat(2, true);
    request["n"] = json!(2);
    request["stream_options"] = json!({"include_usage": true});
    post(&server, CHAT, &request);
    request["stream"] = json!(false);
    post(&server, CHAT, &request);
    let logs = server.write_log();
    assert_eq!(logs.len(), 2);
    let expected = [
        (Open, 0, 0),
        (Open, 1, 0),
        (Reasoning, 0, 1),
        (Reasoning, 1, 1),
        (Content, 0, 1),
        (Content, 1, 1),
        (Usage, 0, 0),
        (End, 0, 0),
    ];
    assert_eq!(outline(&logs[0]), expected);
    assert_eq!(outline(&logs[1]), [(Whole, 0, 4)]);
    // "hello world" is two tokens of o200k.
    assert!(logs.iter().all(|log| log.prompt_tokens == 2));
}

#[test]
fn a_refusal_is_a_whole_body() {
    let server = serve(faulty(&["all:status=503,busy"]));
    post(&server, CHAT, &chat(2, true));
    let log = log(&server);
    assert_eq!(outline(&log), [(EventKind::Whole, 0, 0)]);
    assert_eq!((log.events[0].bytes, log.cut), (4, false));
}

#[test]
fn only_the_script_cuts() {
    let rules = ["requests=1:cut=2", "requests=2:close", "requests=3:close-after-each"];
    let server =
        serve(faulty(&[&rules[..], &["requests=4:cut-mid=0", "requests=5:hang"]].concat()));
    for streams in [true, true, true, false] {
        let mut raw = Raw::connect(&server);
        raw.send(CHAT, "cut", &chat(5, streams));
        raw.rest();
    }
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "gone", &chat(5, true));
    until("the last request", || server.requests_received() == 5);
    drop(raw);
    until("its end", || server.write_log().len() == 5);
    let ends: Vec<_> = server.write_log().iter().map(|log| (log.complete, log.cut)).collect();
    assert_eq!(ends, [(false, true), (false, true), (true, false), (false, true), (false, false)]);
}

#[test]
fn the_first_request_of_a_connection_says_when_that_was_opened() {
    let server = serve(Script::default());
    let before = Clock::now();
    let mut raw = Raw::connect(&server);
    for id in ["first", "second"] {
        raw.send(CHAT, id, &chat(1, true));
        raw.up_to(LAST_CHUNK);
    }
    // The first request of this connection is not one of inference.
    let mut other = Raw::connect(&server);
    other.0.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    other.up_to("\r\n\r\n");
    other.send(CHAT, "third", &chat(1, true));
    other.up_to(LAST_CHUNK);
    let logs = server.write_log();
    let connected = logs[0].connected.unwrap();
    assert!(before <= connected && connected <= logs[0].arrival);
    let others: Vec<_> = logs[1..].iter().map(|log| log.connected).collect();
    assert_eq!(others, [None, None]);
    #[cfg(target_os = "linux")]
    for log in logs {
        let received = log.received.unwrap();
        assert!(before <= received && received <= log.arrival);
    }
}

#[test]
fn the_file_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("writes.jsonl");
    let config = Config { write_log_file: Some(path.clone()), ..Config::default() };
    let server = MockServer::start(config).unwrap();
    post(&server, CHAT, &chat(3, true));
    post(&server, EMBEDDINGS, &json!({"input": "hi"}));
    server.stop();
    let file = std::fs::File::open(&path).unwrap();
    let log = read_write_log(std::io::BufReader::new(file)).unwrap();
    assert_eq!(log.len(), 2);
    assert_eq!(log, server.write_log());
}
