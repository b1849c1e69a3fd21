//! What a server reports about the time of a single request.
//!
//! All times are durations by one clock of the server, in nanoseconds. Servers use the same words
//! for different intervals, so that each family's file documents what its words cover; a sum of stages
//! stays a sum, and what a server does not report stays unknown.

mod header;
mod hosted;
mod json;
mod spans;

use std::sync::Arc;

use serde_json::{Value, json};

pub(in crate::server_family) use self::header::durations;
pub use self::json::Object;
pub(in crate::server_family) use self::json::{Scale, rest};
use base::redact;
use base::setting::named;

use super::{dynamo, llama_cpp, sglang, tensorrt_llm, text_generation_inference, triton, vllm};

/// Whether the times that servers report are read, and whether requests ask for them
/// (`--server-timing`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingMode {
    /// What comes is read.
    Auto,
    /// Nothing is read.
    Off,
    /// Requests ask as Dynamo requires.
    AskDynamo,
    /// Requests ask as SGLang requires.
    AskSglang,
    /// Requests ask as TensorRT-LLM requires.
    AskTensorrtLlm,
    /// Requests ask as Fireworks requires.
    AskFireworks,
}

named! {
    TimingMode {
        "auto" => Auto,
        "off" => Off,
        "ask_dynamo" => AskDynamo,
        "ask_sglang" => AskSglang,
        "ask_tensorrt_llm" => AskTensorrtLlm,
        "ask_fireworks" => AskFireworks,
    }
}

impl TimingMode {
    /// Returns the members of request bodies that ask for times. Servers of other families may reject
    /// them.
    pub fn members(self, is_streamed: bool) -> Vec<(String, Value)> {
        let member = |name: &str, value| vec![(name.to_owned(), value)];
        match self {
            Self::AskDynamo => member("nvext", json!({"extra_fields": ["timing", "worker_id"]})),
            // SGLang rejects it in streams, which do not have times.
            Self::AskSglang if !is_streamed => member("return_meta_info", json!(true)),
            Self::AskFireworks => member("perf_metrics_in_response", json!(true)),
            Self::Auto | Self::Off | Self::AskSglang | Self::AskTensorrtLlm => Vec::new(),
        }
    }

    /// Returns the request header that asks for times.
    pub fn header(self) -> Option<(&'static str, &'static str)> {
        (self == Self::AskTensorrtLlm).then_some(("X-TRTLLM-return-metrics", "1"))
    }
}

/// What a server reports about one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerTiming {
    /// Who reports it, for example `vllm`; the last reader that found something.
    pub family: &'static str,
    /// Where it reports it.
    pub source: Source,
    /// The times of its stages.
    pub stages: Stages,
    /// From the arrival of the request at the server to its first token.
    pub first_token: Option<f64>,
    /// From the arrival of the request at the server to its end.
    pub whole: Option<f64>,
    /// The worker that answered.
    pub worker: Option<Arc<str>>,
    /// What became of drafted tokens.
    pub speculation: Option<Drafted>,
    /// Where cached tokens of the prompt came from.
    pub cached: CachedTokens,
    /// Times that are not those of a known stage, by the server's own names, in nanoseconds.
    pub other: Vec<(String, f64)>,
}

/// The cached tokens of a prompt by the place that they were read from, and their share.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CachedTokens {
    /// In the memory of the GPU.
    pub device: Option<u64>,
    /// In the memory of the host.
    pub host: Option<u64>,
    /// In storage that several servers may share.
    pub storage: Option<u64>,
    /// Share of the prompt's blocks that the worker had in its cache, from 0 to 1.
    pub hit_rate: Option<f64>,
}

/// Where a server reports times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// In the body of the response.
    #[default]
    Body,
    /// In the headers of the response.
    Headers,
    /// In spans.
    Spans,
}

impl Source {
    /// Returns its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Headers => "headers",
            Self::Spans => "spans",
        }
    }
}

