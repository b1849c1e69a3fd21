//! Scrapes the endpoints while the load goes on.
//!
//! Two threads of low priority: one fetches, from all endpoints at once and
//! independently; the other parses, stores and shows each scrape to the sink.

mod keeper;
mod phases;
mod scraper;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::{fmt, io, mem};

use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use url::Url;

use super::fetch::{Fetcher, alternative, shown};
use super::report::Windows;
use super::scrape::{PhaseMark, ScrapeSink};
use super::store::Store;
use crate::background::yield_to_measurement;
use crate::runner::PhaseListener;
use crate::schedule::PhaseKind;
use crate::transport::{Connections, TlsError};
use crate::units::{Clock, Nanos};
use keeper::{Job, Keeper};
use phases::Shared;
use scraper::{Alternative, Demand, Live, Scraper};

/// What is scraped, and when.
#[derive(Debug, Clone)]
pub struct Config {
    /// The endpoints; none where nothing is to be scraped.
    pub endpoints: Vec<EndpointConfig>,
    /// Between two scrapes of one endpoint (`AIPERF_SERVER_METRICS_COLLECTION_INTERVAL`, 333 ms).
    pub interval: Nanos,
    /// Longest wait for the server's counts after the last phase
    /// (`AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD`, 2 s).
    pub flush_period: Nanos,
    /// Bound on the first scrape (`AIPERF_SERVER_METRICS_REACHABILITY_TIMEOUT`, 10 s).
    pub reachability_timeout: Nanos,
    /// Bound on any other (`AIPERF_SERVER_METRICS_SCRAPE_TIMEOUT`, 30 s).
    pub scrape_timeout: Nanos,
    /// Bound on stopping (`AIPERF_SERVER_METRICS_SHUTDOWN_DELAY`, 5 s).
    pub shutdown_delay: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            interval: Nanos::from_millis(333.0),
            flush_period: Nanos::from_seconds(2.0),
            reachability_timeout: Nanos::from_seconds(10.0),
            scrape_timeout: Nanos::from_seconds(30.0),
            shutdown_delay: Nanos::from_seconds(5.0),
        }
    }
}

/// An endpoint that is to be scraped.
#[derive(Clone)]
pub struct EndpointConfig {
    /// Where, with credentials; they are sent, and never shown.
    pub url: Url,
    /// Guessed from the server's URL (`--url`), not named by the user.
    pub is_discovered: bool,
}

impl EndpointConfig {
    /// Its URL without credentials.
    #[must_use]
    pub fn shown(&self) -> Arc<str> {
        shown(&self.url)
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointConfig")
            .field("url", &self.shown())
            .field("is_discovered", &self.is_discovered)
            .finish()
    }
}

/// The endpoints cannot be scraped at all.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// A thread or its runtime could not be made.
    #[error("the collection of server metrics cannot be started; check the limit on threads")]
    Thread(#[from] std::io::Error),
    /// TLS is needed and cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client could not be made.
    #[error("the client for server metrics cannot be made: {0}")]
    Client(String),
}

/// Bound on the final scrapes of a phase: a little less than the runner waits.
const BOUNDARY_TIMEOUT: Nanos = Nanos(1_900_000_000);

/// What a wait gives beyond the bound of what it waits for, to let it be told.
const SLACK: Nanos = Nanos(100_000_000);

/// Longest time between two looks at whether a wait can end.
const LOOK: Nanos = Nanos(20_000_000);

/// A collection that is going on. Dropped, it stops without waiting.
#[derive(Debug)]
pub struct Collector<S = Box<dyn ScrapeSink>> {
    config: Config,
    handle: CollectorHandle,
    /// Dropping it ends the threads.
    stop: oneshot::Sender<()>,
    /// The sink, when everything was shown to it.
    sink: Receiver<S>,
    threads: [JoinHandle<()>; 2],
}

