//! The HTTP client of one worker: a pool of connections and the exchanges on them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::rustls;

use super::connection::Connection;
use super::connector::Connector;
use super::exchange::{BodySink, Exchange, OutgoingRequest, Watch};
use super::{Config, Target, TlsError};
use crate::record::{ErrorKind, HttpTrace, RequestError};
use crate::redact;
use crate::units::Clock;

/// Counts of a client's connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Connections made.
    pub opened: u64,
    /// Requests sent on a connection that had served another.
    pub reused: u64,
}

/// The HTTP client of one worker.
pub struct Client {
    config: Config,
    targets: Arc<[Target]>,
    connector: Connector,
    /// Idle connections by target; the last used is taken first.
    idle: RefCell<Vec<Vec<Connection>>>,
    slots: Semaphore,
    stats: Cell<ClientStats>,
}

/// An attempt's failure, and whether a fresh connection may be tried.
struct AttemptError {
    error: RequestError,
    is_retryable: bool,
}

impl From<RequestError> for AttemptError {
    fn from(error: RequestError) -> Self {
        Self { error, is_retryable: false }
    }
}

impl Client {
    /// A client for requests to `targets`.
    pub fn new(config: Config, targets: Arc<[Target]>) -> Result<Self, TlsError> {
        Ok(Self {
            connector: Connector::new(&config, &targets)?,
            idle: RefCell::new(targets.iter().map(|_| Vec::new()).collect()),
            slots: Semaphore::new(config.connection_limit.clamp(1, Semaphore::MAX_PERMITS)),
            stats: Cell::default(),
            config,
            targets,
        })
    }

    /// The client's counts so far.
    pub const fn stats(&self) -> ClientStats {
        self.stats.get()
    }

    /// Sends `request` and takes the whole response, telling `watch` what
    /// happens. Ends early when `cancelled` does or the request timeout passes;
    /// what had come until then is in the exchange.
    pub async fn exchange(
        &self,
        request: &OutgoingRequest,
        mut watch: Watch<'_>,
        cancelled: impl Future<Output = ()>,
    ) -> Exchange {
        let mut exchange = Exchange::begin();
        let outcome = tokio::select! {
            // The bounds first: a server that never lets the socket run dry uses
            // up the task's share of each turn, and they would never be looked at.
            biased;
            () = cancelled => Err(RequestError::new(
                ErrorKind::Cancelled, "RequestCancelled", "the request was cancelled before it finished",
            )),
            () = tokio::time::sleep(self.config.request_timeout.into()) => Err(self.timed_out()),
            outcome = self.attempts(request, &mut watch, &mut exchange) => outcome,
        };
        exchange.finish(outcome)
    }

    fn timed_out(&self) -> RequestError {
        let seconds = self.config.request_timeout.as_seconds();
        RequestError::new(
            ErrorKind::Timeout,
            "RequestTimeout",
            format!("no complete response within {seconds} s"),
        )
    }

    /// One attempt, and a second one on a fresh connection if a reused one
    /// died before the first response byte.
    async fn attempts(
        &self,
        request: &OutgoingRequest,
        watch: &mut Watch<'_>,
        exchange: &mut Exchange,
    ) -> Result<(), RequestError> {
        let Some(target) = self.targets.get(request.target) else {
            return Err(RequestError::new(
                ErrorKind::Other,
                "NoTarget",
                "the request names no server",
            ));
        };
        let _slot = self.slot(&mut exchange.trace).await?;
        match self.attempt(request, target, watch, exchange, true).await {
            Err(failure) if failure.is_retryable => {
                exchange.retry();
                self.attempt(request, target, watch, exchange, false)
                    .await
                    .map_err(|failure| failure.error)
            }
            outcome => outcome.map_err(|failure| failure.error),
        }
    }

