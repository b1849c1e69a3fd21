//! A load that follows the verdicts on its levels: which level is next.
//!
//! A level is a value of the controlled limit or rate. It holds for a window, whose requests are judged.
//! While windows pass, the level rises; the first that fails ends that. The highest level that passed
//! is then held for some time, to see whether it is sustained.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::setting::named;
use base::units::Nanos;

/// The quantity that is raised and lowered. The names are those of AIPerf's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The number of sessions in flight.
    Concurrency,
    /// The number of requests that wait for their first content.
    PrefillConcurrency,
    /// The requests per second.
    RequestRate,
}

named! { Control {
    "concurrency" => Concurrency,
    "prefill_concurrency" => PrefillConcurrency,
    "request_rate" => RequestRate,
} }

impl Control {
    /// Returns whether its values are whole numbers.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Concurrency | Self::PrefillConcurrency)
    }
}

/// By how much the level rises after a window that passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPolicy {
    /// It doubles; after the first window that fails, the level is found by bisection.
    Bisect,
    /// By `base`, times four times the smallest relative margin of the conditions as a whole number from 1
    /// to `most`.
    SlaMargin {
        /// The least step.
        base: f64,
        /// The greatest multiple of it.
        most: u64,
    },
    /// By this percentage of the level, rounded up to a whole number.
    FixedPercentStep(f64),
}

impl StepPolicy {
    /// Returns its name, as in AIPerf's files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bisect => "bisect",
            Self::SlaMargin { .. } => "sla_margin",
            Self::FixedPercentStep(_) => "fixed_percent_step",
        }
    }
}

/// A load that rises from `least` to that of its phase, as long as conditions are met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    /// The quantity that is raised.
    pub control: Control,
    /// The first level.
    pub least: f64,
    /// How long a level is measured.
    pub window: Nanos,
    /// How long the highest level that passed is held.
    pub sustain: Nanos,
    /// The least number of successful requests that a verdict needs.
    pub least_completed: u64,
    /// By how much the level rises.
    pub step: StepPolicy,
    /// The conditions for the requests of a window: `metric:statistic:operator:threshold`, in display units.
    pub conditions: Vec<Arc<str>>,
}

/// The evidence of a window about its level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// All conditions are met. The smallest distance of a statistic from its threshold, relative to it.
    Passed {
        /// 0 at the threshold.
        margin: f64,
    },
    /// A condition is missed.
    Failed,
    /// Too few requests ended for a verdict.
    TooFew,
}

/// The purpose of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// To find the highest level that passes.
    Discover,
    /// To see whether that level is sustained.
    Sustain,
}

named! { Stage { "discover" => Discover, "sustain" => Sustain } }

/// Why the load no longer changes. The names of the first five are AIPerf's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdaptiveEnd {
    /// The level was sustained.
    Sustained,
    /// The greatest level passed.
    NotSaturated,
    /// The first level failed.
    NoneSustainable,
    /// A lower level failed as well while it was held.
    FailedAgain,
    /// The first level failed while it was held, and there is none below.
    FailedAtLeast,
    /// Window after window had too few requests.
    TooFewRequests,
    /// The phase ended before.
    PhaseEnded,
}

named! { AdaptiveEnd {
    "sustain_duration_completed" => Sustained,
    "max_control_value_reached_without_saturation" => NotSaturated,
    "no_sustainable_concurrency_found" => NoneSustainable,
    "sustain_failed_after_recovery" => FailedAgain,
    "sustain_failed_sla_unrecoverable" => FailedAtLeast,
    "insufficient_samples" => TooFewRequests,
    "phase_ended" => PhaseEnded,
} }

impl AdaptiveEnd {
    /// Returns AIPerf's status: `complete`, `incomplete` or `failed`.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::Sustained => "complete",
            Self::NotSaturated | Self::TooFewRequests | Self::PhaseEnded => "incomplete",
            Self::NoneSustainable | Self::FailedAgain | Self::FailedAtLeast => "failed",
        }
    }
}

/// The gap between the highest level that passed and the lowest that failed, relative to the latter,
/// below which bisection ends.
const PRECISION: f64 = 0.05;

/// Number of windows in succession with too few requests that ends the search.
const MOST_EMPTY: u32 = 5;

/// Chooses the level of each window, and ends. A pure state machine: the only input is what each window
/// says.
#[derive(Debug, Clone)]
pub struct Controller {
    control: Control,
    step: StepPolicy,
    least: f64,
    most: f64,
    sustain: Nanos,
    stage: Stage,
    level: f64,
    passing: Option<f64>,
    failing: Option<f64>,
    /// How long the level has been held in windows that passed.
    sustained: Nanos,
    has_recovered: bool,
    empty: u32,
}

