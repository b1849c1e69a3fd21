//! Scrapes one endpoint.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::MissedTickBehavior;
use url::Url;

use base::redact::{Secret, ShownUrl};
use base::units::{Clock, Nanos};

use super::Source;
use super::keeper::{Job, Notice};
use super::pace::Pace;
use super::phases::Shared;
use crate::server_metrics::fetch::{Fetched, Fetcher, ScrapeError, shown};
use crate::server_metrics::scrape::PhaseMark;

/// Minimum interval between two scrapes.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// A request for an immediate final scrape.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) phase: PhaseMark,
    /// Dropped when the scrape is stored or has failed.
    pub(super) done: mpsc::Sender<()>,
}

/// Another URL to try if this one does not return an exposition.
#[derive(Debug)]
pub(super) enum Alternative {
    /// None, or it was tried before.
    None,
    /// A URL that has not been tried yet.
    Probe(Secret<Url>),
    /// A URL that is configured as an endpoint of its own.
    Configured(ShownUrl),
}

/// Scrapes one endpoint.
#[derive(Debug)]
pub(super) struct Scraper {
    /// Index of the endpoint in the configuration.
    pub(super) index: usize,
    pub(super) exporters_of: Source,
    pub(super) url: Secret<Url>,
    pub(super) is_discovered: bool,
    pub(super) alternative: Alternative,
    pub(super) interval: Nanos,
    pub(super) pace: Pace,
    pub(super) fetcher: Fetcher,
    pub(super) notices: Sender<Notice>,
    pub(super) shared: Arc<Shared>,
    /// Whether a failure was logged.
    pub(super) has_warned: bool,
}

/// The pending scrapes of one endpoint.
#[derive(Debug, Default)]
struct Flights {
    tasks: JoinSet<Landed>,
    /// In the order in which they were sent.
    out: VecDeque<Flight>,
    sent: u64,
    /// Number of the latest that was stored.
    kept: u64,
}

/// A pending scrape.
#[derive(Debug)]
struct Flight {
    number: u64,
    sent_at: Nanos,
    /// The phase in which it was sent, or which it ends.
    phase: Option<PhaseMark>,
    /// Notifies the caller when dropped.
    _done: Option<mpsc::Sender<()>>,
    task: AbortHandle,
}

/// The number of a scrape and its outcome.
type Landed = (u64, Result<Fetched, ScrapeError>);

impl Flights {
    /// Returns when the latest scrape was sent.
    fn youngest(&self) -> Option<Nanos> {
        self.out.back().map(|flight| flight.sent_at)
    }

    /// Cancels the scrapes before `number` that should have completed before it, and returns how
    /// many there were.
    fn overtaken(&mut self, number: u64, pace: &Pace) -> usize {
        let now = Clock::now();
        let before = self.out.len();
        self.out.retain(|flight| {
            let is_lost = flight.number < number && pace.is_overdue(now.since(flight.sent_at));
            if is_lost {
                flight.task.abort();
            }
            !is_lost
        });
        before - self.out.len()
    }
}

/// Counts an endpoint as scraped until dropped.
#[derive(Debug)]
pub(super) struct Live(Arc<Shared>);

impl Live {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.one_more();
        Self(Arc::clone(shared))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.one_less();
    }
}

impl Scraper {
    /// Scrapes once, until `deadline`, drops `started`, and continues until the endpoint turns out
    /// to be unusable.
    pub(super) async fn run(
        mut self,
        _live: Live,
        started: mpsc::Sender<()>,
        deadline: Nanos,
        demands: UnboundedReceiver<Demand>,
    ) {
        let fetched = self.fetcher.fetch(&self.url, deadline).await;
        let latency = fetched.as_ref().map_or(Nanos::ZERO, |fetched| fetched.times.to_first_byte());
        if let Err(error) = self.take(fetched, None).await {
            return self.give_up(&error);
        }
        self.pace.answered(latency);
        drop(started);
        let error = self.go_on(demands).await;
        self.give_up(&error);
    }

    /// Scrapes at intervals and on demand until a permanent error.
    ///
    /// A scrape does not wait for the previous one, so a blocked request costs one sample only. The
    /// final scrape of a phase is sent at once, in addition to those that overlap its end.
    async fn go_on(&mut self, mut demands: UnboundedReceiver<Demand>) -> ScrapeError {
        let mut ticks = tokio::time::interval(Duration::from(self.interval).max(MIN_INTERVAL));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.reset();
        let mut flights = Flights::default();
        loop {
            let outcome = tokio::select! {
                biased;
                Some(Demand { phase, done }) = demands.recv() => {
                    ticks.reset();
                    let deadline = self.pace.final_deadline();
                    self.send(&mut flights, Some(phase), Some(done), deadline);
                    Ok(())
                }
                Some(landed) = flights.tasks.join_next() => self.land(&mut flights, landed).await,
                _ = ticks.tick() => self.tick(&mut flights).await,
            };
            if let Err(error) = outcome {
                return error;
            }
        }
    }

    /// Sends the next scrape, unless the endpoint is slow and one is pending.
    async fn tick(&mut self, flights: &mut Flights) -> Result<(), ScrapeError> {
        // This thread may not have run while responses arrived.
        tokio::task::yield_now().await;
        while let Some(landed) = flights.tasks.try_join_next() {
            self.land(flights, landed).await?;
        }
        let ago = flights.youngest().map_or(Nanos::ZERO, |at| Clock::now().since(at));
        if self.pace.may_send(flights.out.len(), ago) {
            self.send(flights, self.shared.phase(), None, self.pace.deadline());
        }
        Ok(())
    }

