//! The scenario of a run, and whether its result is valid for a submission.

use serde::{Deserialize, Serialize};

use measure::metrics::{Accumulator, MetricTag, tag};

use super::RunReport;
use super::setup::Setup;

/// The scenario that a run follows (`--scenario`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioRun {
    /// Its name.
    pub name: String,
    /// Settings that differ from those that it requires (`--unsafe-override`), each as a clause.
    pub violations: Vec<String>,
    /// What the results must keep.
    pub limits: Limits,
    /// The dataset.
    pub dataset: ScenarioDataset,
}

/// What the results of a scenario must keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum fraction of requests whose context exceeds that of the model.
    pub overflows: f64,
    /// Minimum fraction of the configured duration that the responses must cover.
    pub coverage: f64,
    /// Shortest duration for which the coverage counts, in seconds.
    pub coverage_from: f64,
}

/// The dataset of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScenarioDataset {
    /// Where it is from: `public_dataset`, or `file`.
    pub source_type: String,
    /// Its name on the command line, or its format.
    pub loader: String,
    /// Its repository on the Hugging Face hub.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hf_dataset_name: Option<String>,
    /// Its split.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hf_split: Option<String>,
    /// Its subset.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hf_subset: Option<String>,
    /// Maximum number of conversations, if it is given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub num_dataset_entries: Option<u64>,
}

/// Why a result is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Invalid {
    /// Settings differ from those of the scenario.
    UnsafeOverride,
    /// Too many requests exceeded the context of the model.
    ContextOverflowRateExceeded,
    /// The run ended before its configured end.
    RunCancelled,
    /// The responses cover too little of the configured duration.
    InsufficientProfileMetricCoverage,
}

impl Invalid {
    /// Returns the reason as a clause.
    #[must_use]
    pub const fn clause(self) -> &'static str {
        match self {
            Self::UnsafeOverride => "settings differ from those of the scenario",
            Self::ContextOverflowRateExceeded => "too many requests exceeded the model's context",
            Self::RunCancelled => "the run was cancelled",
            Self::InsufficientProfileMetricCoverage => {
                "responses do not cover the configured duration"
            }
        }
    }
}

/// The result of a run as one of a scenario: `metadata` of the JSON summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Submission {
    /// The name of the scenario.
    pub scenario: String,
    /// Whether the result can be submitted.
    pub submission_valid: bool,
    /// Why it cannot be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub submission_invalid_reasons: Vec<Invalid>,
    /// The dataset.
    pub dataset: ScenarioDataset,
}

impl Submission {
    /// Returns the scenario, and whether the result is valid, in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { scenario, submission_invalid_reasons: reasons, .. } = self;
        if reasons.is_empty() {
            return format!("scenario {scenario}: valid for a submission");
        }
        let reasons: Vec<_> = reasons.iter().map(|reason| reason.clause()).collect();
        format!("scenario {scenario}: not valid for a submission: {}", reasons.join("; "))
    }
}

/// The part of the configured duration of a scenario until the last response with a metric, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DurationCoverage {
    /// Until the last response with a token.
    pub time_to_first_token: f64,
    /// Until the last response with several tokens.
    pub inter_token_latency: f64,
}

impl DurationCoverage {
    /// Returns the coverage of the measurement of a run with these settings that began at
    /// `start_wall_ns` and has the `values`; `None` without a scenario, or without a duration.
    pub(crate) fn for_setup(
        setup: &Setup,
        start_wall_ns: u64,
        values: &Accumulator,
    ) -> Option<Self> {
        setup.scenario.as_ref()?;
        let duration = setup.measured_phase()?.stop.duration?.0;
        let until_last = |tag: MetricTag| {
            let requests = values.in_order(tag);
            let ends = requests.iter().filter(|it| it.value.is_some()).map(|it| it.end);
            part(ends.max().unwrap_or(start_wall_ns).saturating_sub(start_wall_ns), duration)
        };
        Some(Self {
            time_to_first_token: until_last(tag::TIME_TO_FIRST_TOKEN),
            inter_token_latency: until_last(tag::INTER_TOKEN_LATENCY),
        })
    }

