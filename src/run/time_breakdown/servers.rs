//! The names under which servers report the times of requests.

/// A time that a server adds up over requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time {
    /// The histogram or counter, by its name in files.
    pub(super) metric: &'static str,
    /// Label and value of its series; all series without one.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// Its unit, in milliseconds.
    pub(super) unit_ms: f64,
}

/// The quantity that a counter beside the times counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Requests,
    CompletionTokens,
}

/// The times that one kind of server reports.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) queue: Option<Time>,
    pub(super) prefill: Option<Time>,
    pub(super) decode: Option<Time>,
    /// From the arrival of a request to its first token.
    pub(super) first_token: Option<Time>,
    /// From the arrival of a request to its end.
    pub(super) whole: Option<Time>,
    /// What shows how many requests the times cover, if they are counters.
    pub(super) counter: Option<(&'static str, Counted)>,
    /// Whether its histograms do not observe times of zero.
    pub(super) omits_zeros: bool,
    /// The number of significant digits of its sums, if it does not write all.
    pub(super) digits: Option<i32>,
}

impl Server {
    /// Returns the times of its stages.
    pub(super) fn stages(&self) -> impl Iterator<Item = Time> {
        [self.queue, self.prefill, self.decode].into_iter().flatten()
    }

    /// Returns all of its times.
    pub(super) fn times(&self) -> impl Iterator<Item = Time> {
        self.stages().chain([self.first_token, self.whole].into_iter().flatten())
    }
}

const fn time(metric: &'static str, unit_ms: f64) -> Time {
    Time { metric, only: None, unit_ms }
}

/// A second, in milliseconds.
const S: f64 = 1e3;
/// A millisecond.
const MS: f64 = 1.0;
/// A microsecond, in milliseconds.
const US: f64 = 1e-3;

const NONE: Server = Server {
    queue: None,
    prefill: None,
    decode: None,
    first_token: None,
    whole: None,
    counter: None,
    omits_zeros: false,
    digits: None,
};

/// The frontend of Dynamo, recorded from 1.6.1. It measures from the arrival of the HTTP request,
/// and its workers have the names of their engine, below.
pub(super) const FRONTEND: Server = Server {
    first_token: Some(time("dynamo_frontend_time_to_first_token_seconds", S)),
    whole: Some(time("dynamo_frontend_request_duration_seconds", S)),
    ..NONE
};

/// Servers that process requests themselves.
pub(super) const ENGINES: [Server; 5] = [
    // vLLM, recorded from 0.32.0.
    Server {
        queue: Some(time("vllm:request_queue_time_seconds", S)),
        prefill: Some(time("vllm:request_prefill_time_seconds", S)),
        decode: Some(time("vllm:request_decode_time_seconds", S)),
        first_token: Some(time("vllm:time_to_first_token_seconds", S)),
        whole: Some(time("vllm:e2e_request_latency_seconds", S)),
        ..NONE
    },
    // SGLang: metrics_collector.py and req_time_stats.py in python/sglang/srt/observability. The
    // tokenizer manager measures the totals, and the scheduler the stages.
    Server {
        queue: Some(time("sglang:queue_time_seconds", S)),
        prefill: Some(Time {
            only: Some(("stage", "prefill_forward")),
            ..time("sglang:per_stage_req_latency_seconds", S)
        }),
        first_token: Some(time("sglang:time_to_first_token_seconds", S)),
        whole: Some(time("sglang:e2e_request_latency_seconds", S)),
        ..NONE
    },
    // TensorRT-LLM: tensorrt_llm/metrics/collector.py, which ignores times that are 0.
    Server {
        queue: Some(time("trtllm_request_queue_time_seconds", S)),
        prefill: Some(time("trtllm_request_prefill_time_seconds", S)),
        decode: Some(time("trtllm_request_decode_time_seconds", S)),
        first_token: Some(time("trtllm_time_to_first_token_seconds", S)),
        whole: Some(time("trtllm_e2e_request_latency_seconds", S)),
        omits_zeros: true,
        ..NONE
    },
    // Triton: docs/user_guide/metrics.md; the histogram requires histogram_latencies=true.
    Server {
        queue: Some(time("nv_inference_queue_duration_us", US)),
        first_token: Some(time("nv_inference_first_response_histogram_ms", MS)),
        whole: Some(time("nv_inference_request_duration_us", US)),
        counter: Some(("nv_inference_request_success", Counted::Requests)),
        ..NONE
    },
    // llama.cpp, recorded from b11434. It counts no requests, and writes six digits.
    Server {
        prefill: Some(time("llamacpp:prompt_seconds", S)),
        decode: Some(time("llamacpp:tokens_predicted_seconds", S)),
        counter: Some(("llamacpp:tokens_predicted", Counted::CompletionTokens)),
        digits: Some(6),
        ..NONE
    },
];
