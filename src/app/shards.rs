//! The shards of a run that a scheduler starts (`--shard auto`): how they agree on its start, and how
//! the first of them combines their results.
//!
//! Everything passes through small files in the directory that all share: one of each shard, which
//! only that shard replaces, and one with the start, which only shard 0 writes. Nothing needs locks or
//! exclusive creation, so that network file systems suffice. Each process has a random ID. A shard is
//! ready once its file repeats the ID of shard 0, and the start is that of a shard if it lists the
//! shard's own ID; so whatever an earlier run left in the directory counts for nothing.

mod barrier;
mod files;
mod member;

use std::path::{Path, PathBuf};

use uuid::Uuid;

pub(super) use barrier::Barrier;
pub(super) use member::Member;

use results::artifacts::{self, ArtifactError, Wanted};

use crate::config::RunConfig;

/// Name of the directory with the combined files.
const COMBINED: &str = "combined";

/// Where the shards of a run write, and what tells the run from others.
#[derive(Debug, Clone)]
pub(super) struct Together {
    /// The directory of all shards.
    directory: PathBuf,
    prefix: Option<String>,
    overwrite: bool,
}

impl Together {
    /// Returns where the shards of the run of `config` write.
    pub(super) fn from_config(config: &RunConfig) -> Self {
        let artifacts::Config { directory, prefix, overwrite, .. } = &config.artifacts;
        let shared = directory.parent().filter(|path| !path.as_os_str().is_empty());
        Self {
            directory: shared.unwrap_or(Path::new(".")).to_owned(),
            prefix: prefix.clone(),
            overwrite: *overwrite,
        }
    }

    /// Returns an error if the combined files would replace those of another run.
    pub(super) fn check(&self) -> Result<(), ArtifactError> {
        let (directory, prefix) = (&self.combined(), self.prefix.as_deref());
        Wanted { directory, prefix, overwrite: self.overwrite }.check()
    }

    /// Returns the directory of the combined files.
    pub(super) fn combined(&self) -> PathBuf {
        self.directory.join(COMBINED)
    }

    /// Returns the directory of all shards.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether the files of an earlier run may be moved aside.
    pub(super) const fn overwrites(&self) -> bool {
        self.overwrite
    }
}

/// A process, for which it is made.
type ProcessId = Uuid;
