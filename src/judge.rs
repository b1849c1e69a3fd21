//! Judges the results of runs: gates, which are limits that a run's results must keep.
//!
//! Everything here is pure: it parses text, and computes verdicts and texts from results.

mod evaluate;
pub mod gate;
pub(crate) mod reports;

use std::path::PathBuf;

use serde::Serialize;

use crate::setting;

pub(crate) use evaluate::{Facts, Judged, JudgedRun};
pub use gate::{Gate, GateError};

/// The gates of a run, and the file with their results.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Config {
    /// The gates (`--gate`).
    pub gates: Vec<Gate>,
    /// The JUnit file (`--junit`).
    #[serde(serialize_with = "setting::optional_path", skip_serializing_if = "Option::is_none")]
    pub junit: Option<PathBuf>,
}
