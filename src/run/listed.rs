//! A run, or several of one command, as lists of runs show it.

use std::path::PathBuf;

/// A run, or several of one command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listed {
    /// Its directory, relative to the one that was searched; that of a member to its group's.
    pub(crate) directory: PathBuf,
    /// Its name (`--run-name`), if it has one.
    pub(crate) name: Option<String>,
    /// The ID of a single run; empty if it is not known.
    pub(crate) benchmark_id: String,
    /// The models that were asked for.
    pub(crate) models: String,
    /// The load; of several runs, what distinguishes them.
    pub(crate) load: String,
    /// When its measurement started, in nanoseconds since the epoch; absent if that is not known.
    pub(crate) start_wall_ns: Option<u64>,
    pub(crate) headline: Headline,
    /// What became of it.
    pub(crate) state: State,
    /// Its page, relative to `directory`, if it has one.
    pub(crate) page: Option<PathBuf>,
    /// The runs of a group, in the order of their names.
    pub(crate) members: Vec<Self>,
}

/// The most important results, as far as a run has them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Headline {
    /// Number of successful requests.
    pub(crate) requests: Option<u64>,
    pub(crate) request_throughput: Option<f64>,
    pub(crate) output_token_throughput: Option<f64>,
    /// In milliseconds, as the following.
    pub(crate) ttft_p99: Option<f64>,
    pub(crate) itl_p99: Option<f64>,
    pub(crate) latency_p99: Option<f64>,
    /// In percent.
    pub(crate) error_rate: Option<f64>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) level: Level,
    /// In a few words, such as `valid, saturated` or `2 of 3 gates held`.
    pub(crate) text: String,
}

/// How good a state is; worse ones are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Good,
    Doubtful,
    Bad,
}
