//! The result of a benchmark that `utils/process_result.py` of `InferenceX` reads: the members of the
//! result of `vllm bench serve`. What is known only to the job, such as the hardware, is added there.

use serde_json::{Map, Value};

use super::{add, statistic, stats, value};
use crate::metrics::tag::{self, MetricTag};
use crate::run::RunReport;
use crate::schedule::config::PhaseConfig;

/// Latencies in milliseconds: the name in the result and the metric.
const LATENCIES: [(&str, MetricTag); 4] = [
    ("ttft", tag::TIME_TO_FIRST_TOKEN),
    // The mean of a request over its tokens but the first.
    ("tpot", tag::INTER_TOKEN_LATENCY),
    // The gaps between events with content.
    ("itl", tag::INTER_CHUNK_LATENCY),
    ("e2el", tag::REQUEST_LATENCY),
];

/// Statistics: their names in the result, and ours.
const STATISTICS: [(&str, &str); 8] = [
    ("mean", "avg"),
    ("median", "p50"),
    ("std", "std"),
    ("p75", "p75"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("p99.9", "p99.9"),
];

/// Returns the result.
pub(super) fn document(report: &RunReport) -> Value {
    let mut result = Map::new();
    let setup = &report.run.setup;
    let phase = setup.measured_phase();
    let count = |tag| value(report, tag).map(|count| count as u64);
    add(&mut result, "model_id", setup.models.first().cloned());
    let tokenizer = report.run.provenance.tokenizer.as_ref();
    add(&mut result, "tokenizer_id", tokenizer.map(|tokenizer| tokenizer.name.clone()));
    let concurrency = phase.and_then(|phase| phase.concurrency).map(|limit| limit.most);
    add(&mut result, "max_concurrency", concurrency);
    add(&mut result, "request_rate", phase.and_then(PhaseConfig::rate));
    add(&mut result, "duration", value(report, tag::BENCHMARK_DURATION));
    let completed = count(tag::REQUEST_COUNT).unwrap_or(0);
    let failed = count(tag::ERROR_REQUEST_COUNT).unwrap_or(0);
    add(&mut result, "num_prompts", Some(completed + failed));
    add(&mut result, "completed", Some(completed));
    add(&mut result, "failed", Some(failed));
    add(&mut result, "total_input_tokens", count(tag::TOTAL_ISL));
    add(&mut result, "total_output_tokens", count(tag::TOTAL_OSL));
    add(&mut result, "request_throughput", value(report, tag::REQUEST_THROUGHPUT));
    add(&mut result, "request_goodput", value(report, tag::GOODPUT));
    add(&mut result, "output_throughput", value(report, tag::OUTPUT_TOKEN_THROUGHPUT));
    add(&mut result, "total_token_throughput", value(report, tag::TOTAL_TOKEN_THROUGHPUT));
    for (latency, tag) in LATENCIES {
        let Some(stats) = stats(report, tag) else { continue };
        for (name, own) in STATISTICS {
            // Times per token are inverted there, which a zero would stop.
            let milliseconds =
                statistic(stats, own).filter(|value| latency != "tpot" || *value > 0.0);
            add(&mut result, &format!("{name}_{latency}_ms"), milliseconds);
        }
    }
    result.into()
}
