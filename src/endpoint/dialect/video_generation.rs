//! OpenAI video generation, which `SGLang` also implements.

use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dataset::{Conversation, MediaKinds};
use crate::endpoint::body::joined_text;
use crate::endpoint::envelope::enveloped;
use crate::endpoint::multipart::{self, Form};
use crate::endpoint::text::Text;
use crate::endpoint::{
    Config, ContentPiece, Endpoint, EndpointTraits, NextStep, ParsedResponse, Usage, error,
};
use crate::record::{Arrival, ErrorKind, RequestError, ResponseBody};
use crate::units::Nanos;

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    content_type: multipart::CONTENT_TYPE,
    supports_streaming: false,
    produces_tokens: false,
    needs_text: true,
    produces: MediaKinds::VIDEO,
    metrics_title: "Video Generation Metrics",
    ..EndpointTraits::text("video_generation", "/v1/videos", |config| {
        Arc::new(VideoGeneration::new(config))
    })
};

/// `/v1/videos`.
///
/// A request contains its turn's text; size, duration and so on are extra inputs. The response is a
/// job, which is polled until it is complete; then the video is downloaded if configured. The
/// request lasts until then. The response is the last state of the job, which is one content event
/// if the job is complete.
#[derive(Debug)]
pub(crate) struct VideoGeneration {
    config: Config,
}

impl VideoGeneration {
    /// Creates the dialect with these settings.
    #[must_use]
    pub(crate) fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

/// Maximum length of the identifier of a job that is polled.
const MAX_ID: usize = 1024;

impl Endpoint for VideoGeneration {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turn(turn) else { return Vec::new() };
        Form::new(&self.config)
            .field("prompt", &joined_text(conversation, turn))
            .field("model", &turn.model)
            .into_bytes()
    }

    fn next_step(
        &self,
        asked: Option<&NextStep>,
        last: &ResponseBody,
    ) -> Result<Option<NextStep>, RequestError> {
        let raw = last.events.first().map_or(&[][..], |event| last.raw(event));
        let Ok(job) = serde_json::from_slice::<Job<'_>>(raw) else {
            return Ok(None);
        };
        let Some(id) = job.id.non_empty().filter(|id| id.len() <= MAX_ID) else { return Ok(None) };
        let path = format!("/{}", utf8_percent_encode(id, NON_ALPHANUMERIC));
        if let Some(asked) = asked.filter(|asked| asked.suffix != path) {
            let message = format!("expected {}, got {}", asked.waits_for, job.named());
            return Err(RequestError::new(ErrorKind::Parse, "OtherVideoJob", message));
        }
        let status = job.status.0.as_ref();
        Ok(match State::of(status) {
            State::Going => Some(NextStep {
                after: self.config.video.poll_interval,
                suffix: path,
                is_download: false,
                waits_for: format!("job {id}, which was {status}"),
            }),
            State::Complete if self.config.video.download && job.error.is_none() => {
                Some(NextStep {
                    after: Nanos::ZERO,
                    suffix: path + "/content",
                    is_download: true,
                    waits_for: format!("the video of job {id}"),
                })
            }
            _ => None,
        })
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        let mut response = ParsedResponse::default();
        let Some(event) = body.events.first() else {
            response.error = Some(error::empty_response(None, &[]));
            return response;
        };
        let raw = body.raw(event);
        match serde_json::from_slice::<Job<'_>>(raw) {
            Ok(job) => job.read(raw, event.arrival, &mut response),
            Err(why) => response.error = Some(error::invalid_json(1, 1, raw, &why)),
        }
        response
    }
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Complete,
    Failed,
    Unknown,
}

impl State {
    fn of(status: &str) -> Self {
        match status {
            "queued" | "in_progress" | "pending" | "processing" | "running" => Self::Going,
            "completed" | "succeeded" => Self::Complete,
            "failed" | "cancelled" | "canceled" | "expired" => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

enveloped! {
    struct Job<'a> {
        #[serde(borrow, default)]
        id: Text<'a>,
        #[serde(borrow, default)]
        status: Text<'a>,
        #[serde(borrow, default)]
        inference_time_s: Option<&'a RawValue>,
        #[serde(borrow, default)]
        peak_memory_mb: Option<&'a RawValue>,
    }
}

impl Job<'_> {
    fn read(&self, raw: &[u8], arrival: Arrival, response: &mut ParsedResponse) {
        let envelope = self.envelope();
        response.model = envelope.model.non_empty().map(str::to_owned);
        response.inference_seconds = self.inference_time_s.and_then(number);
        response.peak_memory_megabytes = self.peak_memory_mb.and_then(number);
        if let Some(reported) = envelope.usage {
            let mut usage = Usage::default();
            usage.merge(reported);
            response.usage = (!usage.is_empty()).then_some(usage);
        }
        let status = &*self.status.0;
        response.error = match (envelope.error, State::of(status)) {
            (Some(error), _) => {
                let value = serde_json::from_str(error.get()).unwrap_or(Value::Null);
                Some(self.failed(error::reported(&value)))
            }
            (None, State::Complete) => {
                response.content.push(ContentPiece { arrival, is_output: true, choice: 0 });
                None
            }
            (None, State::Failed) => {
                let message = format!("{} is {status}, without a reason", self.named());
                Some(RequestError::new(ErrorKind::Other, "VideoJobFailed", message))
            }
            (None, State::Going) if self.id.0.is_empty() || self.id.0.len() > MAX_ID => {
                let message = format!("a job that is {status} does not have an ID to poll");
                Some(RequestError::new(ErrorKind::Parse, "NoVideoJob", message))
            }
            (None, State::Going) => {
                let message = format!("{} was still {status}", self.named());
                Some(RequestError::new(ErrorKind::Other, "VideoJobNotDone", message))
            }
            (None, State::Unknown) if envelope.message.non_empty().is_some() => {
                Some(error::reported(&serde_json::from_slice(raw).unwrap_or(Value::Null)))
            }
            (None, State::Unknown) => {
                let status: String = status.chars().take(100).collect();
                let message = format!("{} has the unknown status {status:?}", self.named());
                Some(RequestError::new(ErrorKind::Parse, "UnknownVideoJobStatus", message))
            }
        };
    }

    fn named(&self) -> String {
        let id: String = self.id.0.chars().take(100).collect();
        format!("job {id:?}")
    }

    /// Returns the error with the job's identifier in its message.
    fn failed(&self, error: RequestError) -> RequestError {
        let name =
            if error.name == "ServerError" { "VideoJobFailed".to_owned() } else { error.name };
        let message = match self.id.non_empty() {
            Some(_) => format!("{}: {}", self.named(), error.message),
            None => error.message,
        };
        RequestError { name, message, ..error }
    }
}

/// Returns a number if it is finite and not negative.
fn number(raw: &RawValue) -> Option<f64> {
    serde_json::from_str(raw.get()).ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests;
