//! Triton Inference Server. Its engines are backends, some of which expose metrics of their own beside
//! those of Triton.
//!
//! Source: `docs/user_guide/metrics.md`; the histogram requires `histogram_latencies=true`.

use super::declaration::Statistic::{Avg, Max, Rate, Total};
use super::declaration::{
    Count, Quantity, ServerFamily, Times, counter, gauge, histogram, microseconds, milliseconds,
    requests, share,
};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        counter("nv_inference_request_success", Rate, "successful requests"),
        counter("nv_inference_request_failure", Total, "failed requests"),
        counter("nv_inference_count", Rate, "inferences; divided by executions, the batch size"),
        counter("nv_inference_exec_count", Rate, "batch executions"),
        gauge("nv_inference_pending_request_count", Max, "queue at the backend"),
        counter("nv_inference_request_duration_us", Total, "total time of requests"),
        counter("nv_inference_queue_duration_us", Total, "total queue time"),
        histogram("nv_inference_first_response_histogram_ms", "time to first response"),
        share("nv_gpu_utilization", Avg, "GPU busy"),
        gauge("nv_gpu_memory_used_bytes", Max, "GPU memory in use"),
        counter("nv_cache_num_hits_per_model", Total, "responses from the cache"),
        counter("nv_cache_num_misses_per_model", Total, "responses not in the cache"),
    ],
    // An ensemble counts a request at itself and at each of its models.
    counts: &[Count { parallel: Some("model"), ..requests("nv_inference_request_success") }],
    times: Times {
        queue: Some(microseconds("nv_inference_queue_duration_us")),
        first_token: Some(milliseconds("nv_inference_first_response_histogram_ms")),
        whole: Some(microseconds("nv_inference_request_duration_us")),
        counter: Some(("nv_inference_request_success", Quantity::Requests)),
        ..Times::NONE
    },
    ..ServerFamily::engine("triton", "Triton", "nv_")
};
