//! Every value of every record recomputed from the server's responses, and every value of the
//! summary from the records, by `tests/check_raw_records.py` and `tests/check_profile_export.py`.

use std::path::Path;

use base::units::Nanos;
use client::endpoint::{EndpointTraits, EndpointType};
use dataset::MediaKinds;
use mock_server::{MockServer, Script};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};

use crate::support::load::{faults, mock};
use crate::support::otlp_receiver::{OtlpReceiver, attribute};
use crate::support::python::run_python;
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, profile_command};
use crate::{gpu_telemetry, media};

const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");

/// A server with delays, reasoning, and occasional failures.
fn server() -> MockServer {
    mock(Script {
        ttft: Nanos::from_millis(4.0),
        itl: Nanos::from_millis(1.0),
        reasoning_tokens: 3,
        faults: faults(&["every=5:status=500"]),
        ..Script::default()
    })
}

/// Runs with all details of requests in the files, and checks these.
fn checked(url: &str, extra: &[&str], environment: &[(&str, &str)]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "mock-model", "--url", url, "--ui", "none"]);
    command.args(["--tokenizer", TOKENIZER, "--export-level", "raw", "--export-http-trace"]);
    command.args(["--concurrency", "3", "--random-seed", "7"]).args(extra);
    command.arg("--artifact-dir").arg(directory.path()).envs(environment.iter().copied());
    let says = |flag| extra.contains(&flag);
    if !says("--num-sessions") {
        command.args(["--request-count", "12", "--warmup-request-count", "2"]);
    }
    if !says("--input-file") && !extra.iter().any(|of| of.ends_with("_rankings")) {
        command.args(["--isl", "20"]);
    }
    if !says("--endpoint-type") {
        command.args(["--streaming", "--osl", "8"]);
    }
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    run_python("tests/check_raw_records.py", run.directory.path());
    run_python("tests/check_profile_export.py", run.directory.path());
    run
}

/// Returns whether requests can be generated; other dialects need a file or a template.
fn is_made_up(traits: &EndpointTraits) -> bool {
    traits.needs == MediaKinds::empty() && !traits.path.is_empty()
}

#[test]
fn of_each_dialect_streamed_and_not() {
    let made_up = EndpointType::ALL.iter().map(|endpoint| endpoint.traits());
    for traits in made_up.filter(|traits| is_made_up(traits)) {
        let goodput = ["--goodput", "request_latency:30", "--endpoint-type", traits.name];
        checked(&server().url(), &goodput, &[]);
        if traits.supports_streaming {
            checked(&server().url(), &[&goodput[..], &["--streaming"]].concat(), &[]);
        }
    }
}

