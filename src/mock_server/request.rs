//! Requests as clients write them; members that do not matter here are ignored.

use std::borrow::Cow;

use serde::Deserialize;

/// What a client may ask to be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Chat,
    Completions,
    Embeddings,
}

impl Dialect {
    /// The dialect of a POST to `path`.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        [Self::Chat, Self::Completions, Self::Embeddings]
            .into_iter()
            .find(|dialect| dialect.path() == path)
    }

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
        }
    }
}

/// One request.
#[derive(Debug, PartialEq)]
pub(super) struct Ask<'a> {
    pub(super) model: Option<Cow<'a, str>>,
    /// Chat: each content text of each message. Otherwise: each prompt or input.
    pub(super) prompts: Vec<Prompt<'a>>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// The limit it names, from 1 to [`MAX_TOKENS`].
    pub(super) max_tokens: Option<u64>,
    /// How many answers: one for each input, `n` for each prompt.
    pub(super) choices: u64,
}

/// Text, or the tokens that a client made of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Prompt<'a> {
    Text(Cow<'a, str>),
    TokenIds(u64),
}

/// Most tokens that one request may generate.
pub(super) const MAX_TOKENS: u64 = 1 << 20;
/// Most answers to one request.
const MAX_CHOICES: u64 = 4096;

/// Why a request gets a 400.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadRequest {
    pub(super) message: String,
    /// The member at fault.
    pub(super) param: Option<&'static str>,
}

impl<'a> Ask<'a> {
    /// Reads a body.
    pub(super) fn parse(dialect: Dialect, body: &'a [u8]) -> Result<Self, BadRequest> {
        let wire: Body<'a> = serde_json::from_slice(body).map_err(|error| BadRequest {
            message: format!("The body is not a valid request: {error}"),
            param: None,
        })?;
        let prompts: Vec<Prompt<'a>> = match dialect {
            Dialect::Chat => wire
                .messages
                .map(|messages| messages.into_iter().flat_map(Message::texts).collect())
                .ok_or_else(|| missing("messages"))?,
            Dialect::Completions => wire.prompt.ok_or_else(|| missing("prompt"))?.into(),
            Dialect::Embeddings => wire.input.ok_or_else(|| missing("input"))?.into(),
        };
        let per_prompt = in_range("n", wire.n.unwrap_or(1), MAX_CHOICES)?;
        let choices = match dialect {
            Dialect::Chat => per_prompt,
            Dialect::Completions => per_prompt.saturating_mul(prompts.len() as u64),
            Dialect::Embeddings => prompts.len() as u64,
        };
        if choices == 0 || choices > MAX_CHOICES {
            let message = format!("A request may have 1 to {MAX_CHOICES} answers, not {choices}.");
            return Err(BadRequest { message, param: None });
        }
        let named = match (wire.max_completion_tokens, wire.max_tokens) {
            (Some(n), _) => Some(("max_completion_tokens", n)),
            (None, Some(n)) => Some(("max_tokens", n)),
            (None, None) => None,
        };
        let limit = MAX_TOKENS / choices;
        Ok(Self {
            model: wire.model.map(|text| text.0),
            prompts,
            stream: wire.stream.unwrap_or(false),
            include_usage: wire
                .stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or(false),
            max_tokens: named.map(|(name, n)| in_range(name, n, limit)).transpose()?,
            choices,
        })
    }
}

fn missing(param: &'static str) -> BadRequest {
    BadRequest { message: format!("Field required: `{param}`."), param: Some(param) }
}

fn in_range(param: &'static str, value: i64, limit: u64) -> Result<u64, BadRequest> {
    match u64::try_from(value) {
        Ok(value) if (1..=limit).contains(&value) => Ok(value),
        _ => Err(BadRequest {
            message: format!("{param} must be from 1 to {limit} here, got {value}."),
            param: Some(param),
        }),
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    prompt: Option<Prompts<'a>>,
    #[serde(borrow)]
    input: Option<Prompts<'a>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    n: Option<i64>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
}

/// A text, borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Parts(#[serde(borrow)] Vec<Part<'a>>),
}

/// Part of a message; only text parts have a text.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Prompts<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Texts(#[serde(borrow)] Vec<Text<'a>>),
    Ids(Vec<u32>),
    IdLists(Vec<Vec<u32>>),
}

