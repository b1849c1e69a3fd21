//! Errors of the settings of metrics.

use thiserror::Error;

use super::limit::LimitError;
use super::tag::MetricTag;

/// An error in objectives.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetricsError {
    /// An objective is not of the form `tag:value`.
    #[error(
        "{0:?} is not a valid objective; write objectives as time_to_first_token<=200ms, separated by \
         spaces"
    )]
    MalformedObjective(String),
    /// An objective's threshold is not a number.
    #[error("{threshold:?} is not a number; specify the threshold of {tag} in {unit}")]
    ObjectiveThreshold {
        /// The metric.
        tag: MetricTag,
        /// The threshold as given.
        threshold: String,
        /// The unit that it should be in.
        unit: &'static str,
    },
    /// An objective names an unknown metric.
    #[error("unknown metric {tag:?}; {}", did_you_mean(.near))]
    UnknownObjective {
        /// The name as given.
        tag: String,
        /// Similar names.
        near: Vec<MetricTag>,
    },
    /// An objective names a metric that does not have a single value for each request.
    #[error(
        "{0} does not have a single value for each request; use a metric that does, such as \
         request_latency"
    )]
    NotPerRequest(MetricTag),
    /// An objective limits a metric in the wrong direction.
    #[error("an objective for {tag} must be met by good requests; write {tag}{wanted}LIMIT")]
    ObjectiveDirection {
        /// The metric.
        tag: MetricTag,
        /// The operator to use.
        wanted: &'static str,
    },
    /// The limit of an objective is not valid.
    #[error(transparent)]
    ObjectiveLimit(#[from] LimitError),
    /// There are two objectives for the same metric.
    #[error("there are two objectives for {0}; remove one of them")]
    RepeatedObjective(MetricTag),
    /// An objective's metric is not computed with this endpoint or these settings.
    #[error(
        "--goodput: {tag} is not measured in this run, so no request could meet the objective: \
         {reason}"
    )]
    ObjectiveNotMeasured {
        /// The metric.
        tag: MetricTag,
        /// Why not, and what to do about it.
        reason: &'static str,
    },
}

fn names(tags: &[MetricTag]) -> String {
    tags.iter().map(|tag| tag.name()).collect::<Vec<_>>().join(", ")
}

/// Returns advice for a name that is not a metric's.
pub(crate) fn did_you_mean(near: &[MetricTag]) -> String {
    if near.is_empty() {
        "run `aiperf list metrics` for a list".to_owned()
    } else {
        format!("did you mean {}?", names(near))
    }
}
