//! Files.

use std::fs::{File, FileType, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::path::Path;

/// Returns whether it is a character or block device.
#[must_use]
pub(crate) fn is_device(kind: FileType) -> bool {
    kind.is_char_device() || kind.is_block_device()
}

/// Returns the permissions of a new file before the umask applies, for temporary files,
/// which would otherwise be accessible only to the user.
#[must_use]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
pub(crate) fn ordinary_permissions() -> Option<Permissions> {
    Some(Permissions::from_mode(0o666))
}

/// Makes `path` a symbolic link to `target`, which is relative to the directory of `path`.
pub(crate) fn link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// A file without a name, read and written by position. The system deletes it when it is
/// closed, even if the process is killed.
#[derive(Debug)]
pub(crate) struct UnnamedFile(File);

impl UnnamedFile {
    /// Creates a file on the file system of `directory`.
    pub(crate) fn in_directory(directory: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(directory).map(Self)
    }

    /// Writes all of `bytes` at the offset `at`.
    pub(crate) fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// Fills `bytes` from the offset `at`; an error if the file ends before.
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }
}

#[cfg(test)]
impl UnnamedFile {
    /// A file that has a name.
    pub(crate) fn of(file: File) -> Self {
        Self(file)
    }

    /// Removes the content.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}
