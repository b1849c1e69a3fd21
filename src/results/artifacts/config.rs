//! Which files are written, and where.

use std::path::PathBuf;

use serde::Serialize;

use base::setting::{self, named};

use super::claim::Wanted;
use super::server_metrics::ServerMetricsFiles;

/// The directory of the files, and which files are written.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// The run's own directory.
    #[serde(serialize_with = "setting::path")]
    pub directory: PathBuf,
    /// Whether that is the default, and not named by the user. It gets a number if it is in use.
    pub has_default_directory: bool,
    /// `--profile-export-prefix`, if given.
    pub prefix: Option<String>,
    /// Whether the files of an earlier run may be moved aside (`--overwrite`).
    pub overwrite: bool,
    /// The amount of data written for records.
    pub export_level: ExportLevel,
    /// Whether the generated texts are written to `outputs.json` (`--export-outputs-json`).
    pub outputs: bool,
    /// Whether the files of lines are compressed (`--compress-jsonl`).
    pub compress_jsonl: bool,
    /// Whether records contain `trace_data` (`--export-http-trace`).
    pub http_trace: bool,
    /// The files of server metrics.
    pub server_metrics: ServerMetricsFiles,
}

impl Config {
    /// Returns the requested directory.
    #[must_use]
    pub fn wanted(&self) -> Wanted<'_> {
        let Self { directory, prefix, overwrite, .. } = self;
        Wanted { directory, prefix: prefix.as_deref(), overwrite: *overwrite }
    }
}

/// The amount of data written for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportLevel {
    /// Summaries only.
    Summary,
    /// Also a line for each record.
    Records,
    /// Also request and response bodies.
    Raw,
}

named! { ExportLevel { "summary" => Summary, "records" => Records, "raw" => Raw } }
