//! The HTTP API of a run, asked over real sockets while the run goes on.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mock_server::{MockServer, Script};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::load::{mock, varied};
use crate::support::metrics_endpoint::wait_until;
use crate::support::python::run_python;
use crate::support::run::{profile_command, summary};

/// Responds quickly, and always.
fn server() -> MockServer {
    mock(Script { faults: Vec::new(), ..varied() })
}

/// A run with an API.
pub(crate) struct Watched {
    child: Child,
    address: String,
    token: String,
    directory: TempDir,
    stderr: thread::JoinHandle<String>,
}

/// Starts a run with a free port, and waits until it prints its address.
pub(crate) fn start(url: &str, flags: &[&str], variables: &[(&str, &str)]) -> Watched {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let base = profile_command(url, &place, flags);
    let arguments: Vec<_> = base.get_args().map(|it| it.to_str().unwrap().to_owned()).collect();
    let mut command = Command::new(base.get_program());
    // With progress, which contains the address.
    command.args(arguments.iter().map(|it| if it == "none" { "simple" } else { it }));
    command.args(["--api-port", "0"]);
    for (name, value) in base.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.envs(variables.iter().copied());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stream = child.stderr.take().unwrap();
    let (told, address) = std::sync::mpsc::channel();
    let stderr = thread::spawn(move || {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let line = |start: &str| {
                let line = text.split_once(start)?.1.split_once('\n')?.0;
                Some(line.to_owned())
            };
            let token = "the token of the HTTP API is ";
            if let Some(found) = line("the HTTP API is at http://").zip(line(token)) {
                let _ = told.send(found);
            }
        }
        text
    });
    let (address, token) = address.recv_timeout(Duration::from_secs(30)).unwrap();
    Watched { child, address, token, directory, stderr }
}

impl Watched {
    /// Sends a request with these lines of its head, and returns status and body.
    fn ask(&self, line: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "{line} HTTP/1.1\r\n{headers}\r\n").unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), decoded(head, body))
    }

    pub(crate) fn text(&self, path: &str) -> String {
        let (status, body) = self.ask(&format!("GET {path}"), "Host: localhost\r\n");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).unwrap()
    }

    /// Ends the run on request, and returns its exit code and what it printed.
    pub(crate) fn shut_down(mut self) -> (Option<i32>, String, TempDir) {
        let headers = format!("Host: 127.0.0.1\r\nAuthorization: Bearer {}\r\n", self.token);
        assert_eq!(self.ask("POST /api/shutdown", &headers).0, 200);
        let code = self.child.wait().unwrap().code();
        (code, self.stderr.join().unwrap(), self.directory)
    }
}

/// Returns a body without its chunks' sizes.
fn decoded(head: &str, body: &str) -> String {
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut text) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&after[..size]);
        rest = &after[size + 2..];
        if size == 0 {
            break;
        }
    }
    text
}

const NO_GRACE: (&str, &str) = ("AIPERF_API_SERVER_POST_COMPLETE_GRACE", "0");
/// Enough time to fetch the results.
pub(crate) const GRACE: (&str, &str) = ("AIPERF_API_SERVER_POST_COMPLETE_GRACE", "60");

/// The paths that do not stream.
pub(crate) const PATHS: [&str; 8] = [
    "/",
    "/metrics",
    "/api/metrics",
    "/api/progress",
    "/api/run",
    "/api/config",
    "/api/server-metrics",
    "/api/results",
];

/// Waits until the files are written.
pub(crate) fn wait_for_results(run: &Watched) {
    wait_until("the results", || run.json("/api/results/list")["ready"] == true);
}

/// Longer than the test; the run is ended by a request.
const LONG: [&str; 4] = ["--concurrency", "2", "--benchmark-duration", "600"];