impl Controller {
    /// Creates the controller of a load that rises to `most`.
    pub fn new(config: &Adaptive, most: f64) -> Self {
        Self {
            control: config.control,
            step: config.step,
            least: config.least,
            most,
            sustain: config.sustain,
            stage: Stage::Discover,
            level: config.least.min(most),
            passing: None,
            failing: None,
            sustained: Nanos::ZERO,
            has_recovered: false,
            empty: 0,
        }
    }

    /// Returns the level of the next window.
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// Returns what the next window is for.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the highest level that passed, or the one that is held.
    pub const fn passing(&self) -> Option<f64> {
        self.passing
    }

    /// Returns the lowest level that failed.
    pub const fn failing(&self) -> Option<f64> {
        self.failing
    }

    /// Takes what the window of the current level, which lasted for `lasted`, says; returns why there is
    /// no further window, if there is none.
    pub fn judge(&mut self, finding: Finding, lasted: Nanos) -> Option<AdaptiveEnd> {
        if finding == Finding::TooFew {
            self.empty += 1;
            return (self.empty >= MOST_EMPTY).then_some(AdaptiveEnd::TooFewRequests);
        }
        self.empty = 0;
        let has_passed = matches!(finding, Finding::Passed { .. });
        if has_passed {
            self.passing = Some(self.level);
        } else {
            self.failing = Some(self.failing.map_or(self.level, |lowest| lowest.min(self.level)));
        }
        match (self.stage, finding) {
            (Stage::Discover, Finding::Passed { margin }) => self.rise(margin),
            (Stage::Discover, _) => self.fall_back(),
            (Stage::Sustain, Finding::Passed { .. }) => {
                self.sustained = self.sustained + lasted;
                self.sustained_long_enough()
            }
            (Stage::Sustain, _) => self.recover(),
        }
    }

    fn rise(&mut self, margin: f64) -> Option<AdaptiveEnd> {
        if self.failing.is_some() {
            return self.fall_back();
        }
        if self.level >= self.most {
            return Some(AdaptiveEnd::NotSaturated);
        }
        let step = match self.step {
            StepPolicy::Bisect => self.level,
            StepPolicy::SlaMargin { base, most } => {
                base * (margin * 4.0).trunc().clamp(1.0, most.max(1) as f64)
            }
            StepPolicy::FixedPercentStep(percent) => self.percent(percent),
        };
        self.level = (self.level + step).min(self.most);
        None
    }

    /// Goes to a level below the lowest that failed: one in the middle, or the highest that passed.
    fn fall_back(&mut self) -> Option<AdaptiveEnd> {
        let (Some(passing), Some(failing)) = (self.passing, self.failing) else {
            return Some(AdaptiveEnd::NoneSustainable);
        };
        let gap = failing - passing;
        let is_close = gap < PRECISION * failing || self.control.is_whole() && gap <= 1.0;
        if self.step == StepPolicy::Bisect && !is_close {
            let middle = passing.midpoint(failing);
            self.level = if self.control.is_whole() { middle.floor() } else { middle };
            return None;
        }
        self.stage = Stage::Sustain;
        self.level = passing;
        self.sustained_long_enough()
    }

    /// Goes to a lower level after one was not sustained, once.
    fn recover(&mut self) -> Option<AdaptiveEnd> {
        if self.has_recovered {
            return Some(AdaptiveEnd::FailedAgain);
        }
        if self.level <= self.least {
            return Some(AdaptiveEnd::FailedAtLeast);
        }
        let step = match self.step {
            StepPolicy::Bisect if !self.control.is_whole() => PRECISION * self.level,
            StepPolicy::Bisect => self.percent(100.0 * PRECISION),
            StepPolicy::SlaMargin { base, .. } => base,
            StepPolicy::FixedPercentStep(percent) => self.percent(percent),
        };
        self.level = (self.level - step).max(self.least);
        self.passing = Some(self.level);
        self.sustained = Nanos::ZERO;
        self.has_recovered = true;
        None
    }

    fn sustained_long_enough(&self) -> Option<AdaptiveEnd> {
        (self.sustained >= self.sustain).then_some(AdaptiveEnd::Sustained)
    }

    /// Returns a percentage of the level, rounded up.
    fn percent(&self, percent: f64) -> f64 {
        (self.level * percent / 100.0).ceil().max(1.0)
    }
}

#[cfg(test)]
mod tests;
