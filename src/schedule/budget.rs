//! How many requests and sessions a phase may still start.

use super::Shard;
use super::config::StopCondition;

/// Sessions that a phase is taken to have where several processes have to agree on
/// their number and no lower bound says it: more than any warmup starts.
const MOST_SESSIONS: u64 = 1 << 32;

/// What is left of a phase's requests and sessions.
#[derive(Debug, Clone)]
pub struct Budget {
    requests: Option<u64>,
    requests_taken: u64,
    first_session: u64,
    /// Sessions of the phase.
    sessions: Option<u64>,
    /// Sessions that were started in turn.
    started: u64,
    /// One past the highest session that was started, from the phase's first.
    past: u64,
    /// Sessions of the phase that all shards agree on, where there are several.
    agreed: Option<u64>,
    shard: Shard,
}

impl Budget {
    /// The whole of what `stop` allows; sessions count from `first_session`.
    #[must_use]
    pub const fn new(stop: &StopCondition, first_session: u64) -> Self {
        Self {
            requests: stop.requests,
            requests_taken: 0,
            first_session,
            sessions: stop.sessions,
            started: 0,
            past: 0,
            agreed: None,
            shard: Shard::WHOLE,
        }
    }

    /// This part of the sessions and of the requests.
    #[must_use]
    pub fn shard(self, shard: Shard) -> Self {
        let most = self.sessions.into_iter().chain(self.requests).fold(MOST_SESSIONS, u64::min);
        Self {
            requests: self.requests.map(|requests| shard.share(requests)),
            agreed: (shard.count() > 1).then_some(most),
            shard,
            ..self
        }
    }

    /// Whether a session may start: the `nth` of the phase, or the next.
    #[must_use]
    pub fn may_start(&self, nth: Option<u64>) -> bool {
        let nth = nth.unwrap_or_else(|| self.shard.nth(self.started));
        self.has_request() && self.sessions.is_none_or(|sessions| nth < sessions)
    }

    /// Starts a session with its first request, the `nth` of the phase or the
    /// next: its number, or `None` where it may not start.
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

    /// Takes one of the requests for a later turn of a session; whether there was one.
    pub fn next_turn(&mut self) -> bool {
        let has_request = self.has_request();
        self.requests_taken += u64::from(has_request);
        has_request
    }

    /// The number that the next phase's first session has. One of several shards
    /// does not know how many sessions the others started: they go by the most
    /// that there can be.
    #[must_use]
    pub fn next_session(&self) -> u64 {
        self.first_session + self.agreed.unwrap_or(self.past)
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
            assert_eq!(next(StopCondition::default(), index), 5 + MOST_SESSIONS);
            assert_eq!(next(by(None, Some(u64::MAX)), index), 5 + MOST_SESSIONS);
        }
    }
}