impl<S: ScrapeSink> Collector<S> {
    /// Starts to scrape, and waits until every endpoint has answered once: the
    /// counts before the first phase. Blocks, for the reachability timeout at most,
    /// and no longer than until `is_given_up`, which is asked many times a second.
    ///
    /// Connections are made as `connections` says, times are by `clock`, and
    /// log events go where those of the calling thread go.
    pub fn start(
        config: Config,
        connections: &Connections,
        clock: Clock,
        sink: S,
        is_given_up: impl Fn() -> bool,
    ) -> Result<Self, CollectorError> {
        let urls: Vec<Arc<str>> = config.endpoints.iter().map(EndpointConfig::shown).collect();
        let targets = config.endpoints.iter().map(|endpoint| &endpoint.url);
        let fetcher = Fetcher::new(connections, targets, clock)?;
        let shared = Arc::new(Shared::new(Store::new(urls.iter().cloned()), clock));
        let (stop, stopped) = oneshot::channel();
        let (boundaries, ended) = unbounded_channel();
        let (jobs, work) = mpsc::channel();
        let (given_back, sink_back) = mpsc::channel();
        let keeper = Keeper::new(Arc::clone(&shared), urls, sink);
        let keeping = spawn("metrics-keeper", move || {
            // Whoever started this may have stopped waiting.
            let _ = given_back.send(keeper.run(&work));
        })?;
        let fetching = Fetching { config: config.clone(), fetcher, jobs, shared };
        let handle = CollectorHandle { shared: Arc::clone(&fetching.shared), boundaries };
        let deadline = Clock::now() + config.reachability_timeout;
        let (started, all_started) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let fetching = spawn("metrics-fetcher", move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = fetching.run(ended, started, deadline) => {}
                }
            });
            // A look-up of a name cannot be told to stop.
            runtime.shutdown_background();
        })?;
        await_start(&all_started, deadline + SLACK, is_given_up);
        Ok(Self { config, handle, stop, sink: sink_back, threads: [keeping, fetching] })
    }

    /// Who is to be told of the phases.
    #[must_use]
    pub fn handle(&self) -> CollectorHandle {
        self.handle.clone()
    }

    /// Scrapes on until `settled` finds the server's counts complete, or the flush
    /// period has passed since the last phase ended; then stops and gives
    /// everything back. `settled` is asked after each scrape and many times a
    /// second besides. Blocks, for a bounded time.
    pub fn finish(self, settled: impl FnMut(&Store) -> bool) -> Collected<S> {
        let Self { config, handle, stop, sink, threads } = self;
        let shared = &handle.shared;
        if let Some(PhaseMark { index, kind }) = shared.phase() {
            // The run was given up within it.
            drop(handle.phase_ended(index, kind, Clock::now()));
        }
        if let Some(end) = shared.last_end() {
            shared.await_boundaries(end + BOUNDARY_TIMEOUT + SLACK);
            flush(shared, end + config.flush_period, settled);
        }
        drop(stop);
        let sink = sink.recv_timeout(config.shutdown_delay.into());
        match &sink {
            // The threads are through with their work.
            Ok(_) => threads.into_iter().for_each(|thread| drop(thread.join())),
            Err(RecvTimeoutError::Timeout) => tracing::warn!(
                "the last server metrics are not written: that took longer than {} s",
                config.shutdown_delay.as_seconds()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                tracing::error!("the thread that keeps server metrics ended unexpectedly");
            }
        }
        let sink = sink.ok();
        Collected { store: mem::take(&mut *shared.store()), windows: shared.windows(), sink }
    }
}

/// Waits until each endpoint has dropped its sender: nothing is ever sent.
fn await_start(started: &Receiver<()>, deadline: Nanos, is_given_up: impl Fn() -> bool) {
    loop {
        let left = deadline.since(Clock::now());
        let is_over = left == Nanos::ZERO || is_given_up();
        let waited = started.recv_timeout(left.min(LOOK).into());
        if is_over || waited != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Waits until `settled`, `deadline`, or until nothing is scraped any more.
fn flush(shared: &Shared, deadline: Nanos, mut settled: impl FnMut(&Store) -> bool) {
    loop {
        let seen = shared.changes();
        let is_settled = settled(&shared.store());
        let left = deadline.since(Clock::now());
        if is_settled || left == Nanos::ZERO || shared.is_over() {
            return;
        }
        shared.await_change(seen, left.min(LOOK));
    }
}

/// Starts a thread that gives way to the measurement, and logs where the calling
/// thread does.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let log = tracing::dispatcher::get_default(Clone::clone);
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        yield_to_measurement();
        tracing::dispatcher::with_default(&log, work);
    })
}

