//! TensorRT-LLM.
//!
//! Source: `tensorrt_llm/metrics/collector.py`, which does not observe times of 0.

use super::declaration::InServer::{Running, Waiting};
use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    Count, ServerFamily, Times, completion_tokens, counter, gauge, histogram, prompt_tokens,
    requests, seconds, share,
};
use super::timing::{ServerTiming, Stages, durations, rest};

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
        gauge("trtllm_num_requests_running", Avg, "requests in the batch").counts(Running),
        gauge("trtllm_num_requests_waiting", Max, "queue; growing means saturated").counts(Waiting),
        share("trtllm_kv_cache_utilization", Max, "KV cache in use").of_kv_cache(),
        share("trtllm_kv_cache_hit_rate", Avg, "KV cache blocks reused"),
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

/// Reads `Server-Timing` (W3C, Server Timing), which a request has to ask for
/// (`X-TRTLLM-return-metrics: 1`). Its names are those of a phase, `server`, or with separate workers
/// `disagg`, `ctx` and `gen`, and of a time from the arrival: `queue`, `ttft`, `e2e`; and
/// `kv_transfer`.
pub(super) fn server_timing(text: &str, timing: &mut ServerTiming) {
    let seconds = |name: &str| {
        let mut found = durations(text).filter(|(found, _)| found.eq_ignore_ascii_case(name));
        found.next().map(|(_, nanos)| nanos)
    };
    let aggregated = Stages {
        queue: seconds("server_queue"),
        prefill: rest(seconds("server_ttft"), seconds("server_queue")),
        decode: rest(seconds("server_e2e"), seconds("server_ttft")),
        ..Stages::default()
    };
    timing.report(FAMILY.name, aggregated, seconds("server_ttft"), seconds("server_e2e"));
    let separate = Stages {
        front_end: seconds("disagg_queue"),
        queue: seconds("ctx_queue"),
        prefill: rest(seconds("ctx_ttft"), seconds("ctx_queue")),
        kv_transfer: seconds("gen_kv_transfer").or_else(|| seconds("ctx_kv_transfer")),
        decode: rest(seconds("gen_e2e"), seconds("gen_ttft")),
        ..Stages::default()
    };
    timing.report(FAMILY.name, separate, seconds("disagg_ttft"), None);
}
