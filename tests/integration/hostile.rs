//! Servers that violate protocols, and machines that run out of resources: every request ends as a
//! record with the right class of error, and no run hangs, crashes or uses unlimited memory.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::record::ErrorKind;
use client::transport::{
    self, Client, Connector, Notifications, OutgoingRequest, SessionConnection, Target,
};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use mock_server::{Config, MockServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::left_out::left_out;
use crate::support::metrics_endpoint::wait_until;
use crate::support::raw_server;
use crate::support::run::{
    Run, aiperf, given_program, json_lines, profile, profile_command, with_signal,
};

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hé\"}}]}\n\n";
const LAST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"},\"finish_reason\":\"stop\"}]}\n\n";
/// An address that must not receive requests.
const NOWHERE: &str = "http://127.0.0.1:9";
const DONE: &str = "data: [DONE]\n\n";
const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;

/// The class and the name of an error; `None` for a success.
type Expected = Option<(&'static str, &'static str)>;

/// The behaviour of a server for one request, and the expected result.
struct Case {
    name: &'static str,
    answer: Box<dyn Fn(&mut TcpStream) + Send + Sync>,
    expected: Expected,
}

/// A case with a server that writes `bytes` and closes the connection.
fn sends(name: &'static str, bytes: impl Into<Vec<u8>>, expected: Expected) -> Case {
    let bytes = bytes.into();
    acts(name, expected, move |stream| raw_server::write(stream, &bytes))
}

fn acts(
    name: &'static str,
    expected: Expected,
    answer: impl Fn(&mut TcpStream) + Send + Sync + 'static,
) -> Case {
    Case { name, answer: Box::new(answer), expected }
}

/// `body` after `head`, in chunks of `size` bytes, with or without the last chunk.
fn chunked(head: &str, body: &[u8], size: usize, is_whole: bool) -> Vec<u8> {
    let mut bytes = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    if is_whole {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    bytes
}

/// `body` after `head`, with its length and optionally a content coding.
fn sized(head: &str, coding: &str, body: &[u8]) -> Vec<u8> {
    let coding =
        if coding.is_empty() { String::new() } else { format!("content-encoding: {coding}\r\n") };
    let mut bytes = format!("{head}{coding}content-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Resets the connection instead of closing it normally.
fn reset(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

/// Serves the cases in order, each with one request and one connection.
fn server(cases: &Arc<Vec<Case>>) -> String {
    let (next, cases) = (Arc::new(AtomicUsize::new(0)), Arc::clone(cases));
    let address = raw_server::serve(move |_, stream| {
        if raw_server::read_request(stream).is_some() {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if let Some(case) = cases.get(number) {
                (case.answer)(stream);
            }
        }
    });
    format!("http://{address}")
}

/// Sends one request per case with the program, and compares its records with the expected results.
fn check(cases: Vec<Case>, extra: &[&str]) -> Run {
    let cases = Arc::new(cases);
    let count = cases.len().to_string();
    // Every request gets the next case, so there must not be any scrapes.
    let mut arguments =
        vec!["--request-count", &count, "--concurrency", "1", "--no-server-metrics"];
    arguments.extend_from_slice(extra);
    let run = profile(&server(&cases), &arguments);
    assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
    let mut records = run.records();
    assert_eq!(records.len(), cases.len(), "{}", run.stderr());
    // Lines are in the order in which processors finish.
    records.sort_by_key(|record| record["metadata"]["session_num"].as_u64());
    let mut wrong = Vec::new();
    for (case, record) in cases.iter().zip(&records) {
        let error = &record["error"];
        let found = error["error_type"].as_str().zip(error["type"].as_str());
        if found != case.expected || error.is_null() != case.expected.is_none() {
            wrong.push(format!("{}: {error}, not {:?}", case.name, case.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    run
}

const CUT: Expected = Some(("_OTHER", "IncompleteResponse"));
const NO_HTTP: Expected = Some(("_OTHER", "InvalidHttpResponse"));
const NO_JSON: Expected = Some(("parse_error", "InvalidJson"));
const BAD_CODING: Expected = Some(("_OTHER", "ContentEncodingError"));

#[test]
fn broken_streams_are_records_of_their_class() {
    let whole = [EVENT, LAST, DONE].concat();
    let crlf = format!(
        ": a comment\r\n\r\nretry: 10\r\nid: 1\r\ndata: {{\"choices\":[{{\"index\":0,\r\n\
         data: \"delta\":{{\"content\":\"hi\"}},\"finish_reason\":\"stop\"}}]}}\r\n\r\n{}",
        DONE.replace('\n', "\r\n")
    );
    let mid_event = EVENT.len() + 20;
    let mid_character = EVENT.find('é').unwrap() + 1;
    let error = "event: error\ndata: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n";
    let mut cases = vec![
        sends("cut in an event", chunked(STREAM, &whole.as_bytes()[..mid_event], 99, false), CUT),
        sends(
            "cut in a character",
            chunked(STREAM, &whole.as_bytes()[..mid_character], 99, false),
            CUT,
        ),
        sends(
            "ended in a character",
            chunked(STREAM, &whole.as_bytes()[..mid_character], 99, true),
            NO_JSON,
        ),
        sends("each byte a chunk", chunked(STREAM, whole.as_bytes(), 1, true), None),
        sends(
            "CRLF, comments, data of several lines",
            chunked(STREAM, crlf.as_bytes(), 7, true),
            None,
        ),
        sends("a byte order mark", sized(STREAM, "", format!("\u{feff}{whole}").as_bytes()), None),
        sends(
            "an error event",
            sized(STREAM, "", [EVENT, error, DONE].concat().as_bytes()),
            Some(("http_5xx", "ServerError")),
        ),
        sends("no [DONE]", sized(STREAM, "", [EVENT, LAST].concat().as_bytes()), None),
        sends("no end at all", sized(STREAM, "", EVENT.as_bytes()), Some(("_OTHER", "CutStream"))),
        sends(
            "nothing but [DONE]",
            sized(STREAM, "", DONE.as_bytes()),
            Some(("_OTHER", "EmptyResponse")),
        ),
        sends(
            "an event that is not JSON",
            sized(STREAM, "", [EVENT, "data: {\"choices\": [\n\n", LAST, DONE].concat().as_bytes()),
            NO_JSON,
        ),
        sends("zeros", sized(STREAM, "", &[0; 4096]), Some(("_OTHER", "CutStream"))),
        sends("no body", sized(STREAM, "", b""), Some(("_OTHER", "EmptyResponse"))),
    ];
    // Also one byte per write, so that reads are split at every position.
    let bytes = chunked(STREAM, whole.as_bytes(), 5, true);
    cases.push(acts("each byte a write", None, move |stream| {
        for byte in &bytes {
            raw_server::write(stream, &[*byte]);
        }
    }));
    check(cases, &[]);
}

#[test]
fn broken_codings_are_records_of_their_class() {
    let whole = [EVENT, LAST, DONE].concat();
    let gzip = gzipped(whole.as_bytes());
    let mut two_members = gzipped(EVENT.as_bytes());
    two_members.extend(gzipped([LAST, DONE].concat().as_bytes()));
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(ANSWER.as_bytes()).unwrap();
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(ANSWER.as_bytes()).unwrap();
    check(
        vec![
            sends("gzip", sized(STREAM, "gzip", &gzip), None),
            sends("gzip in two members", sized(STREAM, "gzip", &two_members), None),
            sends("gzip cut short", sized(STREAM, "gzip", &gzip[..gzip.len() - 4]), BAD_CODING),
            sends(
                "gzip cut in its data",
                sized(STREAM, "gzip", &gzip[..gzip.len() / 2]),
                BAD_CODING,
            ),
            sends("gzip that is none", sized(STREAM, "gzip", whole.as_bytes()), BAD_CODING),
            sends("zlib", sized(JSON, "deflate", &zlib.finish().unwrap()), None),
            sends("bare deflate", sized(JSON, "deflate", &deflate.finish().unwrap()), None),
            sends("deflate that is none", sized(JSON, "deflate", b"\xff\xff\xff\xff"), BAD_CODING),
            sends(
                "an unknown coding",
                sized(JSON, "br", b"x"),
                Some(("_OTHER", "UnsupportedContentEncoding")),
            ),
            sends("an empty body", sized(JSON, "gzip", b""), Some(("_OTHER", "EmptyResponse"))),
        ],
        &[],
    );
}

/// The status is known before the body, and is kept whatever happens to the body.
#[test]
fn a_refusal_with_a_broken_body_keeps_its_status() {
    let head = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n");
    let busy = r#"{"error":{"message":"busy"}}"#;
    let gzip = gzipped(busy.as_bytes());
    let (server, client) = (Some(("http_5xx", "Service Unavailable")), "Too Many Requests");
    let cut = [head("503 Service Unavailable").as_bytes(), b"content-length: 99\r\n\r\n{"].concat();
    let cut_again = cut.clone();
    let bad_chunks =
        format!("{}transfer-encoding: chunked\r\n\r\nzz\r\n", head("429 Too Many Requests"));
    let cases = vec![
        sends("503 cut", cut, server),
        acts("503 reset", server, move |stream| {
            raw_server::write(stream, &cut_again);
            std::thread::sleep(Duration::from_millis(50));
            reset(stream);
        }),
        sends("429 in chunks that are none", bad_chunks, Some(("http_4xx", client))),
        sends(
            "502 with br",
            sized(&head("502 Bad Gateway"), "br", b"x"),
            Some(("http_5xx", "Bad Gateway")),
        ),
        sends(
            "500 with half of its gzip",
            sized(&head("500 Internal Server Error"), "gzip", &gzip[..gzip.len() / 2]),
            Some(("http_5xx", "Internal Server Error")),
        ),
        acts("503 that is never complete", server, |stream| {
            let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 99\r\n\r\n";
            raw_server::write(stream, head.as_bytes());
            std::thread::sleep(Duration::from_secs(3));
        }),
    ];
    let run = check(cases, &["--request-timeout-seconds", "1"]);
    let mut records = run.records();
    records.sort_by_key(|record| record["metadata"]["session_num"].as_u64());
    let codes: Vec<u64> =
        records.iter().map(|record| record["error"]["code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [503, 503, 429, 502, 500, 503]);
    let reasons: Vec<&str> =
        records.iter().map(|record| record["error"]["cause"].as_str().unwrap()).collect();
    for (cause, words) in reasons.iter().zip([
        "closed before the response was complete",
        "",
        "chunk",
        "content encoding `br`",
        "cannot decode the response's content encoding",
        "no complete response within 1 s",
    ]) {
        assert!(cause.contains(words), "{cause}");
    }
}

#[test]
fn broken_http_is_a_record_of_its_class() {
    let plain = |head: &str| [head.as_bytes(), ANSWER.as_bytes()].concat();
    let ok = sized(JSON, "", ANSWER.as_bytes());
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    let many_headers = "x-a: b\r\n".repeat(1000);
    let large_header = format!("x-a: {}\r\n", "b".repeat(1 << 20));
    let short = ANSWER.len() - 9;
    let (event, half) = (sized(STREAM, "", EVENT.as_bytes()), STREAM.len() / 2);
    check(
        vec![
            sends("interim responses", [interim.as_bytes(), &ok].concat(), None),
            sends("1 000 headers", plain(&format!("{JSON}{many_headers}\r\n")), NO_HTTP),
            sends("a header of 1 MiB", plain(&format!("{JSON}{large_header}\r\n")), NO_HTTP),
            sends("HTTP/1.0", plain("HTTP/1.0 200 OK\r\n\r\n"), None),
            sends("close", plain(&format!("{JSON}connection: close\r\n\r\n")), None),
            sends("too long a length", plain(&format!("{JSON}content-length: 999\r\n\r\n")), CUT),
            sends(
                "too short a length",
                plain(&format!("{JSON}content-length: {short}\r\n\r\n")),
                NO_JSON,
            ),
            sends(
                "a negative length",
                plain(&format!("{JSON}content-length: -1\r\n\r\n")),
                NO_HTTP,
            ),
            sends(
                "two lengths",
                plain(&format!("{JSON}content-length: 1\r\ncontent-length: 2\r\n\r\n")),
                NO_HTTP,
            ),
            sends(
                "a chunk of 2^80 bytes",
                format!(
                    "{JSON}transfer-encoding: chunked\r\n\r\n100000000000000000000\r\n{ANSWER}"
                ),
                NO_HTTP,
            ),
            sends(
                "a chunk size that is not a number",
                format!("{JSON}transfer-encoding: chunked\r\n\r\nlong\r\n{ANSWER}"),
                NO_HTTP,
            ),
            sends(
                "a redirect",
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
                Some(("_OTHER", "Temporary Redirect")),
            ),
            sends(
                "another protocol",
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
                Some(("_OTHER", "Switching Protocols")),
            ),
            sends(
                "any content",
                "HTTP/1.1 204 No Content\r\n\r\n",
                Some(("_OTHER", "EmptyResponse")),
            ),
            sends("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", NO_HTTP),
            sends("TLS", b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n".as_slice(), NO_HTTP),
            sends("more than was announced", [ok.as_slice(), &ok].concat(), None),
            acts("closed without a word", CUT, |_| {}),
            acts("closed in the headers", CUT, move |stream| {
                raw_server::write(stream, &STREAM.as_bytes()[..half]);
            }),
            acts("reset", Some(("_OTHER", "ConnectionReset")), |stream| reset(stream)),
            acts("reset in the stream", Some(("_OTHER", "ConnectionReset")), move |stream| {
                raw_server::write(stream, &event[..event.len() - 9]);
                reset(stream);
            }),
            sends("the last", ok.clone(), None),
        ],
        &[],
    );
}

#[test]
fn servers_that_never_end_run_into_the_timeout() {
    const TIMEOUT: Expected = Some(("timeout", "RequestTimeout"));
    let endless = |name, start: &'static str, again: &'static str, pause: Duration| {
        acts(name, TIMEOUT, move |stream| {
            let mut written = stream.write_all(start.as_bytes());
            while written.is_ok() {
                std::thread::sleep(pause);
                written = stream.write_all(again.as_bytes());
            }
        })
    };
    let (slow, fast) = (Duration::from_millis(100), Duration::ZERO);
    let chunked_head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";
    let continues = "HTTP/1.1 100 Continue\r\n\r\n";
    check(
        vec![
            acts("never answers", TIMEOUT, |stream| {
                let _ = stream.read(&mut [0; 1]);
            }),
            endless("drips its headers", "HTTP/1.1 200 OK\r\nx-a: ", "b", slow),
            endless("drips its body", chunked_head, "1\r\n:\r\n", slow),
            endless("interim responses without end", continues, continues, fast),
            acts("a flood of interim responses", TIMEOUT, move |stream| {
                let flood = continues.repeat(10_000);
                while stream.write_all(flood.as_bytes()).is_ok() {}
            }),
        ],
        &["--request-timeout-seconds", "0.7"],
    );
}

#[test]
fn a_cancelled_request_is_not_begun() {
    // This shows that cancellation and timeouts are checked before the socket: after it, a socket
    // that always has data would delay them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let target = Target::new(&url::Url::parse(NOWHERE).unwrap()).unwrap();
    let connector = Connector::new(transport::Config::default(), &[target]).unwrap();
    let client = Client::new(Arc::new(connector));
    let request = OutgoingRequest {
        target: 0,
        method: http::Method::POST,
        path: None,
        headers: &http::HeaderMap::new(),
        body: bytes::Bytes::new(),
    };
    let session = SessionConnection::default();
    let exchange = runtime.block_on(client.exchange(
        &request,
        &session,
        Notifications::default(),
        std::future::ready(()),
    ));
    assert_eq!(exchange.error.unwrap().kind, ErrorKind::Cancelled);
    assert_eq!(exchange.trace.connect_start, None);
}

/// Runs the dataset in the file `input`, with `tokenizer`.
fn asks(url: &str, directory: &Path, input: &str, tokenizer: &str) -> Command {
    let mut command = aiperf(&["profile", "--model", "m", "--streaming", "--ui", "none"]);
    command.args(["--url", url, "--tokenizer", tokenizer, "--input-file", input]);
    command.arg("--artifact-dir").arg(directory);
    command
}

/// Runs `command` with an address space of at most `kilobytes`, and what its allocator reserves.
fn bounded(command: &Command, kilobytes: u64) -> Command {
    limited(command, &format!("ulimit -v {}", kilobytes + reserved_kilobytes()))
}

/// A given program may be a static one, whose allocator reserves a gigabyte before it uses it.
fn reserved_kilobytes() -> u64 {
    given_program().map_or(0, |_| 1 << 20)
}

/// Returns `command`, to be run with a limit set by a shell.
fn limited(command: &Command, limit: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\""));
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Returns two GiB of `unit` in a few MB: a compressed MiB, repeated many times.
fn bomb(unit: &str) -> Vec<u8> {
    gzipped(unit.repeat((1 << 20) / unit.len()).as_bytes()).repeat(2048)
}

#[test]
fn endless_bodies_are_refused_within_bounded_memory() {
    const TOO_LARGE: Expected = Some(("_OTHER", "ResponseTooLarge"));
    let cases = Arc::new(vec![
        acts("an event without end", TOO_LARGE, |stream| {
            let mut written = stream.write_all(format!("{STREAM}\r\ndata: ").as_bytes());
            while written.is_ok() {
                written = stream.write_all(&[b'x'; 1 << 16]);
            }
        }),
        acts("a body without end", TOO_LARGE, |stream| {
            let mut written = stream.write_all(format!("{JSON}\r\n").as_bytes());
            while written.is_ok() {
                written = stream.write_all(&[b'x'; 1 << 16]);
            }
        }),
        sends("a bomb in a body", sized(JSON, "gzip", &bomb(" ")), TOO_LARGE),
        sends("a bomb in an event", sized(STREAM, "gzip", &bomb("x")), TOO_LARGE),
        sends(
            "a bomb of events",
            sized(STREAM, "gzip", &bomb(&format!("data: {}\n\n", "x".repeat(1000)))),
            TOO_LARGE,
        ),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let count = cases.len().to_string();
    let extra = ["--request-count", &count, "--no-server-metrics"];
    let command = profile_command(&server(&cases), directory.path(), &extra);
    // At most 512 MiB for a stream, while its buffer grows.
    let output = bounded(&command, 1_600_000).output().unwrap();
    let run = Run { output, directory };
    let errors: Vec<Value> = run.records().iter().map(|record| record["error"].clone()).collect();
    assert_eq!(errors.len(), cases.len(), "{}", run.stderr());
    for (case, error) in cases.iter().zip(&errors) {
        let found = error["error_type"].as_str().zip(error["type"].as_str());
        assert_eq!(found, case.expected, "{}: {error}", case.name);
    }
}

/// Each is below the limit for a stream, but together they would take 2 GiB.
#[test]
fn endless_streams_at_once_are_refused_within_bounded_memory() {
    let address = raw_server::serve(|_, stream| {
        if raw_server::read_request(stream).is_none() {
            return;
        }
        let event = format!("data: {}\n\n", "x".repeat(60_000));
        let mut written = stream.write_all(format!("{STREAM}\r\n").as_bytes());
        for _ in 0..2_200 {
            written = written.and_then(|()| stream.write_all(event.as_bytes()));
        }
        // It does not send anything else, and does not end.
        let _ = written.and_then(|()| stream.read(&mut [0]).map(drop));
    });
    let directory = tempfile::tempdir().unwrap();
    let extra = [
        "--request-count",
        "16",
        "--concurrency",
        "16",
        "--request-timeout-seconds",
        "20",
        "--no-server-metrics",
    ];
    let command = profile_command(&format!("http://{address}"), directory.path(), &extra);
    let output = bounded(&command, 2_000_000).output().unwrap();
    let run = Run { output, directory };
    let records = run.records();
    assert_eq!(records.len(), 16, "{}", run.stderr());
    let refused = |record: &&Value| record["error"]["type"] == "OutOfMemoryForResponses";
    let refused: Vec<&Value> = records.iter().filter(refused).collect();
    // A quarter of 2 GB is enough for three or four of 130 MB.
    assert!(refused.len() >= 8, "{records:?}");
    let quarter = (2_000_000 + reserved_kilobytes()) / 4 / 1024;
    let limit = format!("memory limit of {quarter} MiB for all responses");
    for record in refused {
        assert_eq!(record["error"]["error_type"], "_OTHER");
        let message = record["error"]["message"].as_str().unwrap();
        assert!(message.contains(&limit), "{message}");
    }
}

#[test]
fn a_long_conversation_takes_memory_and_files_in_proportion() {
    const TURNS: usize = 1500;
    const TEXT: usize = 2000;
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.jsonl");
    let turn = |number: usize| {
        let text = format!("{number} {}", "word ".repeat(TEXT / 5));
        serde_json::json!({"text": text, "max_tokens": 1})
    };
    let turns: Vec<Value> = (0..TURNS).map(turn).collect();
    fs::write(&file, serde_json::json!({"session_id": "long", "turns": turns}).to_string())
        .unwrap();
    let place = directory.path().join("run");
    let name = file.to_str().unwrap();
    let flags = ["--custom-dataset-type", "multi-turn", "--request-count", "3"];
    let mut command = asks(&server.url(), &place, name, "builtin");
    command.args(flags);
    // The bodies with all repeated turns would be 2.2 GB.
    let output = bounded(&command, 1_600_000).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let inputs = fs::read_to_string(place.join("inputs.json")).unwrap();
    assert!(inputs.len() < TURNS * (TEXT + 500), "{} bytes", inputs.len());
    let inputs: Value = serde_json::from_str(&inputs).unwrap();
    let bodies = inputs["data"][0]["payloads"].as_array().unwrap();
    assert_eq!(bodies.len(), TURNS);
    for (number, body) in bodies.iter().enumerate() {
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 1, "{number}");
        let text = messages[0]["content"].as_str().unwrap();
        assert!(text.starts_with(&format!("{number} word ")), "{number}");
    }
    // Requests contain the previous turns and their responses.
    let mut sent: Vec<(u64, u64)> = json_lines(&place.join("profile_export.jsonl"))
        .iter()
        .map(|record| {
            let length = &record["metrics"]["input_sequence_length"]["value"];
            (record["metadata"]["turn_index"].as_u64().unwrap(), length.as_u64().unwrap())
        })
        .collect();
    sent.sort_unstable();
    assert_eq!(sent.iter().map(|(turn, _)| *turn).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(sent[1].1 >= 2 * sent[0].1 && sent[2].1 >= 3 * sent[0].1, "{sent:?}");
}

/// Returns the error for a template that is rejected, within a time limit.
fn refused_template(template: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("template.jinja");
    fs::write(&file, template).unwrap();
    let mut command = aiperf(&["profile", "-m", "m", "--endpoint-type", "template"]);
    command.args(["--url", NOWHERE, "--tokenizer", "builtin", "--isl", "10"]);
    command.arg("--extra-inputs").arg(format!("payload_template:{}", file.display()));
    command.arg("--artifact-dir").arg(directory.path().join("run"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{:?}", output.status);
    assert!(!directory.path().join("run/profile_export.jsonl").exists());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn templates_that_take_too_much_are_refused() {
    let doubled = "{% set s = s ~ s %}".repeat(40);
    let lists = "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = ns.l + ns.l \
                 %}{% endfor %}{{ ns.l|tojson }}";
    let nested = "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] \
                  %}{% endfor %}{{ ns.l|length }}";
    for (template, reasons) in [
        (format!("{{% set s = 'x' * 99999 %}}{doubled}{{{{ s|length }}}}"), &["GiB of memory"][..]),
        ("{{ '%100000000000d'|format(1) }}".to_owned(), &["GiB of memory", "format"]),
        (lists.to_owned(), &["GiB of memory", "used more than 5 s", "steps"]),
        (nested.to_owned(), &["overflowed the stack", "steps"]),
    ] {
        let said = refused_template(&template);
        assert!(reasons.iter().any(|reason| said.contains(reason)), "{template:.80}: {said}");
        assert!(said.contains("template"), "{said}");
    }
}

#[test]
fn the_templates_of_all_cells_of_a_sweep_are_tried() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = |name: &str, template: &str| {
        let file = directory.path().join(name);
        fs::write(&file, template).unwrap();
        format!("{name}: extra-inputs=payload_template:{}", file.display())
    };
    let good = scenario("good", r#"{"prompt": {{ text|tojson }}}"#);
    let doubled = "{% set s = s ~ s %}".repeat(40);
    let bad = scenario("bad", &format!("{{% set s = 'x' * 99999 %}}{doubled}{{{{ s|length }}}}"));
    let mut command = aiperf(&["profile", "-m", "m", "--endpoint-type", "template"]);
    command.args(["--url", NOWHERE, "--tokenizer", "builtin", "--isl", "10"]);
    command.args(["--variant", &good, "--variant", &bad, "--artifact-dir"]);
    let output = command.arg(directory.path().join("run")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("GiB of memory"), "{said}");
    assert!(!directory.path().join("run").exists());
}

#[test]
fn tokenizers_that_take_too_much_or_fail_are_refused() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model/tokenizer.json");
    let tokenizer: Value = serde_json::from_str(&fs::read_to_string(golden).unwrap()).unwrap();
    let server = MockServer::start(Config::default()).unwrap();
    let run = |tokenizer: &Value| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tokenizer.json");
        fs::write(&file, tokenizer.to_string()).unwrap();
        let place = directory.path().join("run");
        let extra = ["--request-count", "1", "--tokenizer", file.to_str().unwrap()];
        let mut command = aiperf(&["profile", "--model", "m", "--url", &server.url()]);
        command.args(["--isl", "10", "--artifact-dir"]).arg(place).args(extra);
        command.output().unwrap()
    };
    assert!(run(&tokenizer).status.success());
    // Every `e` of a text is replaced with a megabyte.
    let mut bomb = tokenizer.clone();
    bomb["normalizer"] = serde_json::json!({
        "type": "Replace", "pattern": {"String": "e"}, "content": "x".repeat(1 << 20),
    });
    let output = run(&bomb);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("used more than 2 GiB of memory") || said.contains("more than 60 s"),
        "{said}"
    );
    assert!(said.contains("tokenizer.json cannot be used"), "{said}");
    assert_eq!(server.requests_received(), 1);
}

#[test]
fn inputs_without_an_end_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (format, input) in [("", "/dev/zero"), ("single-turn", "/dev/zero"), ("", "/dev/urandom")] {
        let mut command = asks(NOWHERE, directory.path(), input, "builtin");
        if !format.is_empty() {
            command.args(["--custom-dataset-type", format]);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("it is a device"), "{said}");
    }
    for unit in ["\n", "x", "{\"text\": \"hello\"}\n"] {
        let mut command = asks(NOWHERE, directory.path(), "/dev/stdin", "builtin");
        let mut command = bounded_with_input(&mut command);
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let piece = unit.repeat((1 << 16) / unit.len());
        let writer = std::thread::spawn(move || while input.write_all(piece.as_bytes()).is_ok() {});
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{unit:?}: {said}");
        let reasons =
            ["the pipe has more than 64 MiB", "16 MiB of blanks", "64 MiB", "column 1", "line 1"];
        assert!(reasons.iter().any(|reason| said.contains(reason)), "{unit:?}: {said}");
    }
}

/// Returns `command` with a pipe as its input.
fn bounded_with_input(command: &mut Command) -> Command {
    let mut piped = limited(command, "true");
    piped.stdin(Stdio::piped());
    piped
}

#[test]
fn secrets_do_not_show_in_complaints_about_arguments() {
    let secret = "hunter2";
    for arguments in [
        &["--url", "http://u:hunter2@h:port"][..],
        &["--url", "http://u:hun,hunter2@h:port"],
        &["--url", "ftp://h/?api_key=hunter2"],
        &["--server-metrics", "http://u:hunter2@h:port/metrics"],
        &["--server-metrics", "http://u:a,hunter2@h:1x/metrics"],
        &["--tokenizer", "https://u:hunter2@h/tokenizer.json"],
        &["--tokenizer", "https://h/tokenizer.json?sig=hunter2"],
        &["--input-file", "https://u:a,hunter2@h/prompts.jsonl"],
        &["--input-file", "https://h/prompts.jsonl?code=hunter2"],
        &["--header", "Bearer hunter2"],
        &["--header", "X-JWT\u{1}: hunter2"],
        &["--otel-url", "ftp://u:hunter2@h"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = aiperf(&["profile", "-m", "m", "--request-count", "1"]);
        if !arguments.contains(&"--url") {
            command.args(["--url", NOWHERE]);
        }
        if !arguments.contains(&"--tokenizer") {
            command.args(["--tokenizer", "builtin"]);
        }
        let output = command.args(arguments).current_dir(directory.path()).output().unwrap();
        let said = [&output.stderr[..], &output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!output.status.success() && !said.is_empty(), "{arguments:?}");
        assert!(!said.contains(secret), "{arguments:?}: {said}");
    }
}

#[test]
fn credentials_in_a_payload_are_sent_and_not_written() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bodies.jsonl");
    let body = r#"{"model":"m","api_key":"hunter2","extra":{"authToken":"hunter2"},"max_tokens":3,
        "messages":[{"role":"user","content":"hi"}]}"#;
    fs::write(&file, body.replace('\n', "")).unwrap();
    let place = directory.path().join("run");
    let mut command = asks(&server.url(), &place, file.to_str().unwrap(), "builtin");
    command.args(["--custom-dataset-type", "raw-payload", "--export-level", "raw"]);
    command.args(["--request-count", "2", "--header", "X-Whatever: Bearer hunter2"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for entry in fs::read_dir(&place).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains("hunter2"), "{}", path.display());
    }
    let inputs = fs::read_to_string(place.join("inputs.json")).unwrap();
    assert!(inputs.contains("\"api_key\": \"<redacted>\"") && inputs.contains("\"max_tokens\": 3"));
}

#[test]
fn too_few_open_files_for_a_run_are_said() {
    let directory = tempfile::tempdir().unwrap();
    for limit in [6, 20, 39] {
        let command = profile_command(NOWHERE, directory.path(), &["--request-count", "1"]);
        let output = limited(&command, &format!("ulimit -n {limit}")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{limit}: {said}");
        assert!(said.contains(&format!("only {limit} open files are allowed")), "{said}");
    }
    let server = MockServer::start(Config::default()).unwrap();
    let extra = ["--request-count", "3", "--concurrency", "1"];
    let command = profile_command(&server.url(), directory.path(), &extra);
    let output = limited(&command, "ulimit -n 40").output().unwrap();
    let run = Run { output, directory };
    assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
    assert_eq!(run.records().len(), 3, "{}", run.stderr());
}

#[test]
fn users_who_are_not_due_take_no_memory() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let extra = [
        "--user-centric-rate",
        "100",
        "--num-users",
        "16_000_000",
        "--session-turns-mean",
        "2",
        "--benchmark-duration",
        "0.1",
    ];
    let command = profile_command(&server.url(), directory.path(), &extra);
    let output = bounded(&command, 1_600_000).output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert!(!run.records().is_empty());
}

#[test]
fn a_server_that_accepts_and_closes_is_a_record_each_time() {
    let address: SocketAddr = raw_server::serve(|_, stream| {
        let _ = stream.shutdown(Shutdown::Both);
    });
    let run =
        profile(&format!("http://{address}"), &["--request-count", "20", "--concurrency", "5"]);
    assert_eq!(run.exit_code(), Some(1));
    let kinds: Vec<Value> =
        run.records().iter().map(|record| record["error"]["error_type"].clone()).collect();
    assert_eq!(kinds, vec![Value::from("_OTHER"); 20]);
}

#[test]
fn tls_to_a_plain_port_is_a_record() {
    let server = MockServer::start(Config::default()).unwrap();
    let url = server.url().replace("http://", "https://");
    let run = profile(&url, &["--request-count", "2"]);
    assert_eq!(run.exit_code(), Some(1));
    for record in run.records() {
        assert_eq!(record["error"]["type"], "TlsError", "{record}");
        assert_eq!(record["error"]["error_type"], "_OTHER", "{record}");
    }
}

#[test]
fn too_few_file_descriptors_are_errors_in_records() {
    let server = MockServer::start(Config {
        script: mock_server::Script {
            ttft: base::units::Nanos::from_millis(20.0),
            ..Default::default()
        },
        ..Config::default()
    })
    .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let extra = ["--request-count", "400", "--concurrency", "200"];
    let command = profile_command(&server.url(), directory.path(), &extra);
    let output = limited(&command, "ulimit -n 64").output().unwrap();
    let run = Run { output, directory }.succeeded();
    let records = run.records();
    assert_eq!(records.len(), 400);
    let failed: Vec<&Value> =
        records.iter().map(|record| &record["error"]).filter(|error| !error.is_null()).collect();
    assert!(!failed.is_empty() && failed.len() < 400, "{}", failed.len());
    for error in failed {
        assert_eq!(error["error_type"], "_OTHER");
        assert_eq!(error["type"], "TooManyOpenFiles");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("the client ran out of file descriptors"), "{error}");
    }
}

#[test]
fn a_reader_that_goes_away_costs_no_files() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &["--request-count", "5"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 5.0);
}

#[test]
fn a_full_disk_is_said_and_costs_only_what_was_on_it() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    // Files cannot exceed 128 blocks of 512 bytes; the records of 300 requests would.
    let flags = ["--request-count", "300", "--concurrency", "8", "--num-dataset-entries", "5"];
    let command = profile_command(&server.url(), directory.path(), &flags);
    let output = limited(&command, "ulimit -f 128").output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(1), "{:?}: {}", run.output.status, run.stderr());
    assert!(run.stderr().contains("profile_export.jsonl"), "{}", run.stderr());
    assert!(run.stderr().contains("File too large"), "{}", run.stderr());
    assert_eq!(run.summary()["request_count"]["avg"], 300.0);
    assert_eq!(fs::metadata(run.path("profile_export.jsonl")).unwrap().len(), 128 * 512);
}

/// The records are cut off, but the summary and the table cover all requests.
#[test]
fn a_summary_is_not_replaced_by_one_of_fewer_requests() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--request-count", "300", "--concurrency", "8", "--num-dataset-entries", "5"];
    let command = profile_command(&server.url(), directory.path(), &flags);
    let output = limited(&command, "ulimit -f 512").output().unwrap();
    let run = Run { output, directory };
    assert!(
        run.stderr().contains("the files that are not named here are complete"),
        "{}",
        run.stderr()
    );
    let report = |more: &[&str]| {
        let output = aiperf(&["report"]).arg(run.directory.path()).args(more).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let names =
        ["profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export.parquet"];
    let files = || names.map(|name| fs::read(run.path(name)).unwrap());
    let complete = files();
    let (code, stderr) = report(&[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("covers 300 requests, but there are only records of"), "{stderr}");
    assert!(files() == complete);
    // Without the run's own account of its requests, the summary has one.
    let manifest = run.text("run_manifest.json");
    let mut without: Value = serde_json::from_str(&manifest).unwrap();
    without["end"].as_object_mut().unwrap().remove("sent").unwrap();
    fs::write(run.path("run_manifest.json"), without.to_string()).unwrap();
    assert_eq!(report(&[]).0, Some(1));
    assert!(files() == complete);
    let (code, stderr) = report(&["--overwrite"]);
    assert_eq!(code, Some(0), "{stderr}");
    let left = run.summary()["request_count"]["avg"].as_f64().unwrap();
    assert!(left > 0.0 && left < 300.0, "{left}");
    assert_eq!(report(&[]).0, Some(0));
}

#[test]
fn datasets_that_are_none_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("binary");
    fs::write(&binary, [0x7f, b'E', b'L', b'F', 0, 1, 2, 0xff, 0xfe]).unwrap();
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    let missing = directory.path().join("missing");
    let own = directory.path().to_owned();
    for path in [&binary, &empty, &missing, &own] {
        let name = path.to_str().unwrap();
        let runs = tempfile::tempdir().unwrap();
        let output = asks(NOWHERE, runs.path(), name, "builtin").output().unwrap();
        let run = Run { output, directory: runs };
        assert_eq!(run.exit_code(), Some(2), "{name}");
        assert!(run.stderr().contains(name), "{name}: {}", run.stderr());
        assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
        assert_eq!(run.stdout(), "");
    }
}

#[test]
fn counts_that_are_typing_errors_are_refused_at_once() {
    let a_billion = "1000000000";
    let rankings = ["--endpoint-type", "cohere_rankings"];
    let image = ["--image-width-mean", "1", "--image-height-mean", "1"];
    let sound = ["--audio-length-mean", "0.01"];
    let cases: [(&str, &[&str], &[&str]); 9] = [
        ("--num-dataset-entries", &[], &["--num-dataset-entries", a_billion]),
        ("--num-dataset-entries", &[], &["--isl", "1", "--isl-stddev", "1e30"]),
        ("--num-dataset-entries", &[], &["--session-turns-mean", "10000000"]),
        (
            "--num-prefix-prompts",
            &["--prefix-prompt-length", "9"],
            &["--num-prefix-prompts", a_billion],
        ),
        ("--batch-size", &["--endpoint-type", "embeddings"], &["--batch-size", a_billion]),
        ("--rankings-passages-mean", &rankings, &["--rankings-passages-mean", "1000000"]),
        ("--rankings-passages-mean", &rankings, &["--rankings-passages-stddev", "1e30"]),
        ("--image-batch-size", &image, &["--image-batch-size", a_billion]),
        ("--audio-batch-size", &sound, &["--audio-batch-size", a_billion]),
    ];
    for (named, given, flags) in cases {
        let directory = tempfile::tempdir().unwrap();
        let mut command = aiperf(&["profile", "--model", "m", "--url", NOWHERE, "--ui", "none"]);
        command.args(["--tokenizer", "builtin", "--request-count", "200"]).args(given);
        command.args(flags).arg("--artifact-dir").arg(directory.path());
        let output = bounded(&command, 1 << 20).output().unwrap();
        let run = Run { output, directory };
        assert_eq!(run.exit_code(), Some(2), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains(named), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains("the maximum is"), "{flags:?}: {}", run.stderr());
    }
}

#[test]
fn a_dataset_may_come_through_a_pipe() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut command = asks(&server.url(), directory.path(), "/dev/stdin", "builtin");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"text\":\"one\"}\n{\"text\":\"two\"}\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 2.0);
}

#[test]
fn a_pipe_that_stays_silent_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let name = pipe.to_str().unwrap();
    let command = asks(NOWHERE, directory.path(), name, "builtin");
    let mut child = with_signal("--default-signal=INT", &command).spawn().unwrap();
    // Opening succeeds once the program has opened the other end.
    let writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    drop(writer);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

/// The kernel withholds signals from the first process of a container if it does not handle them.
#[test]
fn the_first_process_of_a_container_can_be_ended_before_the_run() {
    let namespace = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    let empty = Command::new("unshare").args(namespace).arg("true").status();
    if !empty.is_ok_and(|status| status.success()) {
        left_out("unshare, or the permission to use it,");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let command = asks(NOWHERE, directory.path(), pipe.to_str().unwrap(), "builtin");
    let mut container = Command::new("unshare");
    container.args(namespace).arg(command.get_program()).args(command.get_args());
    let mut container = container.spawn().unwrap();
    // Opening succeeds once the program has opened the other end. It then waits for the dataset.
    let writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let id = container.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let first = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(first, Signal::TERM).unwrap();
    wait_until("signs of its end", || container.try_wait().unwrap().is_some());
    assert_eq!(container.wait().unwrap().code(), Some(130));
    drop(writer);
}

#[test]
fn tokenizers_of_the_wrong_shape_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokenizer.json");
    for content in ["", "[]", "{}", "{\"model\":{\"type\":\"BPE\"}}", "\u{0}\u{1}"] {
        fs::write(&file, content).unwrap();
        let runs = tempfile::tempdir().unwrap();
        let mut command = asks(NOWHERE, runs.path(), "/dev/null", file.to_str().unwrap());
        let run = Run { output: command.output().unwrap(), directory: runs };
        assert_eq!(run.exit_code(), Some(1));
        assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
        assert!(run.stderr().contains("tokenizer.json"), "{content:?}: {}", run.stderr());
    }
}

#[test]
fn a_home_that_cannot_be_written_and_a_plain_locale_do_no_harm() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &["--request-count", "2"]);
    command.env("HOME", "/dev/null").env("LC_ALL", "C").env_remove("TERM");
    let output = command.output().unwrap();
    Run { output, directory }.succeeded();
}
