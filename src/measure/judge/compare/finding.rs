//! What the interval of a difference shows.

use serde::Serialize;

use base::statistics::interval::Scale;
use base::statistics::normal;

use super::Measure;
use super::trial::Source;
use crate::judge::compare::larger_is_better;

/// How many times as much data is ever advised.
const MOST_TIMES: f64 = 1000.0;

/// The probability with which the advised amount of data tells.
const POWER: f64 = 0.9;

/// The result for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Worse than chance explains, and than is tolerated.
    Regression,
    /// Better than chance explains, and without a gate than is tolerated.
    Improvement,
    /// Not worse than the gate permits.
    WithinGate,
    /// Neither worse nor better than is tolerated.
    NoDifference,
    /// None of these is shown, and there is no gate.
    Undecided,
    /// There is not enough data.
    CannotTell,
}

impl Finding {
    /// Returns how it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::WithinGate => "within gate",
            Self::NoDifference => "no difference",
            Self::Undecided => "undecided",
            Self::CannotTell => "cannot tell",
        }
    }

    /// Returns whether more data could not change it, apart from chance.
    pub(in crate::judge) const fn is_told(self) -> bool {
        !matches!(self, Self::Undecided | Self::CannotTell)
    }
}

/// How much data there is, of the side that has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::judge) enum Amount {
    Requests(usize),
    Runs(usize),
    Pairs(usize),
}

/// How much data would probably tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Needed {
    /// Requests of each run.
    #[serde(rename = "needed_requests")]
    Requests(u64),
    /// Runs of each side.
    #[serde(rename = "needed_runs")]
    Runs(u64),
    /// Pairs of blocks.
    #[serde(rename = "needed_pairs")]
    Pairs(u64),
}

/// Why there is no interval, and how many requests would have one.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::judge) struct Shortage {
    pub(in crate::judge) why: String,
    pub(in crate::judge) needed: Option<u64>,
}

/// What is known of a difference.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Estimate {
    pub(in crate::judge) base: f64,
    pub(in crate::judge) new: f64,
    pub(in crate::judge) scale: Scale,
    /// The difference on the scale.
    pub(in crate::judge) shift: f64,
    /// Its interval on the scale.
    pub(in crate::judge) interval: Result<[f64; 2], Shortage>,
    pub(in crate::judge) block_lengths: Option<[usize; 2]>,
    pub(in crate::judge) amount: Amount,
}

impl Estimate {
    /// Returns what `shift` is in the statistic's unit.
    pub(super) fn absolute(&self, shift: f64) -> f64 {
        match self.scale {
            Scale::Difference => shift,
            Scale::Ratio => self.base * shift.exp_m1(),
        }
    }

    /// Returns what `shift` is in percent of the base; `None` if that is 0.
    pub(super) fn percent(&self, shift: f64) -> Option<f64> {
        let percent = match self.scale {
            Scale::Difference => 100.0 * shift / self.base.abs(),
            Scale::Ratio => 100.0 * shift.exp_m1(),
        };
        Some(percent).filter(|percent| percent.is_finite())
    }

    /// Returns what `percent` of the base is on the scale.
    fn shift_of(&self, percent: f64) -> f64 {
        match self.scale {
            Scale::Difference => percent / 100.0 * self.base.abs(),
            Scale::Ratio => (percent / 100.0).ln_1p(),
        }
    }

    /// Returns how much data would tell with a probability of 90% at the confidence `level`, if the
    /// difference is `distance` away from what its interval must not contain: a width shrinks with
    /// the root of the amount.
    fn needed(&self, [low, high]: [f64; 2], distance: f64, level: f64) -> Option<Needed> {
        let margin = 1.0 + normal::quantile(POWER) / normal::quantile(0.5 + level / 2.0);
        let times = ((high - low) / 2.0 / distance * margin).powi(2);
        if !(distance > 0.0 && times < MOST_TIMES) {
            return None;
        }
        let times = times.max(1.0);
        let more = |count: usize| round_up((count as f64 * times).max(count as f64 + 1.0));
        match self.amount {
            Amount::Requests(count) => more(count).map(Needed::Requests),
            Amount::Runs(count) => Some(Needed::Runs((count as f64 * times).ceil() as u64)),
            Amount::Pairs(count) => Some(Needed::Pairs((count as f64 * times).ceil() as u64)),
        }
    }
}

