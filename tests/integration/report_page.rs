//! The page of a run: its data, and what it may not contain.

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::support::load::{mock, varied};
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, profile, profile_command};

/// A name that would end the page's data and run a script.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

fn page(run: &Run) -> String {
    run.text("report.html")
}

/// Returns the data of a page, which has only its own elements.
pub(crate) fn data(page: &str) -> Value {
    assert!(page.contains("default-src 'none'; script-src 'sha256-"), "no policy");
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script>").count(), 3);
    let (head, rest) = page.split_once("id=\"data\">").unwrap();
    assert!(!head.contains(" src=") && !head.contains("@import") && !head.contains("url("));
    let (data, _) = rest.split_once("</script>").unwrap();
    assert!(!data.contains(['<', '>', '&']));
    serde_json::from_str(data).unwrap()
}

fn charts(data: &Value) -> Vec<&str> {
    let sections = data["sections"].as_array().unwrap().iter();
    let charts = sections.flat_map(|section| section["charts"].as_array().unwrap());
    charts.map(|chart| chart["name"].as_str().unwrap()).collect()
}

#[test]
fn the_page_shows_what_the_files_contain() {
    let server = mock(varied());
    let directory = tempfile::tempdir().unwrap();
    let flags =
        ["--concurrency", "4", "--request-count", "160", "--warmup-request-count", "3", "--html"];
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    // So that many scrapes are within the phase.
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.02");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    run_python("tests/read_report.py", run.directory.path());
    let at_once = data(&page(&run));
    for name in [
        "time_to_first_token_cdf",
        "request_latency_histogram",
        "request_rate_over_time",
        "errors_over_time",
        "vllm_num_requests_running",
        "requests",
    ] {
        assert!(charts(&at_once).contains(&name), "{name}: {:?}", charts(&at_once));
    }
    let other = run.directory.path().join("pages/other.html");
    let mut report = aiperf(&["report"]);
    report.arg(run.directory.path()).arg("--html").arg(&other);
    let output = report.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut later = data(&std::fs::read_to_string(other).unwrap());
    let mut at_once = at_once;
    // The servers' own facts are known to the finished run.
    for data in [&mut at_once, &mut later] {
        data["notices"] = Value::Null;
    }
    assert_eq!(at_once, later);
}

#[test]
fn names_and_errors_of_others_are_only_text() {
    let server = mock(Script { strict_models: true, ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", HOSTILE, "--tokenizer", "builtin", "--html"]);
    command.args(["--request-count", "3", "--ui", "none", "--url", &server.url()]);
    let output = command.arg("--artifact-dir").arg(directory.path()).output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.output.status.code(), Some(1), "{}", run.stderr());
    let data = data(&page(&run));
    assert!(data["title"].as_str().unwrap().contains(HOSTILE), "{data}");
    let errors = data["requests"]["rows"].to_string();
    assert!(errors.contains("onerror"), "{errors}");
    assert_eq!(
        data["notices"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|notice| notice["level"] == "bad")
            .count(),
        1,
        "{data}"
    );
    run_python("tests/read_report.py", run.directory.path());
}

#[test]
fn a_page_without_records_is_rejected() {
    let run = profile("http://localhost:1", &["--export-level", "summary", "--html"]);
    assert_eq!(run.exit_code(), Some(2));
    assert!(run.stderr().contains("the page needs the records of requests"), "{}", run.stderr());
}

#[test]
fn the_page_of_repeated_runs_compares_them() {
    let server = mock(Script::default());
    let flags = ["--num-profile-runs", "2", "--request-count", "4", "--html"];
    let run = profile(&server.url(), &flags).succeeded();
    let data = data(&page(&run));
    assert!(charts(&data).contains(&"time_to_first_token_cdf"), "{data}");
    assert_eq!(data["facts"][0], serde_json::json!(["Runs", "2"]));
    // The runs do not have pages of their own.
    assert!(!run.directory.path().join("profile_runs/run_0001/report.html").exists());
}

#[test]
fn the_page_of_a_sweep_compares_its_cells() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let flags = ["--concurrency", "1,2,4", "--request-count", "12", "--html"];
    let run = profile(&server.url(), &flags).succeeded();
    let at_once = data(&page(&run));
    let output = aiperf(&["report", "--html", "--"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let data = data(&page(&run));
    assert_eq!(at_once, data);
    let sweep: Value =
        serde_json::from_str(&run.text("sweep_aggregate/profile_export_aiperf_sweep.json"))
            .unwrap();
    let cells = sweep["per_combination_metrics"].as_array().unwrap();
    let all = data["sections"].as_array().unwrap().iter();
    let all: Vec<&Value> = all.flat_map(|section| section["charts"].as_array().unwrap()).collect();
    let chart = |name: &str| *all.iter().find(|chart| chart["name"] == name).unwrap();
    let throughput = &chart("request_throughput_by_cell")["series"][0];
    let trade_off = chart("time_to_first_token_by_throughput");
    let concurrency = [1.0, 2.0, 4.0];
    for (at, cell) in cells.iter().enumerate() {
        let rate = &cell["metrics"]["request_throughput"]["avg"];
        assert_eq!(throughput["points"][at], serde_json::json!([concurrency[at], rate]));
        let latency = &cell["metrics"]["time_to_first_token"]["p99"];
        assert_eq!(trade_off["series"][0]["points"][at], serde_json::json!([rate, latency]));
    }
    assert_eq!(trade_off["series"][0]["labels"], serde_json::json!(["1", "2", "4"]));
    let facts = data["facts"].as_array().unwrap();
    let fact = |name: &str| facts.iter().find(|fact| fact[0] == name).unwrap()[1].as_str().unwrap();
    assert!(fact("Command").contains("--concurrency 1,2,4"), "{facts:?}");
    assert!(fact("Server").contains(&server.url()), "{facts:?}");
    let title = data["title"].as_str().unwrap();
    assert_eq!(title, format!("Sweep over concurrency | {} | aiperf", fact("Model")));
    let front = cells.iter().filter(|cell| cell["pareto_optimal"] == true).count();
    assert_eq!(trade_off["series"][1]["points"].as_array().unwrap().len(), front);
    assert_eq!(chart("time_to_first_token_cdf")["series"].as_array().unwrap().len(), 3);
}
