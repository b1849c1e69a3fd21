//! Errors that the server reports, and responses that are failures although their status says
//! otherwise.

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sse::SseFields;
use crate::record::{ErrorKind, RequestError};

/// Maximum length of a message in bytes; a server may respond with an HTML page.
const MESSAGE_LIMIT: usize = 4096;

/// Returns the error of a response whose status is not 2xx. The reason phrase is its name, and the
/// body is its message.
#[must_use]
pub fn http_error(status: u16, reason: Option<&str>, body: &[u8]) -> RequestError {
    let standard = || {
        let status = http::StatusCode::from_u16(status).ok();
        status.and_then(|status| status.canonical_reason()).unwrap_or("Unknown Status")
    };
    let name = reason.map(str::trim).filter(|reason| !reason.is_empty()).unwrap_or_else(standard);
    let message = match bounded(body) {
        text if text.trim().is_empty() => format!("status {status} without a body"),
        text => text,
    };
    let kind = kind_of(status);
    RequestError { code: Some(status), name: name.to_owned(), message, cause: None, kind }
}

/// Texts by which the error of a server says that a request exceeds the context of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextOverflow(Vec<String>);

impl Default for ContextOverflow {
    /// The texts of the usual servers.
    fn default() -> Self {
        Self::with_texts([
            "context length",
            "maximum context",
            "context_length_exceeded",
            "prompt is too long",
        ])
    }
}

impl ContextOverflow {
    /// Creates it with `texts`, whose case does not matter.
    pub fn with_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let texts = texts.into_iter().map(|text| text.trim().to_lowercase());
        Self(texts.filter(|text| !text.is_empty()).collect())
    }

    /// Returns whether the response with this status and body is such an error. An error within a
    /// successful stream counts too, since its events have an `error` member.
    #[must_use]
    pub(crate) fn is_response(&self, status: Option<u16>, body: &[u8]) -> bool {
        let is_success = status.is_some_and(|status| (200..300).contains(&status));
        let has_error = !is_success || memmem::find(body, b"\"error\"").is_some();
        has_error && self.is_in(&String::from_utf8_lossy(body))
    }

    /// Returns whether `error` is one.
    #[must_use]
    pub fn matches(&self, error: &RequestError) -> bool {
        self.is_in(&error.name) || self.is_in(&error.message)
    }

    fn is_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.0.iter().any(|words| text.contains(words))
    }
}

/// Returns text of at most [`MESSAGE_LIMIT`] bytes, with invalid UTF-8 replaced.
fn bounded(text: &[u8]) -> String {
    if text.len() <= MESSAGE_LIMIT {
        return String::from_utf8_lossy(text).into_owned();
    }
    // A character that the limit cuts in half is not an error of the server.
    let start = (MESSAGE_LIMIT - 3..=MESSAGE_LIMIT)
        .rev()
        .find(|&at| text[at] & 0b1100_0000 != 0b1000_0000)
        .unwrap_or(MESSAGE_LIMIT);
    format!("{}… ({} bytes)", String::from_utf8_lossy(&text[..start]), text.len())
}

const fn kind_of(code: u16) -> ErrorKind {
    match code {
        400..=499 => ErrorKind::Http4xx,
        500..=599 => ErrorKind::Http5xx,
        _ => ErrorKind::Other,
    }
}

/// Returns the error that the server reports inside a 2xx response: a text, or an object with
/// `message`, `type` and `code`.
pub(super) fn reported(error: &Value) -> RequestError {
    // Some servers send a list of errors.
    let error = error.get(0).unwrap_or(error);
    let member = |name: &str| error.get(name).filter(|value: &&Value| !value.is_null());
    let said = ["message", "msg", "detail", "error"].iter().find_map(|name| member(name)?.as_str());
    let message = match error.as_str().or(said) {
        Some(text) => bounded(text.as_bytes()),
        None => bounded(error.to_string().as_bytes()),
    };
    let code = member("code").or_else(|| member("status")).and_then(status_code);
    let name = ["type", "code", "status"]
        .iter()
        .find_map(|name| member(name).and_then(Value::as_str).filter(|text| is_name(text)))
        .unwrap_or("ServerError");
    let kind = code.map_or(ErrorKind::Other, kind_of);
    let name = bounded(name.as_bytes());
    RequestError { code, name, message, cause: None, kind }
}

/// Returns whether the name distinguishes errors; every error event has the type `error`.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "error")
}

/// Returns an HTTP error status given as a number or text; `None` for other codes.
fn status_code(code: &Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.trim().parse().ok())?;
    u16::try_from(number).ok().filter(|number| (400..=599).contains(number))
}

/// Returns the error of an event of type `error` whose data does not have an `error` member: Dynamo
/// sends the message as a comment.
pub(super) fn error_event(fields: &SseFields<'_>) -> RequestError {
    let words = fields.data.as_deref().or(fields.comment).unwrap_or_default();
    match serde_json::from_slice::<Value>(words) {
        Ok(value) if !value.is_null() => reported(value.get("error").unwrap_or(&value)),
        _ => reported(&Value::from(bounded(words))),
    }
}

