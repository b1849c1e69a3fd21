//! Embeddings: OpenAI's, those of chat messages as in vLLM, and NIM's of images.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route, openai};
use crate::reply::Reply;
use crate::request::{self, Ask, BadRequest, Message, Prompt, Prompts, Text, missing};

/// `/v1/embeddings`. There is one vector for each `input`, or one for all `messages`.
#[derive(Debug)]
pub(super) struct Embeddings;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<Prompts<'a>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    /// A parameter of NIM.
    #[serde(borrow)]
    input_type: Option<Text<'a>>,
}

impl<'a> Body<'a> {
    fn ask(self) -> Result<Ask<'a>, BadRequest> {
        let input_type = self.input_type.map(|text| text.0);
        let (prompts, vectors) = match (self.input, self.messages) {
            (Some(input), _) => {
                let inputs = Vec::from(input);
                check_input_type(input_type.as_deref(), &inputs)?;
                let vectors = inputs.len() as u64;
                (inputs.into_iter().map(without_image).collect(), vectors)
            }
            (None, Some(messages)) => (messages.into_iter().flat_map(Message::texts).collect(), 1),
            (None, None) => return Err(missing("input")),
        };
        let model = self.model.map(|text| text.0);
        Ask { model, ..Ask::from_prompts(prompts) }.with_choices(vectors)
    }
}

/// Prefix of an image's base64.
const IMAGE: &str = "data:image/";

/// Checks NIM's `input_type`: a query is text, a passage may contain images.
fn check_input_type(named: Option<&str>, inputs: &[Prompt<'_>]) -> Result<(), BadRequest> {
    let bad = |message: String| Err(BadRequest { message, param: Some("input_type") });
    let has_image =
        |input: &Prompt<'_>| matches!(input, Prompt::Text(text) if text.contains(IMAGE));
    match named {
        Some("query") if inputs.iter().any(has_image) => {
            bad("Images can only be embedded as passages, not as queries.".to_owned())
        }
        None | Some("query" | "passage") => Ok(()),
        Some(other) => bad(format!("input_type must be query or passage, not {other:?}.")),
    }
}

/// Returns an empty prompt in place of an image, which does not contain text to count tokens of.
fn without_image(prompt: Prompt<'_>) -> Prompt<'_> {
    let Prompt::Text(text) = prompt else { return prompt };
    let end = text.find(IMAGE).unwrap_or(text.len());
    Prompt::Text(match text {
        Cow::Borrowed(text) => text[..end].trim_end().into(),
        Cow::Owned(text) => text[..end].trim_end().to_owned().into(),
    })
}

impl Dialect for Embeddings {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/embeddings")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        request::json::<Body<'a>>(call.body)?.ask()
    }

    fn generates(&self) -> bool {
        false
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = openai::opening(reply, "embd", "list");
        let vector = &reply.material.embedding;
        openai::list(reply, &mut out, "data", |out, choice| {
            let _ =
                write!(out, r#"{{"index":{choice},"object":"embedding","embedding":{vector}}}"#);
        });
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(body: &str) -> Result<Ask<'_>, BadRequest> {
        request::json::<Body<'_>>(body.as_bytes())?.ask()
    }

    fn texts(ask: &Ask<'_>) -> Vec<String> {
        let text = |prompt: &Prompt<'_>| match prompt {
            Prompt::Text(text) => text.to_string(),
            Prompt::TokenIds(ids) => ids.len().to_string(),
        };
        ask.prompts.iter().map(text).collect()
    }

    #[test]
    fn a_vector_for_each_input_or_one_for_all_messages() {
        let found = |body: &str| {
            let ask = ask(body).unwrap();
            (ask.choices, texts(&ask))
        };
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(found(r#"{"input":"a"}"#), (1, words(&["a"])));
        assert_eq!(found(r#"{"input":["a","b"],"n":1}"#), (2, words(&["a", "b"])));
        let images = r#"{"input":["a\" data:image/png;base64,A","data:image/png;base64,A"]}"#;
        assert_eq!(found(images), (2, words(&["a\"", ""])));
        let chat = r#"{"messages":[{"role":"system","content":"be"},{"role":"user","content":
            [{"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"a"}]}]}"#;
        assert_eq!(found(chat), (1, words(&["be", "a"])));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let param = |body: &str| ask(body).unwrap_err().param;
        assert_eq!(param("{}"), Some("input"));
        assert_eq!(param(r#"{"input":["a"],"input_type":"other"}"#), Some("input_type"));
        let image = r#"{"input":["data:image/png;base64,A"],"input_type":"query"}"#;
        assert_eq!(param(image), Some("input_type"));
        assert!(ask(&image.replace("query", "passage")).is_ok());
        assert!(ask(r#"{"input":["a"],"input_type":"query"}"#).is_ok());
        assert!(ask(r#"{"input":[]}"#).is_err());
    }
}
