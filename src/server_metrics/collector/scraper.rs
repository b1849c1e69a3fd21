//! What happens with one endpoint.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior};
use url::Url;

use super::keeper::{Job, Time};
use super::phases::Shared;
use crate::server_metrics::fetch::{Fetched, Fetcher, ScrapeError, shown};
use crate::server_metrics::scrape::PhaseMark;
use crate::units::{Clock, Nanos};

/// Between two scrapes, whatever is asked for.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// A final scrape that is to be made at once.
#[derive(Debug)]
pub(super) struct Demand {
    /// The phase that ended.
    pub(super) phase: PhaseMark,
    pub(super) deadline: Nanos,
    /// Dropped when the scrape is kept, or has failed.
    pub(super) done: oneshot::Sender<()>,
}

/// Where to look for an exposition when there is none.
#[derive(Debug)]
pub(super) enum Alternative {
    /// Nowhere, or that was tried.
    None,
    /// There; not yet tried.
    Probe(Url),
    /// There, which is scraped on its own account.
    Configured(Arc<str>),
}

/// Scrapes one endpoint.
#[derive(Debug)]
pub(super) struct Scraper {
    /// Its position among those configured.
    pub(super) index: usize,
    pub(super) url: Url,
    pub(super) is_discovered: bool,
    pub(super) alternative: Alternative,
    pub(super) interval: Nanos,
    pub(super) scrape_timeout: Nanos,
    pub(super) fetcher: Fetcher,
    pub(super) jobs: Sender<Job>,
    pub(super) shared: Arc<Shared>,
    /// A failure was told of.
    pub(super) has_warned: bool,
}

