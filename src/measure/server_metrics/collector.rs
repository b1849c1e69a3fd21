//! Scrapes the endpoints during the load.
//!
//! Two low-priority threads: one sends requests to all endpoints, concurrently and independently;
//! the other parses and stores each scrape and passes it to the sink.

mod keeper;
mod pace;
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

use base::interrupt::Interrupt;
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::redact::{Secret, ShownUrl};
use base::units::{Clock, Nanos};
use client::runner::PhaseListener;
use client::schedule::PhaseKind;
use client::transport::{Connections, TlsError};

use super::fetch::{Fetcher, alternative, shown};
use super::report::Windows;
use super::scrape::{PhaseMark, ScrapeSink};
use super::store::Store;
use keeper::{Keeper, Notice};
use pace::Pace;
use phases::Shared;
use scraper::{Alternative, Demand, Live, Scraper};
use serde::{Serialize, Serializer};

/// The subject of the endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// The servers that receive the requests.
    #[default]
    Servers,
    /// The GPUs of the servers.
    Gpus,
}

impl Source {
    /// Returns the name of the metrics in messages.
    pub const fn metrics(self) -> &'static str {
        match self {
            Self::Servers => "server metrics",
            Self::Gpus => "GPU telemetry",
        }
    }

    /// Returns the flag that sets the endpoints, and the flag that disables scraping.
    pub const fn flags(self) -> [&'static str; 2] {
        match self {
            Self::Servers => ["--server-metrics", "--no-server-metrics"],
            Self::Gpus => ["--gpu-telemetry", "--no-gpu-telemetry"],
        }
    }
}

/// The endpoints and timing of scrapes.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// The subject of the endpoints.
    #[serde(skip)]
    pub exporters_of: Source,
    /// The endpoints; empty if nothing is to be scraped.
    pub endpoints: Vec<EndpointConfig>,
    /// Interval between two scrapes of one endpoint (`AIPERF_SERVER_METRICS_COLLECTION_INTERVAL`,
    /// 333 ms).
    pub interval: Nanos,
    /// Maximum time to wait for the server's counts after the last phase
    /// (`AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD`, 2 s).
    pub flush_period: Nanos,
    /// Timeout of the first scrape (`AIPERF_SERVER_METRICS_REACHABILITY_TIMEOUT`, 10 s).
    pub reachability_timeout: Nanos,
    /// Timeout of other scrapes (`--server-metrics-timeout`); by default two intervals, and more
    /// for an endpoint that takes longer.
    pub scrape_timeout: Option<Nanos>,
    /// Maximum time to stop (`AIPERF_SERVER_METRICS_SHUTDOWN_DELAY`, 5 s).
    pub shutdown_delay: Nanos,
    /// Makes the expositions of endpoints that are not URLs of HTTP.
    #[serde(skip)]
    pub local: Option<LocalExporter>,
    /// Limits that the user cannot set.
    #[serde(skip)]
    pub limits: Limits,
}

/// Returns the exposition of an endpoint on this machine, or why there is none. It may block for as
/// long as a scrape may take.
pub type LocalExporter = fn(&Url) -> Result<String, String>;

impl Config {
    /// Returns the URLs of the endpoints as they may be shown.
    #[must_use]
    pub fn shown_endpoints(&self) -> Vec<ShownUrl> {
        self.endpoints.iter().map(EndpointConfig::shown).collect()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            exporters_of: Source::default(),
            endpoints: Vec::new(),
            interval: Nanos::from_millis(333.0),
            flush_period: Nanos::from_seconds(2.0),
            reachability_timeout: Nanos::from_seconds(10.0),
            scrape_timeout: None,
            shutdown_delay: Nanos::from_seconds(5.0),
            local: None,
            limits: Limits::default(),
        }
    }
}

