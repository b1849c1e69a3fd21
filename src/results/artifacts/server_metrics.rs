//! Server metrics in files: JSON, CSV, JSONL and Parquet.

mod csv;
mod endpoint_ids;
mod flat;
mod json;
mod jsonl;
mod line;
mod manifest;
mod members;
mod parquet;
mod read;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use base::redact::ShownUrl;
use base::setting::named;
use base::units::Nanos;
use measure::server_metrics::report::ServerMetrics;

use super::error::WriteFailure;
use super::layout::Layout;
use super::whole::write_whole;
use crate::run::{RunDescription, RunReport};

#[cfg(test)]
pub(super) type Flat<'a> = flat::Export<flat::Metrics<'a>>;
#[cfg(test)]
pub(super) type Nested<'a> = json::Export<json::Metrics<'a>>;
pub use jsonl::ScrapeLines;
pub(crate) use jsonl::whole_line;
pub use line::{LineError, ScrapeLineReader};
pub(super) use manifest::{ServerMetricsOutcome, ServerMetricsSection};
pub(super) use parquet::{Samples, TableError, read as read_table};
pub(super) use read::Scrapes;

/// The files of server metrics and their layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMetricsFiles {
    /// `--server-metrics-formats`.
    pub formats: Formats,
    /// `--server-metrics-json-layout`.
    pub json_layout: JsonLayout,
    /// Number of scrapes between two flushes of the lines
    /// (`AIPERF_SERVER_METRICS_EXPORT_BATCH_SIZE`, 100).
    pub batch_size: usize,
    /// The scraped URLs, without credentials; empty if nothing is scraped.
    pub endpoints: Vec<ShownUrl>,
    /// Length of the slices with statistics (`--slice-duration`).
    pub slice_duration: Option<Nanos>,
}

/// The formats that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formats {
    /// Statistics as JSON.
    pub json: bool,
    /// Statistics as a table.
    pub csv: bool,
    /// Every scrape, one line each.
    pub jsonl: bool,
    /// Every sample of the profiling phase.
    pub parquet: bool,
}

/// The layout of the JSON file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonLayout {
    /// Statistics in a separate object of each series.
    #[default]
    Nested,
    /// Statistics beside the labels of each series, an earlier layout.
    Flat,
}

named! { JsonLayout { "nested" => Nested, "flat" => Flat } }

impl Default for ServerMetricsFiles {
    fn default() -> Self {
        Self {
            formats: Formats { json: true, csv: true, jsonl: false, parquet: true },
            json_layout: JsonLayout::Nested,
            batch_size: 100,
            endpoints: Vec::new(),
            slice_duration: None,
        }
    }
}

impl ServerMetricsFiles {
    /// Returns the settings of a run, as far as its configuration is known.
    pub(super) fn of_run(run: &RunDescription) -> Self {
        let known = Self::deserialize(&run.config["artifacts"]["server_metrics"]);
        known.unwrap_or_else(|_| Self {
            slice_duration: run.setup.slice_duration,
            ..Self::default()
        })
    }

    /// Returns the files that are replaced as a whole, with whether each is to be written.
    pub(super) fn statistics<'a>(&self, layout: &'a Layout) -> [(&'a Path, bool); 3] {
        let is_scraped = !self.endpoints.is_empty();
        [
            (&layout.server_metrics_json, is_scraped && self.formats.json),
            (&layout.server_metrics_csv, is_scraped && self.formats.csv),
            (&layout.server_metrics_table, is_scraped && self.formats.parquet),
        ]
    }

    /// Replaces the files that are to be written.
    pub(super) fn write_statistics(
        &self,
        layout: &Layout,
        run: &RunReport,
        server: &ServerMetrics,
    ) -> Vec<Result<PathBuf, WriteFailure>> {
        let mut outcomes = Vec::new();
        let report = &server.report;
        if self.formats.json {
            outcomes.push(write_whole(&layout.server_metrics_json, |out| match self.json_layout {
                JsonLayout::Nested => json::write(out, &run.run, report),
                JsonLayout::Flat => flat::write(out, report),
            }));
        }
        if self.formats.csv {
            outcomes.push(write_whole(&layout.server_metrics_csv, |out| csv::write(out, report)));
        }
        if self.formats.parquet {
            outcomes.push(parquet::write(&layout.server_metrics_table, run, server));
        }
        outcomes
    }
}

#[cfg(test)]
mod tests;
