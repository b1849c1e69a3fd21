//! The benchmark report 0.2.1 of llm-d, by the schema of its package `llmd-benchmark-report`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{add, add_object, statistic, stats, value};
use crate::metrics::metric::Stats;
use crate::metrics::tag::{self, MetricTag};
use crate::run::RunReport;

/// Version of the report.
const VERSION: &str = "0.2.1";

/// Statistics other than the mean: their names in the report, and ours.
const STATISTICS: [(&str, &str); 14] = [
    ("stddev", "std"),
    ("min", "min"),
    ("p0p1", "p0.1"),
    ("p1", "p1"),
    ("p5", "p5"),
    ("p10", "p10"),
    ("p25", "p25"),
    ("p50", "p50"),
    ("p75", "p75"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("p99p9", "p99.9"),
    ("max", "max"),
];

/// Latencies, which are in milliseconds: the name in the report, the metric, and the unit.
const LATENCIES: [(&str, MetricTag, &str); 4] = [
    ("time_to_first_token", tag::TIME_TO_FIRST_TOKEN, "s"),
    // The mean of a request over its tokens but the first.
    ("time_per_output_token", tag::INTER_TOKEN_LATENCY, "s/token"),
    // The gaps between events with content.
    ("inter_token_latency", tag::INTER_CHUNK_LATENCY, "s/token"),
    ("request_latency", tag::REQUEST_LATENCY, "s"),
];

/// Rates of the run: the name in the report, the metric, and the unit.
const RATES: [(&str, MetricTag, &str); 4] = [
    ("input_token_rate", tag::INPUT_TOKEN_THROUGHPUT, "tokens/s"),
    ("output_token_rate", tag::OUTPUT_TOKEN_THROUGHPUT, "tokens/s"),
    ("total_token_rate", tag::TOTAL_TOKEN_THROUGHPUT, "tokens/s"),
    ("request_rate", tag::REQUEST_THROUGHPUT, "queries/s"),
];

/// Returns the report.
pub(super) fn document(report: &RunReport) -> Value {
    let mut aggregate = Map::new();
    add_object(&mut aggregate, "requests", requests(report));
    let latencies = LATENCIES.iter().filter_map(|(name, tag, unit)| {
        Some(((*name).to_owned(), statistics(stats(report, *tag)?, unit, 1e-3)?))
    });
    add_object(&mut aggregate, "latency", latencies.collect());
    let rates = RATES.iter().filter_map(|(name, tag, unit)| {
        Some(((*name).to_owned(), statistics(stats(report, *tag)?, unit, 1.0)?))
    });
    add_object(&mut aggregate, "throughput", rates.collect());
    let mut members = Map::new();
    members.insert("version".to_owned(), VERSION.into());
    members.insert("run".to_owned(), run(report).into());
    add(&mut members, "scenario", load(report).map(|load| json!({ "load": load })));
    let results = json!({ "request_performance": { "aggregate": aggregate } });
    members.insert("results".to_owned(), results);
    members.into()
}

fn run(report: &RunReport) -> Map<String, Value> {
    let outcome = &report.outcome;
    let time = |wall_ns: u64| Timestamp::from_nanosecond(i128::from(wall_ns)).ok();
    let seconds = outcome.end_wall_ns.saturating_sub(outcome.start_wall_ns) as f64 / 1e9;
    let mut when = Map::new();
    add(&mut when, "start", time(outcome.start_wall_ns).map(|at| at.to_string()));
    add(&mut when, "end", time(outcome.end_wall_ns).map(|at| at.to_string()));
    add(&mut when, "duration", Some(format!("PT{seconds}S")));
    let mut run = Map::new();
    add(&mut run, "uid", Some(report.run.benchmark_id.to_string()));
    add(&mut run, "description", report.run.setup.run_name.clone());
    add_object(&mut run, "time", when);
    run
}

fn requests(report: &RunReport) -> Map<String, Value> {
    let count = |tag| value(report, tag).unwrap_or_default() as u64;
    let failed = count(tag::ERROR_REQUEST_COUNT);
    let length = |tag| statistics(stats(report, tag)?, "count", 1.0);
    let mut requests = Map::new();
    add(&mut requests, "total", Some(count(tag::REQUEST_COUNT) + failed));
    add(&mut requests, "failures", Some(failed));
    add(&mut requests, "input_length", length(tag::INPUT_SEQUENCE_LENGTH));
    add(&mut requests, "output_length", length(tag::OUTPUT_SEQUENCE_LENGTH));
    requests
}

/// Returns the statistics multiplied by `factor`, in `unit`; `None` if the mean is not known.
fn statistics(stats: &Stats, unit: &str, factor: f64) -> Option<Value> {
    let mut members = Map::new();
    members.insert("units".to_owned(), unit.into());
    members.insert("mean".to_owned(), (statistic(stats, "avg")? * factor).into());
    for (name, own) in STATISTICS {
        add(&mut members, name, statistic(stats, own).map(|value| value * factor));
    }
    Some(members.into())
}

/// Returns the workload; `None` if its input length is not known, which the report requires.
fn load(report: &RunReport) -> Option<Value> {
    let setup = &report.run.setup;
    let part = match setup.parts() {
        [only] => Some(only),
        _ => None,
    };
    let generated = part.and_then(|it| it.get("source")).and_then(|it| it.get("synthetic"));
    let is_single = ["sequence_distribution", "range", "recorded_lengths"]
        .iter()
        .all(|other| generated.is_none_or(|it| it.get(other).is_none_or(Value::is_null)));
    let of_input = generated.and_then(|it| it.get("input_tokens")).filter(|_| is_single);
    let of_output = part.and_then(|it| it.get("output_tokens")).filter(|length| !length.is_null());
    let source = match generated.and_then(|it| it.get("corpus")).and_then(Value::as_str) {
        Some("random") => "random",
        _ => "sampled",
    };
    let measured = value(report, tag::INPUT_SEQUENCE_LENGTH);
    let mut standardized = Map::new();
    add(&mut standardized, "tool", Some("aiperf"));
    add(&mut standardized, "tool_version", Some(env!("CARGO_PKG_VERSION")));
    add(&mut standardized, "source", Some(source));
    let other = || Some(json!({ "distribution": "other", "value": measured? }));
    standardized
        .insert("input_seq_len".to_owned(), of_input.and_then(sequence_length).or_else(other)?);
    let is_read = generated.is_none();
    let requested = of_output.filter(|_| is_single && !is_read).and_then(sequence_length);
    add(&mut standardized, "output_seq_len", requested);
    if let Some(phase) = setup.measured_phase() {
        add(&mut standardized, "concurrency", phase.concurrency.map(|limit| limit.most));
        add(&mut standardized, "rate_qps", phase.rate());
    }
    Some(json!({
        "metadata": {},
        "standardized": standardized,
        "native": { "config": report.run.config },
    }))
}

/// Returns a configured length in the report's terms.
fn sequence_length(length: &Value) -> Option<Value> {
    let number = |name: &str| length.get(name).and_then(Value::as_f64);
    let whole = |name: &str| number(name).map(|tokens| tokens.round() as u64);
    Some(match (number("mean"), number("stddev")) {
        (Some(mean), Some(0.0)) => json!({ "distribution": "fixed", "value": mean }),
        (Some(mean), Some(stddev)) => {
            json!({ "distribution": "gaussian", "value": mean, "std_dev": stddev })
        }
        _ => {
            let (min, max) = (whole("min")?, whole("max")?);
            let mean = number("min")?.midpoint(number("max")?);
            json!({ "distribution": "uniform", "value": mean, "min": min, "max": max })
        }
    })
}
