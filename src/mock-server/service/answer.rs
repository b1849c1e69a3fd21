//! Responses and their bodies: whole, or a stream that hands over its events when they are due.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

use base::timer::Wait;

use super::Connection;
use crate::JSON;
use crate::activity::InFlight;
use crate::connection::Handed;
use crate::dialect::{json_string, openai_error};
use crate::reply::{Event, Events};

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The whole body at once.
    Whole(Bytes),
    /// One event after the other.
    Stream(Box<Stream>),
}

impl Answer {
    pub(super) fn whole(body: impl Into<Bytes>) -> Self {
        Self::Whole(body.into())
    }

    /// Returns the stream of `next` and the events after it.
    pub(super) fn stream(
        connection: Connection,
        next: Option<Event>,
        events: Events,
        in_flight: InFlight,
    ) -> Self {
        let wait = connection.timer.wait();
        Self::Stream(Box::new(Stream { events, next, in_flight, connection, wait }))
    }
}

#[derive(Debug)]
pub(crate) struct Stream {
    events: Events,
    next: Option<Event>,
    in_flight: InFlight,
    connection: Connection,
    wait: Wait,
}

impl Stream {
    fn poll_event(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let Some(event) = &self.next else { return Poll::Ready(None) };
        ready!(self.wait.poll_until(event.due, cx));
        let following = self.events.next();
        let Some(event) = std::mem::replace(&mut self.next, following) else {
            return Poll::Ready(None);
        };
        self.in_flight.sent(event.served_tokens(), event.choice == 0);
        let Event { kind, choice, due, bytes, tokens, cut } = event;
        let last = self.next.is_none();
        let wire = &self.connection.wire;
        wire.hand(Handed { kind, choice, due, tokens, bytes: bytes.len(), last, cut });
        if last {
            self.in_flight.finish(self.events.finish());
            if self.events.closes_after() {
                wire.close_after_this();
            }
        }
        Poll::Ready(Some(bytes))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(bytes) => Some(std::mem::take(bytes)),
            Self::Stream(stream) => ready!(stream.poll_event(cx)),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(stream) => stream.next.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

pub(super) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: Answer,
) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(super) fn plain(content_type: &'static str, body: Bytes) -> Response<Answer> {
    response(StatusCode::OK, content_type, Answer::whole(body))
}

/// Announces keep-alive if the script is to close the connection regardless.
pub(super) fn announce(mut response: Response<Answer>, closes: bool) -> Response<Answer> {
    if closes {
        let headers = response.headers_mut();
        headers.insert(http::header::CONNECTION, HeaderValue::from_static("keep-alive"));
        headers.insert(
            HeaderName::from_static("keep-alive"),
            HeaderValue::from_static("timeout=5, max=100"),
        );
    }
    response
}

pub(super) fn not_found(path: &str) -> Response<Answer> {
    let body =
        openai_error(&format!("The path `{path}` does not exist."), "NotFoundError", None, 404);
    response(StatusCode::NOT_FOUND, JSON, Answer::whole(body))
}

pub(super) fn too_large() -> Response<Answer> {
    let body = openai_error("The body is longer than 64 MiB.", "BadRequestError", None, 413);
    response(StatusCode::PAYLOAD_TOO_LARGE, JSON, Answer::whole(body))
}

pub(super) fn models_body(models: &[String], created: u64) -> Bytes {
    let entries: Vec<_> = models
        .iter()
        .map(|model| {
            let id = json_string(model);
            format!(
                r#"{{"id":{id},"object":"model","created":{created},"owned_by":"aiperf","root":{id},"parent":null,"max_model_len":null}}"#
            )
        })
        .collect();
    Bytes::from(format!(r#"{{"object":"list","data":[{}]}}"#, entries.join(",")))
}
