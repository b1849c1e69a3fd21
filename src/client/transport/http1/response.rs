//! Responses (RFC 9112): their head by httparse, and their body by its length, in chunks or until
//! the connection is closed.

use std::borrow::Cow;
use std::mem::{MaybeUninit, take};

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, Method, StatusCode};
use httparse::{Header, ParserConfig, Response, Status};

use super::chunked::{Chunked, Part};
use crate::record::{ErrorKind, RequestError};

/// Maximum number of headers of a response.
const HEADER_COUNT: usize = 100;

/// Maximum size in bytes of a head that does not arrive at once.
const HEAD_LIMIT: usize = 64 << 10;

/// Receives the parts of a response. An error ends the exchange.
pub trait ResponseSink {
    /// Receives the head of the final response.
    ///
    /// # Errors
    ///
    /// Fails if the response cannot be received.
    fn head(&mut self, head: &ResponseHead<'_>) -> Result<(), RequestError>;

    /// Receives bytes of the body, without its transfer coding; never empty.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be received.
    fn data(&mut self, bytes: &[u8]) -> Result<(), RequestError>;
}

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// HTTP status, from 100 to 999.
    pub status: u16,
    /// Reason phrase.
    pub reason: &'a str,
    headers: &'a [Header<'a>],
}

impl<'a> ResponseHead<'a> {
    /// Returns the head of a successful response with these headers.
    #[cfg(test)]
    pub(in crate::transport) const fn from_headers(headers: &'a [Header<'a>]) -> Self {
        Self { status: 200, reason: "OK", headers }
    }

    /// Returns names and values in the order in which they arrived.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.headers.iter().map(|header| (header.name, header.value))
    }

    /// Returns all values of the header `name`.
    pub(in crate::transport) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let is_wanted = |header: &&Header<'_>| header.name.eq_ignore_ascii_case(name.as_str());
        self.headers.iter().filter(is_wanted).map(|header| header.value)
    }

    /// Returns the reason phrase; the usual ones are not copied.
    pub(in crate::transport) fn owned_reason(&self) -> Cow<'static, str> {
        let usual = StatusCode::from_u16(self.status).ok().and_then(|code| code.canonical_reason());
        match usual {
            Some(usual) if usual == self.reason => Cow::Borrowed(usual),
            _ => Cow::Owned(self.reason.to_owned()),
        }
    }
}

/// A violation of HTTP in the bytes of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Malformed(&'static str);

impl Malformed {
    pub(super) const fn new(what: &'static str) -> Self {
        Self(what)
    }
}

impl From<Malformed> for RequestError {
    fn from(Malformed(what): Malformed) -> Self {
        let message = format!("the response is not valid HTTP: it has {what}");
        Self::new(ErrorKind::Other, "InvalidHttpResponse", message)
    }
}

/// How far a response has been decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The response continues; all bytes are decoded.
    More,
    /// The response is complete.
    Complete {
        /// Number of bytes that follow it.
        rest: usize,
    },
}

/// Decodes one response, in whatever pieces it arrives.
#[derive(Debug)]
pub struct ResponseDecoder {
    state: State,
    /// The beginning of a head that is not complete.
    partial: Vec<u8>,
    /// Whether the response ends with its head, whatever its headers announce.
    answers_head: bool,
    keeps_alive: bool,
}

#[derive(Debug)]
enum State {
    Head,
    /// A body with its remaining bytes.
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    Complete,
}

/// The end of a head and what follows it.
struct Parsed {
    /// Length of the head in bytes.
    length: usize,
    /// How the body is delimited; [`State::Head`] if another response follows.
    body: State,
    keeps_alive: bool,
}

impl ResponseDecoder {
    /// Creates the decoder of the response to a request with this method.
    #[must_use]
    pub fn new(method: &Method) -> Self {
        let answers_head = *method == Method::HEAD;
        Self { state: State::Head, partial: Vec::new(), answers_head, keeps_alive: false }
    }

