//! Requests that control the server around a run, and what requests ask of the server besides.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::process::Signal;

use crate::report_page;
use crate::support::raw_server::{self, read_request, write};
use crate::support::run::{Run, aiperf, profile, profile_command, signal};

/// A stream with two content events.
const STREAM: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"four words\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" of answer\"},",
    "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
);

/// A server that notes every request as it was sent.
struct Server {
    address: SocketAddr,
    requests: Receiver<String>,
}

impl Server {
    /// A server that responds to prompts, and to another path with the status that `status` returns
    /// for it and for how many requests it has had before.
    fn new(status: impl Fn(&str, usize) -> &'static str + Send + Sync + 'static) -> Self {
        let (sender, requests) = mpsc::channel();
        let (status, control) = (Arc::new(status), Arc::new(Mutex::new(0)));
        let address = raw_server::serve(move |_, stream| {
            while let Some(request) = read_request(stream) {
                let path = path(&request).to_owned();
                let _ = sender.send(request);
                let line = if path.ends_with("/chat/completions") {
                    "200 OK"
                } else {
                    let mut before = control.lock().unwrap();
                    *before += 1;
                    status(&path, *before - 1)
                };
                let body = if path.starts_with("/v1") { STREAM } else { "the server's words" };
                let head = format!("HTTP/1.1 {line}\r\ncontent-type: text/event-stream\r\n");
                let length = body.len();
                write(stream, format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes());
            }
        });
        Self { address, requests }
    }

    /// A server that does what it is asked.
    fn willing() -> Self {
        Self::new(|_, _| "200 OK")
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }

    /// The last parts of the paths of the requests so far.
    fn asked(&self) -> Vec<String> {
        let name = |request: &String| path(request).rsplit('/').next().unwrap().to_owned();
        self.requests().iter().map(name).collect()
    }
}

fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap()
}

fn run(server: &Server, flags: &str) -> Run {
    let flags: Vec<&str> = flags.split_whitespace().chain(["--no-server-metrics"]).collect();
    profile(&server.url(), &flags)
}

const CONTROL: &str = "--reset-kv-cache --server-profiler";

#[test]
fn the_cache_is_reset_before_the_warmup_and_the_measurement_is_profiled() {
    let server = Server::willing();
    let flags = "--warmup-request-count 2 --request-count 3 --api-key k3y --header X-Team:mine";
    run(&server, &format!("{CONTROL} {flags}")).succeeded();
    let requests = server.requests();
    let paths: Vec<&str> = requests.iter().map(|request| path(request)).collect();
    let chat = "/v1/chat/completions";
    let expected =
        ["/reset_prefix_cache", chat, chat, "/start_profile", chat, chat, chat, "/stop_profile"];
    assert_eq!(paths, expected);
    for request in requests.iter().filter(|request| path(request) != chat) {
        assert!(request.starts_with("POST "), "{request}");
        assert!(request.ends_with("\r\n\r\n"), "the body is not empty: {request}");
        assert!(request.contains("\r\ncontent-length: 0\r\n"), "{request}");
        assert!(request.contains("\r\nauthorization: Bearer k3y\r\n"), "{request}");
        assert!(request.contains("\r\nx-team: mine\r\n"), "{request}");
        assert!(!request.contains("\r\ncontent-type:"), "{request}");
    }
}

#[test]
fn each_host_and_port_is_asked_once_and_paths_can_be_given() {
    let (first, second) = (Server::willing(), Server::willing());
    let urls = [format!("{}/v1", first.url()), format!("{}/v2?a=b", first.url()), second.url()];
    let flags = [
        ["--url", &urls[1], "--url", &urls[2]],
        ["--reset-kv-cache", "--reset-kv-cache-path", "/flush_cache?mode=1", "--no-server-metrics"],
        [
            "--server-profiler",
            "--server-profiler-start-path=/a",
            "--server-profiler-stop-path=/b",
            "--request-count=3",
        ],
    ];
    profile(&urls[0], &flags.concat()).succeeded();
    for server in [first, second] {
        let requests = server.requests();
        let control = requests.iter().map(|request| path(request));
        let control: Vec<&str> = control.filter(|path| !path.contains("chat")).collect();
        assert_eq!(control, ["/flush_cache?mode=1", "/a", "/b"]);
    }
}

