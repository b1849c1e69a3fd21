//! OpenAI video generation, which `SGLang` also implements.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::RawValue;

use base::units::Nanos;
use dataset::MediaKinds;

use super::{Asked, Dialect, build};
use crate::endpoint::body::joined_text;
use crate::endpoint::envelope::enveloped;
use crate::endpoint::multipart::{self, Form};
use crate::endpoint::reader::{Answer, Reader};
use crate::endpoint::text::Text;
use crate::endpoint::{Config, EndpointTraits, NextStep, error};
use crate::record::{ErrorKind, RequestError, ResponseBody};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    content_type: multipart::CONTENT_TYPE,
    supports_streaming: false,
    produces_tokens: false,
    needs_text: true,
    produces: MediaKinds::VIDEO,
    metrics_title: "Video Generation Metrics",
    ..EndpointTraits::text("video_generation", "/v1/videos", build::<VideoGeneration>)
};

/// Maximum length of the identifier of a job that is polled.
const MAX_ID: usize = 1024;

/// `/v1/videos`.
///
/// A request contains its turn's text; size, duration and so on are extra inputs. The response is a
/// job, which is polled until it is complete; then the video is downloaded if configured. The
/// request lasts until then. The response is the last state of the job, which is one content event
/// if the job is complete.
struct VideoGeneration;

impl Dialect for VideoGeneration {
    type Reader = Jobs;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        Form::new(config)
            .field("prompt", &joined_text(asked.conversation, asked.turn))
            .field("model", &asked.turn.model)
            .into_bytes()
    }

    fn next_step(
        config: &Config,
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
        Ok(match State::named(status) {
            State::Going => Some(NextStep {
                after: config.video.poll_interval,
                suffix: path,
                is_download: false,
                waits_for: format!("job {id}, which was {status}"),
            }),
            State::Complete if config.video.download && job.error.is_none() => Some(NextStep {
                after: Nanos::ZERO,
                suffix: path + "/content",
                is_download: true,
                waits_for: format!("the video of job {id}"),
            }),
            _ => None,
        })
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
    fn named(status: &str) -> Self {
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

/// Parses the last state of a job.
#[derive(Default)]
struct Jobs;

impl Reader for Jobs {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let job: Job<'_> = serde_json::from_slice(json)?;
        answer.model(&job.model);
        answer.usage(job.usage);
        answer.response.inference_seconds = job.inference_time_s.and_then(number);
        answer.response.peak_memory_megabytes = job.peak_memory_mb.and_then(number);
        match State::named(&job.status.0) {
            State::Complete if job.envelope().error.is_none() => answer.find_if(true),
            state => answer.report(|| job.failure(state, json)),
        }
        Ok(())
    }
}

impl Job<'_> {
    /// Returns why the job does not have a video, or not yet; `json` is the whole job.
    fn failure(&self, state: State, json: &[u8]) -> RequestError {
        let reported =
            |json: &[u8]| error::reported(&serde_json::from_slice(json).unwrap_or(Value::Null));
        if let Some(error) = self.envelope().error {
            return self.failed(reported(error.get().as_bytes()));
        }
        let status = &*self.status.0;
        let (kind, name, message) = match state {
            State::Failed => {
                let message = format!("{} is {status}, without a reason", self.named());
                (ErrorKind::Other, "VideoJobFailed", message)
            }
            State::Going if self.id.0.is_empty() || self.id.0.len() > MAX_ID => {
                let message = format!("a job that is {status} does not have an ID to poll");
                (ErrorKind::Parse, "NoVideoJob", message)
            }
            State::Going => {
                let message = format!("{} was still {status}", self.named());
                (ErrorKind::Other, "VideoJobNotDone", message)
            }
            State::Complete | State::Unknown if self.message.non_empty().is_some() => {
                return reported(json);
            }
            State::Complete | State::Unknown => {
                let status: String = status.chars().take(100).collect();
                let message = format!("{} has the unknown status {status:?}", self.named());
                (ErrorKind::Parse, "UnknownVideoJobStatus", message)
            }
        };
        RequestError::new(kind, name, message)
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
