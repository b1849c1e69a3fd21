//! Replacing a file as a whole: written beside it, then renamed over it.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

use super::ArtifactError;

/// A new file in the directory of `path`, with the permissions that the user's
/// umask leaves an ordinary file.
pub(super) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".aiperf-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
}

/// Whether `path` can be replaced later.
pub(super) fn check(path: &Path) -> Result<(), ArtifactError> {
    let refuse = |why| ArtifactError::NotWritable { path: path.to_owned(), why };
    if path.is_dir() {
        return Err(refuse(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    beside(path).map(drop).map_err(refuse)
}

/// Replaces `path` by what `write` writes; leaves it as it was on an error.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(beside(path)?);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.persist(path).map(drop).map_err(|failure| failure.error)
}
