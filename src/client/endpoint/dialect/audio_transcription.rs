//! OpenAI audio transcription.

use serde::Deserialize;

use dataset::{MediaContent, MediaKinds};

use super::{Asked, Dialect, build};
use crate::endpoint::envelope::enveloped;
use crate::endpoint::multipart::{self, Form};
use crate::endpoint::reader::{Answer, Reader, null_is_empty};
use crate::endpoint::text::Text;
use crate::endpoint::{Config, EndpointTraits, ParsedResponse, reader};
use crate::record::ResponseBody;

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    content_type: multipart::CONTENT_TYPE,
    tokenizes_input: false,
    takes: MediaKinds::AUDIO,
    needs: MediaKinds::AUDIO,
    takes_urls: false,
    metrics_title: "Audio Transcription Metrics",
    ..EndpointTraits::text(
        "audio_transcription",
        "/v1/audio/transcriptions",
        build::<AudioTranscription>,
    )
};

/// `/v1/audio/transcriptions`.
///
/// A request contains the first audio file of its turn; texts of the turn are not sent. The
/// response is JSON with a text, or only a text, depending on the extra input
/// `response_format`.
struct AudioTranscription;

impl Dialect for AudioTranscription {
    type Reader = Transcript;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let mut form = Form::new(config).field("model", &asked.turn.model);
        if config.streaming {
            form = form.field("stream", "true");
        }
        let mut files = asked.turn.media.iter().filter_map(|media| match &media.content {
            MediaContent::Inline(file) => Some(file),
            MediaContent::Url(_) => None,
        });
        match files.next() {
            Some(file) => form.file("file", "audio", file),
            None => form,
        }
        .into_bytes()
    }

    fn parse(config: &Config, body: &ResponseBody) -> ParsedResponse {
        let opening = body.events.first().and_then(|event| body.raw(event).trim_ascii().first());
        match opening {
            _ if body.is_event_stream => reader::parse::<Transcript>(body),
            Some(b'{') | None => reader::parse::<Transcript>(body),
            Some(b'"') => reader::parse::<Plain>(body),
            Some(_) if wants_plain(config) => reader::parse::<Plain>(body),
            // For example an HTML page.
            Some(_) => reader::parse::<Transcript>(body),
        }
    }
}

/// Returns whether the whole response body is the transcript.
fn wants_plain(config: &Config) -> bool {
    let mut extras = config.extra_inputs.iter().rev();
    let format = extras.find(|(name, _)| name == "response_format");
    format.is_some_and(|(_, format)| matches!(format.as_str(), Some("text" | "srt" | "vtt")))
}

/// Parses a transcript that is the whole body: `text`, `srt` and `vtt`. Some servers send it
/// as a JSON string.
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

/// Parses transcripts: OpenAI's events, vLLM's, which are chat chunks, and JSON.
#[derive(Default)]
pub(in crate::endpoint) struct Transcript {
    is_done: bool,
}

enveloped! {
    struct Event<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow, default)]
        text: Text<'a>,
        #[serde(borrow, default)]
        delta: Text<'a>,
        #[serde(borrow, default, deserialize_with = "null_is_empty")]
        choices: Vec<Choice<'a>>,
    }
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
        // The last event repeats the whole text, and other events repeat parts of it.
        if event.kind.0.is_empty() || ends && !answer.has_output() {
            answer.output(&event.text.0);
        }
        for choice in &event.choices {
            if let Some(delta) = &choice.delta {
                answer.output(&delta.content.0);
            }
            answer.finish_reason(&choice.finish_reason.0);
        }
        answer.envelope(event.envelope(), json, answer.has_content());
        self.is_done |= ends;
        Ok(())
    }

    fn is_complete(&self, answer: &Answer) -> bool {
        self.is_done || answer.has_finish_reason()
    }
}

#[cfg(test)]
mod tests;
