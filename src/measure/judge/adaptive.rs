//! The verdicts on the levels of an adaptive load, and its path.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::setting::Named as _;
use client::schedule::{Adaptive, AdaptiveEnd, Finding, Stage};

use crate::metrics::MetricTag;
use crate::metrics::metric::{MetricResult, Percent, Statistic};
use crate::multi_run::Filter;

/// The conditions that a level must meet.
#[derive(Debug, Clone)]
pub struct Conditions(Vec<Filter>);

/// A condition, and the value that it is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Compared {
    #[serde(flatten)]
    pub condition: Filter,
    /// The value in the window, in the unit of the threshold; absent if the window does not have it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observed: Option<f64>,
    /// Whether the condition is met, which a value that is absent does not.
    pub met: bool,
}

impl Compared {
    /// Returns how far the value is from the threshold, on the side where the condition is met, relative to
    /// the threshold; 0 for a threshold of 0.
    fn margin(&self) -> Option<f64> {
        let Filter { op, threshold, .. } = self.condition;
        let distance = threshold - self.observed?;
        let distance = if op.is_upper() { distance } else { -distance };
        Some(if threshold == 0.0 { 0.0 } else { distance / threshold.abs() })
    }
}

impl Conditions {
    /// Returns the conditions of an adaptive load; what is not one was rejected before the run.
    pub fn from_adaptive(adaptive: &Adaptive) -> Self {
        Self(adaptive.conditions.iter().filter_map(|text| Filter::parse(text).ok()).collect())
    }

    /// Returns the percentiles that they limit.
    pub fn percentiles(&self) -> Vec<Percent> {
        let percentile = |condition: &Filter| Statistic::named(&condition.statistic)?.percentile();
        self.0.iter().filter_map(percentile).collect()
    }

    /// Returns their metrics.
    pub fn metrics(&self) -> impl Iterator<Item = MetricTag> {
        self.0.iter().map(|condition| condition.metric)
    }

    /// Compares them with the results of a window.
    fn compare(&self, results: &[MetricResult]) -> Vec<Compared> {
        let compare = |condition: &Filter| {
            let result = results.iter().find(|result| result.metric.tag == condition.metric);
            let statistic = Statistic::named(&condition.statistic);
            let observed = result.zip(statistic).and_then(|(it, which)| which.value_in(&it.stats));
            let observed = observed.filter(|value| value.is_finite());
            let met = observed.is_some_and(|value| condition.op.holds(value, condition.threshold));
            Compared { condition: condition.clone(), observed, met }
        };
        self.0.iter().map(compare).collect()
    }
}

/// What became of the requests of a window.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Outcomes {
    /// Those that succeeded.
    pub completed: u64,
    /// Those that failed and were not cancelled.
    pub errored: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Those that had not ended when the window was judged.
    pub unanswered: u64,
}

impl Outcomes {
    /// Returns the number of all of them.
    pub const fn sent(&self) -> u64 {
        self.completed + self.errored + self.cancelled + self.unanswered
    }
}

/// A time in which an adaptive load had one level, and the verdict on it. Its requests are those that
/// started within it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Window {
    /// The level: the number of sessions, or of requests that wait for their first content, or the requests
    /// per second.
    pub level: f64,
    /// What it was for.
    pub stage: Stage,
    /// Its start in nanoseconds since the epoch.
    pub start_ns: u64,
    /// Its end, in the same unit.
    pub end_ns: u64,
    pub requests: Outcomes,
    pub verdict: WindowVerdict,
    /// The conditions, and what they were compared with; empty if there was nothing to compare.
    pub conditions: Vec<Compared>,
}

impl Window {
    /// Returns its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}

/// The verdict on a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowVerdict {
    /// All conditions are met.
    Passed,
    /// A condition is missed.
    Missed,
    /// No request succeeded.
    NoneSucceeded,
    /// Requests had not ended another window later.
    Unanswered,
    /// Too few requests ended to tell.
    TooFewRequests,
    /// The phase ended before the verdict.
    Unfinished,
}

impl WindowVerdict {
    /// Returns it in words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Missed => "missed",
            Self::NoneSucceeded => "none succeeded",
            Self::Unanswered => "unanswered",
            Self::TooFewRequests => "too few requests",
            Self::Unfinished => "unfinished",
        }
    }

    /// Returns AIPerf's reason to reject the level, if it did not pass.
    pub const fn rejection(self) -> Option<&'static str> {
        match self {
            Self::Passed => None,
            Self::Missed => Some("sla_miss"),
            Self::NoneSucceeded | Self::Unanswered => Some("error_threshold"),
            Self::TooFewRequests | Self::Unfinished => Some("insufficient_samples"),
        }
    }
}

/// Judges a window by its `requests` and their `results`. A level at which requests take a window longer
/// than their window is not sustained, whatever those say that have ended.
pub fn judge_window(
    conditions: &Conditions,
    requests: &Outcomes,
    least_completed: u64,
    results: &[MetricResult],
) -> (WindowVerdict, Vec<Compared>, Finding) {
    let compared = conditions.compare(results);
    let verdict = if requests.unanswered > 0 {
        WindowVerdict::Unanswered
    } else if requests.completed + requests.errored < least_completed {
        WindowVerdict::TooFewRequests
    } else if requests.completed == 0 {
        WindowVerdict::NoneSucceeded
    } else if compared.iter().all(|it| it.met) {
        WindowVerdict::Passed
    } else {
        WindowVerdict::Missed
    };
    let finding = match verdict {
        WindowVerdict::TooFewRequests => Finding::TooFew,
        WindowVerdict::Passed => {
            let margins = compared.iter().filter_map(Compared::margin);
            Finding::Passed { margin: margins.fold(f64::INFINITY, f64::min) }
        }
        _ => Finding::Failed,
    };
    (verdict, compared, finding)
}