/// The times of stages, in nanoseconds. Some servers report only the sum of neighbouring stages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stages {
    /// From the arrival at the server to its engine's queue: templates, tokens, routing.
    pub front_end: Option<f64>,
    /// In the queue of the engine.
    pub queue: Option<f64>,
    /// From being scheduled to the first token.
    pub prefill: Option<f64>,
    /// Queue and prefill together.
    pub queue_and_prefill: Option<f64>,
    /// Transfer of the KV cache from the worker for prefill to that for decode.
    pub kv_transfer: Option<f64>,
    /// From the first token to the last.
    pub decode: Option<f64>,
    /// Prefill and decode together.
    pub prefill_and_decode: Option<f64>,
    /// Transfer of the KV cache and decode together.
    pub kv_transfer_and_decode: Option<f64>,
}

impl Stages {
    /// Returns the times up to the first token, each of which is over before it.
    pub fn until_first_token(&self) -> [Option<f64>; 5] {
        [self.front_end, self.queue, self.prefill, self.queue_and_prefill, self.kv_transfer]
    }

    /// Returns all times, which do not overlap.
    pub fn all(&self) -> [Option<f64>; 8] {
        let [front_end, queue, prefill, queue_and_prefill, kv_transfer] = self.until_first_token();
        let after = [self.decode, self.prefill_and_decode, self.kv_transfer_and_decode];
        let [decode, prefill_and_decode, kv_transfer_and_decode] = after;
        [
            front_end,
            queue,
            prefill,
            queue_and_prefill,
            kv_transfer,
            decode,
            prefill_and_decode,
            kv_transfer_and_decode,
        ]
    }
}

/// What became of the tokens that were drafted for one request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Drafted {
    /// Steps of the model that verified drafts.
    pub steps: Option<u64>,
    /// Tokens of the drafts.
    pub tokens: Option<u64>,
    /// Drafted tokens that the model accepted.
    pub accepted: Option<u64>,
}

/// The reader of one member of a response.
type Reader = fn(&Object<'_>, &mut ServerTiming);

/// A member of responses in which servers report times.
pub struct Member {
    pub name: &'static str,
    read: Reader,
}

/// The members that [`ServerTiming::member`] reads. `endpoint::envelope` has them in this order.
pub static MEMBERS: [Member; 9] = [
    Member { name: "metrics", read: vllm::timing },
    Member { name: "nvext", read: dynamo::timing },
    Member { name: "timings", read: llama_cpp::timing },
    Member { name: "meta_info", read: sglang::timing },
    Member { name: "stats", read: hosted::stats },
    Member { name: "time_info", read: hosted::cerebras },
    Member { name: "perf_metrics", read: hosted::fireworks },
    Member { name: "x_groq", read: hosted::groq },
    Member { name: "sglext", read: sglang::cached_tokens },
];

impl Member {
    /// Returns the member called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        MEMBERS.iter().find(|member| member.name == name)
    }
}

/// Name of the event with which TensorRT-LLM ends a stream, after `[DONE]`.
pub(crate) const TENSORRT_LLM_EVENT: &[u8] = b"trtllm.perf_metrics";

impl ServerTiming {
    /// Adds the times in a member of a response.
    pub fn member(&mut self, member: &Member, value: &Object<'_>) {
        (member.read)(value, self);
    }

    /// Adds what the data of the event [`TENSORRT_LLM_EVENT`] says, whose members are named like the
    /// headers of a response that is not streamed.
    pub(crate) fn tensorrt_llm_event(&mut self, event: &Object<'_>) {
        if let Some(text) = event.text("Server-Timing") {
            tensorrt_llm::server_timing(&text, self);
        }
    }

    /// Adds the times in the `usage` of a response.
    pub fn usage(&mut self, usage: &Object<'_>) {
        hosted::groq_usage(usage, self);
    }

