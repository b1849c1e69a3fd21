//! OpenAI completions.

use super::body::{self, Body};
use super::dialect::{Asked, Dialect, build};
use super::response::Choices;
use super::{Config, EndpointTraits};

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    operation_name: "text_completion",
    ..EndpointTraits::text("completions", "/v1/completions", build::<Completions>)
};

/// `/v1/completions`.
///
/// A request bears its own turn's text, or the list of its texts; earlier turns
/// and answers are not repeated, for there is no dialect-wide way to write them.
/// The limit is `max_tokens`: completions know no other name.
struct Completions;

impl Dialect for Completions {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Choices;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        let prompt = body::prompt(asked.conversation, asked.turn);
        Body::new(config, "prompt", prompt).generating(config, "max_tokens", asked.turn)
    }
}
