//! What the server reports of the times of a request, in the forms of several servers. Pure.

mod spans;

use std::fmt::Write as _;

use http::{HeaderName, HeaderValue};

use base::setting::named;
use base::units::Nanos;

pub use self::spans::SpanExport;
pub(super) use self::spans::{PendingSpans, SpanSender};
use super::script::Script;

/// The stages of each request, and the form in which they are reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// The server whose form it is.
    pub form: TimingForm,
    /// The part of `ttft` in which the request is in the queue.
    pub queue: Nanos,
    /// The part of `ttft` in which the KV cache is transferred.
    pub kv_transfer: Nanos,
    /// Number of workers, which respond in turn.
    pub workers: u64,
    /// Number of tokens that are drafted for each step after the first, one of which is accepted.
    pub draft_tokens: u64,
    /// Where spans with the times are sent, if any are.
    pub spans: Option<SpanExport>,
}

impl TimingForm {
    /// Returns whether there are spans of this server.
    pub(super) const fn has_spans(self) -> bool {
        matches!(self, Self::Vllm | Self::Dynamo | Self::DynamoSeparate | Self::DynamoBootstrap)
    }
}

impl Timing {
    /// Returns the settings of a server of this form without a queue, a transfer or drafts.
    #[must_use]
    pub const fn for_form(form: TimingForm) -> Self {
        Self {
            form,
            queue: Nanos::ZERO,
            kv_transfer: Nanos::ZERO,
            workers: 1,
            draft_tokens: 0,
            spans: None,
        }
    }
}

/// A server that reports times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingForm {
    /// vLLM: `metrics`.
    Vllm,
    /// Dynamo: `nvext`.
    Dynamo,
    /// Dynamo with separate workers for prefill and decode.
    DynamoSeparate,
    /// The same with bootstrap, so that Dynamo does not estimate the transfer.
    DynamoBootstrap,
    /// SGLang: `meta_info`, only without streaming.
    Sglang,
    /// llama.cpp: `timings`.
    LlamaCpp,
    /// TensorRT-LLM: a header, or an event after the end of a stream.
    TensorrtLlm,
    /// Text Generation Inference: headers, only without streaming.
    Tgi,
}

named! {
    TimingForm {
        "vllm" => Vllm,
        "dynamo" => Dynamo,
        "dynamo_separate" => DynamoSeparate,
        "dynamo_bootstrap" => DynamoBootstrap,
        "sglang" => Sglang,
        "llama.cpp" => LlamaCpp,
        "tensorrt_llm" => TensorrtLlm,
        "tgi" => Tgi,
    }
}

/// The report of one request, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Report {
    form: TimingForm,
    worker: u64,
    queue: f64,
    prefill: f64,
    kv_transfer: f64,
    decode: f64,
    /// Steps that verified drafts, and the drafted tokens of each.
    drafts: [u64; 2],
}

/// The first worker's ID; like Dynamo's, it is not a number that an f64 can represent.
const FIRST_WORKER: u64 = 9_007_199_254_740_993;

impl Report {
    /// Returns the report of the request with this `number`, which `waited` for a slot, whose first
    /// token took `ttft`, and which has a number of `chunks`. All times are multiplied by `factor`, which is 1 unless the server lies.
    pub(super) fn new(
        script: &Script,
        number: u64,
        [waited, ttft]: [Nanos; 2],
        chunks: u64,
        factor: u32,
    ) -> Option<Self> {
        let Timing { form, queue, kv_transfer, workers, draft_tokens, .. } = script.timing?;
        let milliseconds = |time: Nanos| time.as_millis() * f64::from(factor);
        let prefill = ttft.0.saturating_sub(queue.0).saturating_sub(kv_transfer.0);
        Some(Self {
            form,
            worker: FIRST_WORKER + 2 * (number % workers.max(1)),
            queue: milliseconds(queue + waited),
            prefill: milliseconds(Nanos(prefill)),
            kv_transfer: milliseconds(kv_transfer),
            decode: milliseconds(Nanos(script.itl.0.saturating_mul(chunks.saturating_sub(1)))),
            drafts: [chunks.saturating_sub(1), draft_tokens],
        })
    }

