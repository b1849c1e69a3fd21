//! A limit of the rate of requests: a token bucket.

use base::units::Nanos;

/// A bucket that is filled at a rate, up to what comes in one second, and of which each request takes one.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: f64,
    filled: f64,
    /// When it was filled to this level.
    at: Option<Nanos>,
}

impl RateLimit {
    /// Creates a full bucket that gets `per_second`, and holds at least one.
    pub(super) const fn new(per_second: f64) -> Self {
        Self { per_second, filled: per_second.max(1.0), at: None }
    }

    /// Takes one for the request that arrives at `now`. If there is none, returns the whole seconds, at
    /// least 1, until there is.
    pub(super) fn refuses(&mut self, now: Nanos) -> Option<u64> {
        let elapsed = now.since(self.at.unwrap_or(now)).as_seconds();
        self.at = Some(self.at.unwrap_or(now).max(now));
        self.filled = (self.filled + elapsed * self.per_second).min(self.per_second.max(1.0));
        if self.filled >= 1.0 {
            self.filled -= 1.0;
            return None;
        }
        Some(((1.0 - self.filled) / self.per_second).ceil().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of requests every 50 ms, a limit of 10/s accepts 10 at once and 10 per second: in 3 s, 40 of 60,
    /// and the first 20 of them without a refusal, as the bucket loses only 10/s.
    #[test]
    fn what_is_beyond_the_rate_is_refused() {
        let mut limit = RateLimit::new(10.0);
        let refused: Vec<bool> =
            (0..60).map(|n| limit.refuses(Nanos(n * 50_000_000)).is_some()).collect();
        assert!(!refused[..19].contains(&true));
        let count = refused.iter().filter(|refused| **refused).count();
        assert!((20..=21).contains(&count), "{count}");
    }

    #[test]
    fn the_wait_is_in_whole_seconds() {
        let mut limit = RateLimit::new(0.25);
        assert_eq!(limit.refuses(Nanos(0)), None);
        assert_eq!(limit.refuses(Nanos(0)), Some(4));
        assert_eq!(limit.refuses(Nanos(2_500_000_000)), Some(2));
        assert_eq!(limit.refuses(Nanos(4_000_000_000)), None);
    }
}
