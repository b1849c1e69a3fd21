//! Judges the results of runs: gates, which are limits that a run's results must keep, and
//! comparisons of runs.
//!
//! Everything here is pure: it parses text, and computes verdicts and texts from results.

pub(crate) mod compare;
mod evaluate;
pub mod gate;
pub(crate) mod reports;
mod throughput;

use std::path::PathBuf;

use serde::Serialize;

use crate::setting;

pub(crate) use compare::Comparison;
pub(crate) use evaluate::{Facts, Judged, JudgedRun, Reading};
pub use gate::{Gate, GateError, RelativeGate};
pub(crate) use throughput::throughput;

/// The gates of a run, and the file with their results.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Config {
    /// The gates (`--gate`).
    pub gates: Vec<Gate>,
    /// The JUnit file (`--junit`).
    #[serde(serialize_with = "setting::optional_path", skip_serializing_if = "Option::is_none")]
    pub junit: Option<PathBuf>,
}
