//! Files.

use std::fs::{File, FileType, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;

use super::clock::monotonic_ns;

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

/// Returns standard output as a file, which does not share the lock of the standard library's.
pub fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Makes `path` a symbolic link to `target`, which is relative to the directory of `path`.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Time for the reader of a pipe to open it, and to make room in it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between attempts to open a pipe.
const PAUSE: Duration = Duration::from_millis(10);

/// A device, a pipe or the target of a link, open for writing. Its writes do not wait for a reader
/// for ever.
#[derive(Debug)]
pub struct InPlace(File);

impl InPlace {
    /// Fails if `path` cannot be written. Does not open it, since a reader would notice.
    pub fn check(path: &Path) -> io::Result<()> {
        match access(path, Access::WRITE_OK) {
            // A link to a file that does not exist yet.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens `path`, and waits until a pipe has a reader.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let mut options = File::options();
        options.write(true).truncate(true).create(!path.exists()).custom_flags(flags);
        let deadline = monotonic_ns() + PATIENCE.as_nanos() as u64;
        loop {
            match options.open(path) {
                Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                    if monotonic_ns() >= deadline {
                        return Err(unread());
                    }
                    thread::sleep(PAUSE);
                }
                opened => return opened.map(Self),
            }
        }
    }
}

impl Write for InPlace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let patience =
                        Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
                    let room = PollFd::new(&self.0, PollFlags::OUT);
                    if poll(&mut [room], Some(&patience))? == 0 {
                        return Err(unread());
                    }
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn unread() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "nobody reads from it")
}

/// A file without a name, read and written by position. The system deletes it when it is
/// closed, even if the process is killed.
#[derive(Debug)]
pub struct UnnamedFile(File);

impl UnnamedFile {
    /// Creates a file on the file system of `directory`.
    pub fn in_directory(directory: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(directory).map(Self)
    }

    /// Writes all of `bytes` at the offset `at`.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// Fills `bytes` from the offset `at`; an error if the file ends before.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }
}

impl UnnamedFile {
    /// Wraps a file that has a name.
    pub fn from_file(file: File) -> Self {
        Self(file)
    }

    /// Removes the content.
    pub fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}
