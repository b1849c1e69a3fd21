//! SGLang. The tokenizer manager measures the totals, and the scheduler the stages.
//!
//! Source: `metrics_collector.py` and `req_time_stats.py` in `python/sglang/srt/observability`.

use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    ServerFamily, Speculation, Time, Times, completion_tokens, counter, gauge, histogram,
    prompt_tokens, requests, seconds,
};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        gauge("sglang:num_running_reqs", Avg, "requests in the batch"),
        gauge("sglang:num_queue_reqs", Max, "queue; growing means saturated"),
        gauge("sglang:token_usage", Max, "KV cache in use; above 0.9 it limits"),
        gauge("sglang:cache_hit_rate", Avg, "prefix cache hits"),
        gauge("sglang:gen_throughput", Avg, "tokens per second"),
        histogram("sglang:time_to_first_token_seconds", "time to first token"),
        histogram("sglang:inter_token_latency_seconds", "inter-token latency"),
        histogram("sglang:e2e_request_latency_seconds", "request latency"),
        histogram("sglang:queue_time_seconds", "queue time"),
        counter("sglang:prompt_tokens", Rate, "prefill throughput"),
        counter("sglang:generation_tokens", Rate, "decode throughput"),
    ],
    counts: &[
        requests("sglang:num_requests"),
        prompt_tokens("sglang:prompt_tokens"),
        completion_tokens("sglang:generation_tokens"),
    ],
    times: Times {
        queue: Some(seconds("sglang:queue_time_seconds")),
        prefill: Some(Time {
            only: Some(("stage", "prefill_forward")),
            ..seconds("sglang:per_stage_req_latency_seconds")
        }),
        first_token: Some(seconds("sglang:time_to_first_token_seconds")),
        whole: Some(seconds("sglang:e2e_request_latency_seconds")),
        ..Times::NONE
    },
    speculation: Some(Speculation::Gauges {
        rate: "sglang:spec_accept_rate",
        length: "sglang:spec_accept_length",
    }),
    ..ServerFamily::engine("sglang", "SGLang", "sglang:")
};
