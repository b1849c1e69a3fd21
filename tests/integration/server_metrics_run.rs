//! Whole runs that scrape their server during the load.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mock_server::Script;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::load::mock;
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, json_lines, profile, profile_command, signal};

/// A server that responds to each completion request, and to `/metrics` as specified.
struct Server {
    url: String,
    /// Heads of the requests for metrics.
    scraped: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `metrics` receives the number of responses so far, and the number of scrapes since the last
    /// of them, including this one; `None` causes a 404.
    fn start(
        metrics: impl Fn(usize, usize) -> Option<String> + Clone + Send + Sync + 'static,
    ) -> Self {
        let (answered, since) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let scraped: Arc<Mutex<Vec<String>>> = Arc::default();
        let heads = Arc::clone(&scraped);
        let address = raw_server::serve(move |_, stream| {
            while let Some(request) = raw_server::read_request(stream) {
                let answer = if request.starts_with("POST ") {
                    since.store(0, Ordering::SeqCst);
                    answered.fetch_add(1, Ordering::SeqCst);
                    reply("200 OK", "application/json", COMPLETION)
                } else {
                    heads.lock().unwrap().push(request);
                    let since = since.fetch_add(1, Ordering::SeqCst) + 1;
                    match metrics(answered.load(Ordering::SeqCst), since) {
                        Some(body) => reply("200 OK", "text/plain; version=0.0.4", &body),
                        None => reply("404 Not Found", "text/plain", "nothing here"),
                    }
                };
                raw_server::write(stream, answer.as_bytes());
            }
        });
        Self { url: format!("http://{address}"), scraped }
    }

    fn scraped(&self) -> Vec<String> {
        self.scraped.lock().unwrap().clone()
    }
}

const COMPLETION: &str = r#"{"id":"x","object":"chat.completion","model":"mock-model",
    "choices":[{"index":0,"message":{"role":"assistant","content":"a b c d"},
    "finish_reason":"stop"}],
    "usage":{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24}}"#;

fn reply(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// vLLM's counter of successes at `count`.
fn successes(count: usize) -> String {
    format!("# TYPE vllm:request_success counter\nvllm:request_success_total {count}\n")
}

const UNSTREAMED: [&str; 4] = ["--endpoint-type", "chat", "--request-count", "2"];

fn json(run: &Run, name: &str) -> Value {
    serde_json::from_str(&run.text(name)).unwrap()
}

/// Returns the scrapes in the lines of the file.
fn scrapes(run: &Run) -> Vec<Value> {
    json_lines(&run.path("server_metrics_export.jsonl"))
}

/// Returns the server metrics files in a run's directory, by name.
fn files(run: &Run) -> Vec<String> {
    let entries = fs::read_dir(run.directory.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains("server_metrics")).collect();
    names.sort();
    names
}

/// Returns every file below `directory`.
fn all_files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] })
        .collect()
}

/// Returns the increase of `metric` in a phase, summed over all series.
fn total(export: &Value, metrics: &str, metric: &str) -> f64 {
    let series = export[metrics][metric]["series"].as_array();
    let series = series.unwrap_or_else(|| panic!("{metric}: {export}"));
    series.iter().map(|series| series["stats"]["total"].as_f64().unwrap()).sum()
}

/// Returns the sum of a metric over the records of a phase.
fn sum(run: &Run, phase: &str, metric: &str) -> f64 {
    let records = run.records();
    let of_phase = records.iter().filter(|record| record["metadata"]["benchmark_phase"] == phase);
    of_phase.map(|record| record["metrics"][metric]["value"].as_f64().unwrap()).sum()
}

