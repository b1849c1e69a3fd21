//! Properties and capabilities of dialects.

use std::sync::Arc;

use dataset::MediaKinds;

use super::{Config, Endpoint};

/// The properties and capabilities of a dialect.
#[derive(Debug)]
pub struct EndpointTraits {
    /// Its value of `--endpoint-type`.
    pub name: &'static str,
    /// Path below the base URL, in which `{model}` stands for the requested model; empty if the URL
    /// is used unchanged.
    pub path: &'static str,
    /// Path of streamed requests, if different.
    pub streaming_path: Option<&'static str>,
    /// Media type of request bodies.
    pub content_type: &'static str,
    /// Header with the API key; `authorization` contains it as `Bearer`.
    pub api_key_header: &'static str,
    /// Additional headers of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether it supports streams.
    pub supports_streaming: bool,
    /// Whether responses contain text.
    pub produces_tokens: bool,
    /// Whether the input is text that is tokenised.
    pub tokenizes_input: bool,
    /// The media that a request may contain.
    pub takes: MediaKinds,
    /// The media that a request must contain.
    pub needs: MediaKinds,
    /// Whether a request must contain text.
    pub needs_text: bool,
    /// Whether the server accepts URLs of media; otherwise they must be files.
    pub takes_urls: bool,
    /// Whether a request may contain UUIDs of images, as vLLM caches them.
    pub takes_image_uuids: bool,
    /// Whether a prompt may be a list of token IDs.
    pub takes_token_ids: bool,
    /// The media that a response contains.
    pub produces: MediaKinds,
    /// Whether a request may contain messages of an OpenAI chat from a file.
    pub takes_messages: bool,
    /// Whether a request contains a query and passages to be ranked by it.
    pub ranks: bool,
    /// Whether a later turn's request repeats the earlier turns and responses.
    pub repeats_history: bool,
    /// Title of its console tables.
    pub metrics_title: &'static str,
    /// `gen_ai.operation.name`.
    pub operation_name: &'static str,
    /// Creates the dialect.
    pub build: fn(&Config) -> Arc<dyn Endpoint>,
}

impl EndpointTraits {
    /// Returns the traits of a dialect whose requests and responses are texts, streamed or not.
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
            takes_image_uuids: false,
            takes_token_ids: false,
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
