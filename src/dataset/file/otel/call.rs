//! Requests as they were recorded, with their texts in a pool, since the input of a request repeats
//! those before it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::dialect::{Content, Facts};

/// Texts, each stored once, by number.
#[derive(Default)]
pub(super) struct Pool {
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Pool {
    /// Returns the number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let (number, text) = (self.texts.len() as u32, Arc::<str>::from(text));
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// Returns the number of `value` as JSON.
    fn json(&mut self, value: &impl Serialize) -> u32 {
        // Messages and settings can be written as JSON.
        self.number(&serde_json::to_string(value).unwrap_or_default())
    }

    /// Returns the text with this number.
    pub(super) fn text(&self, number: u32) -> Arc<str> {
        self.texts.get(number as usize).cloned().unwrap_or_default()
    }
}

/// A recorded request. Texts are numbers in the [`Pool`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Call {
    /// The key of its span.
    pub(super) key: u64,
    /// The trace.
    pub(super) trace: u64,
    /// Start and end, in nanoseconds since the epoch.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) has_failed: bool,
    /// Number of requests that it stands for after sampling.
    pub(super) adjusted_count: f64,
    pub(super) model: Option<u32>,
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: Option<u32>,
    /// The limit of the output that was requested.
    pub(super) max_tokens: Option<u32>,
    /// Further members of the body, as a JSON list of pairs.
    pub(super) settings: Option<u32>,
    pub(super) said: Said,
}

/// What a request and its response say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Said {
    /// The messages of the request; empty if they are unknown.
    pub(super) input: Vec<u32>,
    /// What each message of the request is.
    pub(super) kinds: Vec<MessageKind>,
    pub(super) output: Option<u32>,
    /// The IDs of the tool calls in the response.
    pub(super) tool_calls: Vec<u32>,
    /// The declared tools.
    pub(super) tools: Option<u32>,
    /// Whether part of the messages is missing.
    pub(super) is_cut: bool,
    /// Parts that the chat API does not take.
    pub(super) reasoning: u64,
    pub(super) unknown: u64,
}

/// What a message of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A text of the model.
    Answer,
    /// A message of the model that calls tools.
    ToolCalls,
    /// The result of the tool call with this ID.
    ToolResult(u32),
    /// Any other.
    Other,
}

impl Said {
    /// Stores the messages of a request.
    pub(super) fn new(content: &Content, pool: &mut Pool) -> Self {
        let mut said = Self {
            output: content.output.as_ref().map(|output| pool.json(output)),
            tool_calls: content
                .output
                .iter()
                .flat_map(|output| &output.tool_calls)
                .map(|call| pool.number(&call.id))
                .collect(),
            tools: content.tools.as_ref().map(|tools| pool.json(tools)),
            is_cut: content.is_cut,
            ..Self::default()
        };
        if content.is_usable() {
            for message in &content.input.all {
                said.input.push(pool.json(message));
                said.kinds.push(match (&*message.role, &message.tool_call_id) {
                    ("assistant", _) if message.tool_calls.is_empty() => MessageKind::Answer,
                    ("assistant", _) => MessageKind::ToolCalls,
                    (_, Some(id)) => MessageKind::ToolResult(pool.number(id)),
                    _ => MessageKind::Other,
                });
            }
            (said.reasoning, said.unknown) = (content.input.reasoning, content.input.unknown);
        }
        said
    }
}

impl Call {
    /// Sets the facts beside the messages.
    pub(super) fn with(self, facts: Facts, pool: &mut Pool) -> Self {
        let Facts { model, input_tokens, output_tokens, max_tokens, settings } = facts;
        let model = model.map(|model| pool.number(&model));
        let settings = (!settings.is_empty()).then(|| pool.json(&settings));
        Self { model, input_tokens, output_tokens, max_tokens, settings, ..self }
    }

    /// Returns whether its messages are known.
    pub(super) fn has_messages(&self) -> bool {
        !self.said.input.is_empty()
    }

    /// Returns whether it can be sent again, with its messages or with a text of the same length.
    pub(super) fn is_usable(&self) -> bool {
        self.has_messages() || self.input_tokens.is_some_and(|tokens| tokens > 0)
    }
}
