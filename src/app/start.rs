//! The wait for the time that `--start-at` names.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::config::{RunConfig, Ui};
use crate::runner::Interrupt;
use crate::units::{Clock, Nanos};

/// A start further away than this is a typing error.
const FURTHEST: Nanos = Nanos(24 * 3_600_000_000_000);

/// Time for what is done just before the start, beside a first look at the
/// server's metrics: files, threads, a connection to the collector.
const PREPARATION: Nanos = Nanos(5_000_000_000);

/// A wait longer than this is told again whenever half of it is over.
const TOLD_AGAIN: Nanos = Nanos(60_000_000_000);

/// Between two looks at whether the user still wants to wait.
const LOOK: Duration = Duration::from_millis(50);

/// When the load is to start.
pub(super) struct Start {
    at_wall_ns: u64,
    /// What is left then is for the preparation.
    lead: Nanos,
    is_shown: bool,
}

impl Start {
    /// The start that `config` names, if it names one; an error where it has
    /// passed or is too far away.
    pub(super) fn of(config: &RunConfig) -> anyhow::Result<Option<Self>> {
        let Some(at_wall_ns) = config.schedule.start_at else { return Ok(None) };
        let scrape = match config.server_metrics.endpoints.as_slice() {
            [] => Nanos::ZERO,
            _ => config.server_metrics.reachability_timeout,
        };
        let start =
            Self { at_wall_ns, lead: PREPARATION + scrape, is_shown: config.ui != Ui::None };
        let left = start.left()?;
        if left > FURTHEST {
            bail!(
                "--start-at is {}, {:.1} h from now: give a time within {} h",
                start.shown(),
                left.as_seconds() / 3600.0,
                FURTHEST.as_seconds() / 3600.0
            );
        }
        Ok(Some(start))
    }

    /// Waits until no more time is left than the preparation takes, or until the
    /// user does not want to start any more.
    pub(super) fn come_close(&self, interrupt: &watch::Receiver<Interrupt>) -> anyhow::Result<()> {
        let mut left = self.left()?;
        self.tell(left);
        let mut told = left;
        while *interrupt.borrow() == Interrupt::None {
            // By the wall clock, which may be set meanwhile.
            left = self.left()?;
            let Some(wait) = left.0.checked_sub(self.lead.0).filter(|wait| *wait > 0) else {
                break;
            };
            if is_told_again(left, told) {
                self.tell(left);
                told = left;
            }
            thread::sleep(Duration::from_nanos(wait).min(LOOK));
        }
        Ok(())
    }

    /// Says how long the wait still is.
    fn tell(&self, left: Nanos) {
        if self.is_shown {
            let (at, seconds) = (self.shown(), left.as_seconds());
            // Nobody is left to tell if the terminal is gone.
            let _ = writeln!(io::stderr(), "ready; the load starts at {at}, in {seconds:.1} s");
        }
    }

    fn left(&self) -> anyhow::Result<Nanos> {
        let now = wall_ns();
        if now > self.at_wall_ns {
            bail!(
                "--start-at was {}, {:.3} s ago: nothing was sent, since what was due by now would \
                 leave at once; give a later time{}",
                self.shown(),
                Nanos(now - self.at_wall_ns).as_seconds(),
                ", that leaves room for the dataset to be made and the server to be ready"
            );
        }
        Ok(Nanos(self.at_wall_ns - now))
    }

    fn shown(&self) -> String {
        let at = Timestamp::from_nanosecond(i128::from(self.at_wall_ns)).unwrap_or_default();
        at.to_string()
    }
}

/// Whether the user is to hear of a wait again, of which `told` was left when they did.
fn is_told_again(left: Nanos, told: Nanos) -> bool {
    left.0 <= told.0 / 2 && left > TOLD_AGAIN
}

/// Now, in nanoseconds since the epoch.
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
            let mut told = vec![Nanos(seconds * second)];
            for left in (0..seconds).rev().map(|left| Nanos(left * second)) {
                if is_told_again(left, told[told.len() - 1]) {
                    told.push(left);
                }
            }
            told.iter().map(|left| left.0 / second).collect::<Vec<_>>()
        };
        assert_eq!(tellings(90), [90]);
        assert_eq!(tellings(600), [600, 300, 150, 75]);
        assert_eq!(tellings(86_400).len(), 11);
    }
}
