//! The API dialects of the server. A new dialect is a file of its own and a row in [`ALL`]; slots,
//! schedule, faults and the write log are the same for all.

mod audio_transcription;
mod chat;
mod completions;
mod embeddings;
mod form;
mod gemini;
mod huggingface_generate;
mod image_edit;
mod image_generation;
mod image_retrieval;
mod messages;
mod openai;
#[cfg(test)]
mod proof;
mod rankings;
mod responses;
mod solido_rag;
mod video_generation;

use std::borrow::Cow;
use std::fmt::Debug;

use bytes::Bytes;
use http::Method;
use percent_encoding::percent_decode_str;

use base::units::Nanos;

use super::JSON;
use super::reply::{Chunk, Reply};
use super::request::{Ask, BadRequest};

/// All dialects.
pub(super) static ALL: &[&dyn Dialect] = &[
    &chat::Chat,
    &completions::Completions,
    &embeddings::Embeddings,
    &responses::Responses,
    &messages::Messages,
    &gemini::Gemini,
    &huggingface_generate::HuggingFaceGenerate,
    &rankings::Rankings::Cohere,
    &rankings::Rankings::HfTei,
    &rankings::Rankings::Nim,
    &image_generation::ImageGeneration,
    &image_edit::ImageEdit,
    &audio_transcription::AudioTranscription,
    &video_generation::VideoGeneration,
    &image_retrieval::ImageRetrieval,
    &solido_rag::SolidoRag,
    #[cfg(test)]
    &proof::Proof,
];

/// Reads requests and writes responses.
///
/// A stream consists of `openings` events, chunks of tokens, and `closings` events; each method
/// appends one event without the blank line that ends it. Anything that must come between two
/// chunks precedes the second one, as separate events.
pub(super) trait Dialect: Debug + Sync {
    /// Returns the paths that the dialect serves.
    fn routes(&self) -> &'static [Route];

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest>;

    /// Returns the body of a response that is not streamed.
    fn whole(&self, reply: &Reply) -> Vec<u8>;

    /// Returns the media type of responses that are not streamed.
    fn media_type(&self, _reply: &Reply) -> &'static str {
        JSON
    }

    fn generates(&self) -> bool {
        true
    }

    /// Returns whether some of the tokens may be reasoning.
    fn reasons(&self) -> bool {
        false
    }

    /// Returns whether the tokens after those of reasoning can be in a tool call.
    fn can_call_tools(&self) -> bool {
        false
    }

    /// Returns whether a request gets a response at once while its work continues until
    /// [`Reply::ready`]. The client then [looks up](Self::look_up) the state of the job.
    fn is_job(&self) -> bool {
        false
    }

    /// Responds at `now` to a call that does not ask for any work; such calls are not counted and
    /// never fail. `None` if the resource does not exist.
    fn look_up(&self, _call: &Call<'_>, _now: Nanos) -> Option<LookupResult> {
        None
    }

    /// Returns the beginning that all events of a stream have in common, which is created once: see
    /// [`Reply::prelude`].
    fn prelude(&self, _reply: &Reply) -> String {
        String::new()
    }

    /// Returns the number of events before the first chunk.
    fn openings(&self, _reply: &Reply) -> u64 {
        0
    }

    /// Appends the opening event with the index `_at`, from 0.
    fn open(&self, _reply: &Reply, _at: u64, _out: &mut String) {}

    /// Appends the event that begins the tool call of a choice.
    fn call(&self, _reply: &Reply, _choice: u64, _out: &mut String) {}

    /// Appends the event of a chunk.
    fn chunk(&self, _reply: &Reply, _chunk: &Chunk, _out: &mut String) {}

    /// Returns the number of events after the last chunk.
    fn closings(&self, _reply: &Reply) -> u64 {
        0
    }

    /// Returns the index of the closing event that marks the end of the stream.
    fn end_marker(&self, reply: &Reply) -> u64 {
        self.closings(reply).saturating_sub(1)
    }

    /// Appends the closing event with the index `_at`, from 0.
    fn close(&self, _reply: &Reply, _at: u64, _out: &mut String) {}

    /// Returns whether [`Self::chunk`] can append content that follows the finish reason.
    fn can_continue(&self) -> bool {
        false
    }

    /// Returns whether [`Self::chunk`] can append content without a text.
    fn can_be_empty(&self) -> bool {
        self.can_continue()
    }

    fn error_event(&self) -> String {
        format!("data: {}", self.error(SCRIPTED, "InternalServerError", None, 500))
    }

    /// Returns whether the last closing event follows an event with an error.
    fn closes_after_error(&self) -> bool {
        false
    }

    /// Returns the body of an error, in OpenAI's format.
    fn error(&self, message: &str, kind: &str, param: Option<&str>, code: u16) -> String {
        openai_error(message, kind, param, code)
    }
}