#[test]
fn each_phase_has_what_the_client_sent_in_it() {
    let server = mock(Script::default());
    let counts = ["--request-count", "20", "--warmup-request-count", "5", "--concurrency", "4"];
    let run = profile(&server.url(), &counts).succeeded();
    let export = json(&run, "server_metrics_export.json");
    for (metrics, phase, requests) in
        [("metrics", "profiling", 20.0), ("warmup_metrics", "warmup", 5.0)]
    {
        assert_eq!(total(&export, metrics, "vllm:request_success"), requests, "{phase}");
        for (metric, usage) in [
            ("vllm:prompt_tokens", "usage_prompt_tokens"),
            ("vllm:generation_tokens", "usage_completion_tokens"),
        ] {
            let tokens = sum(&run, phase, usage);
            assert!(tokens >= 4.0 * requests, "{phase}: {usage} {tokens}");
            assert_eq!(total(&export, metrics, metric), tokens, "{phase}: {metric}");
        }
    }
    let summary = &run.summary()["server_metrics"]["conservation"];
    let compared = summary.as_array().unwrap_or_else(|| panic!("{summary}"));
    assert_eq!(compared.len(), 3, "{summary}");
    for comparison in compared {
        assert_eq!(comparison["agrees"], true, "{comparison}");
        assert_eq!(comparison["server"], comparison["client"], "{comparison}");
    }
    assert_eq!(compared[0]["client"], 25.0);
    let url = format!("{}/metrics", server.url());
    assert_eq!(export["summary"]["endpoints_successful"][0], url);
}

#[test]
fn phases_are_scraped_at_their_ends_and_nothing_is_waited_for() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let extra = [
        "--request-count",
        "6",
        "--warmup-request-count",
        "2",
        "--server-metrics-formats",
        "jsonl",
    ];
    let mut command = profile_command(&server.url(), directory.path(), &extra);
    // Only the scrapes at the start and at the ends of the phases, and none while waiting for
    // counts, which are complete immediately.
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "3600");
    command.env("AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD", "30");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let scrapes = scrapes(&run);
    let phases: Vec<Option<&str>> =
        scrapes.iter().map(|scrape| scrape["benchmark_phase"].as_str()).collect();
    assert_eq!(phases, [None, Some("warmup"), Some("profiling")]);
    let successes = |scrape: &Value| -> f64 {
        let series = scrape["metrics"]["vllm:request_success"].as_array();
        series.into_iter().flatten().map(|point| point["value"].as_f64().unwrap()).sum()
    };
    assert_eq!(scrapes.iter().map(successes).collect::<Vec<_>>(), [0.0, 2.0, 8.0]);
    // Between the last request of one phase and the first of the next.
    let time = |record: &Value, member: &str| record["metadata"][member].as_u64().unwrap();
    let of = |phase: &'static str| {
        run.records().into_iter().filter(move |r| r["metadata"]["benchmark_phase"] == phase)
    };
    let boundary = scrapes[1]["timestamp_ns"].as_u64().unwrap();
    assert!(of("warmup").all(|record| time(&record, "request_end_ns") <= boundary));
    assert!(of("profiling").all(|record| time(&record, "request_start_ns") >= boundary));
}

#[test]
fn nothing_is_scraped_where_it_is_turned_off() {
    let server = Server::start(|answered, _| Some(successes(answered)));
    let run = profile(&server.url, &UNSTREAMED).succeeded();
    let heads = server.scraped();
    assert!(heads.iter().all(|head| head.starts_with("GET /metrics HTTP/1.1\r\n")), "{heads:?}");
    let before = heads.len();
    assert!(before >= 2, "at the start and at the end");
    assert!(!files(&run).is_empty());

    let run = profile(&server.url, &[&UNSTREAMED[..], &["--no-server-metrics"]].concat());
    let run = run.succeeded();
    assert_eq!(server.scraped().len(), before);
    assert_eq!(files(&run), Vec::<String>::new());
}

