//! Reports in the formats of other projects.

use std::path::Path;

use aiperf::mock_server::Script;
use aiperf::units::Nanos;
use serde_json::Value;

use crate::support::load::mock;
use crate::support::run::{Run, aiperf, profile};

/// Returns the report of `run` in `format`.
fn report(run: &Run, format: &str) -> Value {
    let output =
        aiperf(&["report"]).arg(run.directory.path()).args(["--format", format]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn close(found: &Value, expected: &Value, factor: f64) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap() * factor);
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} is not {expected}");
}

#[test]
fn reports_of_llm_d_match_its_schema() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--concurrency", "2", "--request-count", "8"]).succeeded();
    let before = run.text("profile_export_aiperf.json");
    let found = report(&run, "llm-d");
    assert_eq!(run.text("profile_export_aiperf.json"), before);
    let schema =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llm-d/br_v0_2_json_schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> = schema.iter_errors(&found).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    // The schema would notice a member that it does not have.
    let mut wrong = found.clone();
    wrong["results"]["request_performance"]["aggregate"]["latency"]["ttft"] = Value::Null;
    assert!(!schema.is_valid(&wrong));
    let summary: Value = serde_json::from_str(&before).unwrap();
    let aggregate = &found["results"]["request_performance"]["aggregate"];
    assert_eq!(found["version"], "0.2.1");
    assert_eq!(found["run"]["uid"], summary["benchmark_id"]);
    assert_eq!(
        (&aggregate["requests"]["total"], &aggregate["requests"]["failures"]),
        (&8.into(), &0.into())
    );
    let ttft = &aggregate["latency"]["time_to_first_token"];
    assert_eq!(ttft["units"], "s");
    close(&ttft["p99"], &summary["time_to_first_token"]["p99"], 1e-3);
    close(&ttft["stddev"], &summary["time_to_first_token"]["std"], 1e-3);
    let tpot = &aggregate["latency"]["time_per_output_token"];
    close(&tpot["mean"], &summary["inter_token_latency"]["avg"], 1e-3);
    let rate = &aggregate["throughput"]["output_token_rate"];
    close(&rate["mean"], &summary["output_token_throughput"]["avg"], 1.0);
    // The flags of the run: 20 and 4 tokens, two requests at a time.
    let load = &found["scenario"]["load"]["standardized"];
    assert_eq!(load["input_seq_len"], serde_json::json!({"distribution": "fixed", "value": 20.0}));
    assert_eq!(load["output_seq_len"], serde_json::json!({"distribution": "fixed", "value": 4.0}));
    assert_eq!((&load["concurrency"], &load["tool"]), (&2.into(), &"aiperf".into()));
}

/// What `utils/process_result.py` of InferenceX computes from the result: times in seconds from
/// members that end with `ms`, and the inverse of the times per token.
#[test]
fn results_for_inferencex_are_processed_there() {
    // The time per token of tokens that arrive together is zero, and is left out.
    let server = mock(Script { itl: Nanos::from_millis(2.0), ..Script::default() });
    let run = profile(&server.url(), &["--concurrency", "2", "--request-count", "8"]).succeeded();
    let found = report(&run, "inferencex");
    let summary: Value = serde_json::from_str(&run.text("profile_export_aiperf.json")).unwrap();
    assert_eq!((&found["max_concurrency"], &found["completed"]), (&2.into(), &8.into()));
    assert_eq!(found["model_id"], "mock-model");
    // Eight prompts of 20 tokens, and eight responses of 4.
    assert_eq!(
        (&found["total_input_tokens"], &found["total_output_tokens"]),
        (&160.into(), &32.into())
    );
    close(&found["total_token_throughput"], &summary["total_token_throughput"]["avg"], 1.0);
    close(&found["output_throughput"], &summary["output_token_throughput"]["avg"], 1.0);
    for (name, metric) in [
        ("ttft", "time_to_first_token"),
        ("tpot", "inter_token_latency"),
        ("itl", "inter_chunk_latency"),
        ("e2el", "request_latency"),
    ] {
        for (statistic, own) in [("mean", "avg"), ("median", "p50"), ("p99", "p99")] {
            close(&found[format!("{statistic}_{name}_ms")], &summary[metric][own], 1.0);
        }
    }
    let inverted = |(name, value): (&String, &Value)| {
        !name.contains("tpot") || value.as_f64().is_some_and(|value| value > 0.0)
    };
    assert!(found.as_object().unwrap().iter().all(inverted));
}

#[test]
fn a_format_is_that_of_one_run() {
    let output = aiperf(&["report", "a", "b", "--format", "llm-d"]).output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--format takes the directory of one run"), "{error}");
}