/// The message of a scripted error.
pub(super) const SCRIPTED: &str = "The script fails this request.";

/// The result of a dialect's lookup.
#[derive(Debug)]
pub(super) struct LookupResult {
    pub(super) media_type: &'static str,
    pub(super) body: Bytes,
}

/// A path, and the purpose of calls to it.
#[derive(Debug)]
pub(super) struct Route {
    /// The path. A name in braces matches any text in its place.
    pub(super) path: &'static str,
    pub(super) purpose: Purpose,
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A response, streamed if the body asks for it (`POST`).
    Generate,
    /// A stream (`POST`).
    Stream,
    /// An existing resource (`GET`).
    LookUp,
}

impl Route {
    pub(super) const fn generate(path: &'static str) -> Self {
        Self { path, purpose: Purpose::Generate }
    }

    pub(super) const fn stream(path: &'static str) -> Self {
        Self { path, purpose: Purpose::Stream }
    }

    pub(super) const fn look_up(path: &'static str) -> Self {
        Self { path, purpose: Purpose::LookUp }
    }

    fn fits(&self, method: &Method, path: &str) -> bool {
        let wanted = match self.purpose {
            Purpose::Generate | Purpose::Stream => &Method::POST,
            Purpose::LookUp => &Method::GET,
        };
        method == wanted && (self.path == path || self.name(path).is_some())
    }

    /// Returns the text of `path` in place of the route's braces.
    fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (before, rest) = self.path.split_once('{')?;
        let (_, after) = rest.split_once('}')?;
        let name = path.strip_prefix(before)?.strip_suffix(after)?;
        (!name.is_empty()).then_some(name)
    }
}

/// Returns the first dialect with a route that matches `path`, which handles the call.
pub(super) fn find(method: &Method, path: &str) -> Option<(&'static dyn Dialect, &'static Route)> {
    ALL.iter().find_map(|dialect| {
        let route = dialect.routes().iter().find(|route| route.fits(method, path))?;
        Some((*dialect, route))
    })
}

/// A request, as passed to a dialect.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) route: &'static Route,
    /// The text of the path in place of the route's braces.
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) content_type: Option<&'a str>,
    pub(super) body: &'a [u8],
}

impl<'a> Call<'a> {
    pub(super) fn new(
        route: &'static Route,
        path: &'a str,
        headers: &'a http::HeaderMap,
        body: &'a [u8],
    ) -> Self {
        let name = route.name(path).map(|name| percent_decode_str(name).decode_utf8_lossy());
        let content_type = headers.get(http::header::CONTENT_TYPE);
        Self { route, name, content_type: content_type.and_then(|v| v.to_str().ok()), body }
    }
}

/// Returns an error in OpenAI's format.
pub(super) fn openai_error(message: &str, kind: &str, param: Option<&str>, code: u16) -> String {
    let message = json_string(message);
    let param = param.map_or_else(|| "null".to_owned(), json_string);
    format!(r#"{{"error":{{"message":{message},"type":"{kind}","param":{param},"code":{code}}}}}"#)
}

pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_route_may_have_a_name_in_it() {
        let route = Route::generate("/models/{model}:run");
        let name = |path| route.name(path).map(str::to_owned);
        assert_eq!(name("/models/org/m:run").as_deref(), Some("org/m"));
        assert_eq!(name("/models/:run"), None);
        assert_eq!(name("/models/m:walk"), None);
        assert!(route.fits(&Method::POST, "/models/m:run"));
        assert!(!route.fits(&Method::GET, "/models/m:run"));
        assert!(Route::look_up("/jobs/{id}").fits(&Method::GET, "/jobs/7"));
        let headers = http::HeaderMap::new();
        let call = Call::new(
            const { &Route::generate("/models/{model}:run") },
            "/models/a%20b:run",
            &headers,
            b"",
        );
        assert_eq!(call.name.as_deref(), Some("a b"));
    }

    #[test]
    fn every_route_is_found_and_has_one_dialect() {
        for dialect in ALL {
            for route in dialect.routes() {
                let path = route.path.replace(['{', '}'], "");
                let method =
                    if route.purpose == Purpose::LookUp { Method::GET } else { Method::POST };
                let (found, at) = find(&method, &path).unwrap();
                assert_eq!(format!("{found:?}"), format!("{dialect:?}"), "{path}");
                assert_eq!(at.path, route.path);
            }
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(
            body: Vec<u8>,
            shaped in r#"\{"(query|texts|messages|prompt|input|input_type|inputs|contents|n|stream)":[\[\]{}",a-z0-9-]{0,12}\}"#
        ) {
            for dialect in ALL {
                for route in dialect.routes() {
                    for body in [&body[..], shaped.as_bytes()] {
                        let content_type = Some("multipart/form-data; boundary=b");
                        let call = Call { route, name: None, content_type, body };
                        let _ = dialect.read(&call);
                    }
                }
            }
        }
    }
}