/// Limits on what one response may cost; longer where all threads are slow.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum pause for the final scrapes of a phase (1.9 s, a little less than the runner waits).
    pub pause: Nanos,
    /// Minimum age at which a scrape is overdue (100 ms).
    pub overdue: Nanos,
    /// Additional time of a wait beyond the timeout of its operation, for its result to arrive
    /// (100 ms).
    pub slack: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        let [pause, overdue, slack] = [1900.0, 100.0, 100.0].map(Nanos::from_millis);
        Self { pause, overdue, slack }
    }
}

/// An endpoint to be scraped.
#[derive(Clone, Serialize)]
pub struct EndpointConfig {
    /// The URL with credentials, which are sent but never shown.
    #[serde(serialize_with = "shown_url")]
    pub url: Secret<Url>,
    /// Whether it was derived from the server's URL (`--url`) rather than given by the user.
    pub is_discovered: bool,
}

impl EndpointConfig {
    /// Returns its URL without credentials.
    #[must_use]
    pub fn shown(&self) -> ShownUrl {
        shown(&self.url)
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndpointConfig").field(&serde_json::to_value(self)).finish()
    }
}

/// Serializes the URL without its credentials.
fn shown_url<S: Serializer>(url: &Secret<Url>, serializer: S) -> Result<S::Ok, S::Error> {
    shown(url).serialize(serializer)
}

/// The reason why the endpoints cannot be scraped at all.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// A thread or its runtime could not be created.
    #[error("cannot start collecting server metrics; check the limit on threads")]
    Thread(#[from] std::io::Error),
    /// TLS is needed but cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client could not be created.
    #[error("cannot create the client for server metrics: {0}")]
    Client(String),
}

/// Time for the final scrapes after an interrupt: servers nearby respond within it.
const AFTER_INTERRUPT: Nanos = Nanos(100_000_000);

/// A running collection. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Collector<S = Box<dyn ScrapeSink>> {
    config: Config,
    handle: CollectorHandle,
    /// Ends the threads when dropped.
    stop: oneshot::Sender<()>,
    /// Receives the sink after everything was passed to it.
    sink: Receiver<S>,
    threads: [JoinHandle<()>; 2],
}

