//! TensorRT-LLM.
//!
//! Source: `tensorrt_llm/metrics/collector.py`, which does not observe times of 0.

use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    Count, ServerFamily, Times, completion_tokens, counter, gauge, histogram, prompt_tokens,
    requests, seconds,
};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        histogram("trtllm_e2e_request_latency_seconds", "request latency"),
        histogram("trtllm_time_to_first_token_seconds", "time to first token"),
        histogram("trtllm_time_per_output_token_seconds", "inter-token latency"),
        histogram("trtllm_request_queue_time_seconds", "queue time"),
        histogram("trtllm_request_prefill_time_seconds", "prefill"),
        histogram("trtllm_request_decode_time_seconds", "decode"),
        counter("trtllm_request_success", Rate, "completed requests"),
        counter("trtllm_prompt_tokens", Rate, "prefill throughput"),
        counter("trtllm_generation_tokens", Rate, "decode throughput"),
        gauge("trtllm_num_requests_running", Avg, "requests in the batch"),
        gauge("trtllm_num_requests_waiting", Max, "queue; growing means saturated"),
        gauge("trtllm_kv_cache_utilization", Max, "KV cache in use"),
        gauge("trtllm_kv_cache_hit_rate", Avg, "KV cache blocks reused"),
    ],
    counts: &[
        Count {
            except: Some(("finished_reason", &["abort", "cancelled", "error", "timeout"])),
            ..requests("trtllm_request_success")
        },
        prompt_tokens("trtllm_prompt_tokens"),
        completion_tokens("trtllm_generation_tokens"),
    ],
    times: Times {
        queue: Some(seconds("trtllm_request_queue_time_seconds")),
        prefill: Some(seconds("trtllm_request_prefill_time_seconds")),
        decode: Some(seconds("trtllm_request_decode_time_seconds")),
        first_token: Some(seconds("trtllm_time_to_first_token_seconds")),
        whole: Some(seconds("trtllm_e2e_request_latency_seconds")),
        per_token: Some(seconds("trtllm_time_per_output_token_seconds")),
        omits_zeros: true,
        ..Times::NONE
    },
    ..ServerFamily::engine("tensorrt-llm", "TensorRT-LLM", "trtllm_")
};
