//! Number of requests and sessions that a phase may still start.

use super::Shard;
use super::config::StopCondition;

/// Number of sessions assumed for a phase if several processes must agree on it and no lower bound
/// is configured. No warmup starts more.
const MAX_SESSIONS: u64 = 1 << 32;

/// The remaining requests and sessions of a phase.
#[derive(Debug, Clone)]
pub struct Budget {
    requests: Option<u64>,
    requests_taken: u64,
    first_session: u64,
    /// Number of sessions of the phase.
    sessions: Option<u64>,
    /// Number of sessions started in order.
    started: u64,
    /// Number after the highest session started, counted from the phase's first session.
    past: u64,
    /// Whether each shard goes on counting in the next phase where it ended in this one.
    counts_on: bool,
    /// Number of sessions of the phase that all shards agree on, if there are several.
    agreed: Option<u64>,
    shard: Shard,
}

impl Budget {
    /// Creates the whole budget that `stop` allows; sessions are numbered from `first_session`.
    #[must_use]
    pub const fn new(stop: &StopCondition, first_session: u64) -> Self {
        Self {
            requests: stop.requests,
            requests_taken: 0,
            first_session,
            sessions: stop.sessions,
            started: 0,
            past: 0,
            counts_on: false,
            agreed: None,
            shard: Shard::WHOLE,
        }
    }

    /// Has each shard go on counting in the next phase, as lanes do. If all shards have the same number of lanes, they
    /// together start the sessions that a single process starts.
    #[must_use]
    pub(crate) const fn counts_on(self) -> Self {
        Self { counts_on: true, ..self }
    }

    /// Restricts the budget to the sessions and requests of `shard`.
    #[must_use]
    pub fn shard(self, shard: Shard) -> Self {
        let most = self.sessions.into_iter().chain(self.requests).fold(MAX_SESSIONS, u64::min);
        Self {
            requests: self.requests.map(|requests| shard.share(requests)),
            agreed: (shard.count() > 1 && !self.counts_on).then_some(most),
            shard,
            ..self
        }
    }

    /// Returns whether a session may start: the `nth` of the phase, or the next one.
    #[must_use]
    pub(crate) fn may_start(&self, nth: Option<u64>) -> bool {
        let nth = nth.unwrap_or_else(|| self.shard.nth(self.started));
        self.has_request() && self.sessions.is_none_or(|sessions| nth < sessions)
    }

    /// Starts a session with its first request: the `nth` of the phase, or the next one. Returns
    /// its number, or `None` if it may not start.
    pub fn start(&mut self, nth: Option<u64>) -> Option<u64> {
        if !self.may_start(nth) {
            return None;
        }
        let nth = nth.unwrap_or_else(|| {
            self.started += 1;
            self.shard.nth(self.started - 1)
        });
        self.requests_taken += 1;
        self.past = self.past.max(nth + 1);
        Some(self.first_session + nth)
    }

    /// Takes a request for a later turn of a session; returns whether one was left.
    pub(crate) fn next_turn(&mut self) -> bool {
        let has_request = self.has_request();
        self.requests_taken += u64::from(has_request);
        has_request
    }

    /// Returns the number of the next phase's first session. A shard does not know how many
    /// sessions the other shards started, so with several shards this is the highest possible
    /// number, unless it goes on counting its own.
    #[must_use]
    pub(crate) fn next_session(&self) -> u64 {
        let own = self.past.next_multiple_of(self.shard.count());
        self.first_session + self.agreed.unwrap_or(own)
    }

    fn has_request(&self) -> bool {
        self.requests.is_none_or(|requests| self.requests_taken < requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_sessions_run_out() {
        let stop = StopCondition { requests: Some(3), sessions: Some(2), duration: None };
        let mut budget = Budget::new(&stop, 10);
        assert_eq!(budget.start(None), Some(10));
        assert!(budget.next_turn());
        assert_eq!(budget.start(None), Some(11));
        assert!(!budget.next_turn());
        assert!(!budget.may_start(None));
        assert_eq!(budget.start(None), None);
        assert_eq!(budget.next_session(), 12);
    }

    #[test]
    fn without_a_bound_nothing_runs_out() {
        let mut budget = Budget::new(&StopCondition::default(), 0);
        for session in 0..1000 {
            assert_eq!(budget.start(None), Some(session));
            assert!(budget.next_turn());
        }
    }

    #[test]
    fn sessions_with_a_place_of_their_own_are_bounded_by_it() {
        let stop = StopCondition { sessions: Some(5), ..StopCondition::default() };
        let mut budget = Budget::new(&stop, 100);
        assert_eq!(budget.start(Some(4)), Some(104));
        assert_eq!(budget.start(Some(5)), None);
        assert_eq!(budget.start(Some(0)), Some(100));
        assert_eq!(budget.next_session(), 105);
    }

    #[test]
    fn shards_that_count_on_start_the_sessions_of_the_whole() {
        let started = |first, second, index| {
            let stop =
                |sessions| StopCondition { sessions: Some(sessions), ..StopCondition::default() };
            let (first, second) = (stop(first), stop(second));
            let shard = Shard::new(index, 3);
            let mut budget = Budget::new(&first, 0).counts_on().shard(shard);
            let before: Vec<u64> = std::iter::from_fn(|| budget.start(None)).collect();
            let mut next = Budget::new(&second, budget.next_session()).counts_on().shard(shard);
            let after: Vec<u64> = std::iter::from_fn(|| next.start(None)).collect();
            [before, after].concat()
        };
        let all = |first, second| [0, 1, 2].map(|index| started(first, second, index));
        assert_eq!(all(6, 3), [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5, 8]]);
        // The third shard has one session less before, and the first one more after it.
        assert_eq!(all(5, 4), [vec![0, 3, 6, 9], vec![1, 4, 7], vec![2, 5]]);
    }

    #[test]
    fn shards_agree_on_the_number_that_follows() {
        let next = |stop: StopCondition, index| {
            let mut budget = Budget::new(&stop, 5).shard(Shard::new(index, 3));
            budget.start(None);
            budget.next_session()
        };
        let by = |requests, sessions| StopCondition { requests, sessions, duration: None };
        for index in 0..3 {
            assert_eq!(next(by(Some(20), None), index), 25);
            assert_eq!(next(by(Some(20), Some(7)), index), 12);
            assert_eq!(next(StopCondition::default(), index), 5 + MAX_SESSIONS);
            assert_eq!(next(by(None, Some(u64::MAX)), index), 5 + MAX_SESSIONS);
        }
    }
}
