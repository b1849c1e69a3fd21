//! A file to which lines are appended; its first error is kept rather than returned at once.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{ArtifactError, WriteFailure};

/// Size of the buffer in bytes.
const BUFFER_BYTES: usize = 128 * 1024;

/// An append-only file of lines.
#[derive(Debug)]
pub(super) struct LineSink {
    path: PathBuf,
    file: BufWriter<File>,
    failure: Option<io::Error>,
}

impl LineSink {
    pub(super) fn create(path: &Path) -> Result<Self, ArtifactError> {
        let file = File::create(path)
            .map_err(|why| ArtifactError::NotWritable { path: path.to_owned(), why })?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            failure: None,
        })
    }

    /// Appends a whole line. After a failure nothing more is written, so that at most the last line
    /// of the file is truncated.
    pub(super) fn append(&mut self, line: io::Result<&[u8]>) {
        if self.failure.is_none() {
            self.failure = line.and_then(|line| self.file.write_all(line)).err();
        }
    }

    /// Passes appended lines to the operating system.
    pub(super) fn flush(&mut self) {
        if self.failure.is_none() {
            self.failure = self.file.flush().err();
        }
    }

    /// Flushes and closes the file.
    pub(super) fn finish(mut self) -> Result<PathBuf, WriteFailure> {
        self.flush();
        // Data that could not be written must not be retried on drop.
        let (_, _) = self.file.into_parts();
        match self.failure {
            None => Ok(self.path),
            Some(error) => Err(WriteFailure { path: self.path, error: error.to_string() }),
        }
    }
}