#[test]
fn of_files_that_are_sent() {
    let folder = media::dataset(&[r#"{"audio": "a.wav"}"#]);
    let edits = media::dataset(&[r#"{"text": "paint it", "image": "a.png"}"#]);
    for (endpoint, folder) in [("audio_transcription", folder), ("image_edit", edits)] {
        let file = folder.path().join("data.jsonl");
        let base = ["--endpoint-type", endpoint, "--input-file", file.to_str().unwrap()];
        checked(&server().url(), &base, &[]);
        checked(&server().url(), &[&base[..], &["--streaming"]].concat(), &[]);
    }
}

#[test]
fn of_the_servers_own_counts() {
    for name in ["chat", "messages", "gemini", "responses", "huggingface_generate"] {
        let base = ["--use-server-token-count", "--streaming", "--endpoint-type", name];
        let run = checked(&server().url(), &base, &[]);
        assert!(run.summary().get("usage_prompt_tokens_diff_pct").is_none(), "{name}");
    }
}

#[test]
fn of_conversations_with_media() {
    let images = ["--image-width-mean", "8", "--image-height-mean", "8"];
    let turns = ["--num-sessions", "3", "--session-turns-mean", "2", "--streaming"];
    let talk = [&images[..], &turns, &["--system-prompt", "You are terse."]].concat();
    for name in ["chat", "messages", "gemini", "responses"] {
        let base = [&talk[..], &["--endpoint-type", name]].concat();
        let run = checked(&server().url(), &base, &[]);
        assert!(run.summary()["num_images"]["max"].as_f64() >= Some(1.0), "{name}");
    }
    let sound = [&images[..], &["--audio-length-mean", "0.25"]].concat();
    assert_eq!(checked(&server().url(), &sound, &[]).summary()["rtfx"]["unit"], "ratio");
}

/// Prefixes are counted as they are sent: once, or for each text of a list.
#[test]
fn of_prompts_with_a_context() {
    let context = "--shared-system-prompt-length 30 --user-context-prompt-length 15 \
        --num-dataset-entries 3 --batch-size 3";
    let context: Vec<&str> = context.split_whitespace().collect();
    for name in ["completions", "embeddings", "huggingface_generate", "image_generation"] {
        checked(&server().url(), &[&context[..], &["--endpoint-type", name]].concat(), &[]);
    }
}

#[test]
fn of_what_goes_wrong() {
    for fault in ["cut=2", "cut-mid=2", "garbage=1", "empty", "no-done", "error=2", "close"] {
        let faults = faults(&[&format!("every=3:{fault}")]);
        let itl = Nanos::from_millis(1.0);
        checked(&mock(Script { itl, faults, ..Script::default() }).url(), &[], &[]);
    }
    let slow = mock(Script { ttft: Nanos::from_millis(60.0), ..Script::default() });
    let cancelled = ["--request-cancellation-rate", "40", "--request-cancellation-delay", "0.03"];
    let run = checked(&slow.url(), &cancelled, &[]);
    assert!(run.summary()["error_request_count"]["avg"].as_f64() > Some(0.0));
}

#[test]
fn of_all_ways_to_connect_and_of_what_developers_see() {
    let server = server();
    let localhost = server.url().replace("127.0.0.1", "localhost");
    checked(&localhost, &["--connection-reuse-strategy", "never"], &[]);
    checked(&server.url(), &[], &[("AIPERF_HTTP_CONNECTION_LIMIT", "1")]);
    let run = checked(&server.url(), &["--request-rate", "200"], &[("AIPERF_DEV_MODE", "1")]);
    for tag in ["min_request_timestamp", "thinking_efficiency", "credit_drop_latency"] {
        assert!(run.summary()[tag]["avg"].is_number(), "{tag}");
    }
}

/// Reasoning, text, a refusal, tool calls, and all counts that a usage can contain.
const ANSWER: &str = concat!(
    r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"reasoning_content":"let me think"}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"reasoning":" once more"}}],"usage":{"prompt_tokens":1}}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"content":"I call"}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"add","arguments":""}}]}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": 1}"}}]}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"refusal":"No, I will not."}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    "\n\n",
    r#"data: {"choices":[],"usage":{"prompt_tokens":31,"completion_tokens":27,"total_tokens":58,"#,
    r#""prompt_tokens_details":{"cached_tokens":16,"audio_tokens":3},"completion_tokens_details":"#,
    r#"{"reasoning_tokens":6,"audio_tokens":2,"accepted_prediction_tokens":5,"#,
    r#""rejected_prediction_tokens":4},"cache_creation_input_tokens":7,"#,
    r#""prompt_cache_miss_tokens":15,"prompt_audio_seconds":12.5,"toolUsePromptTokenCount":9}}"#,
    "\n\ndata: [DONE]\n\n",
);

#[test]
fn of_calls_refusals_and_every_count_of_a_usage() {
    let address = raw_server::serve(|_, stream| {
        while raw_server::read_request(stream).is_some() {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
            let length = ANSWER.len();
            let answer = format!("{head}content-length: {length}\r\n\r\n{ANSWER}");
            raw_server::write(stream, answer.as_bytes());
        }
    });
    let run = checked(&format!("http://{address}"), &[], &[]);
    let counts = [
        ("prompt_tokens", 31.0),
        ("completion_tokens", 27.0),
        ("total_tokens", 58.0),
        ("reasoning_tokens", 6.0),
        ("prompt_cache_read_tokens", 16.0),
        ("prompt_cache_write_tokens", 7.0),
        ("prompt_cache_miss_tokens", 15.0),
        ("prompt_audio_tokens", 3.0),
        ("prompt_audio_seconds", 12.5),
        ("completion_audio_tokens", 2.0),
        ("tool_use_prompt_tokens", 9.0),
        ("accepted_prediction_tokens", 5.0),
        ("rejected_prediction_tokens", 4.0),
    ];
    let summary = run.summary();
    for (name, count) in counts {
        assert_eq!(summary[format!("usage_{name}")]["p50"], count, "{name}");
        assert_eq!(summary[format!("total_usage_{name}")]["avg"], count * 12.0, "{name}");
    }
    assert_eq!(summary["overall_usage_prompt_cache_read_pct"]["avg"], 1600.0 / 31.0);
    // The console has a table for each group with values.
    let console = run.text("profile_export_console.txt");
    for group in ["Usage", "Cache", "Prediction", "Audio", "Reasoning", "Effective"] {
        assert!(console.contains(&format!("LLM Metrics: {group}")), "{group}: {console}");
    }
}

