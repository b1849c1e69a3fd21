//! What makes clients report wrong times and counts, each as the script says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mock_server::EventKind::{self, Content, Empty, End, Open, Reasoning, ToolCall, Usage};
use mock_server::{ReasoningPlace, Tls};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

const HOUR: Nanos = Nanos(3_600_000_000_000);

/// Ends a connection, and returns what was logged of its request.
fn log_after(server: &MockServer, raw: Raw) -> RequestLog {
    drop(raw);
    until("the end of the request", || server.write_log().len() == 1);
    log(server)
}

/// The kinds and due times of the events since the admission, all of which were written.
fn written(log: &RequestLog) -> Vec<(EventKind, u64)> {
    assert!(log.events.iter().all(|event| event.written.is_some_and(|at| at >= event.due)));
    log.events.iter().map(|event| (event.kind, event.due.since(log.admitted).0)).collect()
}

/// The first token is an hour away.
#[test]
fn a_role_can_be_early() {
    let server = serve(Script { early_role: true, ttft: HOUR, ..Script::default() });
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "early", &chat(2, true));
    raw.up_to("\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n\r\n");
    assert_eq!(written(&log_after(&server, raw)), [(Open, 0)]);
}

#[test]
fn content_without_a_text_can_come_first() {
    let empty_first = || serve(Script { empty_first: true, ttft: HOUR, ..Script::default() });
    let server = empty_first();
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "empty", &chat(2, true));
    raw.up_to("\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n\r\n");
    let expected = [(Open, 0), (Empty, 0)];
    assert_eq!(written(&log_after(&server, raw)), expected);

    let server = empty_first();
    let mut raw = Raw::connect(&server);
    let request = json!({"prompt": "hello world", "max_tokens": 2, "stream": true});
    raw.send(COMPLETIONS, "empty", &request);
    raw.up_to("\"text\":\"\",\"logprobs\":null,\"finish_reason\":null}]}\n\n\r\n");
    assert_eq!(written(&log_after(&server, raw)), [(Empty, 0)]);
}

#[test]
fn the_end_can_be_late() {
    let delayed = |end_delay| serve(Script { end_delay, ..Script::default() });
    let server = delayed(Nanos(30_000_000));
    let mut request = chat(2, true);
    request["stream_options"] = json!({"include_usage": true});
    assert_eq!(post(&server, CHAT, &request).events().len(), 5);
    let expected = [(Open, 0), (Content, 0), (Content, 0), (Usage, 30_000_000), (End, 30_000_000)];
    assert_eq!(written(&log(&server)), expected);

    // The tokens do not wait for the end.
    let server = delayed(HOUR);
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "late", &chat(2, true));
    raw.up_to("\"finish_reason\":\"length\"}]}\n\n\r\n");
    let expected = [(Open, 0), (Content, 0), (Content, 0)];
    assert_eq!(written(&log_after(&server, raw)), expected);
}

/// Nine tokens, the last of which is due after 80 ms: the first write is not before the first of
/// them, so the third is not before the last one, however slow the machine is.
#[test]
fn writes_can_be_held_back() {
    let (itl, interval) = (Nanos(10_000_000), Nanos(40_000_000));
    let server = serve(Script { itl, write_interval: interval, ..Script::default() });
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "held", &chat(9, true));
    assert_eq!(content_events(&raw.up_to(LAST_CHUNK)), 9);
    let log = log(&server);
    assert_eq!((log.events.len(), log.complete), (11, true));
    let stamps =
        log.events.iter().map(|event| (event.write_start.unwrap(), event.written.unwrap()));
    let mut writes: Vec<_> = stamps.collect();
    assert!(writes.is_sorted());
    writes.dedup();
    assert!(writes.len() <= 3, "{writes:?}");
    assert!(writes.windows(2).all(|pair| pair[1].0 >= pair[0].1 + interval), "{writes:?}");
}

#[test]
fn a_response_does_not_wait_for_the_one_before() {
    let server = serve(Script { write_interval: HOUR, ..Script::default() });
    let mut raw = Raw::connect(&server);
    for _ in 0..2 {
        raw.send(CHAT, "at once", &chat(3, true));
        assert_eq!(content_events(&raw.up_to(LAST_CHUNK)), 3);
    }
    // Nor do responses that are not streamed.
    raw.send(CHAT, "whole", &chat(3, false));
    raw.up_to("\"total_tokens\":5,\"completion_tokens\":3}}");
}

#[test]
fn a_connection_can_be_accepted_late() {
    let delay = Nanos(30_000_000);
    let server = serve(Script { accept_delay: delay, ..Script::default() });
    let before = Clock::now();
    let mut raw = Raw::connect(&server);
    raw.send(CHAT, "first", &chat(1, true));
    raw.up_to(LAST_CHUNK);
    let log = log(&server);
    let connected = log.connected.unwrap();
    assert!(before <= connected && log.arrival >= connected + delay);
    // The request waited to be read.
    #[cfg(target_os = "linux")]
    assert!(log.received.unwrap() < connected + delay);
}

fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tls").join(name)
}

