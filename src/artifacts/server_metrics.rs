//! The server's side of a run in files: JSON, CSV, JSONL and Parquet.

mod csv;
mod endpoint_ids;
mod flat;
mod json;
mod members;

use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::{RunDescription, WriteFailure, write_whole};
use crate::server_metrics::report::ServerMetricsReport;

/// Which files there are of the server's metrics, and how they are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMetricsFiles {
    /// `--server-metrics-formats`; [`Formats::NONE`] where no endpoint is scraped.
    pub formats: Formats,
    /// `--server-metrics-json-layout`.
    pub json_layout: JsonLayout,
    /// Scrapes between two flushes of the lines
    /// (`AIPERF_SERVER_METRICS_EXPORT_BATCH_SIZE`, 100).
    pub batch_size: usize,
}

/// The formats that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// Statistics as JSON.
    pub json: bool,
    /// Statistics as a table.
    pub csv: bool,
    /// Every scrape, a line each.
    pub jsonl: bool,
    /// Every sample of the profiling phase.
    pub parquet: bool,
}

impl Formats {
    /// No file at all.
    pub const NONE: Self = Self { json: false, csv: false, jsonl: false, parquet: false };
}

/// How the JSON export is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonLayout {
    /// Statistics in an object of their own in each series.
    #[default]
    Nested,
    /// Statistics beside the labels of each series: an earlier layout.
    Flat,
}

impl Default for ServerMetricsFiles {
    fn default() -> Self {
        Self {
            formats: Formats { json: true, csv: true, jsonl: false, parquet: true },
            json_layout: JsonLayout::Nested,
            batch_size: 100,
        }
    }
}

impl ServerMetricsFiles {
    /// Files of statistics, which are replaced as a whole, and whether each is to be there.
    pub(super) fn summaries<'a>(&self, layout: &'a Layout) -> [(&'a Path, bool); 2] {
        [
            (&layout.server_metrics_json, self.formats.json),
            (&layout.server_metrics_csv, self.formats.csv),
        ]
    }

    /// Files that are not to be there: an earlier run's would pass for this one's.
    pub(super) fn unwanted<'a>(&self, layout: &'a Layout) -> impl Iterator<Item = &'a Path> {
        let series: [(&Path, bool); 2] = [
            (&layout.server_metrics_lines, self.formats.jsonl),
            (&layout.server_metrics_table, self.formats.parquet),
        ];
        let all = self.summaries(layout).into_iter().chain(series);
        all.filter(|(_, is_wanted)| !is_wanted).map(|(path, _)| path)
    }

    /// Replaces the files of statistics that are to be there.
    pub(super) fn write_summaries(
        &self,
        layout: &Layout,
        run: &RunDescription,
        report: &ServerMetricsReport,
    ) -> Vec<Result<PathBuf, WriteFailure>> {
        let mut outcomes = Vec::new();
        if self.formats.json {
            outcomes.push(write_whole(&layout.server_metrics_json, |out| match self.json_layout {
                JsonLayout::Nested => json::write(out, run, report),
                JsonLayout::Flat => flat::write(out, report),
            }));
        }
        if self.formats.csv {
            outcomes.push(write_whole(&layout.server_metrics_csv, |out| csv::write(out, report)));
        }
        outcomes
    }
}

#[cfg(test)]
mod tests;