#[test]
fn files_are_those_asked_for_under_the_prefix() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "2", "--files"]).succeeded();
    let names = |endings: &[&str], stem: &str| -> Vec<String> {
        endings.iter().map(|ending| format!("{stem}.{ending}")).collect()
    };
    assert_eq!(files(&run), names(&["csv", "json", "parquet"], "server_metrics_export"));
    for name in files(&run) {
        assert!(run.stdout().contains(&name), "{}", run.stdout());
    }
    let extra = ["--request-count", "2", "--profile-export-prefix", "mine.json"];
    let formats = ["--server-metrics-formats", "jsonl,csv"];
    let run = profile(&server.url(), &[&extra[..], &formats].concat()).succeeded();
    assert_eq!(files(&run), names(&["csv", "jsonl"], "mine_server_metrics"));
}

#[test]
fn credentials_reach_the_server_and_nobody_else() {
    let other = Server::start(|_, since| Some(format!("# TYPE x gauge\nx {since}\n")));
    let asked = other.url.replace("http://", "http://user:s3cret@");
    let server = mock(Script::default());
    let extra = ["--request-count", "2", "--server-metrics", &asked, "--server-metrics-formats"];
    let formats = ["json", "csv", "jsonl", "parquet"];
    let run = profile(&server.url(), &[&extra[..], &formats].concat()).succeeded();
    let heads = other.scraped();
    // `printf user:s3cret | base64`
    let header = "authorization: basic dxnlcjpzm2nyzxq=";
    assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains(header)), "{heads:?}");
    let url = format!("{}/metrics", other.url);
    let export = json(&run, "server_metrics_export.json");
    assert_eq!(export["summary"]["endpoints_successful"][1], url);
    let files = all_files(run.directory.path());
    assert!(files.len() > 8, "{files:?}");
    for secret in ["s3cret", "dXNlcjpzM2NyZXQ"] {
        for path in &files {
            let bytes = fs::read(path).unwrap();
            let is_told = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_told, "{}", path.display());
        }
        assert!(!run.stdout().contains(secret) && !run.stderr().contains(secret));
    }
}

#[test]
fn counts_that_come_late_are_waited_for_and_in_the_totals() {
    // The second request is counted from the third scrape after it.
    let server = Server::start(|answered, since| {
        Some(successes(if since < 3 { answered.min(1) } else { answered }))
    });
    let directory = tempfile::tempdir().unwrap();
    let extra = [&UNSTREAMED[..], &["--server-metrics-formats", "json,csv,parquet,jsonl"]].concat();
    let mut command = profile_command(&server.url, directory.path(), &extra);
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.05");
    command.env("AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD", "30");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let conservation = run.summary()["server_metrics"]["conservation"].clone();
    let [compared] = &conservation.as_array().unwrap()[..] else { panic!("{conservation}") };
    assert_eq!((&compared["server"], &compared["client"]), (&2.0.into(), &2.0.into()));
    let export = json(&run, "server_metrics_export.json");
    assert_eq!(total(&export, "metrics", "vllm:request_success"), 2.0);
    // A report of its files has the same result.
    assert_reported_again(&run);
}

/// `aiperf report` computes the same server statistics from the lines and, without them, from the
/// samples.
fn assert_reported_again(run: &Run) {
    let name = "server_metrics_export.json";
    let original = json(run, name);
    for (lost, made_of) in [("", "lines"), ("server_metrics_export.jsonl", "samples")] {
        fs::remove_file(run.path(name)).unwrap();
        if !lost.is_empty() {
            fs::remove_file(run.path(lost)).unwrap();
        }
        let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let again = json(run, name);
        for member in ["summary", "metrics"] {
            assert_eq!(again[member], original[member], "{member} of {made_of}");
        }
    }
}

