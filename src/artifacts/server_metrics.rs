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
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout::Layout;
use super::{WriteFailure, write_whole};
use crate::run::{self, RunReport};
use crate::server_metrics::report::ServerMetrics;
use crate::units::Nanos;

pub use jsonl::ScrapeLines;
pub use line::{LineError, ScrapeLine, ScrapeLineReader};
pub(super) use manifest::{ServerMetricsOutcome, ServerMetricsSection};
pub(super) use parquet::{Samples, TableError, read as read_table};
pub(super) use read::Scrapes;

/// The files of server metrics and their layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMetricsFiles {
    /// `--server-metrics-formats`.
    pub formats: Formats,
    /// `--server-metrics-json-layout`.
    pub json_layout: JsonLayout,
    /// Number of scrapes between two flushes of the lines
    /// (`AIPERF_SERVER_METRICS_EXPORT_BATCH_SIZE`, 100).
    pub batch_size: usize,
    /// The scraped URLs, without credentials; empty if nothing is scraped.
    pub endpoints: Vec<Arc<str>>,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonLayout {
    /// Statistics in a separate object of each series.
    #[default]
    Nested,
    /// Statistics beside the labels of each series, an earlier layout.
    Flat,
}

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
    /// Returns the settings in a run's `input_config` and `other_config`.
    pub(super) fn of_config(config: &Value, other: &Value) -> Self {
        let default = Self::default();
        let formats = config.pointer("/server_metrics/formats").and_then(Value::as_array);
        let has = |name: &str, formats: &Vec<Value>| formats.iter().any(|format| format == name);
        let layout = other.pointer("/server_metrics/json_layout").and_then(Value::as_str);
        Self {
            formats: formats.map_or(default.formats, |formats| Formats {
                json: has("json", formats),
                csv: has("csv", formats),
                jsonl: has("jsonl", formats),
                parquet: has("parquet", formats),
            }),
            json_layout: if layout == Some("flat") { JsonLayout::Flat } else { JsonLayout::Nested },
            slice_duration: run::slice_duration(config),
            ..default
        }
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
