//! The flags of `aiperf dataset synthesize`.

use std::path::PathBuf;

use clap::Args;

use base::setting::named;

use super::value::{choice, count, positive};

/// A workload that can be synthesized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Sessions of coding agents.
    AgenticCode,
}

named! { Workload { "agentic_code" => AgenticCode } }

/// What to synthesize, and where to write it.
#[derive(Debug, Args)]
pub struct Synthesize {
    /// Workload to synthesize: sessions of coding agents
    #[arg(value_name = "WORKLOAD", required = true, value_parser = choice::<Workload>())]
    pub(crate) workload: Workload,
    /// Number of sessions
    #[arg(long, value_name = "COUNT", value_parser = positive, default_value = "1000")]
    pub(crate) num_sessions: u64,
    /// Directory in which the directory of the trace is created
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// JSON file with distributions, or manifest.json of an earlier trace [default: built-in]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Seed for all random choices
    #[arg(long, value_name = "SEED", value_parser = count, default_value = "42")]
    pub(crate) seed: u64,
    /// Maximum number of tokens in a prompt, with its history
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub(crate) max_isl: Option<u64>,
    /// Maximum number of output tokens of a turn
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub(crate) max_osl: Option<u64>,
}
