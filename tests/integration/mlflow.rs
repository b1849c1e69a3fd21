//! Runs that are written to an MLflow server: a scripted one, which answers as MLflow 3 does.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use mock_server::{MockServer, Script};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::load::{mock, varied};
use crate::support::metrics_endpoint::wait_until;
use crate::support::port::Refusing;
use crate::support::raw_server::{read_request, serve, write};
use crate::support::run::{aiperf, profile_command, signal, summary, with_signal};

/// A request as the server received it.
#[derive(Clone)]
struct Received {
    /// Method and path.
    line: String,
    head: String,
    body: String,
}

#[derive(Clone, Default)]
struct Tracker {
    received: Arc<Mutex<Vec<Received>>>,
    /// Requests that are answered with status 503 before any other.
    faults: Arc<Mutex<usize>>,
}

impl Tracker {
    /// Starts the server.
    fn start(&self) -> SocketAddr {
        let tracker = self.clone();
        serve(move |_, stream| {
            while let Some(request) = read_request(stream) {
                let (head, body) = request.split_once("\r\n\r\n").unwrap();
                let line = head.split(" HTTP/").next().unwrap().to_owned();
                let one =
                    Received { line: line.clone(), head: head.to_owned(), body: body.to_owned() };
                tracker.received.lock().unwrap().push(one);
                let (status, answer) = tracker.answer(&line);
                let text = answer.to_string();
                let length = text.len();
                let answer = format!(
                    "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{text}"
                );
                write(stream, answer.as_bytes());
            }
        })
    }

    fn answer(&self, line: &str) -> (u16, Value) {
        let mut faults = self.faults.lock().unwrap();
        if *faults > 0 {
            *faults -= 1;
            return (503, json!({}));
        }
        let path = line.split([' ', '?']).nth(1).unwrap();
        let run = json!({ "run": { "info": {
            "run_id": "0f1e", "artifact_uri": "mlflow-artifacts:/7/0f1e/artifacts",
        } } });
        match path.trim_start_matches("/prefix/api/2.0/mlflow/") {
            "experiments/get-by-name" => (
                404,
                json!({
                    "error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment",
                }),
            ),
            "experiments/create" => (200, json!({ "experiment_id": "7" })),
            "runs/create" | "runs/get" => (200, run),
            _ => (200, json!({})),
        }
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the bodies of the requests to an endpoint, in order.
    fn bodies(&self, endpoint: &str) -> Vec<Value> {
        let line = format!("POST /prefix/api/2.0/mlflow/{endpoint}");
        let to = |one: &Received| one.line == line;
        let received = self.received();
        received
            .iter()
            .filter(|one| to(one))
            .map(|one| serde_json::from_str(&one.body).unwrap())
            .collect()
    }

    /// Returns all names and values of a kind that were sent in batches, the last ones of a name,
    /// after checking the limits of the API.
    fn logged(&self, kind: &str) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for body in self.bodies("runs/log-batch") {
            assert_eq!(body["run_id"], "0f1e");
            let count = |kind: &str| body[kind].as_array().map_or(0, Vec::len);
            assert!(count("metrics") <= 1000 && count("params") <= 100 && count("tags") <= 100);
            for entry in body[kind].as_array().into_iter().flatten() {
                all.insert(entry["key"].as_str().unwrap().to_owned(), entry["value"].clone());
            }
        }
        all
    }
}

#[test]
fn an_interrupt_ends_the_wait_for_a_server_that_is_silent() {
    let mock = server();
    let silent = serve(|_, stream| while read_request(stream).is_some() {});
    let place = tempfile::tempdir().unwrap();
    let uri = format!("http://{silent}");
    let flags = ["--request-count", "2", "--mlflow-tracking-uri", &uri];
    let mut command = profile_command(&mock.url(), place.path(), &flags);
    command.env("AIPERF_MLFLOW_EXPORT_TIMEOUT_SECONDS", "3600");
    let mut child = with_signal("--default-signal=INT", &command).spawn().unwrap();
    let written = place.path().join("profile_export_aiperf.json");
    wait_until("the results", || written.exists());
    wait_until("the end", || {
        signal(&child, Signal::INT);
        child.try_wait().unwrap().is_some()
    });
    let stderr = child.wait_with_output().unwrap().stderr;
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(stderr.contains("it was interrupted; send it again with `aiperf report"), "{stderr}");
    assert_eq!(summary(place.path())["was_cancelled"], false);
}

