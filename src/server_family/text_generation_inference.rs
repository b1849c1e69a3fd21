//! Text Generation Inference.
//!
//! Source: `docs/source/reference/metrics.md`.

use super::declaration::{ServerFamily, Times, seconds};

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily {
    times: Times { whole: Some(seconds("tgi_request_duration")), ..Times::NONE },
    ..ServerFamily::engine("text-generation-inference", "Text Generation Inference", "tgi_")
};
