//! The dialects that the server speaks. A new one is a file of its own and a row
//! in [`ALL`]: slots, schedule, faults and the write log are the same for all.

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

use super::JSON;
use super::reply::{Chunk, Reply};
use super::request::{Ask, BadRequest};
use crate::units::Nanos;

/// Every dialect.
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

/// How requests are read and answers written.
///
/// A stream is `openings` events, then chunks of tokens, then `closings` events:
/// each method appends one event without the blank line that ends it. What must
/// come between two chunks goes before the second, as events of its own.
pub(super) trait Dialect: Debug + Sync {
    /// The paths that are its own.
    fn routes(&self) -> &'static [Route];

    /// What a request asks for.
    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest>;

    /// The body of an answer that is not streamed.
    fn whole(&self, reply: &Reply) -> Vec<u8>;

    /// Media type of answers that are not streamed.
    fn media_type(&self, _reply: &Reply) -> &'static str {
        JSON
    }

    /// Whether tokens are generated.
    fn generates(&self) -> bool {
        true
    }

    /// Whether some of them may be reasoning.
    fn reasons(&self) -> bool {
        false
    }

    /// Whether a request is answered at once, and its work goes on until
    /// [`Reply::ready`]. The client then [looks up](Self::look_up) how it goes.
    fn is_job(&self) -> bool {
        false
    }

    /// Answers a call that asks for no work, at `now`: it counts nowhere and never
    /// fails. `None` where there is no such thing.
    fn look_up(&self, _call: &Call<'_>, _now: Nanos) -> Option<Found> {
        None
    }

    /// What all events of a stream have in common, made once: see [`Reply::prelude`].
    fn prelude(&self, _reply: &Reply) -> String {
        String::new()
    }

    /// Events before the first chunk.
    fn openings(&self, _reply: &Reply) -> u64 {
        0
    }

    /// The `at`th of them, from 0.
    fn open(&self, _reply: &Reply, _at: u64, _out: &mut String) {}

    /// The event of a chunk.
    fn chunk(&self, _reply: &Reply, _chunk: &Chunk, _out: &mut String) {}

    /// Events after the last chunk, the last of which says that the stream ends.
    fn closings(&self, _reply: &Reply) -> u64 {
        0
    }

    /// The `at`th of them, from 0.
    fn close(&self, _reply: &Reply, _at: u64, _out: &mut String) {}

    /// An event that says an error.
    fn error_event(&self) -> String {
        format!("data: {}", self.error(SCRIPTED, "InternalServerError", None, 500))
    }

    /// Whether the last closing event follows such an event.
    fn closes_after_error(&self) -> bool {
        false
    }

    /// The body of an error, in OpenAI's form.
    fn error(&self, message: &str, kind: &str, param: Option<&str>, code: u16) -> String {
        openai_error(message, kind, param, code)
    }
}

/// What an error of the script's says.
pub(super) const SCRIPTED: &str = "The script fails this request.";

/// What a dialect's lookup found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) media_type: &'static str,
    pub(super) body: Bytes,
}

/// A path, and what a call to it wants.
#[derive(Debug)]
pub(super) struct Route {
    /// The path. A name may stand in braces, for any text in its place.
    pub(super) path: &'static str,
    pub(super) purpose: Purpose,
}

/// What a call wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// An answer; the body may say that it be streamed. (`POST`)
    Generate,
    /// A stream. (`POST`)
    Stream,
    /// Something that is there. (`GET`)
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

    /// What stands in `path` where the route has braces.
    fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (before, rest) = self.path.split_once('{')?;
        let (_, after) = rest.split_once('}')?;
        let name = path.strip_prefix(before)?.strip_suffix(after)?;
        (!name.is_empty()).then_some(name)
    }
}

/// Who answers a call to `path`: the first dialect with a route that fits.
pub(super) fn find(method: &Method, path: &str) -> Option<(&'static dyn Dialect, &'static Route)> {
    ALL.iter().find_map(|dialect| {
        let route = dialect.routes().iter().find(|route| route.fits(method, path))?;
        Some((*dialect, route))
    })
}

/// A request as a dialect gets it.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) route: &'static Route,
    /// What stands in the path where the route has braces.
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

/// An error in OpenAI's form.
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