fn serve_tls(script: Script) -> MockServer {
    let [certificate, key] = ["server.pem", "server.key"].map(tls_file);
    let tls = Some(Tls { certificate, key });
    MockServer::start(Config { tls, script, ..Config::default() }).unwrap()
}

/// Sends a streamed chat of five tokens over TLS, and returns all that is received, whether the server
/// ended it as TLS wants, and the protocol that was agreed on.
fn over_tls(server: &MockServer) -> (String, bool, Option<Vec<u8>>) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls_file("ca.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(server.addr()).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    let body = chat(5, true).to_string();
    let length = body.len();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}"
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received);
    let protocol = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
    (String::from_utf8(received).unwrap(), end.is_ok(), protocol)
}

#[test]
fn it_serves_over_tls() {
    let delay = Nanos(20_000_000);
    let server = serve_tls(Script { tls_delay: delay, accept_delay: delay, ..Script::default() });
    assert_eq!(server.url(), format!("https://{}", server.addr()));
    // Without TLS there is no response, and the server goes on.
    let mut plain = Raw::connect(&server);
    plain.send(CHAT, "plain", &chat(1, true));
    let mut received = Vec::new();
    // It may end with a reset.
    let _ = plain.0.read_to_end(&mut received);
    assert!(!received.starts_with(b"HTTP"));

    let (received, is_closed, protocol) = over_tls(&server);
    assert_eq!((content_events(&received), is_closed), (5, true));
    assert_eq!(protocol.as_deref(), Some(&b"http/1.1"[..]));
    let log = log(&server);
    // Twice 20 ms: until the handshake is read, and until it is answered.
    assert!(log.arrival >= log.connected.unwrap() + Nanos(40_000_000));
    assert_eq!(log.received, None);
    assert!(log.complete && log.events.iter().all(|event| event.written.is_some()));
}

#[test]
fn a_cut_over_tls_is_not_an_end() {
    let server = serve_tls(faulty(&["all:cut=2"]));
    let (received, is_closed, _) = over_tls(&server);
    assert_eq!((content_events(&received), is_closed), (2, false));
    assert!(log(&server).cut);
}

#[test]
fn a_certificate_must_fit_its_key() {
    let [certificate, key] = ["server.pem", "client.key"].map(tls_file);
    let tls = Some(Tls { certificate, key });
    let error = MockServer::start(Config { tls, ..Config::default() }).unwrap_err();
    assert!(matches!(error, MockServerError::Tls { .. }), "{error}");
}

#[test]
fn reasoning_can_be_in_the_content() {
    let reasoning_place = ReasoningPlace::Think;
    let server = serve(Script { reasoning_tokens: 4, reasoning_place, ..Script::default() });
    let reply = post(&server, CHAT, &chat(5, true));
    let text = |event: &&str| {
        let chunk: Value = serde_json::from_str(event).unwrap();
        chunk["choices"][0]["delta"]["content"].as_str().unwrap().to_owned()
    };
    let streamed: String = reply.events()[..6].iter().map(text).collect();
    let whole = post(&server, CHAT, &chat(5, false)).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], streamed);
    assert!(message.get("reasoning_content").is_none());
    let (thought, rest) = streamed.split_once("</think>").unwrap();
    // The tags are tokens of their own.
    let words = |text: &str| text.split_whitespace().count();
    assert_eq!((words(thought.strip_prefix("<think>").unwrap()), words(rest)), (2, 1));
    let kinds: Vec<_> = server.write_log()[0].events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Open, Reasoning, Reasoning, Reasoning, Reasoning, Content, End]);
}

#[test]
fn a_response_can_be_a_tool_call() {
    let server = serve(Script { tool_calls: true, ..Script::default() });
    let reply = post(&server, CHAT, &chat(4, true));
    let events = reply.events();
    let chunks: Vec<Value> =
        events[..6].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let call = |chunk: &Value| chunk["choices"][0]["delta"]["tool_calls"][0].clone();
    let first = call(&chunks[1]);
    assert_eq!((&first["type"], &first["function"]["arguments"]), (&json!("function"), &json!("")));
    let pieces = chunks[2..]
        .iter()
        .map(|chunk| call(chunk)["function"]["arguments"].as_str().unwrap().to_owned());
    let arguments: String = pieces.collect();
    let parsed: Value = serde_json::from_str(&arguments).unwrap();
    // The first token is the beginning of the object.
    assert_eq!(tokens(parsed["text"].as_str().unwrap()), 3);
    assert_eq!(chunks[5]["choices"][0]["finish_reason"], "tool_calls");

    let whole = post(&server, CHAT, &chat(4, false)).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], arguments);
    assert_eq!(
        (&message["content"], &whole["usage"]["completion_tokens"]),
        (&json!(null), &json!(4))
    );
    let outline: Vec<_> =
        server.write_log()[0].events.iter().map(|event| (event.kind, event.tokens)).collect();
    let token = (ToolCall, 1);
    assert_eq!(outline, [(Open, 0), (ToolCall, 0), token, token, token, token, (End, 0)]);
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), 8.0);
}
