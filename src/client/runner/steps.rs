//! Requests of several steps: a job that is polled until it is done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};

use base::redact::Secret;
use base::units::Clock;

use super::worker::Shared;
use crate::endpoint::{Endpoint, NextStep, http_error};
use crate::record::{ErrorKind, RequestError};
use crate::transport::{
    Exchange, Notifications, OutgoingRequest, RequestHeaders, SessionConnection,
};

/// Returns the step after an exchange, which is the response to the step `asked` or to the request
/// itself; `None` after the last step. An exchange that is not a valid response gets an error.
pub(super) fn next(
    endpoint: &dyn Endpoint,
    asked: Option<&NextStep>,
    last: &mut Exchange,
) -> Option<NextStep> {
    if last.error.is_some() || !last.status.is_some_and(is_success) {
        return None;
    }
    endpoint.next_step(asked, &last.body).unwrap_or_else(|error| {
        last.error = Some(error);
        None
    })
}

const fn is_success(status: u16) -> bool {
    matches!(status, 200..300)
}

/// The further steps of a request.
pub(super) struct Steps<'a> {
    pub(super) worker: &'a Shared,
    /// The first request.
    pub(super) request: OutgoingRequest<'a>,
    /// Path and query of the request, used if it has none of its own.
    pub(super) base: &'a str,
    pub(super) connection: &'a SessionConnection,
}

/// Why the steps ended early.
enum Early {
    Cancelled,
    TimedOut,
}

impl Steps<'_> {
    /// Takes the steps after the `first` exchange. The result has the timing and trace of the first
    /// exchange, and the status, body and end of the last one. The request timeout covers all steps
    /// together.
    pub(super) async fn follow(
        self,
        first: Exchange,
        step: NextStep,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Exchange {
        let headers = fetching(self.request.headers);
        let (method, body) = (Method::GET, Bytes::new());
        let request = OutgoingRequest { method, headers: &headers, body, ..self.request };
        let path = request.path.clone().unwrap_or_else(|| Secret::new(self.base));
        let steps = Steps { request, ..self };
        let timeout = self.worker.client.request_timeout();
        let deadline = first.start + timeout;
        let mut so_far = first;
        let mut waits_for = step.waits_for.clone();
        let early = tokio::select! {
            biased;
            () = cancelled => Some(Early::Cancelled),
            () = steps.worker.timer.until(deadline) => Some(Early::TimedOut),
            () = steps.take(path.expose(), &mut so_far, step, &mut waits_for) => None,
        };
        let seconds = timeout.as_seconds();
        let error = match early {
            None => return so_far,
            Some(Early::Cancelled) => {
                let message = format!("the request was cancelled while waiting for {waits_for}");
                RequestError::cancelled(message)
            }
            Some(Early::TimedOut) => {
                let message = format!("timed out after {seconds} s while waiting for {waits_for}");
                RequestError::new(ErrorKind::Timeout, "RequestTimeout", message)
            }
        };
        so_far.end = Clock::now();
        so_far.error = Some(error);
        so_far
    }

    /// Takes all steps; `waits_for` always describes what the current step waits for.
    async fn take(
        &self,
        path: &str,
        so_far: &mut Exchange,
        mut step: NextStep,
        waits_for: &mut String,
    ) {
        loop {
            self.worker.timer.until(Clock::now() + step.after).await;
            let request = OutgoingRequest {
                path: Some(Secret::new(with_suffix(path, &step.suffix))),
                ..self.request.clone()
            };
            let never = std::future::pending();
            let client = &self.worker.client;
            let exchange =
                client.exchange(&request, self.connection, Notifications::default(), never).await;
            absorb(so_far, exchange, &step);
            if step.is_download {
                return;
            }
            match next(&*self.worker.workload.endpoint, Some(&step), so_far) {
                Some(next) => {
                    waits_for.clone_from(&next.waits_for);
                    step = next;
                }
                None => return,
            }
        }
    }
}

/// Merges a further exchange into the exchange of its request.
fn absorb(so_far: &mut Exchange, exchange: Exchange, step: &NextStep) {
    so_far.end = exchange.end;
    so_far.retry_count += exchange.retry_count;
    let error = failure(&exchange, step).map(|error| {
        let message = format!("while waiting for {}: {}", step.waits_for, error.message);
        RequestError { message, ..error }
    });
    if step.is_download && error.is_none() {
        // The download ends the request; the result of the request is the state of the job.
        let last = exchange.body.events.last().map(|event| event.arrival);
        if let (Some(arrival), Some(event)) = (last, so_far.body.events.last_mut()) {
            event.arrival = arrival;
        }
        return;
    }
    if exchange.error.is_none() {
        so_far.status = exchange.status;
        so_far.body = exchange.body;
        so_far.trace.reason = exchange.trace.reason;
    }
    so_far.error = error;
}

/// Returns the error of a further exchange; `None` if it is valid.
fn failure(exchange: &Exchange, step: &NextStep) -> Option<RequestError> {
    let (body, reason) = (&exchange.body.bytes, exchange.trace.reason.as_deref());
    match exchange.status {
        Some(status) if !is_success(status) => {
            Some(http_error(status, reason, body).because_of(exchange.error.as_ref()))
        }
        _ if exchange.error.is_some() => exchange.error.clone(),
        _ if step.is_download && !is_file(body) => {
            let message = format!("received {} bytes that are not a video", body.len());
            Some(RequestError::new(ErrorKind::Parse, "NoVideo", message))
        }
        _ => None,
    }
}

/// Returns whether a download may be a media file: no media file begins like HTML or JSON.
fn is_file(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_some_and(|first| !matches!(first, b'<' | b'{'))
}

/// Returns headers as those of a request without a body.
fn fetching(headers: &dyn RequestHeaders) -> HeaderMap {
    let mut headers = headers.to_map();
    headers.remove(CONTENT_TYPE);
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers
}

/// Appends `suffix` to the path, before the query.
fn with_suffix(path: &str, suffix: &str) -> Arc<str> {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    format!("{}{suffix}{query}", path.trim_end_matches('/')).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_stands_before_the_query() {
        assert_eq!(&*with_suffix("/v1/videos", "/a"), "/v1/videos/a");
        assert_eq!(&*with_suffix("/v1/videos/?k=/v", "/a/content"), "/v1/videos/a/content?k=/v");
    }
}