impl<'a> Message<'a> {
    fn texts(self) -> Vec<Prompt<'a>> {
        match self.content {
            None => Vec::new(),
            Some(Content::Text(text)) => vec![text.into()],
            Some(Content::Parts(parts)) => {
                parts.into_iter().filter_map(|part| part.text).map(Prompt::from).collect()
            }
        }
    }
}

impl<'a> From<Text<'a>> for Prompt<'a> {
    fn from(text: Text<'a>) -> Self {
        Self::Text(text.0)
    }
}

impl<'a> From<Prompts<'a>> for Vec<Prompt<'a>> {
    fn from(prompts: Prompts<'a>) -> Self {
        let ids = |list: Vec<u32>| Prompt::TokenIds(list.len() as u64);
        match prompts {
            Prompts::Text(text) => vec![text.into()],
            Prompts::Texts(texts) => texts.into_iter().map(Prompt::from).collect(),
            Prompts::Ids(list) => vec![ids(list)],
            Prompts::IdLists(lists) => lists.into_iter().map(ids).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(dialect: Dialect, body: &str) -> Result<Ask<'_>, BadRequest> {
        Ask::parse(dialect, body.as_bytes())
    }

    fn text(text: &str) -> Prompt<'_> {
        Prompt::Text(Cow::Borrowed(text))
    }

    #[test]
    fn a_chat_request() {
        let body = r#"{"model":"m","messages":[{"role":"system","content":"be \"terse\""},
            {"role":"user","content":[{"type":"text","text":"look"},
             {"type":"image_url","image_url":{"url":"data:"}}]},
            {"role":"assistant","content":null,"tool_calls":[]}],
            "stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,
            "max_tokens":9,"min_tokens":7,"ignore_eos":true,"temperature":0.5,"unknown":[{}]}"#;
        let ask = parse(Dialect::Chat, body).unwrap();
        assert_eq!(
            ask,
            Ask {
                model: Some(Cow::Borrowed("m")),
                prompts: vec![text("be \"terse\""), text("look")],
                stream: true,
                include_usage: true,
                max_tokens: Some(7),
                choices: 1,
            }
        );
    }

    #[test]
    fn prompts_in_each_form() {
        let prompts = |input: &str| {
            let body = format!(r#"{{"prompt":{input}}}"#);
            let ask = Ask::parse(Dialect::Completions, body.as_bytes()).unwrap();
            let lengths: Vec<_> = ask
                .prompts
                .iter()
                .map(|prompt| match prompt {
                    Prompt::Text(text) => (text.to_string(), 0),
                    Prompt::TokenIds(count) => (String::new(), *count),
                })
                .collect();
            (ask.choices, lengths)
        };
        let words = |list: &[&str]| list.iter().map(|w| ((*w).to_owned(), 0)).collect::<Vec<_>>();
        assert_eq!(prompts(r#""a""#), (1, words(&["a"])));
        assert_eq!(prompts(r#"["a","b"]"#), (2, words(&["a", "b"])));
        assert_eq!(prompts("[5,6,7]"), (1, vec![(String::new(), 3)]));
        assert_eq!(prompts("[[5,6],[7]]"), (2, vec![(String::new(), 2), (String::new(), 1)]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |dialect, body| parse(dialect, body).unwrap_err();
        assert_eq!(error(Dialect::Chat, "{}").param, Some("messages"));
        assert_eq!(error(Dialect::Completions, "{}").param, Some("prompt"));
        assert_eq!(error(Dialect::Embeddings, "{}").param, Some("input"));
        assert_eq!(
            error(Dialect::Completions, r#"{"prompt":"a","max_tokens":0}"#).param,
            Some("max_tokens")
        );
        assert!(
            error(Dialect::Completions, r#"{"prompt":["a","b"],"max_tokens":524289}"#)
                .message
                .contains("from 1 to 524288")
        );
        assert!(parse(Dialect::Completions, r#"{"prompt":[]}"#).is_err());
        assert!(parse(Dialect::Chat, r#"{"messages":[],"n":5000}"#).is_err());
        assert!(error(Dialect::Chat, r#"{"messages":[{"role":"#).message.contains("EOF"));
    }

    proptest! {
        #[test]
        fn no_body_panics(
            body: Vec<u8>,
            shaped in r#"\{"(messages|prompt|input|n|stream)":[\[\]{}",a-z0-9-]{0,12}\}"#
        ) {
            for dialect in [Dialect::Chat, Dialect::Completions, Dialect::Embeddings] {
                let _ = Ask::parse(dialect, &body);
                let _ = Ask::parse(dialect, shaped.as_bytes());
            }
        }
    }
}
