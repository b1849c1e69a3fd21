//! One fetch of one endpoint, and who is shown it.

use std::sync::Arc;

use super::exposition::Exposition;
use super::snapshot::Snapshot;
use crate::schedule::PhaseKind;

/// Where metrics are exposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Full URL without credentials: what files, logs and telemetry show.
    pub url: Arc<str>,
}

/// When a fetch happened: wall time, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchTimes {
    /// The request went out.
    pub request_sent_ns: u64,
    /// The answer began: the time of the samples.
    pub first_byte_ns: u64,
    /// The answer was there in full.
    pub last_byte_ns: u64,
}

impl FetchTimes {
    /// From the request to the end of the answer, in nanoseconds.
    #[must_use]
    pub const fn latency_ns(&self) -> u64 {
        self.last_byte_ns.saturating_sub(self.request_sent_ns)
    }
}

/// The phase that a fetch belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseMark {
    /// Its position in the run, from 0.
    pub index: u32,
    /// What it is for.
    pub kind: PhaseKind,
}

/// A fetch that succeeded.
#[derive(Debug, Clone, Copy)]
pub struct Scrape<'a> {
    /// The endpoint's position among those configured.
    pub index: usize,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// When it was fetched.
    pub times: FetchTimes,
    /// The phase that was going on; `None` before the first and after the last.
    pub phase: Option<PhaseMark>,
    /// The body is the same, byte by byte, as in the fetch before.
    pub is_duplicate: bool,
    /// What it says, names and labels unaltered.
    pub exposition: &'a Exposition<'a>,
    /// What it says, as files have it.
    pub snapshot: &'a Snapshot<'a>,
}

/// Is shown each successful fetch, on a thread of low priority.
pub trait ScrapeSink: Send + 'static {
    /// Takes one fetch.
    fn scrape(&mut self, scrape: &Scrape<'_>);

    /// Is told now and then while no fetch succeeds.
    fn idle(&mut self) {}
}

impl<S: ScrapeSink + ?Sized> ScrapeSink for Box<S> {
    fn scrape(&mut self, scrape: &Scrape<'_>) {
        (**self).scrape(scrape);
    }

    fn idle(&mut self) {
        (**self).idle();
    }
}
