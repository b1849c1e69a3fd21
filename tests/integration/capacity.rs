//! Predictions of loads that were not tried, and the runs that confirm them.

use std::path::Path;
use std::process::Output;

use base::units::Nanos;
use mock_server::Script;

use crate::support::load::mock;
use crate::support::run::{aiperf, profile_command, summary};

fn capacity(loads: &Path, flags: &[&str], run: &[&str]) -> Output {
    let mut command = aiperf(&["capacity"]);
    command.arg(loads).args(flags);
    if !run.is_empty() {
        command.args(["--", "--model", "mock-model", "--tokenizer", "builtin", "--isl", "20"]);
        command.args(["--osl", "4", "--streaming", "--ui", "none", "--request-count", "40"]);
        command.args(run);
    }
    command.output().unwrap()
}

#[test]
fn a_prediction_is_confirmed_by_a_run() {
    // Eight slots of 20 ms.
    let ttft = Nanos::from_millis(20.0);
    let server = mock(Script { ttft, max_concurrent: Some(8), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let loads = directory.path().join("loads");
    let sweep = ["--concurrency", "1,2,4,8,16", "--request-count", "60", "--no-server-metrics"];
    let swept = profile_command(&server.url(), &loads, &sweep).output().unwrap();
    assert!(swept.status.success(), "{}", String::from_utf8_lossy(&swept.stderr));

    let place = directory.path().join("confirmation");
    let confirm = ["--users", "6", "--confirm", place.to_str().unwrap()];
    let made = capacity(&loads, &confirm, &["--url", &server.url(), "--no-server-metrics"]);
    let stdout = String::from_utf8_lossy(&made.stdout).into_owned();
    // Whether it comes true depends on the speed of the machine.
    assert!([Some(0), Some(3)].contains(&made.status.code()), "{stdout}");
    assert_eq!(summary(&place)["load"]["requested_concurrency"], 6);
    assert!(stdout.contains("predictions held"), "{stdout}");
    // The same run, made before, has the same result.
    let again = capacity(&loads, &confirm, &[]);
    assert_eq!(again.status.code(), made.status.code());
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    let table = |text: &str| text.lines().rev().take(6).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(table(&again), table(&stdout));

    let refused = |flags: &[&str], why: &str| {
        let output = capacity(&loads, flags, &["--url", "http://127.0.0.1:1"]);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(why), "{flags:?}: {stderr}");
    };
    refused(&["--confirm", "x"], "requires --rate or --users");
    refused(&["--users", "6", "--think-time", "2", "--confirm", "x"], "cannot make a run");
}
