//! Atomic replacement of files: written to a temporary file, then renamed.
//!
//! Of the files that a user names, only regular ones are replaced. Devices, pipes and links, which are
//! not the user's data, are written to as they are; what a link leads to is overwritten.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use super::files::{self, InPlace, ordinary_permissions};

/// Prefix and suffix of temporary files.
const NAME: (&str, &str) = (".aiperf-", ".tmp");

/// Creates a temporary file in the directory of `path`, with the permissions of an ordinary
/// file.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(NAME.0).suffix(NAME.1);
    if let Some(permissions) = ordinary_permissions() {
        builder.permissions(permissions);
    }
    builder.tempfile_in(directory)
}

/// Makes `path` a link to `target`, which is relative to the directory of `path`. An earlier link is
/// replaced at once; anything else stays as it is, with an error.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_symlink() => return Err(io::ErrorKind::AlreadyExists.into()),
        _ => {}
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    let link = tempfile::Builder::new()
        .prefix(NAME.0)
        .suffix(NAME.1)
        .make_in(directory, |temporary| files::link(target, temporary))?;
    link.into_temp_path().persist(path).map_err(|failure| failure.error)
}

/// Deletes the temporary files that a killed run left in `directory`, as far as possible.
pub fn clear_temporary(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && name.starts_with(NAME.0) && name.ends_with(NAME.1) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns whether `path` is a device, a pipe, a link or the like.
fn is_special(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Fails if `path` cannot be replaced as a whole later.
pub fn check_whole(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    beside(path).map(drop)
}

/// Fails if `path` cannot be replaced or written later.
pub fn check(path: &Path) -> io::Result<()> {
    if is_special(path) && !path.is_dir() { InPlace::check(path) } else { check_whole(path) }
}

/// Replaces `path` with what `write` writes. On an error, `path` stays as it was. Writes to what is
/// not a regular file in place.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if is_special(path) {
        let mut file = BufWriter::new(InPlace::open(path)?);
        write(&mut file)?;
        return file.flush();
    }
    replace_whole(path, write)
}

/// Replaces `path`, whatever it is, with a file that `write` writes. On an error, `path` stays as it
/// was; what a link leads to stays in any case.
pub fn replace_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(beside(path)?);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.persist(path).map(drop).map_err(|failure| failure.error)
}