/// The path of an adaptive load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdaptivePath {
    /// Index of its phase in the run.
    pub phase_index: u32,
    /// Name of its phase.
    pub phase: Arc<str>,
    /// How the load was to rise.
    pub adaptive: Adaptive,
    /// The greatest level.
    pub most: f64,
    /// Why the load no longer changed.
    pub end: AdaptiveEnd,
    /// The level that was sustained, if one was.
    pub boundary: Option<f64>,
    /// The highest level that passed, or the one that was held.
    pub last_passing: Option<f64>,
    /// The lowest level that failed.
    pub first_failing: Option<f64>,
    /// The level at the end.
    pub level: f64,
    /// The windows in order.
    pub windows: Vec<Window>,
}

impl AdaptivePath {
    /// Returns whether requests of the last window had not ended.
    fn is_unanswered(&self) -> bool {
        self.windows.last().is_some_and(|window| window.verdict == WindowVerdict::Unanswered)
    }

    /// Returns what came out, in one sentence.
    pub fn finding(&self) -> String {
        let control = self.adaptive.control.name().replace('_', " ");
        let level = |level: Option<f64>| level.map_or_else(|| "none".to_owned(), shown);
        match self.end {
            AdaptiveEnd::Sustained => {
                let failing = self.first_failing;
                let above = failing.map(|it| format!("; {} missed them", shown(it)));
                format!(
                    "the conditions are met up to a {control} of {}{}",
                    level(self.boundary),
                    above.unwrap_or_default()
                )
            }
            AdaptiveEnd::NotSaturated => {
                let most = shown(self.most);
                format!("the conditions are met at the greatest {control}, {most}; raise it")
            }
            AdaptiveEnd::NoneSustainable if self.is_unanswered() => format!(
                "at the lowest {control}, {}, requests have not ended {} s after their window; use a longer \
                 --adaptive-assessment-period",
                shown(self.adaptive.least),
                self.adaptive.window.as_seconds()
            ),
            AdaptiveEnd::NoneSustainable => format!(
                "the conditions are missed at the lowest {control}, {}",
                shown(self.adaptive.least)
            ),
            AdaptiveEnd::FailedAgain => format!(
                "no {control} was sustained: {} passed and was missed later, twice",
                level(self.last_passing)
            ),
            AdaptiveEnd::FailedAtLeast => format!(
                "the lowest {control}, {}, passed and was missed later",
                shown(self.adaptive.least)
            ),
            AdaptiveEnd::TooFewRequests => format!(
                "windows of {} s have too few requests at a {control} of {}; use a longer \
                 --adaptive-assessment-period",
                self.adaptive.window.as_seconds(),
                shown(self.level)
            ),
            AdaptiveEnd::PhaseEnded => format!(
                "the phase ended before the limit was found; the last {control} that passed is {}",
                level(self.last_passing)
            ),
        }
    }
}

/// Returns a level without needless decimals.
pub fn shown(level: f64) -> String {
    let text = format!("{level:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tag;
    use crate::multi_run::filter::Comparison;

    fn compared(op: Comparison, threshold: f64, observed: f64) -> Compared {
        let condition = Filter::new(tag::REQUEST_LATENCY, "p95", op, threshold);
        Compared { condition, observed: Some(observed), met: true }
    }

    #[test]
    fn margins_are_relative_to_the_threshold() {
        assert_eq!(compared(Comparison::AtMost, 200.0, 50.0).margin(), Some(0.75));
        assert_eq!(compared(Comparison::Below, 200.0, 200.0).margin(), Some(0.0));
        assert_eq!(compared(Comparison::AtLeast, 50.0, 80.0).margin(), Some(0.6));
        assert_eq!(compared(Comparison::AtMost, 0.0, 0.0).margin(), Some(0.0));
    }

    #[test]
    fn windows_without_enough_requests_have_no_verdict() {
        let conditions = Conditions(vec![Filter::parse("request_latency:p95<=1s").unwrap()]);
        let window = |completed, errored, unanswered| {
            let requests = Outcomes { completed, errored, unanswered, cancelled: 9 };
            let (verdict, compared, finding) = judge_window(&conditions, &requests, 5, &[]);
            assert_eq!((compared.len(), compared[0].met), (1, false));
            (verdict, finding)
        };
        assert_eq!(window(3, 1, 0), (WindowVerdict::TooFewRequests, Finding::TooFew));
        assert_eq!(window(0, 5, 0), (WindowVerdict::NoneSucceeded, Finding::Failed));
        assert_eq!(window(4, 1, 0), (WindowVerdict::Missed, Finding::Failed));
        assert_eq!(window(90, 0, 1), (WindowVerdict::Unanswered, Finding::Failed));
    }

    #[test]
    fn levels_are_shown_without_needless_decimals() {
        assert_eq!([8.0, 2.5, 5.25, 100.0].map(shown), ["8", "2.5", "5.25", "100"]);
    }
}
