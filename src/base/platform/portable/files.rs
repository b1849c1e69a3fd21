//! Files.

use std::fs::{File, FileType, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::lock::Lock;

/// Returns false: devices are not distinguished from pipes.
#[must_use]
pub(crate) fn is_device(_kind: FileType) -> bool {
    false
}

/// Returns nothing: temporary files have the default permissions.
#[must_use]
pub(crate) const fn ordinary_permissions() -> Option<Permissions> {
    None
}

/// Returns standard output as a file, which does not share the lock of the standard library's; fails
/// on systems without a path for it.
pub fn stdout() -> io::Result<File> {
    File::options().append(true).open("/dev/stdout")
}

/// Makes `path` another name of `target`, which is relative to the directory of `path`.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    std::fs::hard_link(path.parent().unwrap_or(Path::new("")).join(target), path)
}

/// A device, a pipe or the target of a link, open for writing.
#[derive(Debug)]
pub struct InPlace(File);

impl InPlace {
    /// Fails if `path` cannot be written.
    pub fn check(path: &Path) -> io::Result<()> {
        match path.metadata() {
            Ok(found) if found.permissions().readonly() => {
                Err(io::Error::from(io::ErrorKind::PermissionDenied))
            }
            // Or a link to a file that does not exist yet.
            _ => Ok(()),
        }
    }

    /// Opens `path`. The reader of a pipe is waited for without a bound.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::options().write(true).truncate(true).create(!path.exists()).open(path).map(Self)
    }
}

impl Write for InPlace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A temporary file, read and written by position, by one thread at a time.
#[derive(Debug)]
pub struct UnnamedFile(Lock<File>);

impl UnnamedFile {
    /// Creates a file in `directory`, which is deleted when it is closed.
    pub fn in_directory(directory: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(directory).map(|file| Self(Lock::new(file)))
    }

    /// Writes all of `bytes` at the offset `at`.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut file = self.0.lock();
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    /// Fills `bytes` from the offset `at`; an error if the file ends before.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut file = self.0.lock();
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(bytes)
    }
}

impl UnnamedFile {
    /// Wraps a file that has a name.
    pub fn from_file(file: File) -> Self {
        Self(Lock::new(file))
    }

    /// Removes the content.
    pub fn clear(&self) -> io::Result<()> {
        self.0.lock().set_len(0)
    }
}