#[test]
fn a_busy_server_is_asked_again_to_reset_its_cache() {
    for busy in ["409 Conflict", "423 Locked", "429 Too Many Requests", "503 Service Unavailable"] {
        let server =
            Server::new(move |_, before| if before == 0 { busy } else { "204 No Content" });
        run(&server, "--reset-kv-cache --request-count 1").succeeded();
        assert_eq!(server.asked(), ["reset_prefix_cache", "reset_prefix_cache", "completions"]);
    }
}

#[test]
fn a_server_that_does_not_reset_its_cache_gets_no_prompts() {
    for status in ["400 Bad Request", "404 Not Found", "500 Internal Server Error"] {
        let server = Server::new(move |_, _| status);
        let run = run(&server, "--reset-kv-cache --request-count 1");
        assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
        let url = format!("{}/reset_prefix_cache", server.url());
        for part in [&url, status, "the server's words", "--reset-kv-cache-path"] {
            assert!(run.stderr().contains(part), "{part}: {}", run.stderr());
        }
        assert_eq!(server.asked(), ["reset_prefix_cache"]);
    }
}

#[test]
fn a_profiler_that_does_not_start_ends_the_run() {
    let server = Server::new(|_, _| "404 Not Found");
    let failed = run(&server, "--server-profiler --warmup-request-count 1 --request-count 3");
    assert_eq!(failed.exit_code(), Some(1), "{}", failed.stderr());
    for part in ["/start_profile: it returned status 404", "--server-profiler-start-path"] {
        assert!(failed.stderr().contains(part), "{}", failed.stderr());
    }
    assert_eq!(server.asked(), ["completions", "start_profile"]);
}

#[test]
fn profilers_of_other_servers_are_stopped_if_one_does_not_start() {
    let (first, second) = (Server::willing(), Server::new(|_, _| "500 Internal Server Error"));
    let flags = format!("--url {} --server-profiler --request-count 2", second.url());
    assert_eq!(run(&first, &flags).exit_code(), Some(1));
    assert_eq!(first.asked(), ["start_profile", "stop_profile"]);
    assert_eq!(second.asked(), ["start_profile"]);
}

#[test]
fn a_profiler_that_does_not_stop_is_a_warning() {
    let status = |path: &str, _| if path == "/stop_profile" { "500 Oh" } else { "200 OK" };
    let server = Server::new(status);
    let run = run(&server, "--server-profiler --request-count 2").succeeded();
    assert!(run.stderr().contains("cannot stop the server profiler"), "{}", run.stderr());
    assert!(run.stderr().contains("the server's words"), "{}", run.stderr());
    assert_eq!(run.summary()["request_count"]["avg"], 2.0);
    assert_eq!(server.asked(), ["start_profile", "completions", "completions", "stop_profile"]);
}

#[test]
fn each_run_of_a_sweep_resets_the_cache_and_is_profiled() {
    let server = Server::willing();
    run(&server, &format!("{CONTROL} --concurrency 1,2 --request-count 2")).succeeded();
    let asked = server.asked();
    let count = |name: &str| asked.iter().filter(|asked| *asked == name).count();
    let counts = ["reset_prefix_cache", "start_profile", "stop_profile", "completions"].map(count);
    assert_eq!(counts, [2, 2, 2, 4], "{asked:?}");
}

/// A server that responds to prompts once it has had as many requests of `path` as `least`, for 20 s
/// at most.
fn waiting_for(path: &'static str) -> (String, Receiver<String>) {
    let (sender, asked) = mpsc::channel();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let name = self::path(&request).rsplit('/').next().unwrap().to_owned();
            let is_prompt = name == "completions";
            let (is_open, opened) = &*gate;
            let mut is_open = is_open.lock().unwrap();
            *is_open |= name == path;
            let _ = sender.send(name);
            opened.notify_all();
            if is_prompt {
                let limit = Duration::from_secs(20);
                let _ = opened.wait_timeout_while(is_open, limit, |is_open| !*is_open).unwrap();
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
            let length = STREAM.len();
            write(stream, format!("{head}content-length: {length}\r\n\r\n{STREAM}").as_bytes());
        }
    });
    (format!("http://{address}"), asked)
}