fn server() -> MockServer {
    mock(Script { faults: Vec::new(), ..varied() })
}

/// The statistics of a summary by MLflow's names.
fn statistics(summary: &Value) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (tag, metric) in summary.as_object().unwrap() {
        for (statistic, value) in metric.as_object().into_iter().flatten() {
            if metric.get("unit").is_some() && statistic != "unit" {
                let name =
                    if statistic == "avg" { tag.clone() } else { format!("{tag}.{statistic}") };
                all.insert(name, value.as_f64().unwrap());
            }
        }
    }
    all
}

#[test]
fn a_run_is_written_with_its_parameters_results_and_files() {
    let (tracker, mock) = (Tracker::default(), server());
    // The first request is repeated.
    *tracker.faults.lock().unwrap() = 1;
    let uri = format!("http://{}/prefix/", tracker.start());
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "--concurrency",
        "2",
        "--request-count",
        "9",
        "--mlflow-tracking-uri",
        &uri,
        "--mlflow-experiment",
        "an experiment",
        "--mlflow-run-name",
        "mine",
        "--mlflow-tag",
        "team:inference",
        "--mlflow-parent-run-id",
        "abc",
    ];
    let mut command = profile_command(&mock.url(), directory.path(), &flags);
    let output = command.env("MLFLOW_TRACKING_TOKEN", "very-secret-token").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let received = tracker.received();
    assert!(
        received.iter().all(|one| one.head.contains("authorization: Bearer very-secret-token"))
    );
    assert_eq!(received[0].line, received[1].line);
    assert_eq!(
        received[1].line,
        "GET /prefix/api/2.0/mlflow/experiments/get-by-name?experiment_name=an+experiment"
    );
    assert_eq!(tracker.bodies("experiments/create"), [json!({ "name": "an experiment" })]);
    let created = tracker.bodies("runs/create");
    assert_eq!(created.len(), 1);
    assert_eq!(
        (&created[0]["experiment_id"], &created[0]["run_name"]),
        (&json!("7"), &json!("mine"))
    );
    let summary = summary(directory.path());
    let tags = tracker.logged("tags");
    for (name, value) in [
        ("team", "inference"),
        ("mlflow.parentRunId", "abc"),
        ("aiperf.was_cancelled", "false"),
        ("benchmark_id", summary["benchmark_id"].as_str().unwrap()),
    ] {
        assert_eq!(tags[name], value, "{name}");
    }
    let params = tracker.logged("params");
    for (name, value) in [
        ("endpoint.type", "chat"),
        ("endpoint.models", "mock-model"),
        ("endpoint.urls", &mock.url()),
        ("loadgen.concurrency", "2"),
        ("loadgen.request_count", "9"),
        ("timing.mode", "concurrency"),
    ] {
        assert_eq!(params[name], value, "{name}");
    }
    let metrics = tracker.logged("metrics");
    let expected = statistics(&summary);
    assert!(expected.len() > 100);
    for (name, value) in &expected {
        assert_eq!(metrics[name].as_f64(), Some(*value), "{name}");
    }
    assert_eq!(metrics["aiperf.completed_requests"], 9.0);
    let ended = &tracker.bodies("runs/update")[0];
    assert_eq!((&ended["run_id"], &ended["status"]), (&json!("0f1e"), &json!("FINISHED")));

    let prefix = "PUT /prefix/api/2.0/mlflow-artifacts/artifacts/7/0f1e/artifacts/";
    let uploads: BTreeMap<_, _> = received
        .iter()
        .filter_map(|one| Some((one.line.strip_prefix(prefix)?, &one.body)))
        .collect();
    for name in [
        "profile_export_aiperf.json",
        "profile_export_aiperf.csv",
        "profile_export.jsonl",
        "inputs.json",
    ] {
        assert_eq!(
            *uploads[name],
            fs::read_to_string(directory.path().join(name)).unwrap(),
            "{name}"
        );
    }
    let export: Value = serde_json::from_str(
        &fs::read_to_string(directory.path().join("mlflow_export.json")).unwrap(),
    )
    .unwrap();
    assert_eq!((&export["run_id"], &export["is_complete"]), (&json!("0f1e"), &json!(true)));
    assert_eq!(export["uploaded_artifacts"].as_array().unwrap().len(), uploads.len());
    assert_eq!(export["metric_keys"].as_array().unwrap().len(), metrics.len());
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(!text.unwrap_or_default().contains("very-secret-token"), "{}", path.display());
    }
}

