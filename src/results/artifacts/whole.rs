//! Files that are written and removed as a whole.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::WriteFailure;
use super::replace;

/// Replaces the file at `path` by what `write` writes.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<PathBuf, WriteFailure> {
    match replace::replace(path, write) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) => Err(WriteFailure { path: path.to_owned(), error: error.to_string() }),
    }
}

/// Writes `value` as JSON, indented by two spaces.
pub(super) fn pretty(mut out: &mut dyn io::Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")
}

/// Removes the file at `path`.
pub(super) fn remove(path: &Path) -> Result<(), WriteFailure> {
    std::fs::remove_file(path)
        .map_err(|error| WriteFailure { path: path.to_owned(), error: error.to_string() })
}