/// What fetches.
struct Fetching {
    config: Config,
    fetcher: Fetcher,
    jobs: Sender<Job>,
    shared: Arc<Shared>,
}

impl Fetching {
    /// Scrapes all endpoints, each in a task of its own, and has final scrapes made
    /// where phases have `ended`. Each task drops its `started` after the first
    /// scrape, which has until `deadline`.
    async fn run(
        self,
        mut ended: UnboundedReceiver<Boundary>,
        started: Sender<()>,
        deadline: Nanos,
    ) {
        let start = |index| {
            let (demands, receiver) = unbounded_channel();
            let live = Live::new(&self.shared);
            let scraper = self.scraper(index);
            tokio::spawn(scraper.run(live, started.clone(), deadline, receiver));
            demands
        };
        let demands: Vec<_> = (0..self.config.endpoints.len()).map(start).collect();
        drop(started);
        while let Some(boundary) = ended.recv().await {
            boundary.make(&demands, self.config.scrape_timeout).await;
        }
    }

    fn scraper(&self, index: usize) -> Scraper {
        let EndpointConfig { url, is_discovered } = self.config.endpoints[index].clone();
        Scraper {
            index,
            is_discovered,
            alternative: self.alternative(&url),
            url,
            interval: self.config.interval,
            scrape_timeout: self.config.scrape_timeout,
            fetcher: self.fetcher.clone(),
            jobs: self.jobs.clone(),
            shared: Arc::clone(&self.shared),
            has_warned: false,
        }
    }

    fn alternative(&self, url: &Url) -> Alternative {
        let Some(other) = alternative(url) else { return Alternative::None };
        let name = shown(&other);
        let is_configured = self.config.endpoints.iter().any(|endpoint| endpoint.shown() == name);
        if is_configured { Alternative::Configured(name) } else { Alternative::Probe(other) }
    }
}

/// The end of a phase.
#[derive(Debug)]
struct Boundary {
    phase: PhaseMark,
    at: Nanos,
    shared: Arc<Shared>,
    /// Whoever waits for the final scrapes.
    _done: oneshot::Sender<()>,
}

impl Boundary {
    /// Has every endpoint scraped at once, and waits until that is done.
    async fn make(self, endpoints: &[UnboundedSender<Demand>], scrape_timeout: Nanos) {
        let deadline = self.at + scrape_timeout.min(BOUNDARY_TIMEOUT);
        let demand = |endpoint: &UnboundedSender<Demand>| {
            let (done, kept) = oneshot::channel();
            // An endpoint that is not scraped any more takes no demands.
            endpoint.send(Demand { phase: self.phase, deadline, done }).ok().map(|()| kept)
        };
        let scrapes: Vec<_> = endpoints.iter().filter_map(demand).collect();
        for scrape in scrapes {
            let left = deadline.since(Clock::now());
            // Nothing is sent, and what comes later is kept too.
            let _ = tokio::time::timeout(left.into(), scrape).await;
        }
    }
}

impl Drop for Boundary {
    fn drop(&mut self) {
        self.shared.boundary_done();
    }
}

/// What was collected.
#[derive(Debug)]
pub struct Collected<S = Box<dyn ScrapeSink>> {
    /// The series.
    pub store: Store,
    /// When the phases were.
    pub windows: Windows,
    /// The sink; absent where it had not taken its last scrape in time.
    pub sink: Option<S>,
}

/// Tells a collector of the phases.
#[derive(Debug, Clone)]
pub struct CollectorHandle {
    shared: Arc<Shared>,
    boundaries: UnboundedSender<Boundary>,
}

impl PhaseListener for CollectorHandle {
    fn phase_started(&self, index: u32, kind: PhaseKind, at: Nanos) {
        self.shared.begin(PhaseMark { index, kind }, at);
    }

    fn phase_ended(&self, index: u32, kind: PhaseKind, at: Nanos) -> oneshot::Receiver<()> {
        let phase = PhaseMark { index, kind };
        self.shared.end(phase, at);
        let (done, receiver) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        // Where nothing is collected any more this resolves the receiver.
        let _ = self.boundaries.send(Boundary { phase, at, shared, _done: done });
        receiver
    }
}
