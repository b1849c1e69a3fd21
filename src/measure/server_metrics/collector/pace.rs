//! The scrape rate and the timeouts of an endpoint.

use base::units::Nanos;

use super::{Config, Limits};

/// Minimum timeout of a scrape, however short the interval.
const MIN_TIMEOUT: Nanos = Nanos(500_000_000);

/// Maximum number of concurrent scrapes of an endpoint.
const MAX_OUT: usize = 4;

/// The pace of an endpoint, which depends on how quickly it responds.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Nanos,
    /// The timeout set by the user.
    timeout: Option<Nanos>,
    /// Limit of the timeout that is learned from failed scrapes; twice this value is the limit of
    /// all timeouts.
    longest: Nanos,
    limits: Limits,
    /// The age at which a scrape is overdue: half an interval, or twice the duration of the last
    /// response.
    usual: Nanos,
    patience: Nanos,
}

impl Pace {
    pub(super) fn new(config: &Config) -> Self {
        let &Config { interval, scrape_timeout: timeout, reachability_timeout, limits, .. } =
            config;
        let longest = reachability_timeout;
        let mut pace =
            Self { interval, timeout, longest, limits, usual: interval, patience: longest };
        pace.answered(Nanos::ZERO);
        pace
    }

    /// Returns the timeout of a scrape: as set by the user, or two intervals, or four times the
    /// duration of the last response; longer after timeouts, since servers slow down under load.
    pub(super) fn deadline(&self) -> Nanos {
        self.timeout.unwrap_or(self.patience)
    }

    /// Returns the timeout of the final scrape of a phase, which is not repeated.
    pub(super) fn final_deadline(&self) -> Nanos {
        self.timeout.unwrap_or_else(|| self.patience.max(self.limits.pause))
    }

    /// Returns whether the next scrape is sent when it is due, if the latest of `out` pending
    /// scrapes was sent `ago`: an endpoint that is slow but responds does not get two requests at
    /// once.
    pub(super) fn may_send(&self, out: usize, ago: Nanos) -> bool {
        out == 0 || (out < MAX_OUT && ago >= self.usual)
    }

    /// Returns whether a pending scrape of this `age` is overdue.
    pub(super) fn is_overdue(&self, age: Nanos) -> bool {
        age >= self.usual
    }

    /// Records a response with this latency.
    pub(super) fn answered(&mut self, latency: Nanos) {
        self.usual = times(latency, 2).max(Nanos(self.interval.0 / 2)).max(self.limits.overdue);
        let intervals = times(self.interval, 2).min(self.longest);
        let slow = times(latency, 4).min(times(self.longest, 2));
        self.patience = slow.max(intervals).max(MIN_TIMEOUT);
    }

    /// Records a timeout.
    pub(super) fn failed(&mut self) {
        self.patience = times(self.patience, 2).min(self.longest).max(self.patience);
    }
}

const fn times(duration: Nanos, factor: u64) -> Nanos {
    Nanos(duration.0.saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    fn pace() -> Pace {
        paced(333, None)
    }

    fn paced(interval: u64, timeout: Option<u64>) -> Pace {
        Pace::new(&Config {
            interval: ms(interval),
            scrape_timeout: timeout.map(ms),
            reachability_timeout: ms(10_000),
            ..Config::default()
        })
    }

    #[test]
    fn a_fetch_has_two_intervals_and_four_times_as_long_as_a_slow_answer_took() {
        let mut pace = pace();
        assert_eq!(pace.deadline(), ms(666));
        pace.answered(ms(5));
        assert_eq!(pace.deadline(), ms(666));
        pace.answered(ms(1500));
        assert_eq!(pace.deadline(), ms(6000));
        pace.answered(ms(5));
        assert_eq!(pace.deadline(), ms(666));
        assert_eq!(paced(10, None).deadline(), ms(500));
        assert_eq!(paced(3_600_000, None).deadline(), ms(10_000));
        let mut set = paced(333, Some(50));
        set.answered(ms(1500));
        assert_eq!(set.deadline(), ms(50));
    }

    #[test]
    fn patience_grows_with_failures_up_to_a_bound() {
        let mut pace = pace();
        let mut deadlines = Vec::new();
        for _ in 0..6 {
            deadlines.push(pace.deadline().0 / 1_000_000);
            pace.failed();
        }
        assert_eq!(deadlines, [666, 1332, 2664, 5328, 10_000, 10_000]);
        pace.answered(ms(6000));
        assert_eq!(pace.deadline(), ms(20_000));
        pace.failed();
        assert_eq!(pace.deadline(), ms(20_000), "never less than before");
    }

    #[test]
    fn the_next_goes_out_on_time_unless_the_endpoint_is_slow() {
        let mut pace = pace();
        assert!(pace.may_send(0, ms(0)) && pace.may_send(3, ms(332)));
        assert!(!pace.may_send(4, ms(332)));
        assert!(pace.is_overdue(ms(332)) && !pace.is_overdue(ms(10)));
        pace.answered(ms(1500));
        assert!(pace.may_send(0, ms(0)) && !pace.may_send(1, ms(2999)));
        assert!(pace.may_send(1, ms(3000)));
        assert!(!pace.is_overdue(ms(2999)));
    }
}
