//! A parsed request, and the elements from which dialects compose their bodies.

use std::borrow::Cow;

use serde::Deserialize;

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Ask<'a> {
    pub(super) model: Option<Cow<'a, str>>,
    /// Each text, or list of token IDs, in it.
    pub(super) prompts: Vec<Prompt<'a>>,
    pub(super) stream: bool,
    /// Whether usage is to be reported.
    pub(super) tell_usage: bool,
    /// The requested limit, from 1 to [`MAX_TOKENS`] for all choices together.
    pub(super) max_tokens: Option<u64>,
    pub(super) choices: u64,
    /// Whether a response that is not streamed is to be plain text.
    pub(super) plain: bool,
}

/// Text, or the token IDs that a client encoded it to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Prompt<'a> {
    Text(Cow<'a, str>),
    TokenIds(Vec<u32>),
}

/// Maximum number of tokens that one request may generate.
pub(super) const MAX_TOKENS: u64 = 1 << 20;
/// Maximum number of choices of one request.
pub(super) const MAX_CHOICES: u64 = 4096;

/// Why a request gets the status 400.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadRequest {
    pub(super) message: String,
    /// The invalid member.
    pub(super) param: Option<&'static str>,
}

impl<'a> Ask<'a> {
    /// Creates a request for one choice with usage, not streamed, without a limit.
    pub(super) const fn from_prompts(prompts: Vec<Prompt<'a>>) -> Self {
        Self {
            model: None,
            prompts,
            stream: false,
            tell_usage: true,
            max_tokens: None,
            choices: 1,
            plain: false,
        }
    }

    /// Sets the number of choices; must be called before the limit is set.
    pub(super) fn with_choices(self, choices: u64) -> Result<Self, BadRequest> {
        if choices == 0 || choices > MAX_CHOICES {
            let message =
                format!("The number of choices must be from 1 to {MAX_CHOICES}, got {choices}.");
            return Err(BadRequest { message, param: None });
        }
        Ok(Self { choices, ..self })
    }

    /// Sets the limit, if a member names one.
    pub(super) fn limited(self, named: Option<(&'static str, i64)>) -> Result<Self, BadRequest> {
        let limit = MAX_TOKENS / self.choices;
        let max_tokens = named.map(|(name, n)| in_range(name, n, limit)).transpose()?;
        Ok(Self { max_tokens, ..self })
    }
}

pub(super) fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadRequest> {
    serde_json::from_slice(body).map_err(|error| BadRequest {
        message: format!("The body is not a valid request: {error}"),
        param: None,
    })
}

pub(super) fn missing(param: &'static str) -> BadRequest {
    BadRequest { message: format!("Field required: `{param}`."), param: Some(param) }
}

pub(super) fn in_range(param: &'static str, value: i64, limit: u64) -> Result<u64, BadRequest> {
    match u64::try_from(value) {
        Ok(value) if (1..=limit).contains(&value) => Ok(value),
        _ => Err(BadRequest {
            message: format!("{param} must be from 1 to {limit}, got {value}."),
            param: Some(param),
        }),
    }
}

/// A message of a conversation.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
}

/// A text, borrowed if it contains no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Text, or a list of parts.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Parts(#[serde(borrow)] Vec<Part<'a>>),
}

/// A part of a message; only text parts have a text.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

/// One prompt or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Prompts<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Texts(#[serde(borrow)] Vec<Text<'a>>),
    Ids(Vec<u32>),
    IdLists(Vec<Vec<u32>>),
}

impl<'a> Message<'a> {
    pub(super) fn texts(self) -> Vec<Prompt<'a>> {
        self.content.map(Content::texts).unwrap_or_default()
    }
}

impl<'a> Content<'a> {
    pub(super) fn texts(self) -> Vec<Prompt<'a>> {
        match self {
            Self::Text(text) => vec![text.into()],
            Self::Parts(parts) => parts.into_iter().filter_map(Part::text).collect(),
        }
    }
}

impl<'a> Part<'a> {
    pub(super) fn text(self) -> Option<Prompt<'a>> {
        self.text.map(Prompt::from)
    }
}

impl<'a> From<Text<'a>> for Prompt<'a> {
    fn from(text: Text<'a>) -> Self {
        Self::Text(text.0)
    }
}

impl<'a> From<Prompts<'a>> for Vec<Prompt<'a>> {
    fn from(prompts: Prompts<'a>) -> Self {
        match prompts {
            Prompts::Text(text) => vec![text.into()],
            Prompts::Texts(texts) => texts.into_iter().map(Prompt::from).collect(),
            Prompts::Ids(list) => vec![Prompt::TokenIds(list)],
            Prompts::IdLists(lists) => lists.into_iter().map(Prompt::TokenIds).collect(),
        }
    }
}
