//! The verdict on outputs, from the command line to the files, the report, the gates and telemetry.

use serde_json::Value;

use base::units::Nanos;
use mock_server::Script;

use crate::support::load::mock;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::run::{Run, aiperf, profile};

fn run(faults: &[&str], flags: &str) -> Run {
    let script = Script {
        ttft: Nanos::from_millis(2.0),
        itl: Nanos::from_millis(0.2),
        faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
        ..Script::default()
    };
    let server = mock(script);
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        aiperf(&["profile", "--model", "m", "--tokenizer", "builtin", "--ui", "none"]);
    command.args(["--streaming", "--isl", "40", "--osl", "48", "--random-seed", "7"]);
    command.args(["--otel-metrics", "full", "--url", &server.url(), "--artifact-dir"]);
    let output = command.arg(directory.path()).args(flags.split_whitespace()).output().unwrap();
    Run { output, directory }
}

/// Returns a text without the breaks of lines that do not fit the width.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the verdict, the number of corrupted outputs, and the faults that are reasons with their counts.
fn found(run: &Run) -> (String, u64, Vec<(String, u64)>) {
    let health = run.summary()["output_health"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let faults = health["faults"].as_array().cloned().unwrap_or_default();
    let reasons = faults.iter().filter(|fault| fault["is_reason"] == true);
    let count = |fault: &Value| fault["count"].as_u64().unwrap();
    let reasons = reasons.map(|fault| (text(&fault["fault"]), count(fault))).collect();
    (text(&health["verdict"]), health["corrupted_outputs"].as_u64().unwrap(), reasons)
}

/// 200 requests, of which numbers 150, 160, and so on to 190 are corrupted.
fn corrupted(kind: &str) -> Run {
    let fault = format!("requests=150,160,170,180,190:corrupt={kind}");
    run(&[&fault], "--concurrency 4 --request-count 200 --cache-bust first-turn-suffix")
}

#[test]
fn each_corruption_is_found_by_its_name() {
    for (kind, verdict, fault) in [
        ("repeat", "suspect", "repetition"),
        ("replacement", "suspect", "replacement_characters"),
        ("script", "suspect", "wrong_script"),
        ("burst", "suspect", "single_event"),
        ("after-end", "invalid", "after_end"),
        ("usage", "suspect", "usage_contradicts_text"),
    ] {
        let expected = (verdict.to_owned(), 5, vec![(fault.to_owned(), 5)]);
        assert_eq!(found(&corrupted(kind)), expected, "{kind}");
    }
    // These also have other numbers of tokens than usual.
    for (kind, fault) in [("mojibake", "mojibake"), ("blank", "blank")] {
        let (_, corrupted, reasons) = found(&corrupted(kind));
        assert_eq!(corrupted, 5, "{kind}");
        assert!(reasons.contains(&(fault.to_owned(), 5)), "{kind}: {reasons:?}");
    }
    // The first one is not the same as another one.
    let expected = ("suspect".to_owned(), 4, vec![("same_answer".to_owned(), 4)]);
    assert_eq!(found(&corrupted("same")), expected);
    // Only a canary shows that an answer is shorter than it should be.
    assert_eq!(found(&corrupted("truncated")), ("valid".to_owned(), 0, vec![]));
}

#[test]
fn one_output_with_the_prompt_of_another_request_is_enough() {
    let collector = OtlpReceiver::http();
    let run = run(
        &["requests=20:corrupt=crosstalk"],
        &format!(
            "--concurrency 4 --request-count 40 --otel-url {} \
             --cache-bust first-turn-suffix --gate output_health==valid --gate corrupted_outputs<=0 \
             --gate corrupted_outputs<=1",
            collector.otel_url()
        ),
    );
    assert_eq!(run.output.status.code(), Some(3));
    let (verdict, corrupted, reasons) = found(&run);
    assert_eq!((verdict.as_str(), corrupted), ("invalid", 1));
    // It is found in the output, or at the request whose prompt it is if that ends later.
    let [(fault, 1)] = &*reasons else { panic!("{reasons:?}") };
    assert!(["crosstalk", "leaked"].contains(&fault.as_str()), "{fault}");
    let summary = run.summary();
    let held: Vec<&Value> = (0..3).map(|at| &summary["gates"][at]["held"]).collect();
    assert_eq!(held, [false, false, true]);
    let example = &summary["output_health"]["examples"][0];
    let mut records = run.records().into_iter();
    let line = records.find(|line| line["metadata"]["output_faults"] == **fault);
    let line = line.expect("the line has the fault");
    assert_eq!(line["metadata"]["x_request_id"], example["x_request_id"]);
    let console = on_one_line(&run.text("profile_export_console.txt"));
    assert!(console.contains(" Outputs: invalid (40 in all) - 1 of 40 outputs "), "{console}");
    assert!(console.contains("cross-talk between users"), "{console}");
    let received = collector.last();
    assert_eq!(received.number("aiperf.output.verdict", &[]), 2.0);
    assert_eq!(received.number("aiperf.output.faults", &[("aiperf.output.fault", fault)]), 1.0);
    assert_eq!(summary["telemetry"]["reconciled"], true, "{}", summary["telemetry"]);
    // The report computes it again from the records.
    let health = summary["output_health"].clone();
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert_eq!(report.status.code(), Some(3));
    assert_eq!(run.summary()["output_health"], health);
}

#[test]
fn sound_outputs_that_vary_are_valid() {
    let script =
        Script { batch_variance: 0.5, ttft: Nanos::ZERO, itl: Nanos::ZERO, ..Script::default() };
    let server = mock(script);
    let flags = ["--concurrency", "8", "--request-count", "200"];
    let run = profile(&server.url(), &flags);
    assert_eq!(found(&run), ("valid".to_owned(), 0, vec![]));
    let screen = on_one_line(&String::from_utf8_lossy(&run.output.stdout));
    assert!(screen.contains("Outputs: valid (200 outputs)."), "{screen}");
}

#[test]
fn few_outputs_do_not_have_a_verdict() {
    let run = run(&[], "--request-count 10 --gate output_health==valid");
    assert_eq!(run.output.status.code(), Some(3));
    let summary = run.summary();
    assert_eq!(summary["output_health"]["outputs"], 10);
    assert_eq!(summary["output_health"].get("verdict"), None);
    let note = "the run does not state a verdict on the outputs";
    assert_eq!(summary["gates"][0]["note"], note);
    let screen = String::from_utf8_lossy(&run.output.stdout).into_owned();
    assert!(!screen.contains("Outputs:"), "{screen}");
}

#[test]
fn corrupt_outputs_of_the_new_server_are_a_regression() {
    let (sound, corrupt) = (corrupted("truncated"), corrupted("after-end"));
    let directories = [&sound, &corrupt].map(|run| run.directory.path().to_owned());
    let compared = aiperf(&["compare"]).args(&directories).output().unwrap();
    let text = on_one_line(&String::from_utf8_lossy(&compared.stdout));
    assert_eq!(compared.status.code(), Some(3), "{text}");
    assert!(text.contains("5 of 200 outputs go on after their finish reason"), "{text}");
}

#[test]
fn canaries_are_left_out_of_telemetry_as_of_the_files() {
    let collector = OtlpReceiver::http();
    let run = run(
        &[],
        &format!(
            "--canaries 10% --concurrency 4 --request-count 60 --otel-url {}",
            collector.otel_url()
        ),
    );
    let summary = run.summary();
    assert_eq!(summary["telemetry"]["reconciled"], true, "{}", summary["telemetry"]);
    assert_eq!(summary["request_count"]["avg"], 54.0);
    assert_eq!(summary["output_health"]["canaries"]["answered"], 6);
    assert_eq!(collector.last().number("aiperf.request_count", &[]), 54.0);
}