/// Counts an endpoint as scraped while it lives.
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
    /// Scrapes once, until `deadline`, drops `started`, and goes on until the
    /// endpoint turns out to be of no use.
    pub(super) async fn run(
        mut self,
        _live: Live,
        started: Sender<()>,
        deadline: Nanos,
        demands: UnboundedReceiver<Demand>,
    ) {
        let fetched = self.fetcher.fetch(&self.url, deadline).await;
        if let Err(error) = self.take(fetched, Time::Within(None), deadline).await {
            return self.give_up(&error);
        }
        drop(started);
        let error = self.go_on(demands).await;
        self.give_up(&error);
    }

    /// Scrapes at intervals and on demand until an error is for good.
    async fn go_on(&mut self, mut demands: UnboundedReceiver<Demand>) -> ScrapeError {
        let mut ticks = tokio::time::interval(Duration::from(self.interval).max(LEAST_INTERVAL));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.reset();
        let mut overtaker = None;
        loop {
            let demand = match overtaker.take() {
                None => next(&mut demands, &mut ticks).await,
                overtaker => overtaker,
            };
            let outcome = match demand {
                Some(demand) => {
                    ticks.reset();
                    self.meet(demand).await.map(|()| None)
                }
                None => self.scrape(&mut demands).await,
            };
            match outcome {
                Ok(demand) => overtaker = demand,
                Err(ScrapeError::Failed(reason)) => self.fail(&reason),
                Err(error) => return error,
            }
        }
    }

    /// Scrapes, unless a demand comes in the meantime: the final scrape of a phase
    /// does not wait for an answer that hangs.
    async fn scrape(
        &mut self,
        demands: &mut UnboundedReceiver<Demand>,
    ) -> Result<Option<Demand>, ScrapeError> {
        let before = self.shared.phase();
        let deadline = Clock::now() + self.scrape_timeout;
        let fetched = tokio::select! {
            biased;
            Some(demand) = demands.recv() => return Ok(Some(demand)),
            fetched = self.fetcher.fetch(&self.url, deadline) => fetched,
        };
        let answered_ns = fetched.as_ref().ok().map(|fetched| fetched.times.first_byte_ns);
        let now = answered_ns.and_then(|at_ns| self.shared.phase_at(at_ns));
        self.take(fetched, Time::Within(before.or(now)), deadline).await.map(|()| None)
    }

    /// Makes the final scrape of a phase.
    async fn meet(&mut self, demand: Demand) -> Result<(), ScrapeError> {
        let Demand { phase, deadline, done: _done } = demand;
        let fetched = self.fetcher.fetch(&self.url, deadline).await;
        self.take(fetched, Time::EndOf(phase), deadline).await
    }

    /// Has an answer kept, or looks for a better one elsewhere.
    async fn take(
        &mut self,
        fetched: Result<Fetched, ScrapeError>,
        time: Time,
        deadline: Nanos,
    ) -> Result<(), ScrapeError> {
        match self.keep(fetched, time, None).await {
            Err(error @ (ScrapeError::ContentType(_) | ScrapeError::Unparsable(_))) => {
                self.probe(error, time, deadline).await
            }
            outcome => outcome,
        }
    }

    async fn keep(
        &self,
        fetched: Result<Fetched, ScrapeError>,
        time: Time,
        moved_to: Option<Arc<str>>,
    ) -> Result<(), ScrapeError> {
        let fetched = fetched?;
        let (outcome, kept) = oneshot::channel();
        let gone = || ScrapeError::Failed("the collection has ended".to_owned());
        self.jobs
            .send(Job { endpoint: self.index, moved_to, time, fetched, outcome })
            .map_err(|_| gone())?;
        kept.await.map_err(|_| gone())?
    }

    /// Tries the other place, once in a run. Returns `error`, which led here,
    /// where there is no exposition either.
    async fn probe(
        &mut self,
        error: ScrapeError,
        time: Time,
        deadline: Nanos,
    ) -> Result<(), ScrapeError> {
        let Alternative::Probe(url) = &self.alternative else { return Err(error) };
        let url = url.clone();
        self.alternative = Alternative::None;
        let fetched = self.fetcher.fetch(&url, deadline).await;
        if self.keep(fetched, time, Some(shown(&url))).await.is_err() {
            return Err(error);
        }
        tracing::info!(
            "{} {error}; {} has one and is scraped in its stead",
            shown(&self.url),
            shown(&url)
        );
        self.url = url;
        Ok(())
    }

    /// Counts a failure. The first one is told of.
    fn fail(&mut self, reason: &str) {
        self.shared.update(|store| store.fail(self.index));
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "a scrape of {} failed: {reason}; it is tried again, and what fails from now on is \
                 only counted",
                shown(&self.url)
            );
        }
    }

    /// Says why the endpoint is not scraped any more.
    fn give_up(&self, error: &ScrapeError) {
        let url = shown(&self.url);
        match (error, &self.alternative) {
            (ScrapeError::Failed(reason), _) => self.tell_unreachable(reason),
            (
                ScrapeError::ContentType(_) | ScrapeError::Unparsable(_),
                Alternative::Configured(other),
            ) => tracing::info!("{url} {error}; {other} is scraped, as configured"),
            _ => tracing::warn!(
                "Disabling server metrics collection for {url}: endpoint '{url}' {error}. To \
                 suppress this warning, pass --no-server-metrics."
            ),
        }
    }

    fn tell_unreachable(&self, reason: &str) {
        self.shared.update(|store| store.fail(self.index));
        let url = shown(&self.url);
        if self.is_discovered {
            tracing::info!(
                "there are no server metrics at {url}: {reason}; --server-metrics URL names \
                 another place"
            );
        } else {
            tracing::warn!("no server metrics from {url}: {reason}; the run goes on without them");
        }
    }
}

/// The next demand; `None` where a tick comes before it.
async fn next(demands: &mut UnboundedReceiver<Demand>, ticks: &mut Interval) -> Option<Demand> {
    tokio::select! {
        biased;
        Some(demand) = demands.recv() => Some(demand),
        _ = ticks.tick() => None,
    }
}