#[test]
fn a_run_is_watched_and_ended_over_http() {
    let mock = server();
    let secret = ["--api-key", "sk-0123456789abcdef0123"];
    let run = start(&mock.url(), &[&LONG[..], &secret].concat(), &[NO_GRACE]);
    assert_eq!([run.text("/healthz"), run.text("/readyz")], ["ok", "ok"]);
    let count = |metrics: &Value| metrics["metrics"]["request_count"]["avg"].as_f64();
    wait_until("requests", || count(&run.json("/api/metrics")).is_some_and(|count| count >= 4.0));

    let metrics = run.json("/api/metrics");
    assert_eq!(metrics["model"], "mock-model");
    assert_eq!(metrics["endpoint_type"], "chat");
    assert_eq!((&metrics["streaming"], &metrics["concurrency"]), (&true.into(), &2.into()));
    let latency = &metrics["metrics"]["request_latency"];
    assert_eq!((&latency["unit"], &latency["header"]), (&"ms".into(), &"Request Latency".into()));
    assert!(latency["p99"].as_f64() >= latency["p50"].as_f64() && latency["sum"].is_f64());
    assert_eq!(metrics["metrics"]["output_sequence_length"]["max"], 4.0);

    // Read from the counters ten times a second.
    let completed =
        || run.json("/api/progress")["phases"]["profiling"]["requests_completed"].as_u64();
    wait_until("completed requests", || completed() >= Some(4));
    let progress = run.json("/api/progress");
    let phase = &progress["phases"]["profiling"];
    assert_eq!(
        (&phase["phase"], &phase["expected_duration_sec"]),
        (&"profiling".into(), &600.0.into())
    );
    assert_eq!(
        (&progress["system_state"], &progress["results_exported"]),
        (&"profiling".into(), &false.into())
    );
    assert_eq!(progress["workers"]["ready"], 1);

    let about = run.json("/api/run");
    assert_eq!(about["benchmark_id"], metrics["benchmark_id"]);
    assert!(about["cli_command"].as_str().unwrap().contains("--api-port 0"), "{about}");
    let config = run.text("/api/config");
    assert!(config.contains("mock-model") && config.contains("<redacted>"), "{config}");
    for text in [&config, &about.to_string()] {
        assert!(!text.contains(secret[1]), "{text}");
    }

    wait_until("a scrape", || run.json("/api/server-metrics")["scrapes"][0].is_object());
    let scrape = &run.json("/api/server-metrics")["scrapes"][0];
    assert_eq!(scrape["endpoint_url"], format!("{}/metrics", mock.url()));
    assert!(scrape["metrics"]["vllm:num_requests_running"][0]["value"].is_f64(), "{scrape}");

    assert_eq!(run.text("/api/results"), r#"{"status":"running","results":null}"#);
    let list = run.json("/api/results/list");
    assert_eq!((&list["ready"], &list["files"]), (&false.into(), &Value::Array(Vec::new())));
    let local = "Host: localhost:1\r\n";
    for (line, headers, status) in [
        ("GET /api/results/files/inputs.json", local, 404),
        ("GET /nothing", local, 404),
        ("GET /api/shutdown", local, 405),
        ("POST /api/metrics", local, 405),
        ("GET /api/run", "Host: rebound.example.com\r\n", 403),
        ("GET /api/run", "", 400),
        ("POST /api/shutdown", "Host: localhost\r\nOrigin: https://example.com\r\n", 403),
        ("POST /api/shutdown", local, 401),
        ("POST /api/shutdown", "Host: localhost\r\nAuthorization: Bearer 0123\r\n", 401),
    ] {
        let (found, body) = run.ask(line, headers);
        assert!(found == status || (status == 400 && found == 403), "{line}: {found} {body}");
    }

    let token = run.token.clone();
    let (code, stderr, directory) = run.shut_down();
    // As after Ctrl-C.
    assert_eq!(code, Some(130), "{stderr}");
    assert!(!everything_in(directory.path()).contains(&token));
    let summary = summary(&directory.path().join("run"));
    assert_eq!(summary["was_cancelled"], true);
    assert!(stderr.contains("on request of a client of the HTTP API"), "{stderr}");
}

#[test]
fn prometheus_reads_the_results() {
    let mock = server();
    let run = start(&mock.url(), &LONG, &[NO_GRACE]);
    let has_latency = || run.text("/metrics").contains("aiperf_request_latency_ms_count");
    wait_until("a latency", has_latency);
    let text = run.text("/metrics");
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("metrics.txt"), text).unwrap();
    run_python("tests/check_exposition.py", place.path());
    assert!(!run.text("/metrics").contains("aiperf_decode_duration_ms"));
    run.shut_down();
    let flags = [&LONG[..], &["--otel-metrics", "full"]].concat();
    let run = start(&mock.url(), &flags, &[NO_GRACE]);
    wait_until("all", || run.text("/metrics").contains("aiperf_decode_duration_ms_count"));
    run.shut_down();
}

#[test]
fn the_files_are_served_after_the_run_and_events_end_with_it() {
    let mock = server();
    let flags = ["--concurrency", "1", "--request-count", "6"];
    let mut run = start(&mock.url(), &flags, &[GRACE]);
    // Ends with the last event, before the API does.
    let events = run.text("/api/events");
    let (first, last) = (events.split("\n\n").next(), events.trim_end().rsplit("\n\n").next());
    assert!(first.unwrap().starts_with("event: progress\ndata: {"), "{events}");
    assert_eq!(last, Some("event: end\ndata: {\"status\":\"complete\"}"));
    let metrics = events.split("\n\n").filter(|event| event.starts_with("event: metrics\n"));
    let metrics = metrics.last().unwrap().split_once("data: ").unwrap().1;
    let metrics: Value = serde_json::from_str(metrics).unwrap();
    assert_eq!(metrics["metrics"]["request_count"]["avg"], 6.0);

    let place = run.directory.path().join("run");
    let written = summary(&place);
    let results = run.json("/api/results");
    assert_eq!((&results["status"], &results["results"]), (&"complete".into(), &written));
    // The final results, not those of the live view.
    for tag in ["request_latency", "time_to_first_token"] {
        assert_eq!(metrics["metrics"][tag]["p99"], written[tag]["p99"], "{tag}");
    }
    let listing = run.json("/api/results/list");
    assert_eq!((&listing["ready"], &listing["partial"]), (&true.into(), &false.into()));
    let files = listing["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["name"] == "logs/aiperf.log"), "{listing}");
    for file in files {
        let (name, size) = (file["name"].as_str().unwrap(), file["size"].as_u64().unwrap());
        assert_eq!(fs::metadata(place.join(name)).unwrap().len(), size, "{name}");
    }
    let records = run.text("/api/results/files/profile_export.jsonl");
    assert_eq!(records, fs::read_to_string(place.join("profile_export.jsonl")).unwrap());
    // Listed before, and one of the user's.
    fs::write(run.directory.path().join("outside"), "x").unwrap();
    fs::write(place.join("key.pem"), "x").unwrap();
    let names = |listing: &Value| listing["files"].to_string();
    assert_eq!(names(&run.json("/api/results/list")), names(&listing));
    for name in ["key.pem", "../outside", "%2e%2e/outside", "logs", "logs/../../outside"] {
        let line = format!("GET /api/results/files/{name}");
        assert_eq!(run.ask(&line, "Host: localhost\r\n").0, 404, "{name}");
    }
    assert!(run.child.try_wait().unwrap().is_none());
    let (code, stderr, _directory) = run.shut_down();
    assert_eq!(code, Some(0), "{stderr}");
}

/// Returns the texts of all files in `directory`.
fn everything_in(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        if path.is_dir() {
            everything_in(&path)
        } else {
            String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
        }
    };
    entries.map(text).collect()
}

