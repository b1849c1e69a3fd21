//! The HTTP client of one worker: its idle connections and the exchanges on them.

use std::borrow::Cow;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::mem::replace;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use tokio::sync::SemaphorePermit;
use tokio_rustls::rustls;

use super::acknowledge::Acknowledgements;
use super::body::BodySink;
use super::connection::Connection;
use super::connector::{Connector, Route};
use super::exchange::{Exchange, Notifications, OutgoingRequest};
use super::limit::Slot;
use super::pool::{IdlePool, SessionConnection};
use super::{Config, ConnectionReuse};
use crate::causes::find;
use crate::record::{ErrorKind, HttpTrace, RequestError};
use crate::redact;
use crate::server_family;
use crate::units::{Clock, Nanos};

/// Bounds of the interval between checks of the idle connections, which otherwise equals their
/// timeout. A check takes time from a worker that has requests to serve.
const SHORTEST_LOOK: Nanos = Nanos(10_000_000);
const LONGEST_LOOK: Nanos = Nanos(10_000_000_000);

/// Number of bytes kept of a response that is too large: enough to identify it.
const KEPT_OF_TOO_MUCH: usize = 1 << 20;

/// A request, its route and its session.
struct Work<'a> {
    request: &'a OutgoingRequest<'a>,
    route: &'a Route,
    session: &'a SessionConnection,
}

/// The HTTP client of one worker.
#[derive(Debug)]
pub struct Client {
    connector: Arc<Connector>,
    idle: IdlePool,
    acknowledgements: Rc<Acknowledgements>,
}

/// Failure of an attempt.
struct AttemptError {
    error: RequestError,
    /// The slot of a reused connection that died before the first response byte. The retry opens a
    /// new connection in it.
    slot: Option<Slot>,
}

impl From<RequestError> for AttemptError {
    fn from(error: RequestError) -> Self {
        Self { error, slot: None }
    }
}

impl Client {
    /// Creates a client whose connections `connector` establishes.
    #[must_use]
    pub fn new(connector: Arc<Connector>) -> Self {
        let timeout = connector.config.connections.keepalive_timeout;
        let idle = IdlePool::new(connector.targets(), timeout);
        Self { idle, acknowledgements: Rc::default(), connector }
    }

    /// Sends `request`, receives the whole response and notifies `watch`. The exchange ends early
    /// when `cancelled` resolves or the request timeout passes; it then contains what was received
    /// until then. `session` is the session of the request.
    pub async fn exchange(
        &self,
        request: &OutgoingRequest<'_>,
        session: &SessionConnection,
        mut watch: Notifications<'_>,
        cancelled: impl Future<Output = ()>,
    ) -> Exchange {
        let mut exchange = Exchange::begin();
        let outcome = tokio::select! {
            // Deadlines first: if a server keeps the socket full, the task uses up its budget on
            // each poll, and they would never be checked.
            biased;
            () = cancelled => {
                Err(RequestError::cancelled("the request was cancelled before it finished"))
            }
            () = tokio::time::sleep(self.config().request_timeout.into()) => Err(self.timed_out()),
            outcome = self.attempts(request, session, &mut watch, &mut exchange) => outcome,
        };
        exchange.finish(outcome)
    }

    /// Acknowledges what is read from the connections, and never returns.
    pub(crate) async fn acknowledge(&self) {
        self.acknowledgements.send().await;
    }

    /// Maintains the idle connections and never returns. It closes connections that have been idle
    /// for too long, and those whose slot another request needs.
    pub async fn tend(&self) {
        let mut wanted = self.connector.limit.wanted();
        let timeout = self.config().connections.keepalive_timeout;
        let pause = timeout.clamp(SHORTEST_LOOK, LONGEST_LOOK);
        loop {
            let _ = tokio::time::timeout(pause.into(), wanted.changed()).await;
            self.idle.close_stale(Clock::now());
            while self.connector.limit.is_wanted() && self.idle.close_oldest() {}
        }
    }

    /// Closes the connection that `session` keeps if another request needs its slot; never returns.
    /// It is used by a session that waits for something which that request may hold.
    pub(crate) async fn give_way(&self, session: &SessionConnection) {
        let mut wanted = self.connector.limit.wanted();
        while !self.connector.limit.is_wanted() {
            let _ = wanted.changed().await;
        }
        session.close();
        std::future::pending::<()>().await;
    }

    #[must_use]
    pub(crate) fn request_timeout(&self) -> Nanos {
        self.config().request_timeout
    }

    fn config(&self) -> &Config {
        &self.connector.config
    }

