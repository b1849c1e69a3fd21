//! A parsed response of any dialect.

use std::borrow::Cow;

use super::{ToolCalls, Usage};
use crate::record::{Arrival, RequestError};
use crate::server_family::ServerTiming;

/// Content of a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedResponse {
    /// Arrival time and kind of each content event, in order: text, reasoning, or tool-call deltas.
    /// Events with only a role or usage, and `[DONE]`, are not included.
    pub content: Vec<ContentPiece>,
    /// All output text joined: text, and names and arguments of tool calls, without reasoning.
    /// Choices are separated by line feeds.
    pub output_text: String,
    /// All reasoning text, joined the same way.
    pub reasoning_text: String,
    /// Where in `output_text` the second and further choices begin.
    pub output_choices: Vec<usize>,
    /// Where in `reasoning_text` the second and further choices begin.
    pub reasoning_choices: Vec<usize>,
    /// The usage that the server reported: the largest value of each field.
    pub usage: Option<Usage>,
    /// The completion tokens that the server had reported with the first content event or before
    /// it; absent if it does not report them during the stream.
    pub first_content_tokens: Option<u64>,
    /// The numbers of tool calls.
    pub tool_calls: ToolCalls,
    /// The finish reasons, in the order of the choices; choices without one are left out.
    pub finish_reasons: Vec<String>,
    /// When the event with the first finish reason arrived.
    pub finished: Option<Arrival>,
    /// Whether content followed in a later event than the finish reason. Not known of several choices.
    pub has_content_after_end: bool,
    /// The model that the server reports.
    pub model: Option<String>,
    /// Duration of the generation of a video in seconds, as reported by the server.
    pub inference_seconds: Option<f64>,
    /// Peak accelerator memory during the generation in megabytes, as reported by the server.
    pub peak_memory_megabytes: Option<f64>,
    /// What the server reports about its own times of the request.
    pub server: Option<Box<ServerTiming>>,
    /// What is unusual about it: names of [`note`](super::note).
    pub notes: Vec<Cow<'static, str>>,
    /// Why the response is a failure although its status was 2xx: an error that it contains, a finish
    /// reason that is a failure, invalid JSON, no content at all, or a stream that was cut short.
    pub error: Option<RequestError>,
}

/// Returns the choices of `text`, which begin at `starts`. They are counted separately, since the
/// end of one and the start of the next may not form a token.
pub fn choices<'a>(text: &'a str, starts: &'a [usize]) -> impl Iterator<Item = &'a str> {
    let from = std::iter::once(0).chain(starts.iter().copied());
    // The separator does not belong to any choice.
    let to = starts.iter().map(|start| start.saturating_sub(1)).chain([text.len()]);
    from.zip(to).filter_map(|(from, to)| text.get(from..to))
}

/// One content event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentPiece {
    /// When it arrived.
    pub arrival: Arrival,
    /// Whether it contains output other than reasoning.
    pub is_output: bool,
    /// Index of the choice that it belongs to. An event with content of several choices is a piece of
    /// each.
    pub choice: u16,
}
