//! `--gate` and `--junit`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::Args;

use crate::judge::{Config, Gate};

/// The limits that a run must keep, and where to write the result.
#[derive(Args, Clone)]
#[command(next_help_heading = "Gates")]
pub(super) struct GateArgs {
    /// Limit that the results must keep, such as time_to_first_token:p99<=250ms; if one is missed,
    /// the exit code is 3. Can be repeated
    #[arg(long = "gate", value_name = "GATE", value_parser = str::parse::<Gate>)]
    pub(super) gates: Vec<Gate>,
    /// File for the results of the gates, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
}

impl GateArgs {
    pub(super) fn config(&self) -> Config {
        Config { gates: self.gates.clone(), junit: self.junit.clone() }
    }
}