    /// Sends a scrape with the timeout `patience`.
    fn send(
        &self,
        flights: &mut Flights,
        phase: Option<PhaseMark>,
        done: Option<mpsc::Sender<()>>,
        patience: Nanos,
    ) {
        flights.sent += 1;
        let (number, sent_at) = (flights.sent, Clock::now());
        let (fetcher, url) = (self.fetcher.clone(), self.url.clone());
        let fetch = async move { (number, fetcher.fetch(&url, sent_at + patience).await) };
        let task = flights.tasks.spawn(fetch);
        flights.out.push_back(Flight { number, sent_at, phase, _done: done, task });
    }

    /// Processes the outcome of a scrape. Earlier scrapes that should have completed before it are
    /// cancelled, since they would describe an earlier time.
    async fn land(
        &mut self,
        flights: &mut Flights,
        landed: Result<Landed, JoinError>,
    ) -> Result<(), ScrapeError> {
        // Cancelled, and counted when it was.
        let Ok((number, fetched)) = landed else { return Ok(()) };
        let at = flights.out.iter().position(|flight| flight.number == number);
        let Some(flight) = at.and_then(|at| flights.out.remove(at)) else { return Ok(()) };
        if number < flights.kept {
            // A scrape that was sent later has already arrived.
            return Ok(());
        }
        let answered = fetched.as_ref().ok().map(|fetched| fetched.times);
        let phase = flight.phase.or_else(|| self.shared.phase_at(answered?.first_byte_ns));
        match self.take(fetched, phase).await {
            Ok(()) => {
                flights.kept = number;
                self.pace.answered(answered.unwrap_or_default().to_first_byte());
                for _ in 0..flights.overtaken(number, &self.pace) {
                    self.fail("there was no response before the next scrape");
                }
                Ok(())
            }
            Err(ScrapeError::Failed(reason)) => {
                self.pace.failed();
                // The keeper may have ended with the collection.
                let _ = self.notices.send(Notice::Failed(self.index));
                self.fail(&reason);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Stores a response, or looks for an exposition elsewhere.
    async fn take(
        &mut self,
        fetched: Result<Fetched, ScrapeError>,
        phase: Option<PhaseMark>,
    ) -> Result<(), ScrapeError> {
        match self.keep(fetched, phase, None).await {
            Err(error @ (ScrapeError::ContentType(_) | ScrapeError::Unparsable(_))) => {
                self.probe(error, phase).await
            }
            outcome => outcome,
        }
    }

    async fn keep(
        &self,
        fetched: Result<Fetched, ScrapeError>,
        phase: Option<PhaseMark>,
        moved_to: Option<ShownUrl>,
    ) -> Result<(), ScrapeError> {
        let fetched = fetched?;
        let (outcome, kept) = oneshot::channel();
        let gone = || ScrapeError::Failed("the collection has ended".to_owned());
        let job = Job { endpoint: self.index, moved_to, phase, fetched, outcome };
        self.notices.send(Notice::Answered(job)).map_err(|_| gone())?;
        kept.await.map_err(|_| gone())?
    }

    /// Tries the alternative URL, once per run. Returns `error`, the original error, if there is no
    /// exposition either.
    async fn probe(
        &mut self,
        error: ScrapeError,
        phase: Option<PhaseMark>,
    ) -> Result<(), ScrapeError> {
        let Alternative::Probe(url) = &self.alternative else { return Err(error) };
        let url = url.clone();
        self.alternative = Alternative::None;
        let deadline = Clock::now() + self.pace.final_deadline();
        let fetched = self.fetcher.fetch(&url, deadline).await;
        if self.keep(fetched, phase, Some(shown(&url))).await.is_err() {
            return Err(error);
        }
        tracing::info!("{} {error}; scraping {} instead", shown(&self.url), shown(&url));
        self.url = url;
        Ok(())
    }

    /// Counts a failure. The first one is logged.
    fn fail(&mut self, reason: &str) {
        self.shared.update(|store| store.fail(self.index));
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "a scrape of {} failed: {reason}; scraping continues, and further failures are \
                 only counted",
                shown(&self.url)
            );
        }
    }

    /// Logs why the endpoint is not scraped any more.
    fn give_up(&self, error: &ScrapeError) {
        let url = shown(&self.url);
        let [flag, off] = self.exporters_of.flags();
        if self.exporters_of == Source::Gpus && self.is_discovered {
            // Most machines do not have an exporter.
            self.shared.update(|store| store.fail(self.index));
            return tracing::debug!("no GPU telemetry at {url}: {error}; use {flag} URL");
        }
        match (error, &self.alternative) {
            (ScrapeError::Failed(reason), _) => self.tell_unreachable(reason),
            (
                ScrapeError::ContentType(_) | ScrapeError::Unparsable(_),
                Alternative::Configured(other),
            ) => tracing::info!("{url} {error}; scraping {other} as configured"),
            _ => tracing::warn!(
                "Disabling {} collection for {url}: endpoint '{url}' {error}. To suppress this \
                 warning, pass {off}.",
                self.exporters_of.metrics()
            ),
        }
    }

    fn tell_unreachable(&self, reason: &str) {
        self.shared.update(|store| store.fail(self.index));
        let url = shown(&self.url);
        let (metrics, [flag, off]) = (self.exporters_of.metrics(), self.exporters_of.flags());
        if self.is_discovered {
            tracing::warn!(
                "no {metrics} at {url}: {reason}; use {flag} URL to set another endpoint, or {off} \
                 to disable scraping"
            );
        } else {
            tracing::warn!("no {metrics} from {url}: {reason}; the run continues without them");
        }
    }
}