#[test]
fn without_a_server_the_run_completes_and_is_sent_later() {
    let (tracker, mock) = (Tracker::default(), server());
    let nobody = Refusing::new();
    let uri = format!("http://user:hunter2@{}", nobody.address);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let flags = ["--request-count", "5", "--mlflow-tracking-uri", &uri];
    let mut command = profile_command(&mock.url(), directory.path(), &flags);
    command.env("AIPERF_MLFLOW_EXPORT_TIMEOUT_SECONDS", "2");
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains(&format!("`aiperf report {place} --mlflow-tracking-uri ")), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
    let path = directory.path().join("mlflow_export.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let export: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&export["run_id"], &export["is_complete"]), (&Value::Null, &json!(false)));
    let written = summary(directory.path());
    for (name, value) in statistics(&written) {
        assert_eq!(export["content"]["metrics"][&name].as_f64(), Some(value), "{name}");
    }

    let uri = format!("http://{}/prefix", tracker.start());
    let report = || {
        let output = aiperf(&["report", place, "--mlflow-tracking-uri", &uri]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    report();
    let metrics = tracker.logged("metrics");
    for tag in ["request_latency.p99", "time_to_first_token", "request_count"] {
        assert_eq!(metrics[tag].as_f64(), Some(statistics(&written)[tag]), "{tag}");
    }
    assert_eq!(tracker.bodies("runs/create").len(), 1);
    let export: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((&export["run_id"], &export["is_complete"]), (&json!("0f1e"), &json!(true)));
    // The same run on the server again.
    report();
    assert_eq!(tracker.bodies("runs/create").len(), 1);
    assert_eq!(tracker.bodies("runs/update").len(), 2);
}

#[test]
fn metrics_are_sent_during_the_run() {
    let (tracker, mock) = (Tracker::default(), server());
    let uri = format!("http://{}/prefix", tracker.start());
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--benchmark-duration", "600", "--mlflow-tracking-uri", &uri];
    let mut run = profile_command(&mock.url(), directory.path(), &flags).spawn().unwrap();
    wait_until("live metrics", || tracker.logged("metrics").contains_key("request_latency.p99"));
    let sent = tracker.logged("metrics")["request_count"].as_f64().unwrap();
    assert!(tracker.bodies("runs/update").is_empty());
    signal(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let total = summary(directory.path())["request_count"]["avg"].as_f64().unwrap();
    assert_eq!(tracker.logged("metrics")["request_count"].as_f64(), Some(total));
    assert!(sent <= total);
    assert_eq!(tracker.bodies("runs/update")[0]["status"], "KILLED");
    assert_eq!(tracker.bodies("runs/create").len(), 1);
}

#[test]
fn addresses_that_are_not_servers_are_rejected() {
    for uri in ["sqlite:///a.db", "./mlruns", "databricks", "http://"] {
        let run =
            aiperf(&["profile", "--model", "m", "--mlflow-tracking-uri", uri]).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{uri}: {stderr}");
        assert!(stderr.contains("expected the URL of a server"), "{uri}: {stderr}");
    }
}
