//! What dialects are and what they can do.

use std::sync::Arc;

use super::{Config, Endpoint};
use crate::dataset::MediaKinds;

/// What a dialect is and what it can do.
#[derive(Debug)]
pub struct EndpointTraits {
    /// The name given to `--endpoint-type`.
    pub name: &'static str,
    /// Path below the base URL. A `{model}` in it is the model that is asked;
    /// empty where the URL itself is the path.
    pub path: &'static str,
    /// Path of streamed requests where it is another.
    pub streaming_path: Option<&'static str>,
    /// Media type of request bodies.
    pub content_type: &'static str,
    /// Header that bears the API key; `authorization` bears it as `Bearer`.
    pub api_key_header: &'static str,
    /// Headers that every request bears beside the usual ones.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether it can stream.
    pub supports_streaming: bool,
    /// Whether responses bear text.
    pub produces_tokens: bool,
    /// Whether the input is text that is tokenised.
    pub tokenizes_input: bool,
    /// The media that a request may bear beside its text.
    pub takes: MediaKinds,
    /// Of them, the media that a request must bear.
    pub needs: MediaKinds,
    /// Whether a request must bear a text.
    pub needs_text: bool,
    /// Whether the server gets media from URLs: otherwise they must be files.
    pub takes_urls: bool,
    /// The media that a response bears.
    pub produces: MediaKinds,
    /// Whether a request may bear messages of an OpenAI chat as a file has them.
    pub takes_messages: bool,
    /// Whether a request bears a query, and passages to be ranked by it.
    pub ranks: bool,
    /// Whether a later turn's request repeats the earlier turns and answers.
    pub repeats_history: bool,
    /// Title of its console tables.
    pub metrics_title: &'static str,
    /// `gen_ai.operation.name`.
    pub operation_name: &'static str,
    /// Makes the dialect.
    pub build: fn(&Config) -> Arc<dyn Endpoint>,
}

impl EndpointTraits {
    /// A dialect that takes a text and answers with one, streamed or not.
    #[must_use]
    pub const fn text(
        name: &'static str,
        path: &'static str,
        build: fn(&Config) -> Arc<dyn Endpoint>,
    ) -> Self {
        Self {
            name,
            path,
            streaming_path: None,
            content_type: "application/json",
            api_key_header: "authorization",
            headers: &[],
            supports_streaming: true,
            produces_tokens: true,
            tokenizes_input: true,
            takes: MediaKinds::empty(),
            needs: MediaKinds::empty(),
            needs_text: false,
            takes_urls: true,
            produces: MediaKinds::empty(),
            takes_messages: false,
            ranks: false,
            repeats_history: false,
            metrics_title: "LLM Metrics",
            operation_name: "chat",
            build,
        }
    }
}
