//! How long after its due time a lane sends a request.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::machine::{AIPERF, Server, Side, on, run};
use crate::{Figure, Scale, figure, median};

/// Number of lanes, and of traces that they replay.
const LANES: usize = 256;
const TRACES: usize = 64;

/// Lag of requests behind their due times, with traces whose prompts grow to 20,000 tokens.
pub(crate) fn lanes(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&["--ttft", "100ms", "--itl", "5ms"])?;
    let directory = tempfile::tempdir()?;
    let traces = directory.path().join("traces.jsonl");
    let lines: Vec<String> = (0..TRACES).map(|number| trace(number).to_string()).collect();
    fs::write(&traces, lines.join("\n"))?;
    let seconds = if scale.quick { 2 } else { 20 };
    let mut figures = Vec::new();
    let mut requests = 0;
    let mut lags = (0..scale.repeat)
        .map(|_| {
            let lags = lags(&server.url, &traces, seconds)?;
            requests = lags.len();
            Ok(lags)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let at = |lags: &Vec<f64>| lags.get((lags.len() as f64 * part) as usize).copied();
        let mut runs = lags.iter_mut().map(|lags| at(lags).context("no request was sent"));
        let value = median(scale, || runs.next().context("a run is missing")?)?;
        figures.push(figure(format!("{LANES} lanes, due to sent, {name}"), value, "ms"));
    }
    figures.push(figure(format!("{LANES} lanes, requests in {seconds} s"), requests as f64, ""));
    Ok(figures)
}

/// Returns the sorted lags of a run, in milliseconds.
fn lags(url: &str, traces: &Path, seconds: u32) -> anyhow::Result<Vec<f64>> {
    let directory = tempfile::tempdir()?;
    run(on(&[Side::Client.core()], AIPERF)
        .args(["profile", "--model", "mock-model", "--tokenizer", "builtin", "--ui", "none"])
        .args(["--streaming", "--custom-dataset-type", "weka_trace", "--agentic", "--url", url])
        .args(["--concurrency", &LANES.to_string(), "--random-seed", "1", "--input-file"])
        .arg(traces)
        .args(["--benchmark-duration", &seconds.to_string(), "--artifact-dir"])
        .arg(directory.path()))?;
    let text = fs::read_to_string(directory.path().join("profile_export.jsonl"))?;
    let lag = |line: &str| {
        let record: Value = serde_json::from_str(line)?;
        let is_measured = record["metadata"]["benchmark_phase"] == "profiling";
        Ok(record["metadata"]["late_ns"].as_f64().filter(|_| is_measured).map(|ns| ns / 1e6))
    };
    let all = text.lines().map(lag).collect::<anyhow::Result<Vec<_>>>()?;
    let mut lags: Vec<f64> = all.into_iter().flatten().collect();
    lags.sort_unstable_by(f64::total_cmp);
    Ok(lags)
}

/// A trace of 40 requests, about 2 s from one to the next, of which each prompt has 8 more blocks than the one before.
fn trace(number: usize) -> Value {
    let request = |nth: usize| {
        let blocks: Vec<usize> = (0..8 * (nth + 1)).map(|block| block + 1).collect();
        let start = nth as f64 * (1.7 + (number % 7) as f64 / 10.0);
        json!({"t": start, "type": "n", "model": "m", "in": 64 * blocks.len(), "out": 20,
               "hash_ids": blocks, "api_time": 0.2})
    };
    json!({"id": format!("t{number}"), "block_size": 64, "hash_id_scope": "local",
           "requests": (0..40).map(request).collect::<Vec<_>>()})
}
