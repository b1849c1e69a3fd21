//! vLLM, recorded from 0.32.0.
//!
//! Source of the counters of speculative decoding: `vllm/v1/spec_decode/metrics.py`; of names in
//! earlier versions: `vllm/v1/metrics/loggers.py`; of transfers: its connectors for NIXL and Mooncake.

use super::declaration::InServer::{Running, Waiting};
use super::declaration::Statistic::{Avg, Max, Rate, Total};
use super::declaration::{
    Count, Hidden, PrefixCounters, ServerFamily, Speculation, Times, completion_tokens, counter,
    gauge, histogram, prompt_tokens, requests, seconds, share,
};
use super::timing::{Drafted, Object, Scale, ServerTiming, Stages};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        gauge("vllm:num_requests_running", Avg, "requests in the batch").counts(Running),
        gauge("vllm:num_requests_waiting", Max, "queue; growing means saturated").counts(Waiting),
        gauge("vllm:num_requests_waiting_by_reason", Max, "queue, by reason"),
        share("vllm:kv_cache_usage_perc", Max, "KV cache in use; above 90% it limits")
            .of_kv_cache()
            .once("vllm:gpu_cache_usage_perc"),
        counter("vllm:num_preemptions", Total, "above 0: memory pressure"),
        histogram("vllm:e2e_request_latency_seconds", "request latency"),
        histogram("vllm:time_to_first_token_seconds", "time to first token"),
        histogram("vllm:inter_token_latency_seconds", "inter-token latency")
            .once("vllm:time_per_output_token_seconds"),
        counter("vllm:prompt_tokens_by_source", Rate, "prompt tokens, by source"),
        counter("vllm:generation_tokens", Rate, "decode throughput"),
        histogram("vllm:nixl_xfer_time_seconds", "KV transfer with NIXL"),
        histogram("vllm:nixl_bytes_transferred", "bytes of a KV transfer with NIXL"),
        counter("vllm:nixl_num_failed_transfers", Total, "failed KV transfers with NIXL"),
        counter(
            "vllm:nixl_num_kv_expired_reqs",
            Total,
            "requests whose KV was not fetched in time",
        ),
        histogram("vllm:mooncake_store_operation_time_seconds", "operations of the Mooncake store"),
        gauge("vllm:num_requests_kv_fetch_by_stage", Max, "requests that fetch KV, by stage"),
    ],
    counts: &[
        Count {
            except: Some(("finished_reason", &["abort", "error"])),
            by_choice: true,
            ..requests("vllm:request_success")
        },
        Count { by_choice: true, ..prompt_tokens("vllm:prompt_tokens") },
        completion_tokens("vllm:generation_tokens"),
    ],
    times: Times {
        queue: Some(seconds("vllm:request_queue_time_seconds")),
        prefill: Some(seconds("vllm:request_prefill_time_seconds")),
        decode: Some(seconds("vllm:request_decode_time_seconds")),
        first_token: Some(seconds("vllm:time_to_first_token_seconds")),
        whole: Some(seconds("vllm:e2e_request_latency_seconds")),
        per_token: Some(seconds("vllm:request_time_per_output_token_seconds")),
        transfer: Some(seconds("vllm:nixl_xfer_time_seconds")),
        queue_has_transfer: true,
        further: &[seconds("vllm:request_inference_time_seconds")],
        ..Times::NONE
    },
    prefix_cache: Some(PrefixCounters {
        queries: &["vllm:prefix_cache_queries"],
        // What the engine's own cache did not have is looked up in that of a connector.
        hits: &["vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits"],
    }),
    speculation: Some(Speculation::Counters {
        drafts: "vllm:spec_decode_num_drafts",
        drafted: "vllm:spec_decode_num_draft_tokens",
        accepted: "vllm:spec_decode_num_accepted_tokens",
        accepted_at: "vllm:spec_decode_num_accepted_tokens_per_pos",
    }),
    hidden: &[Hidden {
        metric: "vllm:num_preemptions",
        what: "preemptions, whose time is in prefill or decode",
    }],
    ..ServerFamily::engine("vllm", "vLLM", "vllm:")
};

/// Reads `metrics` of a response (`--enable-per-request-metrics`).
///
/// Its time to the first token starts when the request is scheduled. What precedes the queue is not
/// in it: templates, tokens, and the engine's inbox. The queue contains the compilation of a
/// grammar, and on a worker for decode the transfer of the KV cache; prefill and decode contain
/// preemptions.
pub(super) fn timing(metrics: &Object<'_>, timing: &mut ServerTiming) {
    let milliseconds = |name| Scale::MILLISECONDS.read_member(metrics, name);
    let stages = Stages {
        queue: milliseconds("queue_time_ms"),
        prefill: milliseconds("time_to_first_token_ms"),
        decode: milliseconds("generation_time_ms"),
        ..Stages::default()
    };
    timing.report(FAMILY.name, stages, None, None);
    let drafts = metrics.object("speculative_decoding");
    if !drafts.is_empty() {
        timing.speculation = Some(Drafted {
            steps: drafts.count("num_spec_steps"),
            tokens: drafts.count("num_draft_tokens"),
            accepted: drafts.count("num_accepted_draft_tokens"),
        });
    }
}
