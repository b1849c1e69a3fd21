//! The files that a report can write again.

use std::path::PathBuf;

use super::error::WriteFailure;
use super::layout::Layout;
use super::server_metrics::ServerMetricsFiles;
use super::whole::write_whole;
use super::{csv, json, timeslices};
use crate::run::RunReport;

/// Replaces the JSON, CSV and console files, and the server metrics if there are any.
pub(super) fn write_summaries(
    layout: &Layout,
    server_metrics: &ServerMetricsFiles,
    report: &RunReport,
    console_text: &str,
) -> Vec<Result<PathBuf, WriteFailure>> {
    let mut outcomes = vec![
        write_whole(&layout.summary_json, |out| json::write(out, report)),
        write_whole(&layout.summary_csv, |out| csv::write(out, report)),
        write_whole(&layout.console, |out| out.write_all(console_text.as_bytes())),
    ];
    if let Some(slices) = &report.slices {
        outcomes.extend(timeslices::write(layout, slices, &report.run.input_config));
    }
    if let Some(server) = &report.server_metrics {
        outcomes.extend(server_metrics.write_statistics(layout, report, server));
    }
    outcomes
}
