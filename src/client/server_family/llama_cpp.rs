//! llama.cpp, recorded from b11434. It does not count requests, and writes six digits.

use super::declaration::InServer::{Running, Waiting};
use super::declaration::Statistic::{Avg, Max, Rate};
use super::declaration::{
    Count, PrefixCounters, Quantity, ServerFamily, Times, completion_tokens, counter, gauge,
    prompt_tokens, seconds,
};
use super::timing::{Drafted, Object, Scale, ServerTiming, Stages};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    watched: &[
        gauge("llamacpp:requests_processing", Avg, "requests in slots").counts(Running),
        gauge("llamacpp:requests_deferred", Max, "queue; growing means saturated").counts(Waiting),
        gauge("llamacpp:n_busy_slots_per_decode", Max, "slots in use, since the server started"),
        counter("llamacpp:prompt_tokens", Rate, "prefill throughput without cached tokens"),
        counter("llamacpp:prompt_tokens_cached", Rate, "prompt tokens from the cache"),
        counter("llamacpp:tokens_predicted", Rate, "decode throughput"),
    ],
    counts: &[
        Count {
            cached: Some("llamacpp:prompt_tokens_cached"),
            ..prompt_tokens("llamacpp:prompt_tokens")
        },
        completion_tokens("llamacpp:tokens_predicted"),
    ],
    times: Times {
        prefill: Some(seconds("llamacpp:prompt_seconds")),
        decode: Some(seconds("llamacpp:tokens_predicted_seconds")),
        counter: Some(("llamacpp:tokens_predicted", Quantity::CompletionTokens)),
        digits: Some(6),
        ..Times::NONE
    },
    prefix_cache: Some(PrefixCounters {
        queries: &["llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"],
        hits: &["llamacpp:prompt_tokens_cached"],
    }),
    ..ServerFamily::engine("llama.cpp", "llama.cpp", "llamacpp:")
};

/// Reads `timings` of a response. The wait for a slot is not reported.
pub(super) fn timing(timings: &Object<'_>, timing: &mut ServerTiming) {
    let milliseconds = |name| Scale::MILLISECONDS.read_member(timings, name);
    let stages = Stages {
        prefill: milliseconds("prompt_ms"),
        decode: milliseconds("predicted_ms"),
        ..Stages::default()
    };
    timing.report(FAMILY.name, stages, None, None);
    if let Some(drafted) = timings.count("draft_n") {
        let accepted = timings.count("draft_n_accepted");
        timing.speculation = Some(Drafted { steps: None, tokens: Some(drafted), accepted });
    }
}