#[test]
fn a_profiler_may_be_started_when_the_concurrency_has_been_reached() {
    let (url, asked) = waiting_for("start_profile");
    let flags = "--server-profiler --server-profiler-at-full-concurrency 0.2 --concurrency 2 \
                 --request-count 4 --no-server-metrics";
    profile(&url, &flags.split_whitespace().collect::<Vec<_>>()).succeeded();
    let asked: Vec<String> = asked.try_iter().collect();
    let prompt = "completions";
    assert_eq!(asked[..3], [prompt, prompt, "start_profile"]);
    assert_eq!(asked[3..], [prompt, prompt, "stop_profile"]);
}

#[test]
fn an_interrupted_run_stops_the_profiler() {
    let (url, asked) = waiting_for("never");
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--server-profiler", "--request-count", "2", "--no-server-metrics"];
    let child = profile_command(&url, directory.path(), &flags).spawn().unwrap();
    assert_eq!(asked.recv().unwrap(), "start_profile");
    assert_eq!(asked.recv().unwrap(), "completions");
    // The second signal cancels the request in flight.
    signal(&child, Signal::INT);
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["stop_profile"]);
}

#[test]
fn the_session_is_in_the_header_that_is_asked_for() {
    let server = Server::willing();
    let flags = "--session-header X-Session-ID --num-sessions 1 --session-turns-mean 2";
    run(&server, flags).succeeded();
    let ids: Vec<[Option<String>; 3]> = server
        .requests()
        .iter()
        .map(|request| {
            ["x-session-id", "x-session-affinity", "x-correlation-id"].map(|name| {
                let start = format!("{name}: ");
                let value = request.lines().find_map(|line| line.strip_prefix(&start));
                value.map(str::to_owned)
            })
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
    let [own, affinity, default] = &ids[0];
    assert!(own.is_some() && own == affinity && default.is_none(), "{ids:?}");
    let refused = run(&server, "--session-header Authorization --api-key k3y");
    assert_eq!(refused.exit_code(), Some(2));
    assert!(refused.stderr().contains("--session-header"), "{}", refused.stderr());
}

#[test]
fn the_turns_of_a_session_request_the_same_adapter() {
    let server = Server::willing();
    let flags = "--lora-modules x,y z --num-sessions 12 --session-turns-mean 2 --random-seed 1";
    let run = run(&server, flags).succeeded();
    let model = |request: &String| {
        let body = request.split("\r\n\r\n").nth(1).unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        body["model"].as_str().unwrap().to_owned()
    };
    let mut sent: Vec<String> = server.requests().iter().map(model).collect();
    // With a concurrency of 1, the turns of a session follow one another.
    assert!(sent.len() == 24 && sent.chunks(2).all(|turns| turns[0] == turns[1]), "{sent:?}");
    let recorded = run.records();
    let of = |record: &serde_json::Value| record["metadata"]["model"].as_str().unwrap().to_owned();
    assert_eq!(recorded.iter().map(of).collect::<Vec<_>>(), sent);
    let summary = run.text("profile_export_aiperf.json");
    assert_eq!(run.summary()["by_model"].as_object().unwrap().len(), 3);
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    assert_eq!(run.text("profile_export_aiperf.json"), summary);
    sent.sort();
    sent.dedup();
    assert_eq!(sent, ["x", "y", "z"]);
}

/// For each prompt, 10 drafts of 3 tokens, of which 9, 6 and 3 are accepted at the positions.
#[test]
fn the_acceptance_of_drafts_is_shown() {
    let prompts = Arc::new(Mutex::new(0));
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let body = if path(&request) == "/metrics" {
                let prompts = *prompts.lock().unwrap();
                let counter = |name: &str, labels: &str, each: u64| {
                    let name = format!("vllm:spec_decode_num_{name}");
                    let value = 500 + prompts * each;
                    format!("# TYPE {name} counter\n{name}_total{{engine=\"0\"{labels}}} {value}\n")
                };
                let at = |position: u64, each: u64| {
                    counter("accepted_tokens_per_pos", &format!(",position=\"{position}\""), each)
                };
                let totals = [("drafts", 10), ("draft_tokens", 30), ("accepted_tokens", 18)];
                let totals = totals.map(|(name, each)| counter(name, "", each)).concat();
                totals + &[at(0, 9), at(1, 6), at(2, 3)].concat()
            } else {
                *prompts.lock().unwrap() += 1;
                STREAM.to_owned()
            };
            let kind = if body == STREAM { "text/event-stream" } else { "text/plain" };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n");
            let length = body.len();
            write(stream, format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes());
        }
    });
    let url = format!("http://{address}");
    let run = profile(&url, &["--request-count", "4", "--html"]).succeeded();
    let shown = run.stdout();
    // The address of the server has a table of its own, of one row.
    let of_server = format!("{url}/metrics");
    let row = shown.lines().find(|line| line.contains(&of_server)).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().filter(|cell| *cell != "│").collect();
    assert_eq!(cells, [of_server.as_str(), "60", "2.800", "90", "60", "30"], "{shown}");
    let page = report_page::data(&run.text("report.html"));
    let sections = page["sections"].as_array().unwrap().iter();
    let mut tables = sections.flat_map(|section| section["tables"].as_array().unwrap());
    let table = tables.find(|table| table["title"] == "Speculative Decoding").unwrap();
    assert_eq!(table["columns"][4], "At position 1 (%)");
    assert_eq!(table["rows"][0][0], format!("{url}/metrics"));
    let values = table["rows"][0].as_array().unwrap()[1..].iter();
    let values: Vec<String> =
        values.map(|value| format!("{:.6}", value.as_f64().unwrap())).collect();
    assert_eq!(values, ["60.000000", "2.800000", "90.000000", "60.000000", "30.000000"]);
}

