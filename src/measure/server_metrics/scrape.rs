//! A scrape of an endpoint, and its recipients.

use base::redact::ShownUrl;
use base::units::Nanos;
use client::schedule::PhaseKind;

use super::exposition::Exposition;
use super::snapshot::Snapshot;

/// A URL that exposes metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Full URL, as shown in files, logs and telemetry.
    pub url: ShownUrl,
}

/// The wall times of a scrape, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchTimes {
    /// When the request was sent.
    pub request_sent_ns: u64,
    /// When the response began, which is the time of the samples.
    pub first_byte_ns: u64,
    /// When the response was complete.
    pub last_byte_ns: u64,
}

impl FetchTimes {
    /// Returns the time from the request to the beginning of the response.
    #[must_use]
    pub(crate) const fn to_first_byte(self) -> Nanos {
        Nanos(self.first_byte_ns.saturating_sub(self.request_sent_ns))
    }

    /// Returns the time from the request to the end of the response, in nanoseconds.
    #[must_use]
    pub const fn latency_ns(&self) -> u64 {
        self.last_byte_ns.saturating_sub(self.request_sent_ns)
    }
}

/// The phase of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseMark {
    /// Its index in the run, from 0.
    pub index: u32,
    /// Its kind.
    pub kind: PhaseKind,
}

/// A successful scrape.
#[derive(Debug, Clone, Copy)]
pub struct Scrape<'a> {
    /// Index of the endpoint in the configuration.
    pub index: usize,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// The times of the scrape.
    pub times: FetchTimes,
    /// The current phase; `None` before the first and after the last.
    pub phase: Option<PhaseMark>,
    /// Whether the body is identical to that of the previous scrape.
    pub is_duplicate: bool,
    /// The exposition, with unchanged names and labels.
    pub exposition: &'a Exposition<'a>,
    /// The exposition in the form used by files.
    pub snapshot: &'a Snapshot<'a>,
}

/// Receives the outcome of each scrape, on a low-priority thread.
pub trait ScrapeSink: Send + 'static {
    /// Processes a scrape.
    fn scrape(&mut self, scrape: &Scrape<'_>);

    /// A scrape of the endpoint with the index `index` failed, after others had succeeded.
    fn failed(&mut self, _index: usize, _endpoint: &Endpoint) {}

    /// Called occasionally while no scrape succeeds.
    fn idle(&mut self) {}
}

impl<S: ScrapeSink + ?Sized> ScrapeSink for Box<S> {
    fn scrape(&mut self, scrape: &Scrape<'_>) {
        (**self).scrape(scrape);
    }

    fn failed(&mut self, index: usize, endpoint: &Endpoint) {
        (**self).failed(index, endpoint);
    }

    fn idle(&mut self) {
        (**self).idle();
    }
}
