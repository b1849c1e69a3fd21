//! `run_manifest.json`: the data that statistics need in addition to the records, so that reports
//! can be rebuilt, even of a run that was killed.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use base::input;

use super::server_metrics::{ServerMetricsFiles, ServerMetricsOutcome, ServerMetricsSection};
use super::whole::pretty;
use super::{open, replace};
use crate::run::{RunDescription, RunOutcome, RunReport};

const SCHEMA_VERSION: &str = "1.0";

/// Maximum size in bytes; larger files are not manifests.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the file prefix of the run whose manifest is at `path`, if it is one.
pub(super) fn prefix(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Prefix {
        prefix: Option<String>,
    }
    let text = input::whole(open::regular(path).ok()?, MAX_BYTES).ok()?;
    serde_json::from_slice::<Prefix>(&text).ok()?.prefix
}

/// The run, and its end once it has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema_version: String,
    pub(super) aiperf_version: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) prefix: Option<String>,
    #[serde(flatten)]
    pub(super) run: RunDescription,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) server_metrics: Option<ServerMetricsSection>,
    /// Absent during the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) end: Option<End>,
}

/// The data that is known only at the end of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub(super) outcome: RunOutcome,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) server_metrics: Option<ServerMetricsOutcome>,
}

impl Manifest {
    /// Creates the manifest of a run that has begun.
    pub(super) fn running(
        run: &RunDescription,
        prefix: Option<String>,
        server_metrics: &ServerMetricsFiles,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            prefix,
            run: run.clone(),
            server_metrics: ServerMetricsSection::from_files(server_metrics),
            end: None,
        }
    }

    /// Creates the manifest of a run that has ended.
    pub(super) fn finished(
        report: &RunReport,
        prefix: Option<String>,
        server_metrics: &ServerMetricsFiles,
    ) -> Self {
        let end = End {
            outcome: report.outcome.clone(),
            server_metrics: report.server_metrics.as_ref().map(ServerMetricsOutcome::from_metrics),
        };
        Self { end: Some(end), ..Self::running(&report.run, prefix, server_metrics) }
    }

    /// Replaces the file at `path`.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace::replace(path, |out| pretty(out, self))
    }
}
