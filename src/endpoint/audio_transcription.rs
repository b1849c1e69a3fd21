//! OpenAI audio transcription.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::multipart::{self, Form};
use super::reader::{Answer, Reader, null_is_empty};
use super::text::Text;
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, reader};
use crate::dataset::{Conversation, MediaContent, MediaKinds};
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    content_type: multipart::CONTENT_TYPE,
    tokenizes_input: false,
    takes: MediaKinds::AUDIO,
    needs: MediaKinds::AUDIO,
    takes_urls: false,
    metrics_title: "Audio Transcription Metrics",
    ..EndpointTraits::text("audio_transcription", "/v1/audio/transcriptions", |config| {
        Arc::new(AudioTranscription::new(config))
    })
};

/// `/v1/audio/transcriptions`.
///
/// A request bears the first sound of its own turn as a file; a text of the turn
/// is not sent. The answer is JSON with a text, or a text alone, as the extra
/// `response_format` wants it.
#[derive(Debug)]
pub struct AudioTranscription {
    config: Config,
}

impl AudioTranscription {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }

    /// Whether the whole answer is to be the transcript.
    fn wants_plain(&self) -> bool {
        let mut extras = self.config.extra_inputs.iter().rev();
        let format = extras.find(|(name, _)| name == "response_format");
        format.is_some_and(|(_, format)| matches!(format.as_str(), Some("text" | "srt" | "vtt")))
    }
}

impl Endpoint for AudioTranscription {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Arc<str>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turns.get(turn) else { return Vec::new() };
        let mut form = Form::new(&self.config).field("model", &turn.model);
        if self.config.streaming {
            form = form.field("stream", "true");
        }
        let mut files = turn.media.iter().filter_map(|media| match &media.content {
            MediaContent::Inline(file) => Some(file),
            MediaContent::Url(_) => None,
        });
        match files.next() {
            Some(file) => form.file("file", "audio", file),
            None => form,
        }
        .into_bytes()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<Transcript>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        let opening = body.events.first().and_then(|event| body.raw(event).trim_ascii().first());
        match opening {
            _ if body.is_event_stream => reader::parse::<Transcript>(body),
            Some(b'{') | None => reader::parse::<Transcript>(body),
            Some(b'"') => reader::parse::<Plain>(body),
            Some(_) if self.wants_plain() => reader::parse::<Plain>(body),
            // A page of HTML, say.
            Some(_) => reader::parse::<Transcript>(body),
        }
    }
}

/// Reads a transcript that is the whole body: `text`, `srt` and `vtt`. Some servers
/// make a JSON text of it.
#[derive(Default)]
struct Plain;

impl Reader for Plain {
    fn read(&mut self, body: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        match serde_json::from_slice::<String>(body) {
            Ok(text) => answer.output(&text),
            Err(_) => answer.output(&String::from_utf8_lossy(body)),
        }
        Ok(())
    }
}

/// Reads transcripts: OpenAI's events, those of vLLM, which are chunks of a chat,
/// and JSON.
#[derive(Default)]
pub(super) struct Transcript {
    is_done: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    delta: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_empty")]
    choices: Vec<Choice<'a>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
}

impl Reader for Transcript {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(json)?;
        let ends = event.kind.0 == "transcript.text.done";
        answer.output(&event.delta.0);
        // The last event says the whole text again, as others do parts of it.
        if event.kind.0.is_empty() || ends && answer.response.output_text.is_empty() {
            answer.output(&event.text.0);
        }
        for choice in &event.choices {
            if let Some(delta) = &choice.delta {
                answer.output(&delta.content.0);
            }
            answer.finish_reason(&choice.finish_reason);
        }
        if let Some(error) = event.error {
            answer.report_json(error.get().as_bytes());
        } else if !answer.has_content() && event.message.non_empty().is_some() {
            answer.report_json(json);
        }
        answer.model(&event.model);
        answer.usage(event.usage);
        self.is_done |= ends;
        Ok(())
    }

    fn is_complete(&self, answer: &Answer) -> bool {
        self.is_done || answer.response.finish_reason.is_some()
    }
}

#[cfg(test)]
mod tests;
