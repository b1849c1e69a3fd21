//! Dynamo: its frontend, recorded from 1.6.1.
//!
//! The frontend measures from the arrival of the HTTP request. The workers behind it expose the
//! metrics of their engine.
//!
//! Source of the metric of its workers: `docs/observability/metrics-comparison.md`.

use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    Count, PrefixCounters, Role, ServerFamily, Times, completion_tokens, counter, gauge, histogram,
    prompt_tokens, requests, seconds, share,
};
use super::timing::{Object, Scale, ServerTiming, Stages, rest};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    role: Role::FrontEnd,
    watched: &[
        gauge("dynamo_frontend_active_requests", Avg, "requests in HTTP handlers"),
        gauge("dynamo_frontend_inflight_requests", Avg, "requests sent to engines"),
        gauge("dynamo_frontend_queued_requests", Avg, "requests awaiting their first token"),
        histogram("dynamo_frontend_request_duration_seconds", "request latency"),
        histogram("dynamo_frontend_time_to_first_token_seconds", "time to first token"),
        histogram("dynamo_frontend_inter_token_latency_seconds", "inter-token latency"),
        counter("dynamo_frontend_requests", Rate, "completed requests"),
        counter("dynamo_frontend_output_tokens", Rate, "decode throughput"),
        gauge(
            "dynamo_frontend_router_queue_pending_requests",
            Max,
            "requests queued by the router",
        ),
        histogram(
            "dynamo_component_router_kv_transfer_estimated_latency_seconds",
            "KV transfer, an upper bound",
        ),
        share("dynamo_component_gpu_cache_usage_percent", Max, "KV cache in use on the workers")
            .of_kv_cache(),
    ],
    counts: &[
        Count { only: Some(("status", "success")), ..requests("dynamo_frontend_requests") },
        prompt_tokens("dynamo_frontend_input_sequence_tokens"),
        completion_tokens("dynamo_frontend_output_tokens"),
    ],
    times: Times {
        first_token: Some(seconds("dynamo_frontend_time_to_first_token_seconds")),
        whole: Some(seconds("dynamo_frontend_request_duration_seconds")),
        ..Times::NONE
    },
    prefix_cache: Some(PrefixCounters {
        queries: &["dynamo_frontend_input_sequence_tokens"],
        hits: &["dynamo_frontend_cached_tokens"],
    }),
    worker_label: Some(("dynamo_component_requests", "dynamo_component")),
    ..ServerFamily::engine("dynamo", "Dynamo", "dynamo_")
};

/// Reads `nvext` of a response, whose `timing` and `worker_id` a request has to ask for
/// (`nvext.extra_fields`).
///
/// The wait ends when the request is sent to an engine, whose queue is in `prefill_time_ms`. With
/// separate workers, the time to the first token is that of the worker for prefill, and the transfer
/// of the KV cache is an upper bound; where it is 0, it is somewhere in the rest.
pub(super) fn timing(nvext: &Object<'_>, timing: &mut ServerTiming) {
    let ids = nvext.object("worker_id");
    if let Some(id) = ids.json("decode_worker_id").or_else(|| ids.json("prefill_worker_id")) {
        timing.answered_by(id);
    }
    let times = nvext.object("timing");
    let hit_rate = times.number("kv_hit_rate");
    timing.cached.hit_rate = hit_rate.filter(|rate| (0.0..=1.0).contains(rate));
    let milliseconds = |name| Scale::MILLISECONDS.read_member(&times, name);
    let prefilled = milliseconds("ttft_ms");
    let whole = milliseconds("total_time_ms");
    let after = rest(whole, prefilled);
    let stages = Stages {
        front_end: milliseconds("prefill_wait_time_ms"),
        queue_and_prefill: milliseconds("prefill_time_ms"),
        ..Stages::default()
    };
    let (stages, first_token) = match milliseconds("kv_transfer_estimated_latency_ms") {
        None => (Stages { decode: after, ..stages }, prefilled),
        Some(0.0) => (Stages { kv_transfer_and_decode: after, ..stages }, None),
        Some(transfer) => {
            let decode = rest(after, Some(transfer));
            let first_token = prefilled.map(|prefilled| prefilled + transfer);
            (Stages { kv_transfer: Some(transfer), decode, ..stages }, first_token)
        }
    };
    timing.report(FAMILY.name, stages, first_token, whole);
}