    /// Returns the larger one, which counts.
    fn most(self) -> f64 {
        self.time_to_first_token.max(self.inter_token_latency)
    }
}

/// Returns `time` as a part of `duration`, at most 1.
fn part(time: u64, duration: u64) -> f64 {
    if time >= duration { 1.0 } else { time as f64 / duration as f64 }
}

impl RunReport {
    /// Returns the result as one of the scenario that the run follows, if it follows one.
    #[must_use]
    pub fn submission(&self) -> Option<Submission> {
        let scenario = self.run.setup.scenario.as_ref()?;
        let invalid = [
            (!scenario.violations.is_empty(), Invalid::UnsafeOverride),
            (
                self.overflow_rate() > scenario.limits.overflows,
                Invalid::ContextOverflowRateExceeded,
            ),
            (!self.is_complete(), Invalid::RunCancelled),
            (!self.is_covered(), Invalid::InsufficientProfileMetricCoverage),
        ];
        let reasons: Vec<_> =
            invalid.into_iter().filter_map(|(is_so, reason)| is_so.then_some(reason)).collect();
        Some(Submission {
            scenario: scenario.name.clone(),
            submission_valid: reasons.is_empty(),
            submission_invalid_reasons: reasons,
            dataset: scenario.dataset.clone(),
        })
    }

    /// Returns whether the responses cover as much of the duration as the scenario of the run requires.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        let Some(scenario) = &self.run.setup.scenario else { return true };
        let duration = self.run.setup.measured_phase().and_then(|phase| phase.stop.duration);
        let counts = duration.is_some_and(|it| it.as_seconds() >= scenario.limits.coverage_from);
        !counts || self.coverage.is_none_or(|it| it.most() >= scenario.limits.coverage)
    }

    /// Returns the fraction of requests whose context exceeds that of the model; 0 without requests.
    fn overflow_rate(&self) -> f64 {
        let count = |tag| self.average(tag).unwrap_or(0.0);
        let all = count(tag::REQUEST_COUNT)
            + count(tag::ERROR_REQUEST_COUNT)
            + count(tag::SKIPPED_CONTEXT_OVERFLOW_COUNT);
        if all > 0.0 { count(tag::CONTEXT_OVERFLOW_COUNT) / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coverage_is_a_part_of_the_duration() {
        // 1710 of 1800 s is 0.95, 1764 s is 0.98; more than the duration is all of it.
        let seconds = 1_000_000_000;
        for (last, expected) in [(1710, 0.95), (1764, 0.98), (1830, 1.0), (0, 0.0)] {
            assert_eq!(part(last * seconds, 1800 * seconds), expected, "{last}");
        }
        assert!(part(1709 * seconds, 1800 * seconds) < 0.95);
        let coverage = DurationCoverage { time_to_first_token: 0.9, inter_token_latency: 0.98 };
        assert_eq!(coverage.most(), 0.98);
    }

    #[test]
    fn a_result_says_why_it_is_not_valid() {
        let dataset = ScenarioDataset {
            source_type: "public_dataset".to_owned(),
            loader: "l".to_owned(),
            hf_dataset_name: Some("a/b".to_owned()),
            hf_split: Some("train".to_owned()),
            hf_subset: None,
            num_dataset_entries: None,
        };
        let submission = |reasons: &[Invalid]| Submission {
            scenario: "s".to_owned(),
            submission_valid: reasons.is_empty(),
            submission_invalid_reasons: reasons.to_vec(),
            dataset: dataset.clone(),
        };
        assert_eq!(
            serde_json::to_value(submission(&[])).unwrap(),
            serde_json::json!({"scenario": "s", "submission_valid": true,
                "dataset": {"source_type": "public_dataset", "loader": "l",
                    "hf_dataset_name": "a/b", "hf_split": "train"}})
        );
        let invalid = submission(&[Invalid::UnsafeOverride, Invalid::RunCancelled]);
        let reasons = serde_json::to_value(&invalid).unwrap();
        let expected = serde_json::json!(["unsafe_override", "run_cancelled"]);
        assert_eq!(reasons["submission_invalid_reasons"], expected);
        assert_eq!(
            invalid.line(),
            "scenario s: not valid for a submission: settings differ from those of the scenario; \
             the run was cancelled"
        );
    }
}
