//! How many requests and sessions a phase may still start.

use super::config::StopCondition;

/// What is left of a phase's requests and sessions.
#[derive(Debug, Clone)]
pub struct Budget {
    requests_left: Option<u64>,
    sessions_left: Option<u64>,
    next_session: u64,
}

impl Budget {
    /// The whole of what `stop` allows; sessions count from `first_session`.
    #[must_use]
    pub const fn new(stop: &StopCondition, first_session: u64) -> Self {
        Self {
            requests_left: stop.requests,
            sessions_left: stop.sessions,
            next_session: first_session,
        }
    }

    /// Whether another session may start.
    #[must_use]
    pub fn may_start(&self) -> bool {
        self.requests_left != Some(0) && self.sessions_left != Some(0)
    }

    /// Starts a session with its first request: the session's number, or
    /// `None` where no more may start.
    pub fn start_session(&mut self) -> Option<u64> {
        if !self.may_start() {
            return None;
        }
        self.requests_left = self.requests_left.map(|left| left - 1);
        self.sessions_left = self.sessions_left.map(|left| left - 1);
        self.next_session += 1;
        Some(self.next_session - 1)
    }

    /// Takes one of the requests for a later turn of a session; whether there was one.
    pub fn next_turn(&mut self) -> bool {
        match &mut self.requests_left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    /// The number that the next session would have.
    #[must_use]
    pub const fn next_session(&self) -> u64 {
        self.next_session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_sessions_run_out() {
        let stop = StopCondition { requests: Some(3), sessions: Some(2), duration: None };
        let mut budget = Budget::new(&stop, 10);
        assert_eq!(budget.start_session(), Some(10));
        assert!(budget.next_turn());
        assert_eq!(budget.start_session(), Some(11));
        assert!(!budget.next_turn());
        assert!(!budget.may_start());
        assert_eq!(budget.start_session(), None);
        assert_eq!(budget.next_session(), 12);
    }

    #[test]
    fn without_a_bound_nothing_runs_out() {
        let mut budget = Budget::new(&StopCondition::default(), 0);
        for session in 0..1000 {
            assert_eq!(budget.start_session(), Some(session));
            assert!(budget.next_turn());
        }
    }
}
