//! The adaptive loads in the summary of the run.

use std::slice::Iter;

use serde::Serialize;

use client::schedule::{AdaptiveEnd, Control};
use measure::judge::AdaptivePath;
use measure::judge::adaptive::Window;
use measure::metrics::metric::MetricResult;

use super::Metrics;
use crate::run::RunReport;

/// A load that followed the verdicts on its levels.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Adaptive<'a> {
    /// Its phase.
    phase: &'a str,
    /// What was raised.
    control_variable: Control,
    /// `complete` if a level was sustained, `failed` if none was, `incomplete` if the limit was not found.
    status: &'static str,
    /// Why the load no longer changed.
    completed_reason: AdaptiveEnd,
    /// The same in one sentence.
    finding: String,
    /// The level that was sustained, if one was.
    boundary_value: Option<f64>,
    /// The highest level that passed, or the one that was held.
    last_passing_value: Option<f64>,
    /// The lowest level that failed.
    first_failing_value: Option<f64>,
    /// The windows in order.
    path: Vec<Level<'a>>,
}

/// A window, and the metrics of its requests.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Level<'a> {
    #[serde(flatten)]
    window: &'a Window,
    /// Its start in nanoseconds since the start of the results.
    start_offset_ns: i64,
    /// Its end, likewise.
    end_offset_ns: i64,
    metrics: Metrics<'a>,
}

/// Returns the adaptive loads of a run.
pub(super) fn adaptive_loads(report: &RunReport) -> Vec<Adaptive<'_>> {
    let mut levels = report.levels.iter();
    let adaptive = |path| Adaptive::new(path, &mut levels, report);
    report.outcome.adaptive.iter().map(adaptive).collect()
}

impl<'a> Adaptive<'a> {
    /// Describes a path, whose windows have the next `levels`.
    fn new(
        path: &'a AdaptivePath,
        levels: &mut Iter<'a, Vec<MetricResult>>,
        report: &'a RunReport,
    ) -> Self {
        let level = |window| {
            let results = levels.next().map_or(&[][..], Vec::as_slice);
            Level::new(window, results, report)
        };
        Self {
            phase: &path.phase,
            control_variable: path.adaptive.control,
            status: path.end.status(),
            completed_reason: path.end,
            finding: path.finding(),
            boundary_value: path.boundary,
            last_passing_value: path.last_passing,
            first_failing_value: path.first_failing,
            path: path.windows.iter().map(level).collect(),
        }
    }
}

impl<'a> Level<'a> {
    fn new(window: &'a Window, results: &'a [MetricResult], report: &RunReport) -> Self {
        let origin = report.outcome.start_wall_ns.cast_signed();
        let offset = |at: u64| at.cast_signed().saturating_sub(origin);
        Self {
            window,
            start_offset_ns: offset(window.start_ns),
            end_offset_ns: offset(window.end_ns),
            metrics: Metrics { results, developer_mode: report.run.settings.developer_mode },
        }
    }
}