    /// Returns the members beside usage, each with a comma before it.
    pub(super) fn beside_usage(&self) -> String {
        let Self { queue, prefill, kv_transfer, decode, .. } = self;
        match self.form {
            // On a worker for decode, the queue contains the transfer.
            TimingForm::Vllm => format!(
                r#","metrics":{{"time_to_first_token_ms":{prefill},"generation_time_ms":{decode},"queue_time_ms":{}{}}}"#,
                queue + kv_transfer,
                self.speculation()
            ),
            TimingForm::LlamaCpp => {
                format!(r#","timings":{{"prompt_ms":{prefill},"predicted_ms":{decode}}}"#)
            }
            _ => String::new(),
        }
    }

    /// Returns what vLLM reports of drafts, with a comma before it.
    fn speculation(&self) -> String {
        match self.drafts {
            [_, 0] => String::new(),
            [steps, tokens] => format!(
                r#","speculative_decoding":{{"num_spec_steps":{steps},"num_accepted_draft_tokens":{steps},"num_draft_tokens":{}}}"#,
                steps * tokens
            ),
        }
    }

    /// Returns the members of the last chunk with a choice, each with a comma before it.
    pub(super) fn beside_choices(&self) -> String {
        let Self { worker, queue, prefill, kv_transfer, decode, .. } = *self;
        let (prefill_worker, transfer) = match self.form {
            TimingForm::Dynamo => (worker, String::new()),
            TimingForm::DynamoSeparate => {
                (1, format!(r#","kv_transfer_estimated_latency_ms":{kv_transfer}"#))
            }
            TimingForm::DynamoBootstrap => {
                (1, r#","kv_transfer_estimated_latency_ms":0.0"#.to_owned())
            }
            _ => return String::new(),
        };
        let first = queue + prefill;
        let total = first + kv_transfer + decode;
        format!(
            r#","nvext":{{"worker_id":{{"prefill_worker_id":{prefill_worker},"decode_worker_id":{worker}}},"timing":{{"prefill_wait_time_ms":0,"prefill_time_ms":{first},"ttft_ms":{first},"total_time_ms":{total}{transfer}}}}}"#
        )
    }

    /// Returns the member of a choice in a response that is not streamed, with a comma before it.
    pub(super) fn in_choice(&self) -> String {
        if self.form != TimingForm::Sglang {
            return String::new();
        }
        let [queue, prefill, kv_transfer, decode] =
            [self.queue, self.prefill, self.kv_transfer, self.decode].map(|ms| ms / 1e3);
        let first = queue + prefill + kv_transfer;
        let total = first + decode;
        // Rounded as SGLang's clock is.
        let finished = 1_795_535_143.0 + prefill;
        format!(
            r#","meta_info":{{"queue_time":{queue},"forward_entry_time":1795535143.0,"prefill_finished_time":{finished},"first_token_latency":{first},"e2e_latency":{total}}}"#
        )
    }

    /// Returns the event after the end of a stream.
    pub(super) fn after_end(&self) -> Option<String> {
        let text = self.server_timing()?;
        let mut event = String::from("event: trtllm.perf_metrics\ndata: ");
        let _ = write!(event, r#"{{"Server-Timing":"{text}"}}"#);
        Some(event)
    }

    fn server_timing(&self) -> Option<String> {
        let Self { form, queue, prefill, kv_transfer, decode, .. } = self;
        let first = queue + prefill + kv_transfer;
        let total = first + decode;
        (*form == TimingForm::TensorrtLlm).then(|| {
            format!("server_queue;dur={queue}, server_ttft;dur={first}, server_e2e;dur={total}")
        })
    }

    /// Returns the headers of a response that is not streamed.
    pub(super) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let Self { queue, prefill, kv_transfer, decode, .. } = self;
        let inference = prefill + kv_transfer + decode;
        let header = |name, value: String| {
            Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?))
        };
        let headers = match self.form {
            TimingForm::Tgi => vec![
                header("x-queue-time", format!("{queue:.0}")),
                header("x-inference-time", format!("{inference:.0}")),
                header("x-total-time", format!("{:.0}", queue + inference)),
            ],
            _ => vec![self.server_timing().and_then(|text| header("server-timing", text))],
        };
        headers.into_iter().flatten().collect()
    }
}