    fn timed_out(&self) -> RequestError {
        let seconds = self.config().request_timeout.as_seconds();
        RequestError::new(
            ErrorKind::Timeout,
            "RequestTimeout",
            format!("no complete response within {seconds} s"),
        )
    }

    /// Makes an attempt, and a second one on a new connection if a reused connection died before
    /// the first response byte.
    async fn attempts(
        &self,
        request: &OutgoingRequest<'_>,
        session: &SessionConnection,
        watch: &mut Notifications<'_>,
        exchange: &mut Exchange,
    ) -> Result<(), RequestError> {
        let Some(route) = self.connector.route(request.target) else {
            return Err(RequestError::new(
                ErrorKind::Other,
                "NoTarget",
                "the request does not name a server",
            ));
        };
        let work = Work { request, route, session };
        let _turn = self.turn(&mut exchange.trace).await?;
        match self.attempt(&work, watch, exchange, None).await {
            Err(AttemptError { slot: Some(slot), .. }) => {
                exchange.retry(watch);
                let second = self.attempt(&work, watch, exchange, Some(slot)).await;
                second.map_err(|failure| failure.error)
            }
            outcome => outcome.map_err(|failure| failure.error),
        }
    }

    /// Waits for the turn of a request that may use any idle connection. A session with its own
    /// connection takes no turn, since it would delay the others; it only needs a slot.
    async fn turn(
        &self,
        trace: &mut HttpTrace,
    ) -> Result<Option<SemaphorePermit<'_>>, RequestError> {
        let limit = &self.connector.limit;
        if self.connector.reuse() != ConnectionReuse::Pooled {
            return Ok(None);
        }
        if let Some(turn) = limit.try_turn() {
            return Ok(Some(turn));
        }
        let turn = blocked(trace, limit.turn()).await;
        turn.map(Some)
            .map_err(|error| RequestError::new(ErrorKind::Other, "ClientClosed", error.to_string()))
    }

    /// Waits for the slot of a connection: a free one, one freed by closing an idle connection, or
    /// the next one that is released.
    async fn slot(&self, trace: &mut HttpTrace) -> Slot {
        let limit = &self.connector.limit;
        if let Some(slot) = limit.try_slot() {
            return slot;
        }
        if self.idle.close_oldest()
            && let Some(slot) = limit.try_slot()
        {
            return slot;
        }
        blocked(trace, limit.slot()).await
    }

    /// Makes one attempt: on an idle connection, or on a new one in `slot`.
    async fn attempt(
        &self,
        work: &Work<'_>,
        watch: &mut Notifications<'_>,
        exchange: &mut Exchange,
        slot: Option<Slot>,
    ) -> Result<(), AttemptError> {
        let mut connection = self.connection(work, &mut exchange.trace, slot).await?;
        exchange.attempt(connection.log(), watch);
        let http = self.http_request(work);
        if self.config().keep_headers {
            exchange.trace.request_headers = as_sent(redact::headers(http.headers()));
        }
        let response = match connection.send(http).await {
            Ok(response) => response,
            Err(error) => {
                let is_reused = exchange.trace.reused.is_some();
                let is_silent = connection.log().read.get() == 0;
                let slot = (is_reused && is_silent).then(|| connection.into_slot());
                return Err(AttemptError { error: connection_error(&error), slot });
            }
        };
        self.receive(response, &mut connection, watch, exchange).await?;
        let idle_from = exchange.last_read().arrival.read_at();
        exchange.leave_connection();
        if connection.is_usable() {
            self.put_idle(work, connection, idle_from);
        }
        Ok(())
    }

    /// Returns a new connection in `slot`. Without a slot, it returns an idle connection, or a new
    /// one in the next slot.
    async fn connection(
        &self,
        work: &Work<'_>,
        trace: &mut HttpTrace,
        slot: Option<Slot>,
    ) -> Result<Connection, RequestError> {
        if let Some(slot) = slot {
            return self.connector.connect(work.route, slot, trace, &self.acknowledgements).await;
        }
        let now = Clock::now();
        if let Some(connection) = self.take_idle(work, now) {
            (trace.local_addr, trace.remote_addr) = connection.addresses();
            trace.reused = Some(now);
            return Ok(connection);
        }
        let slot = self.slot(trace).await;
        self.connector.connect(work.route, slot, trace, &self.acknowledgements).await
    }

    async fn receive(
        &self,
        response: Response<Incoming>,
        connection: &mut Connection,
        watch: &mut Notifications<'_>,
        exchange: &mut Exchange,
    ) -> Result<(), RequestError> {
        let (head, mut body) = response.into_parts();
        exchange.status = Some(head.status.as_u16());
        exchange.trace.headers_received = Some(exchange.last_read().arrival.at);
        exchange.trace.reason = reason(&head);
        exchange.trace.report_headers = server_family::reports(&head.headers);
        if self.config().keep_headers {
            exchange.trace.response_headers = redact::headers(&head.headers);
        }
        let memory = self.connector.budget.hold();
        let mut sink = BodySink::new(&head.headers, self.config().body_limit, memory)?;
        exchange.body.is_event_stream = sink.is_event_stream();
        while let Some(frame) = connection.next_frame(&mut body).await {
            let frame = frame.map_err(|error| connection_error(&error))?;
            if let Some(data) = frame.data_ref() {
                let read = exchange.last_read();
                exchange.trace.receive_start.get_or_insert(read.arrival.at);
                let seen = exchange.body.events.len();
                if let Err(error) = sink.push(data, read, &mut exchange.body) {
                    exchange.body.shorten(KEPT_OF_TOO_MUCH);
                    return Err(error);
                }
                watch.show(&exchange.body, seen);
            }
        }
        let finished = sink.finish(exchange.last_read(), &mut exchange.body);
        if finished.is_err() {
            exchange.body.shorten(KEPT_OF_TOO_MUCH);
        }
        finished
    }

    /// Takes an open connection that the request may use.
    fn take_idle(&self, work: &Work<'_>, now: Nanos) -> Option<Connection> {
        match self.connector.reuse() {
            ConnectionReuse::Pooled => self.idle.take(work.request.target, now),
            ConnectionReuse::Never => None,
            ConnectionReuse::StickyUserSessions => {
                work.session.take(now, self.config().connections.keepalive_timeout)
            }
        }
    }

    /// Keeps a connection that has been idle since `since` for the next request, or closes it.
    fn put_idle(&self, work: &Work<'_>, connection: Connection, since: Nanos) {
        match self.connector.reuse() {
            ConnectionReuse::Pooled if self.connector.limit.is_wanted() => {}
            ConnectionReuse::Pooled => self.idle.put(work.request.target, connection, since),
            ConnectionReuse::Never => {}
            ConnectionReuse::StickyUserSessions => work.session.put(connection, since),
        }
    }

    fn http_request(&self, work: &Work<'_>) -> Request<Full<Bytes>> {
        let mut http = Request::new(Full::new(work.request.body.clone()));
        *http.method_mut() = work.request.method.clone();
        *http.uri_mut() = work.route.uri(work.request.path.as_ref().map(|path| &**path.expose()));
        *http.headers_mut() = work.request.headers.make();
        work.route.complete(http.headers_mut(), self.connector.reuse());
        http
    }
}