    /// Adds the times that are directly among the members of a response.
    pub fn response(&mut self, response: &Object<'_>) {
        hosted::ollama(response, self);
    }

    /// Adds the times in the headers of a response, unless its body has more. The headers of a stream
    /// are sent before its end, so that no duration in them is that of the whole request.
    pub fn headers(&mut self, headers: &[(String, String)], is_stream: bool) {
        let value = |name: &str| {
            let found = headers.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        if self.worker.is_none()
            && let Some(name) = WORKER_HEADERS.iter().find_map(|name| value(name))
        {
            self.answered_by(name);
        }
        if self.has_times() {
            return;
        }
        if let Some(text) = value("server-timing") {
            tensorrt_llm::server_timing(text, self);
        }
        if !is_stream && !self.has_times() {
            if let Some(text) = value("server-timing") {
                header::read(text, self);
            }
            hosted::headers(value, self);
            text_generation_inference::headers(value, self);
        }
        self.source = Source::Headers;
    }

    /// Sets the worker that answered, whose name may be anything.
    pub(in crate::server_family) fn answered_by(&mut self, name: &str) {
        let name: String = redact::printable(name).chars().take(WORKER_LENGTH).collect();
        self.worker = Some(name.into());
    }

    /// Returns whether there are no times at all.
    pub fn is_empty(&self) -> bool {
        let Self { worker, speculation, cached, other, .. } = self;
        !self.has_times()
            && worker.is_none()
            && speculation.is_none()
            && *cached == CachedTokens::default()
            && other.is_empty()
    }

    /// Returns whether it has any time.
    pub fn has_times(&self) -> bool {
        self.stages != Stages::default() || self.first_token.is_some() || self.whole.is_some()
    }

    /// Adds the times that `family` reports, unless none of them is known.
    pub(in crate::server_family) fn report(
        &mut self,
        family: &'static str,
        stages: Stages,
        first_token: Option<f64>,
        whole: Option<f64>,
    ) {
        let found = Self { family, stages, first_token, whole, ..Self::default() };
        if found.has_times() {
            let (worker, other) = (self.worker.take(), std::mem::take(&mut self.other));
            let Self { speculation, cached, .. } = *self;
            *self = Self { worker, speculation, cached, other, ..found };
        }
    }
}

/// Maximum length of the name of a worker, in characters.
const WORKER_LENGTH: usize = 128;

/// Returns the headers of a response in which servers report times or name themselves.
pub fn reports<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<(String, String)> {
    let mut reports = Vec::new();
    for (name, value) in headers {
        // Most headers of a response begin otherwise.
        let first = name.as_bytes().first().map(u8::to_ascii_lowercase);
        let may_be = matches!(first, Some(b'x' | b'o' | b'f' | b's'));
        let is = |known: &&&str| known.eq_ignore_ascii_case(name);
        if may_be
            && let Some(known) = TIME_HEADERS.iter().chain(WORKER_HEADERS).find(is)
            && let Some(value) = std::str::from_utf8(value).ok().filter(|value| value.is_ascii())
        {
            reports.push(((*known).to_owned(), value.to_owned()));
        }
    }
    reports
}

/// Names of headers with times.
const TIME_HEADERS: &[&str] = &[
    "server-timing",
    "x-validation-time",
    "x-queue-time",
    "x-inference-time",
    "x-total-time",
    "openai-processing-ms",
    "x-envoy-upstream-service-time",
    "x-litellm-overhead-duration-ms",
    "x-litellm-response-duration-ms",
    "fireworks-server-time-to-first-token",
    "fireworks-server-processing-time",
];

/// Names of headers that name the worker that answered, the most specific first.
const WORKER_HEADERS: &[&str] = &[
    "x-worker-id",
    "x-worker",
    "x-backend-id",
    "x-backend",
    "x-gateway-destination-endpoint-served",
    "x-litellm-model-id",
    "x-served-by",
];

#[cfg(test)]
mod tests;