    /// Returns whether the server accepts another request on the connection after this response.
    #[must_use]
    pub(crate) const fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// Decodes the next bytes of the connection and passes the parts of the response to `sink`.
    ///
    /// # Errors
    ///
    /// Fails if the response is not valid, or if `sink` does. The decoder is of no use then.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        sink: &mut impl ResponseSink,
    ) -> Result<Progress, RequestError> {
        let mut rest = bytes;
        loop {
            match &mut self.state {
                State::Complete | State::Length(0) => {
                    self.state = State::Complete;
                    return Ok(Progress::Complete { rest: rest.len() });
                }
                _ if rest.is_empty() => return Ok(Progress::More),
                State::Head => rest = self.head(rest, sink)?,
                State::Length(remaining) => {
                    let most = usize::try_from(*remaining).unwrap_or(usize::MAX);
                    let (data, after) = rest.split_at(most.min(rest.len()));
                    *remaining -= data.len() as u64;
                    rest = after;
                    sink.data(data)?;
                }
                State::Chunked(chunked) => match chunked.take(&mut rest)? {
                    Part::Data(data) => sink.data(data)?,
                    Part::More => {}
                    Part::End => self.state = State::Complete,
                },
                State::UntilClose => {
                    sink.data(rest)?;
                    rest = &[];
                }
            }
        }
    }

    /// Ends the response because the connection was closed.
    ///
    /// # Errors
    ///
    /// Fails if the response is not complete.
    pub fn close(&mut self) -> Result<(), RequestError> {
        match self.state {
            State::Complete | State::UntilClose => Ok(()),
            _ => Err(RequestError::new(
                ErrorKind::Other,
                "IncompleteResponse",
                "the connection was closed before the response was complete",
            )),
        }
    }

    /// Decodes bytes of a head; returns those after it.
    fn head<'a>(
        &mut self,
        bytes: &'a [u8],
        sink: &mut impl ResponseSink,
    ) -> Result<&'a [u8], RequestError> {
        if self.partial.is_empty() {
            let Some(parsed) = parse(bytes, self.answers_head, sink)? else {
                self.partial.extend_from_slice(bytes);
                return Ok(&[]);
            };
            return Ok(self.parsed(parsed, bytes));
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let partial = take(&mut self.partial);
        match parse(&partial, self.answers_head, sink)? {
            Some(parsed) => {
                let parsed = Parsed { length: parsed.length - before, ..parsed };
                Ok(self.parsed(parsed, bytes))
            }
            None if partial.len() > HEAD_LIMIT => {
                Err(Malformed::new("headers that are too large").into())
            }
            None => {
                self.partial = partial;
                Ok(&[])
            }
        }
    }

    fn parsed<'a>(&mut self, parsed: Parsed, bytes: &'a [u8]) -> &'a [u8] {
        self.state = parsed.body;
        self.keeps_alive = parsed.keeps_alive;
        bytes.get(parsed.length..).unwrap_or_default()
    }
}

/// Parses a head and passes it to `sink` unless it is an interim one. Returns `None` if `bytes` end
/// before the head does.
fn parse(
    bytes: &[u8],
    answers_head: bool,
    sink: &mut impl ResponseSink,
) -> Result<Option<Parsed>, RequestError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADER_COUNT];
    let mut response = Response::new(&mut []);
    let status = ParserConfig::default()
        .parse_response_with_uninit_headers(&mut response, bytes, &mut headers)
        .map_err(|error| Malformed::new(what(error)))?;
    let Status::Complete(length) = status else { return Ok(None) };
    let status = response.code.filter(|code| *code >= 100);
    let head = ResponseHead {
        status: status.ok_or(Malformed::new("an invalid status"))?,
        reason: response.reason.unwrap_or_default(),
        headers: response.headers,
    };
    let is_http_1_1 = response.version == Some(1);
    let Some(body) = body(&head, is_http_1_1, answers_head)? else {
        return Ok(Some(Parsed { length, body: State::Head, keeps_alive: false }));
    };
    let keeps_alive = keeps_alive(&head, is_http_1_1) && !matches!(body, State::UntilClose);
    sink.head(&head)?;
    Ok(Some(Parsed { length, body, keeps_alive }))
}

/// Returns how the body of a response is delimited (RFC 9112, section 6.3); `None` if the response
/// is an interim one.
fn body(
    head: &ResponseHead<'_>,
    is_http_1_1: bool,
    answers_head: bool,
) -> Result<Option<State>, Malformed> {
    match head.status {
        // No request asks for another protocol.
        101 | 204 | 304 => return Ok(Some(State::Length(0))),
        100..200 => return Ok(None),
        _ if answers_head => return Ok(Some(State::Length(0))),
        _ => {}
    }
    if let Some(coding) = head.values(&TRANSFER_ENCODING).last() {
        if !is_http_1_1 {
            return Err(Malformed::new("a transfer coding, which HTTP/1.0 does not know"));
        }
        let last = coding.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        // A list with anything but ASCII cannot be trusted to end where it seems to.
        let is_chunked = coding.is_ascii() && last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let chunked = || State::Chunked(Box::new(Chunked::new()));
        return Ok(Some(if is_chunked { chunked() } else { State::UntilClose }));
    }
    let mut length = None;
    for value in head.values(&CONTENT_LENGTH).flat_map(|line| line.split(|byte| *byte == b',')) {
        let next =
            decimal(value.trim_ascii()).ok_or(Malformed::new("an invalid content length"))?;
        if *length.get_or_insert(next) != next {
            return Err(Malformed::new("different content lengths"));
        }
    }
    Ok(Some(length.map_or(State::UntilClose, State::Length)))
}

fn keeps_alive(head: &ResponseHead<'_>, is_http_1_1: bool) -> bool {
    let says = |word: &str| {
        head.values(&CONNECTION)
            .flat_map(|line| line.split(|byte| *byte == b','))
            .any(|token| token.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    head.status != 101 && !says("close") && (is_http_1_1 || says("keep-alive"))
}

/// Parses digits; unlike the standard library, it accepts no sign.
fn decimal(digits: &[u8]) -> Option<u64> {
    let is_decimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_decimal);
    digits.and_then(|digits| digits.parse().ok())
}

/// Returns what is not valid in a head.
const fn what(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "an invalid header name",
        httparse::Error::HeaderValue => "an invalid header value",
        httparse::Error::NewLine => "an invalid end of line",
        httparse::Error::Status => "an invalid status",
        httparse::Error::TooManyHeaders => "too many headers",
        httparse::Error::Token => "an invalid character in its first line",
        httparse::Error::Version => "a version other than HTTP/1.0 and HTTP/1.1",
    }
}