/// Returns headers with their names as sent: HTTP/1.1 names are written with capitals, as in
/// `X-Request-Id`.
fn as_sent(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    let capitalised = |name: String| {
        let mut begins = true;
        let of = |c: char| if replace(&mut begins, c == '-') { c.to_ascii_uppercase() } else { c };
        name.chars().map(of).collect()
    };
    headers.into_iter().map(|(name, value)| (capitalised(name), value)).collect()
}

/// Records a wait for a connection: the first wait of a request is its start, and the last one its
/// end.
async fn blocked<T>(trace: &mut HttpTrace, wait: impl Future<Output = T>) -> T {
    trace.pool_wait_start.get_or_insert_with(Clock::now);
    let got = wait.await;
    trace.pool_wait_end = Some(Clock::now());
    got
}

/// Returns the reason phrase; hyper keeps only those that differ from the standard one.
fn reason(head: &http::response::Parts) -> Option<Cow<'static, str>> {
    match head.extensions.get::<ReasonPhrase>() {
        Some(phrase) => Some(String::from_utf8_lossy(phrase.as_bytes()).into_owned().into()),
        None => head.status.canonical_reason().map(Cow::Borrowed),
    }
}

fn connection_error(error: &hyper::Error) -> RequestError {
    let io_error = find::<io::Error>(error);
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
        // hyper's error for invalid chunked framing.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            (ErrorKind::Other, "InvalidHttpResponse")
        }
        _ if error.is_incomplete_message() => (ErrorKind::Other, "IncompleteResponse"),
        _ if error.is_parse() => (ErrorKind::Other, "InvalidHttpResponse"),
        _ if error.is_closed() || error.is_canceled() => (ErrorKind::Other, "ConnectionClosed"),
        _ => (ErrorKind::Other, "ConnectionFailed"),
    };
    let cause = error.source().map(ToString::to_string);
    // hyper's own message is not specific: `connection error`.
    let message = match &cause {
        // rustls adds a page of its manual on what the server should have done.
        _ if name == "IncompleteResponse" => {
            "the connection was closed before the response was complete".to_owned()
        }
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    RequestError { cause, ..RequestError::new(kind, name, message) }
}
