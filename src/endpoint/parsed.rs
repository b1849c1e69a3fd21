//! What a response comes to, in any dialect.

use super::Usage;
use crate::record::RequestError;
use crate::units::Nanos;

/// Content of a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedResponse {
    /// Arrival and kind of each piece with non-empty content, in order: text,
    /// reasoning, or tool-call deltas. Role-only, usage-only and `[DONE]`
    /// pieces are not here.
    pub content: Vec<ContentPiece>,
    /// All output text joined: text and tool calls' names and arguments,
    /// without reasoning. A line feed stands between two choices.
    pub output_text: String,
    /// All reasoning text joined, the same way.
    pub reasoning_text: String,
    /// Where in `output_text` the second choice and further ones begin.
    pub output_choices: Vec<usize>,
    /// The same in `reasoning_text`.
    pub reasoning_choices: Vec<usize>,
    /// The usage the server reported: the last non-null value of each field.
    pub usage: Option<Usage>,
    /// The last `finish_reason`.
    pub finish_reason: Option<String>,
    /// The model that the server says answered.
    pub model: Option<String>,
    /// Seconds that generating a video took, as the server says.
    pub inference_seconds: Option<f64>,
    /// Most memory of the accelerator meanwhile, in megabytes, as the server says.
    pub peak_memory_megabytes: Option<f64>,
    /// Why the response is a failure although its status was 2xx: an `error`
    /// event, invalid JSON, no content at all, a stream cut short.
    pub error: Option<RequestError>,
}

/// The choices of a text that `starts` divides, each of which is counted by itself: what
/// one ends with and the next begins with are no token.
pub fn choices<'a>(text: &'a str, starts: &'a [usize]) -> impl Iterator<Item = &'a str> {
    let from = std::iter::once(0).chain(starts.iter().copied());
    // The separator is of no choice.
    let to = starts.iter().map(|start| start.saturating_sub(1)).chain([text.len()]);
    from.zip(to).filter_map(|(from, to)| text.get(from..to))
}

/// One piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentPiece {
    /// When it arrived.
    pub arrival: Nanos,
    /// Whether it bears output other than reasoning.
    pub is_output: bool,
}
