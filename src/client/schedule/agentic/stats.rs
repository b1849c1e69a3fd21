//! How a load of lanes followed the run that was recorded.

use serde::{Deserialize, Serialize};

use base::units::Nanos;
use dataset::Recorded;

/// How the measured requests of all lanes followed the recorded run. Times are sums over requests or trees, in
/// seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReplayStats {
    /// Number of lanes.
    pub lanes: u64,
    /// Trees of which at least one request returned.
    pub trees: u64,
    /// Requests that returned.
    pub requests: u64,
    /// Requests whose delays were over, but that waited for the end of sub-agents.
    pub held_by_join: u64,
    /// Requests whose delays were over, but that waited for requests of other conversations which had ended
    /// before them when they were recorded.
    pub held_by_barrier: u64,
    /// Time that the requests took.
    pub request_seconds: f64,
    /// Time that they took when they were recorded.
    pub recorded_request_seconds: f64,
    /// Time from the first request to the last response of each tree.
    pub tree_seconds: f64,
    /// The same time when they were recorded.
    pub recorded_tree_seconds: f64,
    /// Requests in flight in a tree, on average over its time; 0 if that is not known.
    pub concurrency: f64,
    /// The same when they were recorded.
    pub recorded_concurrency: f64,
}

impl ReplayStats {
    /// Adds a request, and returns its recorded times.
    pub fn add(&mut self, took: Nanos, recorded: Option<Recorded>) {
        self.requests += 1;
        self.request_seconds += took.as_seconds();
        let before = recorded.map_or(Nanos::ZERO, |it| it.end.since(it.start));
        self.recorded_request_seconds += before.as_seconds();
    }

    /// Adds the time that a tree took, and that it took when it was recorded.
    pub(crate) fn add_tree(&mut self, took: Nanos, recorded: Nanos) {
        self.trees += 1;
        self.tree_seconds += took.as_seconds();
        self.recorded_tree_seconds += recorded.as_seconds();
    }

    /// Returns the statistics of all together; `None` without any.
    pub fn of_all(all: impl Iterator<Item = Self>) -> Option<Self> {
        all.reduce(|one, other| [one, other].into_iter().sum())
    }

    /// Returns how many times as long as the recorded run the replay took; `None` if that is not known.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        (self.recorded_tree_seconds > 0.0).then(|| self.tree_seconds / self.recorded_tree_seconds)
    }

    /// Returns these statistics with their ratios.
    #[must_use]
    pub(crate) fn summarized(self) -> Self {
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Self {
            concurrency: ratio(self.request_seconds, self.tree_seconds),
            recorded_concurrency: ratio(self.recorded_request_seconds, self.recorded_tree_seconds),
            ..self
        }
    }
}

impl std::iter::Sum for ReplayStats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let sum = |a: Self, b: Self| Self {
            lanes: a.lanes + b.lanes,
            trees: a.trees + b.trees,
            requests: a.requests + b.requests,
            held_by_join: a.held_by_join + b.held_by_join,
            held_by_barrier: a.held_by_barrier + b.held_by_barrier,
            request_seconds: a.request_seconds + b.request_seconds,
            recorded_request_seconds: a.recorded_request_seconds + b.recorded_request_seconds,
            tree_seconds: a.tree_seconds + b.tree_seconds,
            recorded_tree_seconds: a.recorded_tree_seconds + b.recorded_tree_seconds,
            ..Self::default()
        };
        all.fold(Self::default(), sum).summarized()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_is_the_time_of_requests_by_that_of_trees() {
        let seconds = |number: u64| Nanos(number * 1_000_000_000);
        let recorded = |start, end| Some(Recorded { start: seconds(start), end: seconds(end) });
        let mut one = ReplayStats { lanes: 1, ..ReplayStats::default() };
        one.add(seconds(3), recorded(0, 2));
        one.add(seconds(3), recorded(1, 4));
        one.add_tree(seconds(8), seconds(4));
        let mut other = ReplayStats { lanes: 1, held_by_join: 1, ..ReplayStats::default() };
        other.add(seconds(2), None);
        other.add_tree(seconds(2), seconds(0));
        let both: ReplayStats = [one, other].into_iter().sum();
        assert_eq!((both.lanes, both.trees, both.requests, both.held_by_join), (2, 2, 3, 1));
        // 8 s of 10 s, and 5 s of 4 s.
        assert_eq!((both.concurrency, both.recorded_concurrency), (0.8, 1.25));
        assert_eq!(both.slowdown(), Some(2.5));
    }
}