/// All names in AIPerf's files are in the files of a run, or on the migration page.
#[test]
fn nothing_of_aiperfs_files_is_missing_unexplained() {
    let server = mock(Script {
        ttft: Nanos::from_millis(20.0),
        itl: Nanos::from_millis(5.0),
        faults: faults(&["every=13:status=500"]),
        ..Script::default()
    });
    let directory = tempfile::tempdir().unwrap();
    // A concurrency of one is too low for that rate, so the console has all statistics of waits.
    // Both phases are longer than a slice, and a slice is longer than the interval between scrapes
    // is on a busy machine: so there are complete slices and a last one that is not.
    let words = "--request-count 48 --warmup-request-count 24 --request-rate 40 --concurrency 1 \
        --slice-duration 1.5 \
        --goodput time_to_first_token:50 --export-level raw --export-http-trace \
        --show-trace-timing --server-metrics-formats json csv jsonl parquet --workers-max 2";
    let gpus = ["--gpu-telemetry", &gpu_telemetry::exporter("")];
    let mut command = profile_command(&server.url(), directory.path(), &gpus);
    // There is no collector, but its configuration is in the files nevertheless.
    command.args(words.split_whitespace()).args(["--otel-url", "http://127.0.0.1:1"]);
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    run_python("tests/compare_with_aiperf.py", Path::new(run.directory.path()));
}

/// Converts a unit of the files to that of OpenTelemetry.
fn in_base_units(unit: &str) -> f64 {
    match unit {
        "ms" => 1e-3,
        "KB" => 1024.0,
        _ => 1.0,
    }
}

/// Returns the values of the points of the measured phase: counts and sums of histograms, or
/// numbers.
fn totals(metric: &Metric) -> (u64, f64) {
    let measured = |attributes: &Vec<KeyValue>| {
        attribute(attributes, "aiperf.benchmark_phase").as_deref() == Some("profiling")
    };
    let number = |point: &NumberDataPoint| match point.value {
        Some(Number::AsDouble(value)) => value,
        Some(Number::AsInt(value)) => value as f64,
        None => f64::NAN,
    };
    let points = match metric.data.as_ref().unwrap() {
        Data::Histogram(histogram) => {
            let points = histogram.data_points.iter().filter(|p| measured(&p.attributes));
            return points.fold((0, 0.0), |(count, sum), point| {
                (count + point.count, sum + point.sum.unwrap())
            });
        }
        Data::Sum(sum) => &sum.data_points,
        Data::Gauge(gauge) => &gauge.data_points,
        other => panic!("{} is {other:?}", metric.name),
    };
    let points = points.iter().filter(|point| measured(&point.attributes));
    (1, points.map(number).sum())
}

/// Everything in the summary is also exported to the collector.
#[test]
fn a_collector_has_every_value_of_the_summary() {
    let collector = OtlpReceiver::http();
    let url = collector.otel_url();
    let goodput = ["--goodput", "request_latency:30", "--otel-metrics", "full", "--otel-url", &url];
    let run = checked(&server().url(), &goodput, &[]);
    let received = collector.last();
    let names: Vec<_> = received.metrics().iter().map(|metric| metric.name.clone()).collect();
    let summary = run.summary();
    let metrics = summary.as_object().unwrap().iter();
    let metrics = metrics.filter(|(_, metric)| metric["unit"].is_string());
    let mut compared = 0;
    for (tag, metric) in metrics {
        let name = format!("aiperf.{tag}");
        if !names.contains(&name) {
            // Only percentiles of these are exported; counters that stayed at zero do not have a
            // series, and an instant is not a quantity.
            let percentiles = names.contains(&format!("aiperf.percentiles.{tag}"));
            let is_instant = tag.ends_with("_timestamp");
            assert!(percentiles || is_instant || metric["avg"] == 0.0, "{tag} is not exported");
            continue;
        }
        let (count, value) = totals(received.metric(&name));
        // The sums of a share are those of what it is a share of.
        let has_both = metric["sum"].is_number() && metric["p50"].is_number();
        let stat = if has_both { "sum" } else { "avg" };
        let of_file =
            metric[stat].as_f64().unwrap() * in_base_units(metric["unit"].as_str().unwrap());
        let near = (value - of_file).abs() <= 1e-9 * of_file.abs();
        assert!(near, "{tag}: a collector has {value}, the summary {of_file}");
        if stat == "sum" {
            assert_eq!(metric["count"], count, "{tag}");
        }
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}
