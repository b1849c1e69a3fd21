//! The files that a report can write again.

use std::path::PathBuf;

use super::error::WriteFailure;
use super::layout::Layout;
use super::server_metrics::ServerMetricsFiles;
use super::whole::write_whole;
use super::{adaptive, csv, gpu, json, timeslices};
use crate::run::RunReport;

/// Replaces the JSON, CSV and console files, and the server metrics and the table of the samples of GPUs
/// if there are any.
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
    outcomes.extend(adaptive::write(layout, report));
    if let Some(slices) = &report.slices {
        outcomes.extend(timeslices::write(layout, slices, &report.run.input_config));
    }
    if let Some(server) = &report.server_metrics {
        outcomes.extend(server_metrics.write_statistics(layout, report, server));
    }
    let has_table = server_metrics.formats.parquet && layout.gpu_lines.exists();
    if let Some(gpus) = report.outcome.gpus.as_ref().filter(|_| has_table) {
        outcomes.push(gpu::table::write(&layout.gpu_table, &layout.gpu_lines, report, gpus));
    }
    outcomes
}
