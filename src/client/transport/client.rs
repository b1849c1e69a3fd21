//! The HTTP client of one worker: its idle connections and the exchanges on them.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::SemaphorePermit;

use base::redact;
use base::units::{Clock, Nanos};

use super::acknowledge::Acknowledgements;
use super::connection::{Connection, ReadBuffer};
use super::connector::{Connector, Route};
use super::exchange::{Exchange, Notifications, OutgoingRequest};
use super::http1::{self, ResponseDecoder};
use super::limit::Slot;
use super::pool::{IdlePool, SessionConnection};
use super::receiving::Receiving;
use super::{Config, ConnectionReuse};
use crate::record::{ErrorKind, HttpTrace, RequestError};

/// Bounds of the interval between checks of the idle connections, which otherwise equals their
/// timeout. A check takes time from a worker that has requests to serve.
const SHORTEST_LOOK: Nanos = Nanos(10_000_000);
const LONGEST_LOOK: Nanos = Nanos(10_000_000_000);

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
    buffer: ReadBuffer,
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
        Self { idle, acknowledgements: Rc::default(), buffer: ReadBuffer::default(), connector }
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
    pub async fn acknowledge(&self) {
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
    pub fn request_timeout(&self) -> Nanos {
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
        let (head, body) = (self.head(work, &mut exchange.trace), &work.request.body);
        let decoder = ResponseDecoder::new(&work.request.method);
        let received = {
            let memory = self.connector.budget.hold();
            let mut receiving = Receiving::new(exchange, watch, self.config(), memory);
            let received =
                connection.exchange(&head, body, decoder, &self.buffer, &mut receiving).await;
            received.and_then(|()| receiving.finish())
        };
        if let Err(error) = received {
            let is_reused = exchange.trace.reused.is_some();
            let is_silent = connection.log().read.get() == 0;
            let slot = (is_reused && is_silent).then(|| connection.into_slot());
            return Err(AttemptError { error, slot });
        }
        let idle_from = exchange.last_read().arrival.read_at();
        exchange.leave_connection();
        self.put_idle(work, connection, idle_from);
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
    fn put_idle(&self, work: &Work<'_>, mut connection: Connection, since: Nanos) {
        if !connection.is_usable() {
            return connection.close();
        }
        match self.connector.reuse() {
            ConnectionReuse::Pooled if self.connector.limit.is_wanted() => connection.close(),
            ConnectionReuse::Pooled => self.idle.put(work.request.target, connection, since),
            ConnectionReuse::Never => connection.close(),
            ConnectionReuse::StickyUserSessions => work.session.put(connection, since),
        }
    }

    /// Returns the head of a request. Its headers are kept in `trace` if requested.
    fn head(&self, work: &Work<'_>, trace: &mut HttpTrace) -> Vec<u8> {
        let Work { request, route, .. } = work;
        let target = route.request_target(request.path.as_ref().map(|path| &**path.expose()));
        let reuse = self.connector.reuse();
        if self.config().keep_headers {
            route.visit_headers(request.headers, reuse, &mut |name, value| {
                let shown = redact::header_bytes(name.as_str(), value);
                trace.request_headers.push((http1::as_sent(name.as_str()), shown));
            });
        }
        http1::head(&request.method, &target, request.body.len(), |each| {
            route.visit_headers(request.headers, reuse, each);
        })
    }
}

/// Records a wait for a connection: the first wait of a request is its start, and the last one its
/// end.
async fn blocked<T>(trace: &mut HttpTrace, wait: impl Future<Output = T>) -> T {
    trace.pool_wait_start.get_or_insert_with(Clock::now);
    let got = wait.await;
    trace.pool_wait_end = Some(Clock::now());
    got
}