#[test]
fn counts_that_nobody_can_compare_may_come_late_too() {
    // Published at the earliest 1 s after the request.
    let last = Arc::new(Mutex::new((0, std::time::Instant::now())));
    let server = Server::start(move |answered, _| {
        let mut last = last.lock().unwrap();
        if last.0 != answered {
            *last = (answered, std::time::Instant::now());
        }
        let is_old = last.1.elapsed() > Duration::from_secs(1);
        let published = if is_old { answered } else { 0 };
        Some(format!(
            "# TYPE work counter\nwork_total {published}\n# TYPE busy gauge\nbusy {}\n",
            u8::from(published == 0)
        ))
    });
    let run = profile(&server.url, &UNSTREAMED).succeeded();
    let export = json(&run, "server_metrics_export.json");
    assert_eq!(total(&export, "metrics", "work"), 2.0);
    // The gauge was not sampled after that.
    assert_eq!(export["metrics"]["busy"]["series"][0]["stats"]["avg"], 1.0);
    let info = export["summary"]["endpoint_info"].as_object().unwrap().values().next().unwrap();
    let ns = |name: &str| info[name].as_u64().unwrap();
    assert!(ns("last_fetch_ns") > ns("final_ns"), "{info}");
    let rate = export["metrics"]["work"]["series"][0]["stats"]["rate"].as_f64().unwrap();
    let seconds = (ns("final_ns") - ns("reference_ns")) as f64 / 1e9;
    assert!((rate - 2.0 / seconds).abs() < 1e-9 * rate, "{rate} over {seconds}");
}

#[test]
fn scrapes_that_fail_are_counted_and_said() {
    // Every second scrape fails.
    let asked = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |answered, _| {
        let is_lost = asked.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        (!is_lost).then(|| successes(answered))
    });
    let run = profile(&server.url, &UNSTREAMED).succeeded();
    let export = json(&run, "server_metrics_export.json");
    let info = export["summary"]["endpoint_info"].as_object().unwrap().values().next().unwrap();
    let failed = info["failed_fetches"].as_u64().unwrap();
    let asked = failed + info["total_fetches"].as_u64().unwrap();
    // One may have been in flight at the end.
    let scraped = server.scraped().len() as u64;
    assert!(asked == scraped || asked + 1 == scraped, "{asked} of {scraped}: {info}");
    assert!(failed >= 1, "{info}");
    let said = format!("{failed} of {asked} scrapes failed");
    let details = run.text("profile_export_console.txt");
    assert!(details.contains(&said), "{said}: {details}");
    assert!(run.stdout().contains("! server-metrics-incomplete: "), "{}", run.stdout());
    assert_eq!(total(&export, "metrics", "vllm:request_success"), 2.0);
}

#[test]
fn a_server_that_counts_others_too_is_named() {
    let server = Server::start(|answered, _| Some(successes(3 * answered)));
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url, directory.path(), &UNSTREAMED);
    command.env("AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD", "0");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let compared = &run.summary()["server_metrics"]["conservation"][0];
    assert_eq!((&compared["server"], &compared["client"]), (&6.0.into(), &2.0.into()));
    assert_eq!(compared["agrees"], false);
    assert!(run.stdout().contains("vllm:request_success"), "{}", run.stdout());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_wait_for_counts() {
    let (told, scrapes) = std::sync::mpsc::channel();
    let told = Arc::new(Mutex::new(told));
    // Nothing is ever counted.
    let server = Server::start(move |answered, since| {
        told.lock().unwrap().send((answered, since)).unwrap();
        Some(successes(0))
    });
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url, directory.path(), &UNSTREAMED);
    command.env("AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD", "60");
    let child = command.spawn().unwrap();
    // The first scrape after the load is the final one; the second proves the wait.
    while scrapes.recv_timeout(Duration::from_secs(30)).unwrap() != (2, 2) {}
    signal(&child, Signal::INT);
    let run = Run { output: child.wait_with_output().unwrap(), directory }.succeeded();
    assert_eq!(run.records().len(), 2);
    assert_eq!(run.summary()["was_cancelled"], false);
    // The server was not given time to count.
    let conservation = &run.summary()["server_metrics"]["conservation"];
    assert!(conservation.as_array().is_none_or(Vec::is_empty), "{conservation}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_wait_for_the_first_scrape() {
    let (told, asked) = std::sync::mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        while raw_server::read_request(stream).is_some() {
            // The server never responds to it.
            told.send(()).unwrap();
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&format!("http://{address}"), directory.path(), &UNSTREAMED);
    command.args(["--server-metrics", &format!("http://{address}/asked")]);
    command.env("AIPERF_SERVER_METRICS_REACHABILITY_TIMEOUT", "15");
    let child = command.spawn().unwrap();
    asked.recv_timeout(Duration::from_secs(30)).unwrap();
    signal(&child, Signal::INT);
    let run = Run { output: child.wait_with_output().unwrap(), directory };
    assert_eq!(run.output.status.code(), Some(130), "{}", run.stderr());
    // The timeout of the scrape was not waited for.
    assert!(!run.stderr().contains("not reachable"), "{}", run.stderr());
}