#[test]
fn other_machines_need_the_token_for_everything() {
    let mock = server();
    let run = start(&mock.url(), &[&LONG[..], &["--api-host", "0.0.0.0"]].concat(), &[NO_GRACE]);
    let mut run = Watched { address: run.address.replace("0.0.0.0", "127.0.0.1"), ..run };
    assert_eq!([run.text("/healthz"), run.text("/readyz")], ["ok", "ok"]);
    let headers = |token: &str| format!("Host: node\r\nAuthorization: Bearer {token}\r\n");
    for path in PATHS.iter().chain(&["/api/results/list", "/api/results/files/a", "/api/events"]) {
        let line = format!("GET {path}");
        assert_eq!(run.ask(&line, "Host: node\r\n").0, 401, "{path}");
        assert_eq!(run.ask(&line, &headers("0123456789abcdef")).0, 401, "{path}");
    }
    assert_eq!(run.ask("GET /api/run", &headers(&run.token)).0, 200);
    run.token.insert(0, '0');
    assert_eq!(run.ask("POST /api/shutdown", &headers(&run.token)).0, 401);
    run.token.remove(0);
    assert_eq!(run.shut_down().0, Some(130));
}

#[test]
fn the_token_may_be_given_and_is_not_printed() {
    let mock = server();
    let token = "0123-chosen-token";
    let flags = ["--request-count", "2", "--api-port", "0", "--api-token", token, "--ui", "simple"];
    let run = crate::support::run::profile(&mock.url(), &[&flags[..6]].concat()).succeeded();
    assert!(!everything_in(run.directory.path()).contains(token));
    assert!(
        run.text("run_manifest.json").contains("--api-token <redacted>") || {
            run.summary().to_string().contains("--api-token '<redacted>'")
        }
    );
    let short =
        crate::support::run::profile(&mock.url(), &["--api-port", "0", "--api-token", "hunter2"]);
    assert_eq!(short.exit_code(), Some(2));
    let stderr = short.stderr();
    assert!(
        stderr.contains("--api-token: must have at least 16") && !stderr.contains("hunter2"),
        "{stderr}"
    );
}

#[test]
fn a_port_that_is_taken_is_an_error_before_the_run() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mock = server();
    let run =
        crate::support::run::profile(&mock.url(), &["--api-port", &port, "--request-count", "1"]);
    assert_eq!(run.exit_code(), Some(1));
    let expected = format!("--api-port: cannot listen on 127.0.0.1:{port}: ");
    assert!(run.stderr().contains(&expected), "{}", run.stderr());
    assert_eq!(mock.requests_received(), 0);
}

#[test]
fn blocks_of_statistics_are_written_at_their_interval() {
    let mock = server();
    let flags = [&LONG[..], &["--stats-interval", "0.2"]].concat();
    let run = start(&mock.url(), &flags, &[NO_GRACE]);
    let count =
        || run.json("/api/progress")["phases"]["profiling"]["requests_elapsed_time"].as_f64();
    wait_until("a second", || count().is_some_and(|seconds| seconds > 1.0));
    let (_, stderr, _directory) = run.shut_down();
    let blocks: Vec<_> = stderr.split("[realtime 00:").skip(1).collect();
    assert!(blocks.len() >= 2, "{stderr}");
    let block = blocks.last().unwrap();
    assert!(block.contains(" profiling] ") && block.contains(" in flight, 0 errors"), "{stderr}");
    for line in [
        "  rps=",
        " tput_out=",
        "\n  ttft   p50=",
        "\n  itl    p50=",
        "\n  e2e    p50=",
        "\n  intvty p50=",
        "\n  osl    p50=4 p75=4 p90=4 p99=4 tokens\n",
        "\n  totals in=",
    ] {
        assert!(block.contains(line), "{line:?}: {stderr}");
    }
}
