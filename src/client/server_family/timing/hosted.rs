//! Services and proxies, whose metrics cannot be scraped.
//!
//! Sources: the SDKs groq 1.7.0, cerebras-cloud-sdk 1.91.0 and fireworks-ai 1.2.30; `LiteLLM`
//! 1.110.2; `docs.nvidia.com` (NIM 1.14, per-request metrics); `docs.ollama.com/api/usage`.

use super::{Object, Scale, ServerTiming, Stages, rest};

/// Reads `stats`, which NIM and LM Studio have. The time to the first token of NIM starts when the
/// request is processed, that of LM Studio when it arrives.
pub(super) fn stats(object: &Object<'_>, timing: &mut ServerTiming) {
    let tokens = object.object("response_tokens");
    let stages = Stages {
        queue: Scale::MILLISECONDS.read_member(object, "time_in_queue_in_ms"),
        prefill: Scale::MILLISECONDS.read_member(&tokens, "time_to_first_token_in_ms"),
        ..Stages::default()
    };
    timing.report("nim", stages, None, None);
    let first_token = Scale::SECONDS.read_member(object, "time_to_first_token");
    timing.report("lmstudio", Stages::default(), first_token, None);
}

/// Reads `time_info` of Cerebras.
pub(super) fn cerebras(object: &Object<'_>, timing: &mut ServerTiming) {
    timing.report("cerebras", queue_prompt_completion(object), None, None);
}

/// Reads `x_groq`, with which Groq ends a stream.
pub(super) fn groq(object: &Object<'_>, timing: &mut ServerTiming) {
    groq_usage(&object.object("usage"), timing);
}

/// Reads the times in the `usage` of Groq.
pub(super) fn groq_usage(usage: &Object<'_>, timing: &mut ServerTiming) {
    timing.report("groq", queue_prompt_completion(usage), None, None);
}

fn queue_prompt_completion(object: &Object<'_>) -> Stages {
    Stages {
        queue: Scale::SECONDS.read_member(object, "queue_time"),
        prefill: Scale::SECONDS.read_member(object, "prompt_time"),
        decode: Scale::SECONDS.read_member(object, "completion_time"),
        ..Stages::default()
    }
}

/// Reads `perf_metrics` of Fireworks: the totals always, the stages only of dedicated deployments.
pub(super) fn fireworks(object: &Object<'_>, timing: &mut ServerTiming) {
    let seconds = |name| Scale::SECONDS.read_member(object, name);
    let sum = |names: [&'static str; 2]| names.into_iter().map(seconds).sum::<Option<f64>>();
    let stages = Stages {
        front_end: sum(["tokenizer-queue-duration", "tokenizer-duration"]),
        queue: seconds("prefill-queue-duration"),
        prefill: seconds("prefill-duration"),
        decode: sum(["generation-queue-duration", "generation-duration"]),
        ..Stages::default()
    };
    let first_token = seconds("server-time-to-first-token");
    timing.report("fireworks", stages, first_token, seconds("server-processing-time"));
    if let Some(host) = object.text("backend-host") {
        timing.answered_by(&host);
    }
}

/// Reads the members with which Ollama ends a response. What is neither loading, prefill nor decode
/// is not divided.
pub(super) fn ollama(response: &Object<'_>, timing: &mut ServerTiming) {
    let nanoseconds = |name| Scale::NANOSECONDS.read_member(response, name);
    let stages = Stages {
        front_end: nanoseconds("load_duration"),
        prefill: nanoseconds("prompt_eval_duration"),
        decode: nanoseconds("eval_duration"),
        ..Stages::default()
    };
    let whole = nanoseconds("total_duration");
    let first_token = rest(whole, stages.decode);
    // Other servers do not have all of these members.
    if whole.is_some() && stages.decode.is_some() {
        timing.report("ollama", stages, first_token, whole);
    }
}

/// Reads the headers of responses that are not streamed.
pub(super) fn headers<'a>(value: impl Fn(&str) -> Option<&'a str>, timing: &mut ServerTiming) {
    let milliseconds = |name| Scale::MILLISECONDS.parse(value(name)?);
    let seconds = |name| Scale::SECONDS.parse(value(name)?);
    let none = Stages::default();
    // The innermost server comes last, since it knows best.
    timing.report("envoy", none, None, milliseconds("x-envoy-upstream-service-time"));
    let overhead = Stages { front_end: milliseconds("x-litellm-overhead-duration-ms"), ..none };
    timing.report("litellm", overhead, None, milliseconds("x-litellm-response-duration-ms"));
    timing.report("openai", none, None, milliseconds("openai-processing-ms"));
    let first_token = seconds("fireworks-server-time-to-first-token");
    let whole = seconds("fireworks-server-processing-time");
    timing.report("fireworks", none, first_token, whole);
}
