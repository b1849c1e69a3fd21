//! Opens existing files for reading.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads the whole file at `path`, which must satisfy [`regular`].
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens the file at `path`.
///
/// # Errors
///
/// A pipe or a device is an error, since reading it might never end.
pub(super) fn regular(path: &Path) -> io::Result<File> {
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}
