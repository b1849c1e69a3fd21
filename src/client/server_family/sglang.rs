//! SGLang. The tokenizer manager measures the totals, and the scheduler the stages.
//!
//! Source: `metrics_collector.py` and `req_time_stats.py` in `python/sglang/srt/observability`.

use super::declaration::InServer::{Running, Waiting};
use super::declaration::Statistic::{Avg, Max, Rate, Total};
use super::declaration::{
    PrefixCounters, ServerFamily, Speculation, Time, Times, completion_tokens, counter, gauge,
    histogram, milliseconds, prompt_tokens, requests, seconds, share,
};
use super::timing::{Drafted, Object, Scale, ServerTiming, Stages, rest};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        gauge("sglang:num_running_reqs", Avg, "requests in the batch").counts(Running),
        gauge("sglang:num_queue_reqs", Max, "queue; growing means saturated").counts(Waiting),
        share("sglang:token_usage", Max, "KV cache in use; above 90% it limits").of_kv_cache(),
        share("sglang:cache_hit_rate", Avg, "prefix cache hits"),
        gauge("sglang:gen_throughput", Avg, "tokens per second"),
        histogram("sglang:time_to_first_token_seconds", "time to first token"),
        histogram("sglang:inter_token_latency_seconds", "inter-token latency"),
        histogram("sglang:e2e_request_latency_seconds", "request latency"),
        histogram("sglang:queue_time_seconds", "queue time"),
        counter("sglang:prompt_tokens", Rate, "prefill throughput"),
        counter("sglang:generation_tokens", Rate, "decode throughput"),
        histogram("sglang:kv_transfer_latency_ms", "KV transfer (ms)"),
        histogram("sglang:kv_transfer_speed_gb_s", "speed of a KV transfer (GB/s)"),
        histogram("sglang:kv_transfer_total_mb", "size of a KV transfer (MB)"),
        histogram("sglang:kv_transfer_bootstrap_ms", "start of a KV transfer (ms)"),
        histogram("sglang:kv_transfer_alloc_ms", "allocation for a KV transfer (ms)"),
        gauge("sglang:num_prefill_bootstrap_queue_reqs", Max, "prefill: wait for a decode worker"),
        gauge("sglang:num_prefill_inflight_queue_reqs", Max, "prefill: KV being sent"),
        gauge("sglang:num_decode_prealloc_queue_reqs", Max, "decode: wait for room"),
        gauge("sglang:num_decode_transfer_queue_reqs", Max, "decode: wait for KV"),
        counter("sglang:num_bootstrap_failed_reqs", Total, "KV transfers that did not start"),
        counter("sglang:num_transfer_failed_reqs", Total, "failed KV transfers"),
        counter("sglang:load_back_tokens", Rate, "tokens loaded from the host's cache"),
        counter("sglang:hicache_dropped_tokens", Total, "tokens dropped from the host's cache"),
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
        transfer: Some(milliseconds("sglang:kv_transfer_latency_ms")),
        ..Times::NONE
    },
    // The label `cache_source` divides what was found by device, host and storage.
    prefix_cache: Some(PrefixCounters {
        queries: &["sglang:prompt_tokens"],
        hits: &["sglang:cached_tokens"],
    }),
    speculation: Some(Speculation::Gauges {
        rate: "sglang:spec_accept_rate",
        length: "sglang:spec_accept_length",
    }),
    worker_label: Some(("sglang:queue_time_seconds", "engine_type")),
    ..ServerFamily::engine("sglang", "SGLang", "sglang:")
};

/// Reads `meta_info` of a response, most of which needs `--enable-metrics`; over the routes of
/// `OpenAI` only responses of chats that are not streamed have it (`return_meta_info`).
///
/// With separate workers, the queue excludes the transfer of the KV cache, which is not reported.
/// The times from the arrival also contain what precedes the queue.
pub(super) fn timing(meta_info: &Object<'_>, timing: &mut ServerTiming) {
    let seconds = |name| Scale::SECONDS.read_member(meta_info, name);
    let first_token = seconds("first_token_latency");
    let whole = seconds("e2e_latency");
    let stages = Stages {
        queue: seconds("queue_time"),
        prefill: rest(seconds("prefill_finished_time"), seconds("forward_entry_time")),
        decode: rest(whole, first_token),
        ..Stages::default()
    };
    timing.report(FAMILY.name, stages, first_token, whole);
    if let Some(rank) = meta_info.count("dp_rank") {
        timing.answered_by(&format!("dp {rank}"));
    }
    cached_tokens(meta_info, timing);
    if let Some(steps) = meta_info.count("spec_verify_ct") {
        timing.speculation = Some(Drafted {
            steps: Some(steps),
            tokens: meta_info.count("spec_num_proposed_drafts"),
            accepted: meta_info.count("spec_num_correct_drafts"),
        });
    }
}

/// Reads `cached_tokens_details`, which a hierarchical cache has: in `meta_info`, and over the routes
/// of `OpenAI` in `sglext` (`return_cached_tokens_details`).
pub(super) fn cached_tokens(object: &Object<'_>, timing: &mut ServerTiming) {
    let details = object.object("cached_tokens_details");
    let cached = &mut timing.cached;
    cached.device = details.count("device").or(cached.device);
    cached.host = details.count("host").or(cached.host);
    cached.storage = details.count("storage").or(cached.storage);
}
