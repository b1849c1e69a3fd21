//! How the requests of a run ended, and what limits its throughput.

use measure::metrics::health::{LoadVerdict, Verdict};
use measure::metrics::tag;
use measure::server_metrics::watch;

use super::{ErrorCount, RunReport};

/// The least share of requests that wait at the server, of those that it has, for a queue.
const LEAST_WAITING: f64 = 0.05;

/// The share of the time of sessions that is spent between turns, from which it limits the throughput.
const MOST_DELAY: f64 = 0.5;

/// The share of the configured rate that is sent unless something holds requests back.
const LEAST_SENT: f64 = 0.8;

/// Fewest requests that show what limits a run.
const FEWEST: u64 = 32;

/// The least share of the requests, without cancelled ones, that succeed in a run with results.
const LEAST_SUCCESS: f64 = 0.1;

/// What limits the throughput of a run, as far as its own data show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadLimit {
    /// The server, at which requests wait: the mean numbers of those that run and of those that wait.
    ServerQueue { running: f64, waiting: f64 },
    /// The time between the turns of sessions: its share of their duration.
    ThinkTime { share: f64 },
    /// The concurrency: no requests wait at the server.
    Concurrency(u64),
}

impl RunReport {
    /// Returns the number of requests of the profiling phase that ended.
    pub fn ended(&self) -> u64 {
        let count_of = |tag| self.average(tag).map_or(0, |count| count as u64);
        count_of(tag::REQUEST_COUNT) + count_of(tag::ERROR_REQUEST_COUNT)
    }

    /// Returns the number of requests that the client cancelled, as asked or at the end of the load.
    pub fn cancelled(&self) -> u64 {
        let all: u64 = self.errors.iter().map(|error| error.count).sum();
        all - self.failures().map(|error| error.count).sum::<u64>()
    }

    /// Returns the number of requests that failed, without those that the client cancelled.
    pub fn failed(&self) -> u64 {
        let errors = self.average(tag::ERROR_REQUEST_COUNT).map_or(0, |count| count as u64);
        errors.saturating_sub(self.cancelled())
    }

    /// Returns the kinds of failures, without those of requests that the client cancelled, most frequent first.
    pub fn failures(&self) -> impl Iterator<Item = &ErrorCount> {
        self.errors.iter().filter(|error| !error.error_details.is_cancelled())
    }

    /// Returns whether nearly all requests failed, so that nothing can be said of the load.
    pub(crate) fn has_mostly_failed(&self) -> bool {
        let (failed, tried) = (self.failed(), self.ended().saturating_sub(self.cancelled()));
        failed > 0 && (tried.saturating_sub(failed) as f64) < LEAST_SUCCESS * tried as f64
    }

    /// Returns what limits the throughput of a closed loop, and that of an open loop whose rate was not reached
    /// or not served; `None` if it is not known.
    pub fn load_limit(&self) -> Option<LoadLimit> {
        if self.ended() < FEWEST {
            return None;
        }
        let load = &self.outcome.load;
        // A client that could not keep up did not hold it.
        let client = self.outcome.client_health.as_ref().and_then(|health| health.verdict);
        let concurrency = load.requested_concurrency.filter(|_| client != Some(Verdict::Invalid));
        let concurrency = concurrency.map(LoadLimit::Concurrency);
        let queue = self.server_queue();
        let waits = queue.filter(|[running, waiting]| {
            *waiting >= 1.0 && *waiting >= LEAST_WAITING * (running + waiting)
        });
        let waits = waits.map(|[running, waiting]| LoadLimit::ServerQueue { running, waiting });
        if let Some(wanted) = load.requested_rate {
            let is_short = load.reached_rate.is_some_and(|sent| sent < LEAST_SENT * wanted);
            let is_held =
                load.requested_concurrency.is_some_and(|most| load.reached_concurrency >= most);
            let is_saturated = self.load_verdict() == Some(LoadVerdict::Saturated);
            let held = concurrency.filter(|_| is_held);
            return waits.or(held).filter(|_| is_short || is_saturated);
        }
        let delay = self.average(tag::SESSION_DELAY_TIME);
        let share = delay.zip(self.average(tag::SESSION_DURATION)).map(|(delay, all)| delay / all);
        if let Some(share) = share.filter(|share| *share >= MOST_DELAY) {
            return Some(LoadLimit::ThinkTime { share });
        }
        queue.and(waits.or(concurrency))
    }

    /// Returns the mean numbers of requests that ran and waited at the servers, by their metrics.
    fn server_queue(&self) -> Option<[f64; 2]> {
        watch::in_servers(&self.server_metrics.as_ref()?.report)
    }
}
