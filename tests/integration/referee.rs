//! `aiperf referee`, with a client that can be told to report something wrong.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::run::aiperf;

/// The description of `tests/bench/referee/client.py`.
const DESCRIPTION: &str = include_str!("../bench/referee/client.toml");

fn referee(arguments: &[&str]) -> Output {
    aiperf(&["referee"]).args(arguments).output().unwrap()
}

/// Runs the client with a flaw; returns what was found, and the exit code.
fn judged(hazard: &str, flaw: &str) -> (Value, Option<i32>) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/referee/client.py");
    let description = script.with_extension("toml");
    let mut command = aiperf(&["referee", "--hazard", hazard]);
    command.args(["--repeats", "0", "--output", &path("table"), "--client"]).arg(description);
    command.args(["--", "python3"]);
    command.arg(script).args(["--url", "{url}", "--requests", "{requests}", "--osl", "{osl}"]);
    command.args(["--concurrency", "{concurrency}", "--flaw", flaw, "{directory}/results.json"]);
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

fn names(cell: &Value, deviation: &str) -> bool {
    cell["deviations"].as_array().unwrap().iter().any(|it| it == deviation)
}

fn comparison<'c>(cell: &'c Value, figure: &str, statistic: &str) -> &'c Value {
    let all = cell["comparisons"].as_array().unwrap();
    let found = all.iter().find(|it| it["figure"] == figure && it["statistic"] == statistic);
    found.unwrap_or_else(|| panic!("{figure} {statistic} in {cell}"))
}

#[test]
fn a_client_that_leaves_out_requests_is_named() {
    let (cell, code) = judged("stall", "slowest");
    assert!(names(&cell, "1 of 80 successful requests are missing"), "{cell}");
    assert_eq!((&cell["verdict"], code), (&"differs".into(), Some(3)));
    assert_eq!(comparison(&cell, "request_count", "value")["truth"], 80.0);
}

#[test]
fn a_client_that_counts_events_as_tokens_is_named() {
    let (cell, _) = judged("tokens-per-event", "events");
    assert!(names(&cell, "counts events as tokens"), "{cell}");
    let tokens = comparison(&cell, "output_tokens", "value");
    // 80 responses of 32 tokens, four in each event.
    assert_eq!((&tokens["reported"], &tokens["truth"]), (&640.0.into(), &2560.0.into()));
    assert_eq!(tokens["error"], -0.75);
}

#[test]
fn this_program_counts_what_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let hazards = ["tokens-per-event", "error-in-stream", "two-choices", "tool-calls"];
    let mut command = aiperf(&["referee", "--self", "--repeats", "0", "--hazard"]);
    command.args(hazards).arg("--output").arg(directory.path()).output().unwrap();
    let json = fs::read(directory.path().join("referee.json")).unwrap();
    let report: Value = serde_json::from_slice(&json).unwrap();
    // Eight of 80 fail; two choices have 32 tokens each.
    for (at, tokens, failed) in
        [(0, 2560.0, 0.0), (1, 2304.0, 8.0), (2, 5120.0, 0.0), (3, 2560.0, 0.0)]
    {
        let cell = &report["cells"][at];
        assert_eq!(cell["hazard"], hazards[at]);
        for (figure, expected) in [
            ("output_tokens", tokens),
            ("request_count", 80.0 - failed),
            ("error_request_count", failed),
            ("requests_sent", 80.0),
        ] {
            let found = comparison(cell, figure, "value");
            let both = [&found["reported"], &found["truth"]];
            assert_eq!(both, [expected, expected], "{found}");
        }
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    let error = |arguments: &[&str]| {
        let output = referee(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&[]).contains("no client is specified; use --self, --client NAME"));
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
    assert!(text.contains("not possible does not have a command with {rate}"), "{text}");
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
