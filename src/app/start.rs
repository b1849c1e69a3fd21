//! Waiting for the start time: that of `--start-at`, or the one that shards have agreed on.

use std::io::Write;

use anyhow::bail;

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos, wall};
use results::terminal::Stderr;

use crate::config::{RunConfig, Ui};

/// Maximum time until the start; anything later is a typing error.
const FURTHEST: Nanos = Nanos(24 * 3_600_000_000_000);

/// Time reserved for preparation just before the start, in addition to a first scrape of
/// server metrics: files, threads, a connection to the collector.
const PREPARATION: Nanos = Nanos(5_000_000_000);

/// Waits longer than this are printed again whenever half of the wait is over.
const TOLD_AGAIN: Nanos = Nanos(60_000_000_000);

/// Interval between readings of the wall clock, which may be adjusted during the wait.
const READING: Nanos = Nanos(1_000_000_000);

/// The start time of the load.
pub(super) struct Start {
    at_wall_ns: u64,
    /// Whether the shards have agreed on it, instead of `--start-at`.
    is_agreed: bool,
    /// Time to reserve for preparation.
    lead: Nanos,
    is_shown: bool,
}

impl Start {
    /// The start time of `config`, if it has one.
    ///
    /// # Errors
    /// If the time has passed or is too far away.
    pub(super) fn from_config(config: &RunConfig) -> anyhow::Result<Option<Self>> {
        let Some(at_wall_ns) = config.schedule.start_at else { return Ok(None) };
        let start = Self::new(at_wall_ns, false, config);
        let left = start.left()?;
        if left > FURTHEST {
            bail!(
                "--start-at is {}, {:.1} h from now; use a time within {} h",
                start.shown(),
                left.as_seconds() / 3600.0,
                FURTHEST.as_seconds() / 3600.0
            );
        }
        Ok(Some(start))
    }

    /// The start time on which the shards of the run have agreed.
    pub(super) fn agreed(at_wall_ns: u64, config: &RunConfig) -> Self {
        Self::new(at_wall_ns, true, config)
    }

    fn new(at_wall_ns: u64, is_agreed: bool, config: &RunConfig) -> Self {
        Self { at_wall_ns, is_agreed, lead: Self::lead(config), is_shown: config.ui != Ui::None }
    }

    /// The time to reserve for preparation before the start.
    pub(super) fn lead(config: &RunConfig) -> Nanos {
        let scrape = match config.server_metrics.endpoints.as_slice() {
            [] => Nanos::ZERO,
            _ => config.server_metrics.reachability_timeout,
        };
        PREPARATION + scrape
    }

    /// Waits until only the preparation time is left, or until the user interrupts.
    pub(super) fn come_close(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let mut left = self.left()?;
        self.tell(left);
        let mut last_reported = left;
        while !interrupt.is_draining() {
            left = self.left()?;
            let wait = left.since(self.lead);
            if wait == Nanos::ZERO {
                break;
            }
            if should_report_again(left, last_reported) {
                self.tell(left);
                last_reported = left;
            }
            interrupt.sleep_until(Clock::now() + wait.min(READING));
        }
        Ok(())
    }

    /// Prints the remaining wait.
    fn tell(&self, left: Nanos) {
        if self.is_shown {
            let (at, seconds) = (self.shown(), left.as_seconds());
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(Stderr, "ready; the load starts at {at}, in {seconds:.1} s");
        }
    }

    fn left(&self) -> anyhow::Result<Nanos> {
        let now = wall_ns();
        if now > self.at_wall_ns && self.is_agreed {
            bail!(
                "the shards agreed on the start {}, which was {:.3} s ago by the clock of this \
                 machine; nothing was sent. Compare the clocks of the machines",
                self.shown(),
                Nanos(now - self.at_wall_ns).as_seconds()
            );
        }
        if now > self.at_wall_ns {
            bail!(
                "--start-at was {}, {:.3} s ago; nothing was sent, since all requests due by now \
                 would be sent at once. Use a later time{}",
                self.shown(),
                Nanos(now - self.at_wall_ns).as_seconds(),
                " that leaves time to generate the dataset and for the server to become ready"
            );
        }
        Ok(Nanos(self.at_wall_ns - now))
    }

    fn shown(&self) -> String {
        wall::shown(self.at_wall_ns)
    }
}

/// Whether to print the wait again, with `last_reported` remaining when it was last printed.
fn should_report_again(left: Nanos, last_reported: Nanos) -> bool {
    left.0 <= last_reported.0 / 2 && left > TOLD_AGAIN
}

/// The current time in nanoseconds since the Unix epoch.
fn wall_ns() -> u64 {
    Clock::start().wall_ns(Clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_told_again_but_not_often() {
        let second = 1_000_000_000;
        let tellings = |seconds: u64| {
            let mut last_reported = vec![Nanos(seconds * second)];
            for left in (0..seconds).rev().map(|left| Nanos(left * second)) {
                if should_report_again(left, last_reported[last_reported.len() - 1]) {
                    last_reported.push(left);
                }
            }
            last_reported.iter().map(|left| left.0 / second).collect::<Vec<_>>()
        };
        assert_eq!(tellings(90), [90]);
        assert_eq!(tellings(600), [600, 300, 150, 75]);
        assert_eq!(tellings(86_400).len(), 11);
    }
}