#[test]
fn endpoints_that_cannot_be_reached_stop_no_run() {
    let server = Server::start(|_, _| None);
    let run = profile(&server.url, &UNSTREAMED).succeeded();
    assert_eq!(files(&run), Vec::<String>::new());
    assert!(run.summary().get("server_metrics").is_none());
    assert_eq!(server.scraped().len(), 1, "it is asked once");

    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let extra = [&UNSTREAMED[..], &["--server-metrics", &nobody]].concat();
    let run = profile(&server.url, &extra).succeeded();
    let warnings = run.stderr().matches(&nobody).count();
    assert_eq!(warnings, 1, "{}", run.stderr());
}

#[test]
fn without_a_collector_nothing_is_said_of_opentelemetry() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "2", "-vv"]).succeeded();
    // It logs a lot, but nothing from an SDK that does not export anything.
    for said in [run.stderr(), run.text("logs/aiperf.log")] {
        assert!(said.contains("DEBUG") || said.contains("TRACE"), "{said}");
        let lines = said.lines().filter(|line| {
            let line = line.to_ascii_lowercase();
            line.contains("opentelemetry") || line.contains("meterprovider")
        });
        assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
fn the_demo_has_the_servers_files_too() {
    let directory: TempDir = tempfile::tempdir().unwrap();
    let mut command: Command = aiperf(&["demo", "--request-count", "4", "--ttft", "1ms"]);
    command.args(["--itl", "1ms", "--artifact-dir"]).arg(directory.path());
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    assert!(run.path("server_metrics_export.json").is_file(), "{}", run.stdout());
}

#[test]
fn label_sets_without_end_are_bounded_and_told_of_once() {
    let server = Server::start(|answered, since| {
        // The names of its labels, too, are new in each scrape.
        let series = |each| format!("churning{{n{answered}_{since}_{each}=\"x\"}} 1\n");
        let churning: String = (0..600).map(series).collect();
        Some(successes(answered) + "# TYPE churning gauge\n" + &churning)
    });
    let extra = [&UNSTREAMED[..], &["--concurrency", "1", "--request-rate", "2"]].concat();
    let run = profile(&server.url, &extra).succeeded();
    let said = run.stderr();
    assert_eq!(said.matches("has more metrics than can be stored").count(), 1, "{said}");
    assert_eq!(said.matches("WARN").count(), 1, "{said}");
    let export = json(&run, "server_metrics_export.json");
    // Known series continue: the counts of server and client agree.
    assert_eq!(total(&export, "metrics", "vllm:request_success"), 2.0);
    let conservation = &run.summary()["server_metrics"]["conservation"];
    assert_eq!(conservation[0]["agrees"], true, "{conservation}");
    let csv = run.text("server_metrics_export.csv");
    let widest = csv.lines().map(|line| line.split(',').count()).max().unwrap();
    // At most 1,000 names, 600 of which were used by the baseline; 18 columns are not labels.
    assert_eq!(widest, 400 + 18);
}
