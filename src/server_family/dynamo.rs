//! Dynamo: its frontend, recorded from 1.6.1.
//!
//! The frontend measures from the arrival of the HTTP request. The workers behind it expose the
//! metrics of their engine.
//!
//! Source of the metric of its workers: `docs/observability/metrics-comparison.md`.

use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    Count, Role, ServerFamily, Times, completion_tokens, counter, gauge, histogram, prompt_tokens,
    requests, seconds,
};

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
        gauge("dynamo_component_gpu_cache_usage_percent", Max, "KV cache in use on the workers"),
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
    ..ServerFamily::engine("dynamo", "Dynamo", "dynamo_")
};
