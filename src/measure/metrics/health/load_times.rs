//! When requests of a measurement arrived and ended, in bins of time: a limited number, so that the
//! verdict on the load can be computed at any time.

use std::collections::BTreeMap;

use super::load_failures::Cause;
use crate::metrics::metric::Observation;
use crate::metrics::time_bins::{Join, TimeBins};

/// Logarithm of the shortest bin in nanoseconds: 0.13 ms.
const FINEST: u32 = 17;

/// Most bins; a longer time has bins of twice the length.
const MOST_BINS: u64 = 4096;

/// Parts of a logarithm, which is kept as a whole number so that the order of requests does not
/// affect the sum.
const LOG_PARTS: f64 = (1_u64 << 32) as f64;

/// The requests of a measurement over time.
#[derive(Debug, Clone)]
pub struct LoadTimes {
    bins: TimeBins<Bin>,
    /// How many requests failed, by cause.
    failures: BTreeMap<Cause, u64>,
}

/// The requests of a bin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bin {
    /// Requests that were due, or sent if they did not have a due time.
    pub(super) arrived: u64,
    /// Requests that ended.
    pub(super) ended: u64,
    /// Those of them that failed, and of these, those that the client stopped waiting for.
    failed: u64,
    timed_out: u64,
    /// Requests that were sent, the sum of their latencies, and the longest.
    pub(super) sent: u64,
    pub(super) nanos: u64,
    pub(super) longest: u64,
    /// Requests that were sent and will succeed, and the sum of the logarithms of their latencies.
    pub(super) succeeded: u64,
    logs: i64,
}

impl Join for Bin {
    fn join(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.ended += other.ended;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
        self.sent += other.sent;
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.longest = self.longest.max(other.longest);
        self.succeeded += other.succeeded;
        self.logs = self.logs.saturating_add(other.logs);
    }
}

impl Bin {
    /// Returns the requests that ended without failing.
    pub(super) const fn served(&self) -> u64 {
        self.ended - self.failed
    }

    /// Returns the requests that left the queue. The work of one that timed out is still to be done.
    pub(super) const fn left(&self) -> u64 {
        self.ended - self.timed_out
    }

    /// Returns the sum of `bins`.
    pub(super) fn sum<'a>(bins: impl IntoIterator<Item = &'a Self>) -> Self {
        bins.into_iter().fold(Self::default(), |mut sum, bin| {
            sum.join(bin);
            sum
        })
    }

    /// Returns the mean logarithm of the latencies of the requests that were sent in it; `None` if
    /// fewer than three succeeded.
    pub(super) fn mean_log(&self) -> Option<f64> {
        (self.succeeded >= 3).then(|| self.logs as f64 / LOG_PARTS / self.succeeded as f64)
    }
}

impl Default for LoadTimes {
    fn default() -> Self {
        Self { bins: TimeBins::new(FINEST, MOST_BINS), failures: BTreeMap::new() }
    }
}

impl LoadTimes {
    /// Adds a request that was due at `due_wall_ns`, if at a certain time.
    pub fn observe(&mut self, due_wall_ns: Option<u64>, request: &Observation) {
        let (start, end) = (request.start_wall_ns, request.end_wall_ns);
        let latency = end.saturating_sub(start);
        self.bins.at(due_wall_ns.unwrap_or(start)).arrived += 1;
        let failure = request.error.as_ref().and_then(Cause::from_error);
        let bin = self.bins.at(end);
        bin.ended += 1;
        bin.failed += u64::from(failure.is_some());
        bin.timed_out += u64::from(failure == Some(Cause::Timeout));
        if let Some(cause) = failure {
            *self.failures.entry(cause).or_default() += 1;
        }
        let bin = self.bins.at(start);
        bin.sent += 1;
        bin.nanos = bin.nanos.saturating_add(latency);
        bin.longest = bin.longest.max(latency);
        if request.error.is_none() {
            bin.succeeded += 1;
            bin.logs += ((latency.max(1) as f64).ln() * LOG_PARTS) as i64;
        }
    }

    /// Returns how many requests failed, by cause.
    pub(super) const fn failures(&self) -> &BTreeMap<Cause, u64> {
        &self.failures
    }

    /// Returns the bins in order of time, when the first one begins in nanoseconds since the Unix
    /// epoch, and the length of each.
    pub(super) fn bins(&self) -> (Vec<Bin>, u64, u64) {
        (self.bins.iter().copied().collect(), self.bins.start_ns(), self.bins.length_ns())
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::fixture;
    use client::record::{ErrorKind, RequestError};

    use super::*;

    fn request(start: u64, end: u64, error: Option<RequestError>) -> Observation {
        Observation { start_wall_ns: start, end_wall_ns: end, error, ..fixture::observation() }
    }

    #[test]
    fn the_order_of_requests_does_not_matter_and_bins_are_limited() {
        const SECOND: u64 = 1_000_000_000;
        let origin = 1_795_226_094 * SECOND + 123;
        let requests: Vec<_> = (0..500)
            .map(|at| {
                let start = origin + at * 7 * SECOND;
                let error = RequestError::new(ErrorKind::Timeout, "Timeout", "too late");
                request(start, start + at * SECOND / 3, (at % 7 == 0).then_some(error))
            })
            .collect();
        let times_of = |requests: &mut dyn Iterator<Item = &Observation>| {
            let mut times = LoadTimes::default();
            requests.for_each(|request| times.observe(Some(request.start_wall_ns - 5), request));
            times.bins()
        };
        let (bins, first, length) = times_of(&mut requests.iter());
        assert_eq!((bins.clone(), first, length), times_of(&mut requests.iter().rev()));
        assert!(bins.len() as u64 <= MOST_BINS && bins.len() as u64 > MOST_BINS / 2 - 1);
        assert!(first <= origin - 5 && first + length > origin - 5);
        let sum = Bin::sum(&bins);
        assert_eq!((sum.arrived, sum.ended, sum.sent, sum.left()), (500, 500, 500, 428));
        let latencies = requests.iter().map(|it| it.end_wall_ns - it.start_wall_ns);
        assert_eq!(sum.nanos, latencies.sum::<u64>());
    }
}