impl<S: ScrapeSink> Collector<S> {
    /// Starts to scrape, and waits for the first response of every endpoint, which contains the
    /// counts before the first phase. Blocks for at most the reachability timeout, and until the
    /// user interrupts the run.
    ///
    /// Connections are opened as `connections` specifies, times are those of `clock`, and log
    /// events go to the subscriber of the calling thread.
    pub fn start(
        config: Config,
        connections: &Connections,
        clock: Clock,
        sink: S,
        interrupt: &Interrupt,
    ) -> Result<Self, CollectorError> {
        let urls: Vec<ShownUrl> = config.endpoints.iter().map(EndpointConfig::shown).collect();
        let targets = config.endpoints.iter().map(|endpoint| &endpoint.url);
        let fetcher = Fetcher::new(connections, targets, clock, config.local)?;
        let shared = Arc::new(Shared::new(Store::new(urls.iter().cloned()), clock));
        let (stop, stopped) = oneshot::channel();
        let (boundaries, ended) = unbounded_channel();
        let (notices, work) = mpsc::channel();
        let (given_back, sink_back) = mpsc::channel();
        let keeper = Keeper::new(Arc::clone(&shared), urls, sink);
        let keeping = spawn("metrics-keeper", move || {
            // The caller may have stopped waiting.
            let _ = given_back.send(keeper.run(&work));
        })?;
        let fetching = Fetching { config: config.clone(), fetcher, notices, shared };
        let pause = config.limits.pause;
        let handle = CollectorHandle { shared: Arc::clone(&fetching.shared), boundaries, pause };
        let deadline = Clock::now() + config.reachability_timeout;
        let (started, mut all_started) = tokio::sync::mpsc::channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let fetching = spawn("metrics-fetcher", move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = fetching.run(ended, started, deadline) => {}
                }
            });
            // A name lookup cannot be cancelled.
            runtime.shutdown_background();
        })?;
        // Each endpoint drops its sender; nothing is sent.
        interrupt.wait_for(all_started.recv(), deadline + config.limits.slack);
        Ok(Self { config, handle, stop, sink: sink_back, threads: [keeping, fetching] })
    }

    /// Returns a handle that must be notified of the phases.
    #[must_use]
    pub fn handle(&self) -> CollectorHandle {
        self.handle.clone()
    }

    /// Returns what `read` returns for the metrics so far.
    pub fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.handle.shared.store())
    }

    /// Returns the times of the phases so far.
    #[must_use]
    pub fn windows(&self) -> Windows {
        self.handle.shared.windows()
    }

    /// Waits for the final scrapes, then continues to scrape until `settled` returns true for the
    /// server's counts, or the flush period since the end of the last phase has passed. After such
    /// a wait, each endpoint is scraped once more, to verify that its counts have stopped changing.
    /// Then stops and returns everything. `settled` is called after each scrape. Blocks for a
    /// bounded time, and hardly longer than until the user interrupts the run.
    pub fn finish(
        self,
        interrupt: &Interrupt,
        settled: impl FnMut(&Store) -> bool,
    ) -> Collected<S> {
        let Self { config, handle, stop, sink, threads } = self;
        let shared = &handle.shared;
        if let Some(PhaseMark { index, kind }) = shared.phase() {
            // The run was aborted during the phase.
            drop(handle.phase_ended(index, kind, Clock::now()));
        }
        if let Some(end) = shared.last_end() {
            let longest = config.scrape_timeout.unwrap_or(config.reachability_timeout);
            let deadline = end + (longest + longest).max(config.limits.pause) + config.limits.slack;
            if interrupt.wait_for(shared.boundaries_done(), deadline).is_none() {
                let soon = deadline.min(Clock::now() + AFTER_INTERRUPT);
                Interrupt::never().wait_for(shared.boundaries_done(), soon);
            }
            flush(&config, shared, end, interrupt, settled);
        }
        drop(stop);
        let sink = sink.recv_timeout(config.shutdown_delay.into());
        match &sink {
            // The threads have finished their work.
            Ok(_) => threads.into_iter().for_each(|thread| drop(thread.join())),
            Err(RecvTimeoutError::Timeout) => tracing::warn!(
                "the last {} were not written within {} s",
                config.exporters_of.metrics(),
                config.shutdown_delay.as_seconds()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                tracing::error!(
                    "the thread that stores {} ended unexpectedly",
                    config.exporters_of.metrics()
                );
            }
        }
        let sink = sink.ok();
        Collected { store: mem::take(&mut *shared.store()), windows: shared.windows(), sink }
    }
}

/// Waits until `settled` returns true, or until the flush period that began at `end` has passed;
/// after such a wait, also for one more scrape of each endpoint.
fn flush(
    config: &Config,
    shared: &Shared,
    end: Nanos,
    interrupt: &Interrupt,
    mut settled: impl FnMut(&Store) -> bool,
) {
    let deadline = end + config.flush_period;
    if settled(&shared.store()) || config.flush_period == Nanos::ZERO {
        return;
    }
    interrupt.wait_for(shared.store_is(settled), deadline);
    let before: Vec<usize> = scrapes(&shared.store());
    let one_more = |store: &Store| scrapes(store).iter().zip(&before).all(|(now, then)| now > then);
    let longest = config.interval.min(config.limits.pause) + config.limits.slack;
    interrupt.wait_for(shared.store_is(one_more), Clock::now() + longest);
}

/// Returns the number of scrapes of each endpoint.
fn scrapes(store: &Store) -> Vec<usize> {
    store.endpoints().iter().map(|endpoint| endpoint.scrapes().len()).collect()
}

