//! The series that can exist, with their labels.

use std::collections::{BTreeMap, BTreeSet};

use base::semconv::{InstrumentKind, prometheus_label, prometheus_name};
use serde_json::Value;

use crate::conformance::registry::Registry;
use crate::support::metrics_endpoint::recorded;

/// The labels of each series.
pub(super) type Names = BTreeMap<String, BTreeSet<String>>;

/// Labels of every series, from its resource or from Prometheus itself.
const OF_THE_RESOURCE: [&str; 9] = [
    "service.name",
    "service.instance.id",
    "aiperf.benchmark.id",
    "aiperf.endpoint.type",
    "aiperf.model.name",
    "aiperf.run.name",
    "aiperf.shard.index",
    "aiperf.shard.count",
    "instance",
];

/// The metrics that the servers' documentation recommends, by kind. Counters are named as the
/// server exposes them; Triton's lack `_total`, which the Collector appends.
pub(super) const WATCHED: [(&str, &str); 55] = [
    ("vllm:num_requests_running", "gauge"),
    ("vllm:num_requests_waiting", "gauge"),
    ("vllm:num_requests_waiting_by_reason", "gauge"),
    ("vllm:kv_cache_usage_perc", "gauge"),
    ("vllm:num_preemptions_total", "counter"),
    ("vllm:e2e_request_latency_seconds", "histogram"),
    ("vllm:time_to_first_token_seconds", "histogram"),
    ("vllm:inter_token_latency_seconds", "histogram"),
    ("vllm:prompt_tokens_by_source_total", "counter"),
    ("vllm:generation_tokens_total", "counter"),
    ("dynamo_frontend_active_requests", "gauge"),
    ("dynamo_frontend_inflight_requests", "gauge"),
    ("dynamo_frontend_queued_requests", "gauge"),
    ("dynamo_frontend_request_duration_seconds", "histogram"),
    ("dynamo_frontend_time_to_first_token_seconds", "histogram"),
    ("dynamo_frontend_inter_token_latency_seconds", "histogram"),
    ("dynamo_frontend_requests_total", "counter"),
    ("dynamo_frontend_output_tokens_total", "counter"),
    ("dynamo_component_gpu_cache_usage_percent", "gauge"),
    ("sglang:num_running_reqs", "gauge"),
    ("sglang:num_queue_reqs", "gauge"),
    ("sglang:token_usage", "gauge"),
    ("sglang:cache_hit_rate", "gauge"),
    ("sglang:gen_throughput", "gauge"),
    ("sglang:time_to_first_token_seconds", "histogram"),
    ("sglang:inter_token_latency_seconds", "histogram"),
    ("sglang:e2e_request_latency_seconds", "histogram"),
    ("sglang:queue_time_seconds", "histogram"),
    ("sglang:prompt_tokens_total", "counter"),
    ("sglang:generation_tokens_total", "counter"),
    ("trtllm_e2e_request_latency_seconds", "histogram"),
    ("trtllm_time_to_first_token_seconds", "histogram"),
    ("trtllm_time_per_output_token_seconds", "histogram"),
    ("trtllm_request_queue_time_seconds", "histogram"),
    ("trtllm_request_prefill_time_seconds", "histogram"),
    ("trtllm_request_decode_time_seconds", "histogram"),
    ("trtllm_request_success_total", "counter"),
    ("trtllm_prompt_tokens_total", "counter"),
    ("trtllm_generation_tokens_total", "counter"),
    ("trtllm_num_requests_running", "gauge"),
    ("trtllm_num_requests_waiting", "gauge"),
    ("trtllm_kv_cache_utilization", "gauge"),
    ("trtllm_kv_cache_hit_rate", "gauge"),
    ("nv_inference_request_success", "counter"),
    ("nv_inference_request_failure", "counter"),
    ("nv_inference_count", "counter"),
    ("nv_inference_exec_count", "counter"),
    ("nv_inference_pending_request_count", "gauge"),
    ("nv_inference_request_duration_us", "counter"),
    ("nv_inference_queue_duration_us", "counter"),
    ("nv_inference_first_response_histogram_ms", "histogram"),
    ("nv_gpu_utilization", "gauge"),
    ("nv_gpu_memory_used_bytes", "gauge"),
    ("nv_cache_num_hits_per_model", "counter"),
    ("nv_cache_num_misses_per_model", "counter"),
];

