//! LMDeploy. `lmdeploy:generation_tokens` includes stop tokens, which the usage of its responses does
//! not, so that it cannot be compared with the client's count.
//!
//! Source: `loggers.py`, `metrics_processor.py` and `stats.py` in `lmdeploy/metrics`, and
//! `lmdeploy/serve/core/async_engine.py`.

use super::declaration::InServer::{Running, Waiting};
use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    Count, ServerFamily, Speculation, Times, counter, gauge, histogram, prompt_tokens, requests,
    seconds, share,
};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        gauge("lmdeploy:num_requests_running", Avg, "requests in the batch").counts(Running),
        gauge("lmdeploy:num_requests_waiting", Max, "queue; growing means saturated")
            .counts(Waiting),
        share("lmdeploy:gpu_cache_usage_perc", Max, "KV cache in use; above 90% it limits")
            .of_kv_cache(),
        histogram("lmdeploy:e2e_request_latency_seconds", "request latency"),
        histogram("lmdeploy:time_to_first_token_seconds", "time to first token"),
        histogram("lmdeploy:time_per_output_token_seconds", "inter-token latency"),
        counter("lmdeploy:prompt_tokens", Rate, "prefill throughput"),
        counter("lmdeploy:generation_tokens", Rate, "decode throughput"),
    ],
    counts: &[
        Count {
            only: Some(("finished_reason", "ResponseType.FINISH")),
            ..requests("lmdeploy:request_success")
        },
        prompt_tokens("lmdeploy:prompt_tokens"),
    ],
    times: Times {
        queue: Some(seconds("lmdeploy:request_queue_time_seconds")),
        prefill: Some(seconds("lmdeploy:request_prefill_time_seconds")),
        decode: Some(seconds("lmdeploy:request_decode_time_seconds")),
        first_token: Some(seconds("lmdeploy:time_to_first_token_seconds")),
        whole: Some(seconds("lmdeploy:e2e_request_latency_seconds")),
        further: &[seconds("lmdeploy:request_inference_time_seconds")],
        ..Times::NONE
    },
    speculation: Some(Speculation::Counters {
        drafts: "lmdeploy:spec_decode_num_drafts",
        drafted: "lmdeploy:spec_decode_num_draft_tokens",
        accepted: "lmdeploy:spec_decode_num_accepted_tokens",
        accepted_at: "lmdeploy:spec_decode_num_accepted_tokens_per_pos",
    }),
    ..ServerFamily::engine("lmdeploy", "LMDeploy", "lmdeploy:")
};
