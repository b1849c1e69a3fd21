//! `--gate`, `--junit` and `--stop-when`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::Args;

use measure::judge::{Config, Gate, StopWhen, Undecided};

use super::value::choice;

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
    /// What a gate counts as that too few requests leave undecided: pass or fail [default: exit code 4]
    #[arg(long, value_name = "RESULT", value_parser = choice::<Undecided>())]
    pub(super) gate_undecided: Option<Undecided>,
}

/// What ends the load of a run before its configured end.
#[derive(Args, Clone)]
#[command(next_help_heading = "Gates")]
pub(super) struct StopArgs {
    /// End the load as soon as it is certain enough whether the gates hold (decided), or that the
    /// server does not keep up (saturated); both can be given
    #[arg(long, value_name = "EVENT", value_parser = choice::<StopWhen>(), value_delimiter = ',')]
    pub(super) stop_when: Vec<StopWhen>,
    /// The same as --stop-when decided
    #[arg(long, requires = "gates")]
    pub(super) stop_when_decided: bool,
}

impl GateArgs {
    pub(super) fn config(&self) -> Config {
        Config {
            gates: self.gates.clone(),
            junit: self.junit.clone(),
            stop_when: Vec::new(),
            undecided: self.gate_undecided,
        }
    }
}

impl StopArgs {
    pub(super) fn events(&self) -> Vec<StopWhen> {
        let decided = self.stop_when_decided.then_some(StopWhen::Decided);
        let decided = decided.filter(|decided| !self.stop_when.contains(decided));
        self.stop_when.iter().copied().chain(decided).collect()
    }
}