/// Servers without a capture, and the one metric that Dynamo's mocker lacks.
const WITHOUT_CAPTURE: [&str; 4] =
    ["sglang:", "trtllm_", "nv_", "dynamo_component_gpu_cache_usage_percent"];

/// Metrics of GPUs, by OpenTelemetry's conventions for hardware.
const HARDWARE: [(&str, &str); 5] = [
    ("hw_power_watts", "gauge"),
    ("hw_energy_joules_total", "counter"),
    ("hw_temperature_celsius", "gauge"),
    ("hw_gpu_utilization_ratio", "gauge"),
    ("hw_gpu_memory_usage_bytes", "gauge"),
];

/// Their labels.
const HARDWARE_LABELS: [&str; 7] =
    ["hw.id", "hw.type", "hw.name", "hw.model", "hw.vendor", "hw.gpu.task", "host.name"];

/// Returns all names that the dashboards may use.
pub(super) fn all() -> Names {
    let mut names = of_aiperf();
    for capture in
        ["vllm/scrapes", "dynamo/scrapes_frontend", "dynamo/scrapes_worker", "llamacpp/scrapes"]
    {
        of_capture(&mut names, capture);
    }
    for (name, kind) in WATCHED {
        if WITHOUT_CAPTURE.iter().any(|prefix| name.starts_with(prefix)) {
            add(&mut names, name, kind, ["reason", "gpu_uuid", "model_name"]);
            if kind == "counter" {
                add(
                    &mut names,
                    &format!("{}_total", name.trim_end_matches("_total")),
                    kind,
                    ["reason"],
                );
            }
        }
    }
    for (name, kind) in HARDWARE {
        add(&mut names, name, kind, HARDWARE_LABELS);
    }
    names
}

/// Adds the series of a metric.
fn add<'a>(names: &mut Names, name: &str, kind: &str, labels: impl IntoIterator<Item = &'a str>) {
    let mut labels: BTreeSet<String> = labels.into_iter().map(prometheus_label).collect();
    labels.extend(OF_THE_RESOURCE.map(prometheus_label));
    if kind != "histogram" {
        names.entry(name.to_owned()).or_default().extend(labels);
        return;
    }
    for part in ["_sum", "_count"] {
        names.entry(format!("{name}{part}")).or_default().extend(labels.clone());
    }
    labels.insert("le".to_owned());
    names.entry(format!("{name}_bucket")).or_default().extend(labels);
}

/// Adds the metrics in the registry's files.
fn of_aiperf() -> Names {
    let mut names = Names::new();
    for (name, entry) in &Registry::read().metrics {
        let name = prometheus_name(name, &entry.unit, kind(&entry.instrument));
        add(&mut names, &name, &entry.instrument, entry.attributes.keys().map(String::as_str));
    }
    names
}

fn kind(instrument: &str) -> InstrumentKind {
    match instrument {
        "histogram" => InstrumentKind::Histogram,
        "counter" => InstrumentKind::Counter,
        "gauge" => InstrumentKind::Gauge,
        "updowncounter" => InstrumentKind::UpDownCounter,
        other => panic!("what is a {other}?"),
    }
}

/// Adds the series in the last exposition of a capture.
fn of_capture(names: &mut Names, capture: &str) {
    let scrapes: Vec<Value> = recorded(capture);
    for line in scrapes.last().unwrap()["body"].as_str().unwrap().lines() {
        if line.starts_with('#') {
            continue;
        }
        let series = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let pairs = labels.trim_end_matches('}').split("\",");
        let labels = pairs.filter_map(|pair| Some(pair.split_once("=\"")?.0));
        add(names, name, "series", labels);
    }
}
