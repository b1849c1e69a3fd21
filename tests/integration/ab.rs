//! Two servers side by side.

use std::net::TcpStream;
use std::path::Path;
use std::process::Output;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::report_page::data;
use crate::support::load::mock;
use crate::support::port::free_port;
use crate::support::run::{aiperf, program, summary};

/// A server that answers after `ttft` milliseconds, and then at once.
fn script(ttft: f64) -> Script {
    Script { ttft: Nanos::from_millis(ttft), ..Script::default() }
}

/// Compares with short blocks; `flags` are those before `--`, `load` those after it.
fn ab(directory: &Path, flags: &[&str], load: &[&str]) -> Output {
    let mut command = aiperf(&["ab"]);
    command.args(flags).args(["--block-duration", "0.3", "--settle", "0.1", "--format", "json"]);
    command.args(["--", "--model", "mock-model", "--tokenizer", "builtin", "--isl", "20"]);
    command.args(["--osl", "4", "--concurrency", "4", "--streaming", "--ui", "none"]);
    command.arg("--artifact-dir").arg(directory).args(load);
    command.output().unwrap()
}

fn document(output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let start = stdout.find('{').unwrap_or_else(|| panic!("{stdout}\n{}", stderr(output)));
    serde_json::from_str(&stdout[start..]).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_slower_server_is_found_and_the_same_one_is_not() {
    let (fast, slow) = (mock(script(20.0)), mock(script(60.0)));
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("slower");
    let gate = ["--gate", "ttft<=50%", "--pairs", "8"];
    let urls = [&*fast.url(), &slow.url()];
    let output = ab(&place, &[&urls, &gate[..], &["--html"]].concat(), &[]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let found = document(&output);
    let comparison = &found["comparisons"][0];
    assert_eq!(comparison["outcome"], "regression", "{comparison}");
    let rows = comparison["rows"].as_array().unwrap();
    let ttft = rows.iter().find(|row| row["metric"] == "time_to_first_token").unwrap();
    // Three times as long, within what a busy machine adds.
    let difference = ttft["difference_percent"].as_f64().unwrap();
    assert!((100.0..230.0).contains(&difference), "{ttft}");
    // It ends after a pair.
    assert_eq!(comparison["runs"][0], comparison["runs"][1]);
    let written = std::fs::read_to_string(place.join("ab.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), found);

    let page = data(&std::fs::read_to_string(place.join("report.html")).unwrap());
    assert_eq!(page["notices"][0]["text"], "Regression: time_to_first_token avg.");
    let chart = &page["sections"][1]["charts"][0];
    let names = ["a", "b"].map(|name| place.join(name).display().to_string());
    for (at, side) in ["BASE", "NEW"].into_iter().enumerate() {
        let series = &chart["series"][at];
        assert_eq!(series["name"], format!("{side} ({})", names[at]));
        let records = std::fs::read_dir(place.join(["a", "b"][at]).join("profile_runs")).unwrap();
        assert!(records.count() as u64 == comparison["runs"][at] && series["points"].is_array());
    }

    // Both blocks of a pair have the same prompts, and other pairs have others.
    let seed = |block: &str| summary(&place.join(block))["run_info"]["random_seed"].clone();
    let first = seed("a/profile_runs/run_0001");
    assert_eq!(seed("b/profile_runs/run_0001"), first);
    assert_ne!(seed("a/profile_runs/run_0002"), first);

    let place = directory.path().join("same");
    let output = ab(&place, &[&[&*fast.url(), &fast.url()], &gate[..]].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(document(&output)["comparisons"][0]["outcome"], "no_regression");
}

#[test]
fn servers_are_started_and_stopped() {
    let port = free_port();
    let start = format!("{} mock-server --port {port}", program().display());
    let other = mock(script(0.0));
    let directory = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let flags = [&*url, &*other.url(), "--start-a", &*start, "--pairs", "1"];
    let output = ab(directory.path(), &flags, &["--wait-for-model-timeout", "30"]);
    // One pair does not tell anything.
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(directory.path().join("a/server.log").exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());

    // A server that ends is reported, not waited for.
    let place = directory.path().join("ended");
    let flags = [&*url, &*other.url(), "--start-a", "echo out of memory; exit 7", "--pairs", "1"];
    let output = ab(&place, &flags, &["--wait-for-model-timeout", "30"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("server a is not running") && said.contains("exit status: 7"), "{said}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |flags: &[&str], load: &[&str], why: &str| {
        let output = ab(Path::new("/nowhere"), flags, load);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{flags:?}: {}", stderr(&output));
    };
    refused(&["http://127.0.0.1:1"], &[], "both sides are the same");
    let two = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    refused(&two, &["--num-profile-runs", "3"], "several runs cannot be combined");
    refused(&two, &["--gate", "request_latency<=1s"], "give it before --");
    refused(&two, &["--flag-that-is-not"], "--flag-that-is-not");
}
