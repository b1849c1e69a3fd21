//! The catalogue: one row a metric, and the statistics over their values.
//!
//! A record metric gives a value for each request, an aggregate folds over
//! requests, a derived metric is computed from other results. The row is the
//! source: console, JSON, CSV, Parquet, documentation and OpenTelemetry all
//! read it.
//!
//! A finished request goes through [`Measurer`], which gives its values, and
//! then into the [`Accumulator`] of its phase, which gives the results.

use thiserror::Error;

pub mod accumulate;
pub mod catalogue;
pub mod health;
pub mod listing;
pub mod measure;
pub mod metric;
pub mod objective;
pub mod otel;
pub mod percentile;
pub mod reference;
pub mod registry;
pub mod slices;
pub mod timeline;

#[cfg(test)]
mod fixture;

pub use accumulate::Accumulator;
pub use health::{ClientHealth, Health, LoadReport, Verdict};
pub use measure::{CountChat, CountTokens, Measurer};
pub use metric::{ConsoleGroup, Metric, MetricFlags, MetricTag, ValueType};
pub use objective::parse_objectives;
pub use registry::Registry;
pub use slices::Slices;

/// What can be wrong with a catalogue or with objectives for it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetricsError {
    /// A row reads a metric that does not exist.
    #[error("metric `{tag}` requires `{required}`, which is not in the catalogue")]
    MissingRequirement {
        /// The row.
        tag: MetricTag,
        /// What it requires.
        required: MetricTag,
    },
    /// Rows require each other.
    #[error("these metrics require each other: {}", .0.join(", "))]
    Circular(Vec<MetricTag>),
    /// Two rows have one tag.
    #[error("two rows of the catalogue are called `{0}`")]
    Duplicate(MetricTag),
    /// An objective is not of the form `tag:value`.
    #[error(
        "`{0}` is not an objective; write them as `time_to_first_token:200`, separated by spaces"
    )]
    MalformedObjective(String),
    /// An objective's bound is no number.
    #[error("`{threshold}` is not a number; give the bound of `{tag}` in {unit}")]
    ObjectiveThreshold {
        /// The metric.
        tag: MetricTag,
        /// The bound as given.
        threshold: String,
        /// Unit it should be in.
        unit: &'static str,
    },
    /// An objective names no metric.
    #[error("there is no metric `{tag}`; {}", did_you_mean(.near))]
    UnknownObjective {
        /// The name as given.
        tag: String,
        /// Names like it.
        near: Vec<MetricTag>,
    },
    /// An objective names a metric that has no single value for each request.
    #[error(
        "`{0}` has no single value for each request; name a metric that has, as `request_latency`"
    )]
    NotPerRequest(MetricTag),
    /// An objective is given twice.
    #[error("`{0}` is given twice; keep one bound")]
    RepeatedObjective(MetricTag),
    /// An objective's metric is not computed for this endpoint.
    #[error("--goodput: `{tag}` is not measured here, so no request could meet it: {reason}")]
    ObjectiveNotMeasured {
        /// The metric.
        tag: MetricTag,
        /// Why not, and what to do.
        reason: &'static str,
    },
}

fn did_you_mean(near: &[MetricTag]) -> String {
    if near.is_empty() {
        "`aiperf metrics` lists them".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    }
}