/// Rounds a number up to two digits; `None` if it is not finite.
pub(super) fn round_up(number: f64) -> Option<u64> {
    let unit = 10_f64.powf((number.log10().floor() - 1.0).max(0.0));
    Some((number / unit).ceil() * unit).filter(|number| number.is_finite()).map(|it| it as u64)
}

/// What an interval shows.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) needed: Option<Needed>,
    pub(super) note: Option<&'static str>,
}

impl Found {
    const fn told(finding: Finding) -> Self {
        Self { finding, needed: None, note: None }
    }
}

impl Measure {
    /// Returns what the interval of a difference shows.
    pub(super) fn find(
        &self,
        estimate: &Estimate,
        interval: [f64; 2],
        tolerance_percent: f64,
        level: f64,
    ) -> Found {
        // On the scale, more is worse from here on.
        let larger_is_better = larger_is_better(self.subject.metric);
        let [low, high] = interval;
        let (shift, [low, high]) = if larger_is_better {
            (-estimate.shift, [-high, -low])
        } else {
            (estimate.shift, interval)
        };
        let (is_worse, is_better) = (low > 0.0, high < 0.0);
        let Some(gate) = &self.gate else {
            let [worse, better, found] = self.tolerated(estimate, tolerance_percent);
            return if is_worse && shift > found {
                Found::told(Finding::Regression)
            } else if is_better && -shift > found {
                Found::told(Finding::Improvement)
            } else if high <= worse && -low <= better {
                Found::told(Finding::NoDifference)
            } else {
                let within = (worse - shift).min(better + shift);
                let beyond = if shift.abs() > found { shift.abs() } else { 0.0 };
                let needed = estimate.needed(interval, within.max(beyond), level);
                Found { finding: Finding::Undecided, needed, note: None }
            };
        };
        if is_better {
            return Found::told(Finding::Improvement);
        }
        if low == 0.0 && high == 0.0 {
            return Found::told(Finding::WithinGate);
        }
        let percent_of =
            |shift: f64| estimate.percent(if larger_is_better { -shift } else { shift });
        let (Some(percent), Some(worst)) = (percent_of(shift), percent_of(high)) else {
            if is_worse {
                return Found::told(Finding::Regression);
            }
            let note = Some("BASE is 0, so a difference in percent is not defined");
            return Found { finding: Finding::CannotTell, needed: None, note };
        };
        if gate.operator.holds(worst, gate.limit_percent) {
            return Found::told(Finding::WithinGate);
        }
        if is_worse && !gate.operator.holds(percent, gate.limit_percent) {
            return Found::told(Finding::Regression);
        }
        let limit = estimate.shift_of(gate.limit_percent);
        let limit = if larger_is_better { -limit } else { limit };
        // It must be shown to be within the limit, or worse than BASE where it is beyond the limit.
        let distance = if shift < limit { limit - shift } else { shift };
        Found {
            finding: Finding::CannotTell,
            needed: estimate.needed(interval, distance, level),
            note: Some("the interval is too wide for the gate; measure more requests or runs"),
        }
    }

    /// Returns how much worse and better on the scale is tolerated, and how large a difference is found:
    /// of an error rate any, since no error can be an accident of the machine. Its tolerance, and that of
    /// other shares, is in percentage points.
    fn tolerated(&self, estimate: &Estimate, percent: f64) -> [f64; 3] {
        let [worse, better] = match self.source {
            Source::Failures => return [percent, percent, 0.0],
            Source::Share(_) => [percent / 100.0; 2],
            _ if larger_is_better(self.subject.metric) => {
                [-estimate.shift_of(-percent), estimate.shift_of(percent)]
            }
            _ => [estimate.shift_of(percent), -estimate.shift_of(-percent)],
        };
        [worse, better, worse]
    }
}

/// Why a difference that chance does not explain cannot be told.
pub(super) const LATE_CLIENTS: &str =
    "the clients were late to send or to read, and may have made the difference";

/// Returns whether the clients may have made the difference in which something was found, given
/// how much lower and higher the statistics of both sides may be because of them.
pub(super) fn may_be_of_clients(
    finding: Finding,
    [low, high]: [f64; 2],
    [[base_below, base_above], [new_below, new_above]]: [[f64; 2]; 2],
) -> bool {
    matches!(finding, Finding::Regression | Finding::Improvement)
        && low - new_below - base_above <= 0.0
        && high + new_above + base_below >= 0.0
}
