//! How the program ends, and what it says of errors.

use std::io;

use dataset::DatasetError;

use crate::cli::CliError;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command succeeded.
    Done,
    /// The command failed, or was only partly done.
    Failed,
    /// It succeeded, but a gate did not hold, or a run is worse than another.
    Missed,
    /// It succeeded, but there is too little data to compare runs, or to show that any load meets the
    /// conditions of a search.
    Unknown,
    /// The user interrupted it; the results so far have been written.
    Interrupted,
}

impl Outcome {
    /// The exit code: 0, 1, 3, 4 or 130.
    #[must_use]
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Missed => 3,
            Self::Unknown => 4,
            Self::Interrupted => 130,
        }
    }
}

/// The exit code of a failed command: 2 if a file named on the command line cannot be used,
/// for example if it does not exist.
pub(super) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<DatasetError>() {
        Some(error) if error.is_of_the_command_line() => CliError::WRONG_USAGE,
        _ => Outcome::Failed.exit_code(),
    }
}

/// Formats an error with its causes, leaving out those that its text already includes.
pub(super) fn explained(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .reduce(|said, cause| if said.contains(&cause) { said } else { format!("{said}: {cause}") })
        .unwrap_or_default()
}

/// Advice if no thread or process can be started.
pub(super) const NO_THREADS: &str = "; raise the limit on processes and threads (ulimit -u)";

/// Whether the system ran out of threads or processes, the only cause of this error here.
pub(super) fn lacks_threads(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    kinds.map(io::Error::kind).any(|kind| kind == io::ErrorKind::WouldBlock)
}

pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(pipe)
}