    /// A connection slot, with the wait for it stamped where there was one.
    async fn slot(&self, trace: &mut HttpTrace) -> Result<SemaphorePermit<'_>, RequestError> {
        if let Ok(slot) = self.slots.try_acquire() {
            return Ok(slot);
        }
        trace.pool_wait_start = Some(Clock::now());
        let slot = self.slots.acquire().await;
        trace.pool_wait_end = Some(Clock::now());
        slot.map_err(|error| RequestError::new(ErrorKind::Other, "ClientClosed", error.to_string()))
    }

    async fn attempt(
        &self,
        request: &OutgoingRequest,
        target: &Target,
        watch: &mut Watch<'_>,
        exchange: &mut Exchange,
        may_reuse: bool,
    ) -> Result<(), AttemptError> {
        let idle = if may_reuse { self.take_idle(request.target) } else { None };
        let is_reused = idle.is_some();
        let mut connection = match idle {
            Some(connection) => {
                (exchange.trace.local_addr, exchange.trace.remote_addr) = connection.addresses();
                exchange.trace.reused = Some(Clock::now());
                connection
            }
            None => self.connector.connect(target, &mut exchange.trace).await?,
        };
        self.count(is_reused);
        exchange.attempt(connection.log(), watch);
        let http = http_request(request, target)?;
        if self.config.keep_headers {
            exchange.trace.request_headers = redact::headers(http.headers());
        }
        let response = connection.send(http).await.map_err(|error| {
            let is_silent = connection.log().read.get() == 0;
            AttemptError { error: connection_error(&error), is_retryable: is_reused && is_silent }
        })?;
        self.receive(response, &mut connection, watch, exchange).await?;
        if connection.is_usable() {
            self.put_idle(request.target, connection);
        }
        Ok(())
    }

    async fn receive(
        &self,
        response: Response<Incoming>,
        connection: &mut Connection,
        watch: &mut Watch<'_>,
        exchange: &mut Exchange,
    ) -> Result<(), RequestError> {
        let (head, mut body) = response.into_parts();
        exchange.status = Some(head.status.as_u16());
        exchange.trace.headers_received = Some(exchange.last_arrival().at);
        exchange.trace.reason = reason(&head);
        if self.config.keep_headers {
            exchange.trace.response_headers = redact::headers(&head.headers);
        }
        let mut sink = BodySink::new(&head.headers, self.config.body_limit)?;
        exchange.body.is_event_stream = sink.is_event_stream();
        while let Some(frame) = connection.next_frame(&mut body).await {
            let frame = frame.map_err(|error| connection_error(&error))?;
            if let Some(data) = frame.data_ref() {
                let arrival = exchange.last_arrival();
                exchange.trace.receive_start.get_or_insert(arrival.at);
                let seen = exchange.body.events.len();
                sink.push(data, arrival, &mut exchange.body)?;
                watch.show(&exchange.body, seen);
            }
        }
        sink.finish(exchange.last_arrival(), &mut exchange.body)
    }

    /// The connection to `target` that was used last and is still open.
    fn take_idle(&self, target: usize) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let connections = idle.get_mut(target)?;
        while let Some(mut connection) = connections.pop() {
            if connection.is_usable() {
                return Some(connection);
            }
        }
        None
    }

    fn put_idle(&self, target: usize, connection: Connection) {
        if let Some(connections) = self.idle.borrow_mut().get_mut(target) {
            connections.push(connection);
        }
    }

    fn count(&self, is_reused: bool) {
        let mut stats = self.stats.get();
        if is_reused {
            stats.reused += 1;
        } else {
            stats.opened += 1;
        }
        self.stats.set(stats);
    }
}

fn http_request(
    request: &OutgoingRequest,
    target: &Target,
) -> Result<Request<Full<Bytes>>, RequestError> {
    let mut http = Request::builder()
        .method(Method::POST)
        .uri(&*target.path_and_query)
        .body(Full::new(request.body.clone()))
        .map_err(|error| {
            RequestError::new(ErrorKind::Other, "InvalidRequest", error.to_string())
        })?;
    *http.headers_mut() = request.headers.clone();
    http.headers_mut().insert(header::HOST, target.host_header.clone());
    if let Some(credentials) = &target.authorization {
        http.headers_mut().entry(header::AUTHORIZATION).or_insert_with(|| credentials.clone());
    }
    Ok(http)
}

/// The reason phrase: hyper keeps only those that are not the standard one.
fn reason(head: &http::response::Parts) -> Option<Cow<'static, str>> {
    match head.extensions.get::<ReasonPhrase>() {
        Some(phrase) => Some(String::from_utf8_lossy(phrase.as_bytes()).into_owned().into()),
        None => head.status.canonical_reason().map(Cow::Borrowed),
    }
}

/// What a connection's failure is called.
fn connection_error(error: &hyper::Error) -> RequestError {
    let cause = error.source();
    let io_error = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    let tls_error = io_error
        .and_then(io::Error::get_ref)
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (kind, name) = match io_error.map(io::Error::kind) {
        _ if tls_error.is_some() => (ErrorKind::Other, "TlsError"),
        Some(io::ErrorKind::TimedOut) => (ErrorKind::Timeout, "ConnectionTimeout"),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            (ErrorKind::Other, "ConnectionReset")
        }
        Some(io::ErrorKind::UnexpectedEof) => (ErrorKind::Other, "IncompleteResponse"),
        // hyper's word for chunked framing that is none.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            (ErrorKind::Parse, "InvalidHttpResponse")
        }
        _ if error.is_incomplete_message() => (ErrorKind::Other, "IncompleteResponse"),
        _ if error.is_parse() => (ErrorKind::Parse, "InvalidHttpResponse"),
        _ if error.is_closed() || error.is_canceled() => (ErrorKind::Other, "ConnectionClosed"),
        _ => (ErrorKind::Other, "ConnectionFailed"),
    };
    RequestError {
        cause: cause.map(ToString::to_string),
        ..RequestError::new(kind, name, error.to_string())
    }
}
