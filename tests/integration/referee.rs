//! `aiperf referee`, with a client that can be told to report something wrong.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::run::aiperf;

/// The description of `tests/referee_client.py`.
const DESCRIPTION: &str = r#"
name = "sample"
program = "referee_client.py"
says = "TTFT from the call to the first content, latency to the last content"

[results]
file = "{directory}/results.json"
format = "json"

[figures]
time_to_first_token = { unit = "s", mean = "/ttft/mean", p50 = "/ttft/p50", p90 = "/ttft/p90", p99 = "/ttft/p99" }
request_latency = { unit = "s", mean = "/latency/mean", p50 = "/latency/p50", p90 = "/latency/p90", p99 = "/latency/p99" }
output_tokens = { value = "/tokens" }
request_count = { value = "/requests" }
"#;

fn referee(arguments: &[&str]) -> Output {
    aiperf(&["referee"]).args(arguments).output().unwrap()
}

/// Runs the client with a flaw; returns what was found, and the exit code.
fn judged(hazard: &str, flaw: &str) -> (Value, Option<i32>) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("client.toml"), DESCRIPTION).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/referee_client.py");
    let load = if hazard == "open-loop" {
        ["--rate", "{rate}"]
    } else {
        ["--concurrency", "{concurrency}"]
    };
    let mut command = aiperf(&["referee", "--hazard", hazard]);
    command.args(["--client", &path("client.toml"), "--output", &path("table"), "--", "python3"]);
    command.arg(script).args(["--url", "{url}", "--requests", "{requests}", "--osl", "{osl}"]);
    command.args(load).args(["--flaw", flaw, "{directory}/results.json"]);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let json = fs::read(path("table/referee.json")).unwrap_or_else(|_| panic!("{error}"));
    let report: Value = serde_json::from_slice(&json).unwrap();
    let cell = report["cells"][0].clone();
    assert_eq!((&cell["hazard"], &cell["client"]), (&hazard.into(), &"sample".into()), "{cell}");
    for file in ["referee.md", "referee.html"] {
        let text = fs::read_to_string(Path::new(&path("table")).join(file)).unwrap();
        let verdicts = cell["deviations"].as_array().into_iter().flatten();
        for deviation in verdicts.filter_map(Value::as_str) {
            assert!(text.contains(deviation), "{file}: {text}");
        }
    }
    (cell, output.status.code())
}

/// Returns whether a deviation begins with `start` and ends with `end`.
fn names(cell: &Value, start: &str, end: &str) -> bool {
    let deviations = cell["deviations"].as_array().unwrap().iter().filter_map(Value::as_str);
    deviations.into_iter().any(|text| text.starts_with(start) && text.ends_with(end))
}

fn comparison<'c>(cell: &'c Value, figure: &str, statistic: &str) -> &'c Value {
    let all = cell["comparisons"].as_array().unwrap();
    let found = all.iter().find(|it| it["figure"] == figure && it["statistic"] == statistic);
    found.unwrap_or_else(|| panic!("{figure} {statistic} in {cell}"))
}

#[test]
fn a_client_that_shifts_the_time_to_first_token_is_named() {
    let (cell, code) = judged("closed-loop", "ttft");
    assert!(names(&cell, "TTFT is ", " too long in all statistics"), "{cell}");
    assert_eq!((&cell["verdict"], code), (&"differs".into(), Some(3)));
    let mean = comparison(&cell, "time_to_first_token", "mean");
    let shift = mean["reported"].as_f64().unwrap() - mean["truth"].as_f64().unwrap();
    assert!((0.005..0.008).contains(&shift), "{mean}");
}

#[test]
fn a_client_that_leaves_out_the_slowest_requests_is_named() {
    let (cell, _) = judged("stall", "slowest");
    assert!(names(&cell, "1 of 80 successful requests are missing", ""), "{cell}");
    assert!(names(&cell, "latency leaves out the slowest 1.2% of the requests", ""), "{cell}");
    assert_eq!(comparison(&cell, "request_count", "value")["truth"], 80.0);
}

#[test]
fn a_client_that_counts_events_as_tokens_is_named() {
    let (cell, _) = judged("tokens-per-event", "events");
    assert!(names(&cell, "counts events as tokens", ""), "{cell}");
    let tokens = comparison(&cell, "output_tokens", "value");
    // 80 responses of 32 tokens, four in each event.
    assert_eq!((&tokens["reported"], &tokens["truth"]), (&640.0.into(), &2560.0.into()));
    assert_eq!(tokens["error"], -0.75);
}

#[test]
fn a_client_that_sends_late_is_named() {
    let (cell, _) = judged("open-loop", "late");
    assert!(names(&cell, "sends requests late: by ", " at p99"), "{cell}");
    let late = comparison(&cell, "lateness", "p99")["truth"].as_f64().unwrap();
    // Up to 40 ms against the earliest one.
    assert!((0.03..0.06).contains(&late), "{late}");
    let (cell, _) = judged("closed-loop", "late");
    assert!(names(&cell, "has ", "sends the next request late"), "{cell}");
}

#[test]
fn this_program_is_right_where_events_have_several_tokens() {
    let output = referee(&["--self", "--hazard", "tokens-per-event"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("tokens-per-event  aiperf "), "{text}");
    assert!(text.ends_with(" undecided, 0 differ\n"), "{text}");
}

#[test]
fn what_cannot_be_run_is_said() {
    let error = |arguments: &[&str]| {
        let output = referee(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&[]).contains("which client? Specify --self, --client NAME"));
    let text = error(&["--client", "nothing"]);
    assert!(
        text.contains("\"nothing\" is not a known client; use a description (FILE.toml) or one of"),
        "{text}"
    );
    let text = error(&["--client", "aiperf", "--", "aiperf", "profile"]);
    assert!(text.contains("the command does not have {url} or {port}"), "{text}");
    let text = error(&["--", "something", "{url}"]);
    assert!(
        text.contains("\"something\" is not a known client; describe it with --client FILE.toml"),
        "{text}"
    );
    assert!(error(&["--self", "--hazard", "nothing"]).contains("closed-loop"));
    // A client that fails is a cell of the table.
    let output = referee(&[
        "--client",
        "aiperf",
        "--hazard",
        "closed-loop",
        "--",
        "false",
        "{url}",
        "{concurrency}",
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("failed       it ended with exit status: 1"), "{text}");
    let output = referee(&["--client", "aiperf", "--hazard", "open-loop", "--", "false", "{url}"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("not possible the command does not have {rate}"), "{text}");
}

#[test]
fn a_description_that_is_wrong_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client.toml");
    let error = |text: &str| {
        fs::write(&path, text).unwrap();
        let output = referee(&["--client", path.to_str().unwrap()]);
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error("name = 5").contains("is not a valid description of a client"));
    let without_unit = DESCRIPTION.replace("unit = \"s\", mean = \"/ttft", "mean = \"/ttft");
    let text = error(&without_unit);
    assert!(
        text.contains("does not have the unit of TTFT; add `unit` (ns, us, ms, s or m)"),
        "{text}"
    );
    let text = error(&DESCRIPTION.replace("request_count", "requests"));
    assert!(text.contains("unknown variant `requests`"), "{text}");
}