/// Two content events: the first with 3 of 6 tokens.
#[test]
fn the_tokens_of_the_first_event_do_not_count_as_decoded() {
    let (sender, bodies) = mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        if let Some(request) = read_request(stream) {
            let _ = sender.send(request);
            write(stream, b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
            for (text, tokens) in [("abc", 3), ("def", 6)] {
                let usage = format!(
                    "{{\"prompt_tokens\":5,\"completion_tokens\":{tokens},\"total_tokens\":{}}}",
                    tokens + 5
                );
                let delta = format!("{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}");
                let event = format!("data: {{\"choices\":[{delta}],\"usage\":{usage}}}\n\n");
                write(stream, event.as_bytes());
                // The time between the events, which the latency is of.
                std::thread::sleep(Duration::from_millis(30));
            }
            write(stream, b"data: [DONE]\n\n");
        }
    });
    let url = format!("http://{address}");
    for (flags, divisor) in [
        (&["--use-server-token-count", "--per-chunk-usage"][..], 3.0),
        (&["--use-server-token-count"], 5.0),
    ] {
        let flags = [flags, &["--request-count", "1", "--no-server-metrics"]].concat();
        let run = profile(&url, &flags).succeeded();
        let metrics = &run.records()[0]["metrics"];
        let value = |name: &str| metrics[name]["value"].as_f64().unwrap();
        let decode = value("request_latency") - value("time_to_first_token");
        assert_eq!(value("output_sequence_length"), 6.0);
        let latency = value("inter_token_latency");
        assert!((latency - decode / divisor).abs() < 1e-6, "{latency} {decode} {divisor}");
        let options = match divisor {
            3.0 => r#""stream_options":{"include_usage":true,"continuous_usage_stats":true}"#,
            _ => r#""stream_options":{"include_usage":true}"#,
        };
        assert!(bodies.recv().unwrap().contains(options));
    }
}