/// Returns the error for the data of the `number`th of `count` events, which is not valid JSON.
pub(super) fn invalid_json(
    number: usize,
    count: usize,
    data: &[u8],
    why: &serde_json::Error,
) -> RequestError {
    let start = String::from_utf8_lossy(&data[..data.len().min(80)]);
    let which = if count == 1 { "the body".into() } else { format!("event {number} of {count}") };
    let message =
        format!("{which} is not in the endpoint's format: {why}; it starts with {start:?}");
    RequestError::new(ErrorKind::Parse, "InvalidJson", message)
}

/// Returns the error for a stream that ended before the server marked it as complete.
pub(super) fn cut_stream(events: usize) -> RequestError {
    let message =
        format!("the stream ended after {events} events without an event that marks its end");
    RequestError::new(ErrorKind::Other, "CutStream", message)
}

/// Finish reasons of outputs that the server broke off because something failed.
const FAILED: &[&str] = &[
    "error",
    "failed",
    "failure",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "server_error",
    "internal_error",
    "engine_error",
    "network_error",
    "timeout",
    // DeepSeek
    "insufficient_system_resource",
];

/// Returns whether a finish reason says that the response failed. One that says that the output was
/// filtered does not, as long as there is some; it is then a reason like any other.
pub(super) fn is_failed(reason: &str) -> bool {
    FAILED.iter().any(|failed| reason.eq_ignore_ascii_case(failed))
}

/// Returns the error for finish reasons, if one of them says that the response failed.
pub(super) fn of_finish_reasons(reasons: &[String]) -> Option<RequestError> {
    let reason = reasons.iter().find(|reason| is_failed(reason))?;
    let message = format!("the server broke the response off with the finish reason {reason:?}");
    let name = if is_name(reason) { reason } else { "ServerError" };
    Some(RequestError::new(ErrorKind::Other, name, message))
}

/// Returns whether a value in the place of an error is not one.
pub(super) fn is_nothing(error: &Value) -> bool {
    match error {
        Value::Null => true,
        Value::Bool(is_error) => !is_error,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Returns the error for a complete response without content. The server may have counted tokens
/// without text, but then there is still no first token to time. Its finish reasons may say why there is
/// none, such as `content_filter`.
pub(super) fn empty_response(
    completion_tokens: Option<u64>,
    finish_reasons: &[String],
) -> RequestError {
    let count = completion_tokens
        .map(|count| format!(", but the server reports {count} completion tokens"))
        .unwrap_or_default();
    let reason = match finish_reasons {
        [] => String::new(),
        reasons => format!("; finish reason {}", reasons.join(", ")),
    };
    let message = format!("the response does not have any content{count}{reason}");
    RequestError::new(ErrorKind::Other, "EmptyResponse", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_error_keeps_the_body_as_it_is() {
        let error = http_error(500, Some("Internal Server Error"), br#"{"error": "boom"}"#);
        assert_eq!((error.code, error.kind), (Some(500), ErrorKind::Http5xx));
        assert_eq!(error.name, "Internal Server Error");
        assert_eq!(error.message, r#"{"error": "boom"}"#);
    }

    #[test]
    fn a_missing_phrase_and_an_empty_body_are_filled_in() {
        let error = http_error(404, None, b" \n");
        assert_eq!((&*error.name, error.kind), ("Not Found", ErrorKind::Http4xx));
        assert_eq!(error.message, "status 404 without a body");
        assert_eq!(http_error(301, Some(""), b"x").name, "Moved Permanently");
        assert_eq!(http_error(799, None, b"x").kind, ErrorKind::Other);
    }

    #[test]
    fn a_context_that_is_too_long_is_told_by_the_text() {
        let usual = ContextOverflow::default();
        let vllm = br#"{"message":"This model's maximum CONTEXT length is 4096 tokens"}"#;
        let anthropic = br#"{"error":{"message":"Prompt is too long: 9 tokens"}}"#;
        assert!(usual.is_response(Some(400), vllm) && usual.is_response(Some(413), anthropic));
        assert!(usual.matches(&http_error(400, None, vllm)));
        assert!(!usual.is_response(Some(400), b"bad request"));
        // A model may write about it; only an error counts.
        assert!(!usual.is_response(Some(200), br#"{"text":"the context length"}"#));
        assert!(usual.is_response(Some(200), br#"data: {"error":{"message":"context length"}}"#));
        let own = ContextOverflow::with_texts([" KV full ", ""]);
        assert!(own.is_response(Some(500), b"kv FULL") && !own.is_response(Some(400), vllm));
    }

    #[test]
    fn long_bodies_are_cut_between_characters() {
        let body = format!("{}é{}", "a".repeat(MESSAGE_LIMIT - 1), "b".repeat(100));
        let message = http_error(400, None, body.as_bytes()).message;
        let expected = format!("{}… ({} bytes)", "a".repeat(MESSAGE_LIMIT - 1), body.len());
        assert_eq!(message, expected);
        let _ = http_error(400, None, &vec![0x80; MESSAGE_LIMIT + 1]);
    }
}
