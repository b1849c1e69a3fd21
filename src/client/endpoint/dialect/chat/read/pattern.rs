//! Reads events that differ from an earlier one only in their text, without parsing them.
//!
//! Nearly all events of a stream are such: their IDs, model and empty members are the same. To
//! compare the bytes before and after the text takes a tenth of the time that the parser needs.

use std::borrow::Cow;

use super::{Choice, Chunk, Message};
use crate::endpoint::structure::{Content, TextKind};

/// An event that only added text to a choice.
#[derive(Default)]
pub(super) struct Pattern {
    /// The bytes before the text, with its opening quotation mark; empty if there is no pattern.
    before: Vec<u8>,
    /// The bytes after the text, with its closing quotation mark.
    after: Vec<u8>,
    /// The index of the choice.
    pub(super) choice: u64,
    /// The kind of the text.
    pub(super) kind: TextKind,
}

impl Pattern {
    /// Returns the text of an event that has the pattern.
    pub(super) fn text<'j>(&self, json: &'j [u8]) -> Option<&'j str> {
        if self.before.is_empty() {
            return None;
        }
        let text = json.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        // Quotation marks, escapes and control characters end or change a JSON string.
        let is_plain = text.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\');
        if is_plain { std::str::from_utf8(text).ok() } else { None }
    }

    /// Takes the pattern of a parsed event, if it only added text to a choice. Otherwise, the
    /// pattern before is kept.
    pub(super) fn learn(&mut self, chunk: &Chunk<'_>, json: &[u8]) {
        let Some((choice, text, kind)) = only_text(chunk) else { return };
        let Some(from) = text.as_ptr().addr().checked_sub(json.as_ptr().addr()) else { return };
        let to = from + text.len();
        if let (Some(before @ [.., b'"']), Some(after @ [b'"', ..])) =
            (json.get(..from), json.get(to..))
        {
            before.clone_into(&mut self.before);
            after.clone_into(&mut self.after);
            (self.choice, self.kind) = (choice, kind);
        }
    }
}

/// Returns the index of the choice that a chunk adds text to, the text and its kind; `None` if it does
/// or says anything else that depends on how often it is said, or if the text has escapes.
fn only_text<'c>(chunk: &'c Chunk<'_>) -> Option<(u64, &'c str, TextKind)> {
    let [choice] = &*chunk.choices else { return None };
    let is_silent = chunk.usage.is_none()
        && chunk.usage_metadata.is_none()
        && chunk.envelope().error.is_none()
        && chunk.message.0.is_empty()
        && chunk.envelope().reports.iter().all(Option::is_none);
    let Choice { index, delta, message, text, finish_reason, meta_info, usage, error, extra } =
        choice;
    let is_plain = finish_reason.is_none() && usage.is_none() && error.is_none();
    if !is_silent || !is_plain || meta_info.is_some() || !extra.is_empty() {
        return None;
    }
    let mut texts = vec![(text, TextKind::Output)];
    for message in [delta, message].into_iter().flatten() {
        let Message { content, refusal, reasoning_content, reasoning, .. } = message;
        if message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
            || message.function_call.is_some()
            || message.error.is_some()
            || !message.extra.is_empty()
        {
            return None;
        }
        texts.extend([(content, TextKind::Output), (refusal, TextKind::Output)]);
        texts.extend([(reasoning_content, TextKind::Reasoning), (reasoning, TextKind::Reasoning)]);
    }
    texts.retain(|(text, _)| !text.is_empty());
    let [(Content { text: Cow::Borrowed(text), .. }, kind)] = *texts else { return None };
    Some((index.whole().unwrap_or(0), text, kind))
}
