//! Parses responses of Text Generation Inference, streamed or not.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::endpoint::reader::{Answer, Reader};
use crate::endpoint::text::{Number, Text};

/// Whether the stream is complete.
#[derive(Default)]
pub(in crate::endpoint) struct Tokens {
    is_complete: bool,
}

/// One event of a stream, or a response that is not streamed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow)]
    token: Option<Token<'a>>,
    /// The whole text, in the last event.
    #[serde(borrow)]
    generated_text: Option<Text<'a>>,
    #[serde(borrow)]
    details: Option<Details<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    error_type: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Token<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    /// Whether the token is not part of the text, such as the one that ends it.
    special: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    finish_reason: Text<'a>,
    generated_tokens: Number,
    input_length: Number,
}

impl Reader for Tokens {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        // Responses that are not streamed may be lists with one item per input.
        if json.trim_ascii_start().starts_with(b"[") {
            for event in serde_json::from_slice::<Vec<Event<'_>>>(json)? {
                self.event(&event, answer);
            }
        } else {
            self.event(&serde_json::from_slice(json)?, answer);
        }
        Ok(())
    }

    fn is_complete(&self, _answer: &Answer) -> bool {
        self.is_complete
    }
}

impl Tokens {
    fn event(&mut self, event: &Event<'_>, answer: &mut Answer) {
        answer.report_typed(event.error, &event.error_type);
        match (&event.token, &event.generated_text) {
            (Some(token), _) if token.special == Some(true) => {}
            (Some(token), _) => answer.output(&token.text.0),
            // The last event repeats the whole text in addition to its token.
            (None, Some(text)) => answer.output(&text.0),
            (None, None) => {}
        }
        self.is_complete |= event.generated_text.is_some();
        if let Some(details) = &event.details {
            answer.finish_reason(&details.finish_reason.0);
            answer.counts(details.input_length.whole(), details.generated_tokens.whole());
        }
    }
}
