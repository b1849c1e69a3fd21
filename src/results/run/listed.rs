//! A run, or several of one command, as lists of runs show it.

use std::path::PathBuf;

/// A run, or several of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its directory, relative to the one that was searched; that of a member to its group's.
    pub directory: PathBuf,
    /// Its name (`--run-name`), if it has one.
    pub name: Option<String>,
    /// The ID of a single run; empty if it is not known.
    pub benchmark_id: String,
    /// The models that were asked for.
    pub models: String,
    /// The load; of several runs, what distinguishes them.
    pub load: String,
    /// When its measurement started, in nanoseconds since the epoch; absent if that is not known.
    pub start_wall_ns: Option<u64>,
    pub(crate) headline: Headline,
    /// What became of it.
    pub state: State,
    /// Its page, relative to `directory`, if it has one.
    pub page: Option<PathBuf>,
    /// The runs of a group, in the order of their names.
    pub members: Vec<Self>,
}

/// The most important results, as far as a run has them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Headline {
    /// Number of successful requests.
    pub requests: Option<u64>,
    pub request_throughput: Option<f64>,
    pub output_token_throughput: Option<f64>,
    /// In milliseconds, as the following.
    pub(crate) ttft_p99: Option<f64>,
    pub(crate) itl_p99: Option<f64>,
    pub(crate) latency_p99: Option<f64>,
    /// In percent.
    pub error_rate: Option<f64>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub level: Level,
    /// In a few words, such as `valid, saturated` or `2 of 3 gates held`.
    pub text: String,
}

/// How good a state is; worse ones are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Good,
    Doubtful,
    Bad,
}
