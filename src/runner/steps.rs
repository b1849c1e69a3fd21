//! Requests that take several answers: a job that is asked after until it is done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};

use super::worker::Shared;
use crate::endpoint::{Endpoint, NextStep, http_error};
use crate::record::{ErrorKind, RequestError};
use crate::transport::{Exchange, OutgoingRequest, SessionConnection, Watch};
use crate::units::Clock;

/// What follows an exchange, the answer to the step `asked` or to the request itself,
/// if anything does. An exchange that is no answer gets an error.
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
    pub(super) request: OutgoingRequest,
    /// Its path and query, where it names none itself.
    pub(super) base: &'a str,
    pub(super) connection: &'a SessionConnection,
}

/// Why the steps ended before the last.
enum Early {
    Cancelled,
    TimedOut,
}

impl Steps<'_> {
    /// Takes step after step from the `first` exchange on. The exchange that comes
    /// of it has the first one's timing and trace, and the last one's status, body
    /// and end. The request timeout bounds all steps together.
    pub(super) async fn follow(
        mut self,
        first: Exchange,
        step: NextStep,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Exchange {
        let path = self.request.path.take().unwrap_or_else(|| self.base.into());
        self.request.method = Method::GET;
        self.request.body = Bytes::new();
        only_fetch(&mut self.request.headers);
        let timeout = self.worker.client.request_timeout();
        let deadline = first.start + timeout;
        let mut so_far = first;
        let mut waits_for = step.waits_for.clone();
        let early = tokio::select! {
            biased;
            () = cancelled => Some(Early::Cancelled),
            () = self.worker.timer.until(deadline) => Some(Early::TimedOut),
            () = self.take(&path, &mut so_far, step, &mut waits_for) => None,
        };
        let seconds = timeout.as_seconds();
        let error = match early {
            None => return so_far,
            Some(Early::Cancelled) => {
                let message = format!("the request was cancelled while it waited for {waits_for}");
                RequestError::new(ErrorKind::Cancelled, "RequestCancelled", message)
            }
            Some(Early::TimedOut) => {
                let message = format!("{seconds} s were over while it waited for {waits_for}");
                RequestError::new(ErrorKind::Timeout, "RequestTimeout", message)
            }
        };
        so_far.end = Clock::now();
        so_far.error = Some(error);
        so_far
    }

    /// Takes all steps; `waits_for` says at any time what the last is about.
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
                path: Some(with_suffix(path, &step.suffix)),
                ..self.request.clone()
            };
            let never = std::future::pending();
            let client = &self.worker.client;
            let exchange =
                client.exchange(&request, self.connection, Watch::default(), never).await;
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

/// What a further exchange does to the request that it is of.
fn absorb(so_far: &mut Exchange, exchange: Exchange, step: &NextStep) {
    so_far.end = exchange.end;
    so_far.retry_count += exchange.retry_count;
    let error = failure(&exchange, step).map(|error| {
        let message = format!("while it waited for {}: {}", step.waits_for, error.message);
        RequestError { message, ..error }
    });
    if step.is_download && error.is_none() {
        // The download is the request's end; what it came to is the job's state.
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

/// Why a further exchange is no answer, if it is none.
fn failure(exchange: &Exchange, step: &NextStep) -> Option<RequestError> {
    let (body, reason) = (&exchange.body.bytes, exchange.trace.reason.as_deref());
    match exchange.status {
        _ if exchange.error.is_some() => exchange.error.clone(),
        Some(status) if !is_success(status) => Some(http_error(status, reason, body)),
        _ if step.is_download && !is_file(body) => {
            let message = format!("{} bytes came that are no video", body.len());
            Some(RequestError::new(ErrorKind::Parse, "NoVideo", message))
        }
        _ => None,
    }
}

/// Whether a download may be a file of media: no such file begins as a page or as JSON do.
fn is_file(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_some_and(|first| !matches!(first, b'<' | b'{'))
}

/// Makes headers those of a request without a body.
fn only_fetch(headers: &mut HeaderMap) {
    headers.remove(CONTENT_TYPE);
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
}

/// The path with `suffix` at its end, before the query.
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
