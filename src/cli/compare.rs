//! The flags of `aiperf compare`.

use std::path::PathBuf;

use clap::Args;

use base::setting::named;
use measure::judge::RelativeGate;
use measure::judge::compare::{Plan, TOLERANCE_PERCENT};
use measure::metrics::metric::Percent;

use super::multi_run::level;
use super::value::{above_zero, choice, percentile};

/// A value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareFormat {
    /// A table for the terminal.
    Table,
    /// JSON.
    Json,
    /// A Markdown table.
    Markdown,
}

named! { CompareFormat { "table" => Table, "json" => Json, "markdown" => Markdown } }

/// Parses a percentage above 0 and below 100.
fn tolerance(text: &str) -> Result<f64, String> {
    match above_zero(text)? {
        percent if percent < 100.0 => Ok(percent),
        _ => Err("must be below 100, such as 2".to_owned()),
    }
}

/// What to compare.
#[derive(Debug, Args)]
pub struct Compare {
    /// Artifact directory of a run, of several runs of one command, or of a sweep
    #[arg(value_name = "BASE", required = true)]
    pub(crate) base: PathBuf,
    /// Directories to compare with BASE, each of the same kind
    #[arg(value_name = "NEW", required = true)]
    pub(crate) new: Vec<PathBuf>,
    /// File for a page with the comparison and the distributions of latencies, which needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) comparing: Comparing,
}

/// How runs are compared, and how the result is reported.
#[derive(Debug, Args)]
pub(crate) struct Comparing {
    /// Permitted difference from BASE in percent, such as request_throughput:avg>=-5%; with gates,
    /// only their metrics decide the exit code. Can be repeated
    #[arg(long = "gate", value_name = "GATE", value_parser = str::parse::<RelativeGate>)]
    pub(crate) gates: Vec<RelativeGate>,
    /// Percentiles of latencies to show besides p50 and p99, such as 99.9
    #[arg(long, value_name = "PERCENT", value_parser = percentile, num_args = 1..)]
    pub(crate) percentiles: Vec<Percent>,
    /// Confidence level of all deciding rows together, between 0 and 1
    #[arg(long, value_name = "LEVEL", value_parser = level, default_value = "0.95")]
    pub(crate) confidence_level: f64,
    /// Difference in percent that is tolerated unless there are gates
    #[arg(long, value_name = "PERCENT", value_parser = tolerance, default_value_t = TOLERANCE_PERCENT)]
    pub(crate) tolerance: f64,
    /// Judge runs with different loads (concurrency, rate, lengths, dataset, model), whose differences are not
    /// those of the servers
    #[arg(long)]
    pub(crate) allow_different: bool,
    /// Format of the output
    #[arg(long, value_name = "FORMAT", value_parser = choice::<CompareFormat>(), default_value = "table")]
    pub(crate) format: CompareFormat,
    /// File for the deciding rows, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

impl Comparing {
    /// Plans `comparisons` with one base.
    pub(crate) fn plan(&self, comparisons: usize) -> Plan {
        Plan::new(
            &self.gates,
            &self.percentiles,
            self.confidence_level,
            self.tolerance,
            comparisons,
        )
    }
}
