//! What can be wrong with the files.

use std::io;
use std::path::PathBuf;

/// An error with the files.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The directory cannot be created.
    #[error(
        "cannot create the artifact directory {path}: {why}; choose another with --artifact-dir"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// The directory contains files of another run.
    #[error(
        "{path} contains {file} of an earlier run, which is not overwritten; use --overwrite to move \
         the earlier files to a subdirectory, or choose another directory with \
         --artifact-dir"
    )]
    Taken {
        /// The directory.
        path: PathBuf,
        /// One of the files in it.
        file: PathBuf,
    },
    /// Another run is writing to the directory.
    #[error(
        "another run is writing to {path}; wait until it ends, or choose another directory with \
         --artifact-dir"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A file of an earlier run cannot be moved aside.
    #[error(
        "cannot move {path} of an earlier run aside: {why}; remove it, or choose another directory with --artifact-dir"
    )]
    NotMoved {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {why}; choose another directory with --artifact-dir")]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// Some files are missing or truncated; the others are complete.
    #[error("{} not written completely: {}; {}", one_or_more(.failures), list(.failures), advice(*.has_records))]
    Incomplete {
        /// The complete files.
        written: Vec<PathBuf>,
        /// The other files.
        failures: Vec<WriteFailure>,
        /// Whether the file of records is complete.
        has_records: bool,
    },
}

/// A file that could not be written in full.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct WriteFailure {
    /// The file.
    pub path: PathBuf,
    /// The first error.
    pub error: String,
}

fn one_or_more(failures: &[WriteFailure]) -> String {
    match failures.len() {
        1 => "one file was".to_owned(),
        several => format!("{several} files were"),
    }
}

const fn advice(has_records: bool) -> &'static str {
    if has_records {
        "free disk space and rebuild the summaries with `aiperf report`"
    } else {
        "the files that are not named here are complete; free disk space before the next run"
    }
}

fn list(failures: &[WriteFailure]) -> String {
    let each: Vec<_> =
        failures.iter().map(|f| format!("{} ({})", f.path.display(), f.error)).collect();
    each.join(", ")
}
