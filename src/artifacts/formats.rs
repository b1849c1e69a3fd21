//! Reports of a run in the formats of other projects (`aiperf report --format`).
//!
//! They have only members whose meaning is known, and only those that the run has values for.

mod inferencex;
mod llm_d;

use serde_json::{Map, Value};

use crate::metrics::metric::{Statistic, Stats};
use crate::metrics::tag::MetricTag;
use crate::run::RunReport;
use crate::setting::named;

/// A format of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// The benchmark report 0.2.1 of llm-d.
    LlmD,
    /// The result of a benchmark that `InferenceX` (formerly `InferenceMAX`) processes.
    InferenceX,
}

named! { ReportFormat { "llm_d" => LlmD, "inferencex" => InferenceX } }

impl ReportFormat {
    /// Returns the report as JSON with a line feed at the end.
    #[must_use]
    pub fn render(self, report: &RunReport) -> String {
        let document = match self {
            Self::LlmD => llm_d::document(report),
            Self::InferenceX => inferencex::document(report),
        };
        format!("{document:#}\n")
    }
}

/// Returns the statistics of a metric, in its display unit.
fn stats(report: &RunReport, tag: MetricTag) -> Option<&Stats> {
    report.results.iter().find(|result| result.metric.tag == tag).map(|result| &result.stats)
}

/// Returns the mean or the single value of a metric, in its display unit, if it is finite.
fn value(report: &RunReport, tag: MetricTag) -> Option<f64> {
    Some(stats(report, tag)?.avg).filter(|value| value.is_finite())
}

/// Returns a statistic of `stats`, if it is finite.
fn statistic(stats: &Stats, name: &str) -> Option<f64> {
    Statistic::named(name)?.of(stats).filter(|value| value.is_finite())
}

/// Adds a member, unless it is absent.
fn add(members: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        members.insert(name.to_owned(), value.into());
    }
}

/// Adds an object, unless it is empty.
fn add_object(members: &mut Map<String, Value>, name: &str, object: Map<String, Value>) {
    add(members, name, (!object.is_empty()).then_some(object));
}
