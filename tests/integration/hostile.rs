//! Servers that break the rules, and machines that run out of things: every
//! request ends as a record with the right class of error, and no run hangs,
//! crashes or takes memory without bound.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aiperf::mock_server::{Config, MockServer};
use aiperf::record::ErrorKind;
use aiperf::transport::{
    self, Client, Connector, OutgoingRequest, SessionConnection, Target, Watch,
};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::profile::{Run, aiperf, profile, profile_command};
use crate::raw_server;

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hé\"}}]}\n\n";
const LAST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"},\"finish_reason\":\"stop\"}]}\n\n";
/// Where no request may ever go.
const NOWHERE: &str = "http://127.0.0.1:9";
const DONE: &str = "data: [DONE]\n\n";
const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;

/// The class and the name of an error; `None` is a success.
type Expected = Option<(&'static str, &'static str)>;

/// What a server does with one request, and what must come of it.
struct Case {
    name: &'static str,
    answer: Box<dyn Fn(&mut TcpStream) + Send + Sync>,
    expected: Expected,
}

/// A server that writes `bytes` and closes.
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

/// `body` under `head`, in chunks of `size` bytes, with the end or without.
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

/// `body` under `head`, with its length and perhaps a coding.
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

/// Resets the connection instead of closing it.
fn reset(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

/// Serves the cases in order, one a request and a connection.
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

/// Sends each case a request by the program, and holds its records to what is
/// expected.
fn check(cases: Vec<Case>, extra: &[&str]) -> Run {
    let cases = Arc::new(cases);
    let count = cases.len().to_string();
    // Every request gets the next case: none is to be a scrape.
    let mut arguments =
        vec!["--request-count", &count, "--concurrency", "1", "--no-server-metrics"];
    arguments.extend_from_slice(extra);
    let run = profile(&server(&cases), &arguments);
    assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
    let mut records = run.records();
    assert_eq!(records.len(), cases.len(), "{}", run.stderr());
    // Lines come in the order in which processors are done with them.
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
const NO_HTTP: Expected = Some(("parse_error", "InvalidHttpResponse"));
const NO_JSON: Expected = Some(("parse_error", "InvalidJson"));
const BAD_CODING: Expected = Some(("parse_error", "ContentEncodingError"));

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
            "an event that is no JSON",
            sized(STREAM, "", [EVENT, "data: {\"choices\": [\n\n", LAST, DONE].concat().as_bytes()),
            NO_JSON,
        ),
        sends("zeros", sized(STREAM, "", &[0; 4096]), Some(("_OTHER", "CutStream"))),
        sends("no body", sized(STREAM, "", b""), Some(("_OTHER", "EmptyResponse"))),
    ];
    // One byte a write, so that the reads are cut everywhere too.
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
                Some(("parse_error", "UnsupportedContentEncoding")),
            ),
            sends("an empty body", sized(JSON, "gzip", b""), Some(("_OTHER", "EmptyResponse"))),
        ],
        &[],
    );
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
                "a chunk size that is no number",
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
                "no content",
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
    // Which says that cancellation and timeout are looked at before the socket:
    // after it, a socket that never runs dry would keep them waiting.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let target = Target::new(&url::Url::parse(NOWHERE).unwrap()).unwrap();
    let connector = Connector::new(transport::Config::default(), &[target]).unwrap();
    let client = Client::new(Arc::new(connector));
    let request = OutgoingRequest {
        target: 0,
        method: http::Method::POST,
        path: None,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::new(),
    };
    let session = SessionConnection::default();
    let exchange = runtime.block_on(client.exchange(
        &request,
        &session,
        Watch::default(),
        std::future::ready(()),
    ));
    assert_eq!(exchange.error.unwrap().kind, ErrorKind::Cancelled);
    assert_eq!(exchange.trace.connect_start, None);
}

/// A run on the dataset in the file `input`, with `tokenizer`.
fn asks(url: &str, directory: &Path, input: &str, tokenizer: &str) -> Command {
    let mut command = aiperf(&["profile", "--model", "m", "--streaming", "--ui", "none"]);
    command.args(["--url", url, "--tokenizer", tokenizer, "--input-file", input]);
    command.arg("--artifact-dir").arg(directory);
    command
}

/// Runs `command` with at most `kilobytes` of address space.
fn bounded(command: &Command, kilobytes: u64) -> Command {
    limited(command, &format!("ulimit -v {kilobytes}"))
}

/// Runs `command` under a shell's `limit`.
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

/// Two GiB of `unit` in a few MB: a gzipped MiB, many times over.
fn bomb(unit: &str) -> Vec<u8> {
    gzipped(unit.repeat((1 << 20) / unit.len()).as_bytes()).repeat(2048)
}

#[test]
fn endless_bodies_are_refused_within_bounded_memory() {
    const TOO_LARGE: Expected = Some(("parse_error", "ResponseTooLarge"));
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
    // 512 MiB at most for a stream, while its buffer grows.
    let output = bounded(&command, 1_600_000).output().unwrap();
    let run = Run { output, directory };
    let errors: Vec<Value> = run.records().iter().map(|record| record["error"].clone()).collect();
    assert_eq!(errors.len(), cases.len(), "{}", run.stderr());
    for (case, error) in cases.iter().zip(&errors) {
        let found = error["error_type"].as_str().zip(error["type"].as_str());
        assert_eq!(found, case.expected, "{}: {error}", case.name);
    }
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
        "--request-count",
        "3",
    ];
    let command = profile_command(&server.url(), directory.path(), &extra);
    let output = bounded(&command, 1_600_000).output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert_eq!(run.records().len(), 3);
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
        script: aiperf::mock_server::Script {
            ttft: aiperf::units::Nanos::from_millis(20.0),
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
        assert!(error["message"].as_str().unwrap().contains("open files"), "{error}");
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
    let records = directory.path().join("profile_export.jsonl");
    std::os::unix::fs::symlink("/dev/full", &records).unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &["--request-count", "5"]);
    let output = command.output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(1));
    assert!(run.stderr().contains("profile_export.jsonl"), "{}", run.stderr());
    assert!(run.stderr().contains("No space left"), "{}", run.stderr());
    assert_eq!(run.summary()["request_count"]["avg"], 5.0);
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
        assert!(run.exit_code() == Some(1) || run.exit_code() == Some(2), "{name}");
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
        assert_eq!(run.exit_code(), Some(1), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains(named), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains("are the most"), "{flags:?}: {}", run.stderr());
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
    let mut child = asks(NOWHERE, directory.path(), name, "builtin").spawn().unwrap();
    // Opens once the program has opened the other end.
    let writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    drop(writer);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
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