/// Starts a low-priority thread with the log subscriber of the calling thread.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let log = tracing::dispatcher::get_default(Clone::clone);
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        yield_to_measurement(Background::Timely);
        tracing::dispatcher::with_default(&log, work);
    })
}

/// The state of the scraping thread.
struct Fetching {
    config: Config,
    fetcher: Fetcher,
    notices: Sender<Notice>,
    shared: Arc<Shared>,
}

impl Fetching {
    /// Scrapes all endpoints, each in its own task, and triggers the final scrapes of phases that
    /// have `ended`. Each task drops its `started` after the first scrape, which has until
    /// `deadline`.
    async fn run(
        self,
        mut ended: UnboundedReceiver<Boundary>,
        started: tokio::sync::mpsc::Sender<()>,
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
            let kept = boundary.demand(&demands);
            tokio::spawn(boundary.wait(kept));
        }
    }

    fn scraper(&self, index: usize) -> Scraper {
        let EndpointConfig { url, is_discovered } = self.config.endpoints[index].clone();
        Scraper {
            index,
            exporters_of: self.config.exporters_of,
            is_discovered,
            alternative: self.alternative(&url),
            url,
            interval: self.config.interval,
            pace: Pace::new(&self.config),
            fetcher: self.fetcher.clone(),
            notices: self.notices.clone(),
            shared: Arc::clone(&self.shared),
            has_warned: false,
        }
    }

    fn alternative(&self, url: &Secret<Url>) -> Alternative {
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
    /// How long the next phase waits for the final scrapes.
    pause: Nanos,
    shared: Arc<Shared>,
    /// Notifies the caller that waits for the final scrapes.
    done: Option<oneshot::Sender<()>>,
}

impl Boundary {
    /// Has every endpoint scraped at once. The returned channel is closed when that is done.
    fn demand(&self, endpoints: &[UnboundedSender<Demand>]) -> tokio::sync::mpsc::Receiver<()> {
        let (done, kept) = tokio::sync::mpsc::channel(1);
        for endpoint in endpoints {
            // An endpoint that was dropped does not accept demands.
            let _ = endpoint.send(Demand { phase: self.phase, done: done.clone() });
        }
        kept
    }

    /// Waits for the final scrapes; the next phase waits for them for a bounded time only.
    async fn wait(mut self, mut kept: tokio::sync::mpsc::Receiver<()>) {
        let pause = (self.at + self.pause).since(Clock::now());
        // Nothing is sent.
        let _ = tokio::time::timeout(pause.into(), kept.recv()).await;
        drop(self.done.take());
        kept.recv().await;
    }
}

impl Drop for Boundary {
    fn drop(&mut self) {
        self.shared.boundary_done();
    }
}

/// The collected data.
#[derive(Debug)]
pub struct Collected<S = Box<dyn ScrapeSink>> {
    /// The series.
    pub store: Store,
    /// The times of the phases.
    pub windows: Windows,
    /// The sink; absent if it did not process its last scrape in time.
    pub sink: Option<S>,
}

/// Notifies a collector of the phases.
#[derive(Debug, Clone)]
pub struct CollectorHandle {
    shared: Arc<Shared>,
    boundaries: UnboundedSender<Boundary>,
    pause: Nanos,
}

impl PhaseListener for CollectorHandle {
    fn phase_started(&self, index: u32, kind: PhaseKind, at: Nanos) {
        self.shared.begin(PhaseMark { index, kind }, at);
    }

    fn phase_ended(&self, index: u32, kind: PhaseKind, at: Nanos) -> oneshot::Receiver<()> {
        let phase = PhaseMark { index, kind };
        self.shared.end(phase, at);
        let (done, receiver) = oneshot::channel();
        let (shared, pause) = (Arc::clone(&self.shared), self.pause);
        // If nothing is collected any more, this resolves the receiver.
        let _ = self.boundaries.send(Boundary { phase, at, pause, shared, done: Some(done) });
        receiver
    }
}
