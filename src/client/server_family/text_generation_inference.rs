//! Text Generation Inference.
//!
//! Source: `docs/source/reference/metrics.md`.

use super::declaration::{ServerFamily, Times, seconds};
use super::timing::{Scale, ServerTiming, Stages};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    times: Times { whole: Some(seconds("tgi_request_duration")), ..Times::NONE },
    ..ServerFamily::engine("text-generation-inference", "Text Generation Inference", "tgi_")
};

/// Reads the headers of a response that is not streamed, in whole milliseconds.
pub(super) fn headers<'a>(value: impl Fn(&str) -> Option<&'a str>, timing: &mut ServerTiming) {
    let milliseconds = |name| Scale::MILLISECONDS.parse(value(name)?);
    let stages = Stages {
        front_end: milliseconds("x-validation-time"),
        queue: milliseconds("x-queue-time"),
        prefill_and_decode: milliseconds("x-inference-time"),
        ..Stages::default()
    };
    // Other servers have headers with the name of one of these.
    if stages.queue.is_some() && stages.prefill_and_decode.is_some() {
        timing.report(FAMILY.name, stages, None, milliseconds("x-total-time"));
    }
}
