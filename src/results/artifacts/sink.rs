//! A file to which lines are appended; its first error is kept rather than returned at once.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use zstd::stream::write::Encoder;

use super::error::{ArtifactError, WriteFailure};
use super::layout;
use super::replace;

/// Size of the buffer in bytes.
const BUFFER_BYTES: usize = 128 * 1024;

/// Level of zstd: its default, at which a core compresses some 300 MB of records per second.
const LEVEL: i32 = 3;

/// Writes a file as it is, or compressed if its name ends in `.zst`.
///
/// A compressed file is one frame, since some readers stop after the first. What is flushed can be
/// decompressed even if the frame is never finished.
pub(super) enum Output<F: Write> {
    Plain(BufWriter<F>),
    Compressed(Encoder<'static, F>),
}

impl<F: Write> Output<F> {
    /// Writes to `file`, whose name is or will be `path`.
    pub(super) fn new(file: F, path: &Path) -> io::Result<Self> {
        if !layout::is_compressed(path) {
            return Ok(Self::Plain(BufWriter::with_capacity(BUFFER_BYTES, file)));
        }
        let mut encoder = Encoder::new(file, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self::Compressed(encoder))
    }

    /// Completes the content and returns the file.
    pub(super) fn finish(self) -> io::Result<F> {
        match self {
            Self::Plain(mut file) => {
                let flushed = file.flush();
                // Data that could not be written must not be retried on drop.
                let (file, _) = file.into_parts();
                flushed.map(|()| file)
            }
            Self::Compressed(encoder) => encoder.finish(),
        }
    }

    /// Closes the file without writing anything more.
    fn discard(self) {
        if let Self::Plain(file) = self {
            let (_, _) = file.into_parts();
        }
    }
}

impl<F: Write> Write for Output<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Compressed(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Compressed(encoder) => encoder.flush(),
        }
    }
}

/// An append-only file of lines.
pub(super) struct LineSink<F: Write = File> {
    path: PathBuf,
    output: Output<F>,
    failure: Option<io::Error>,
}

impl<F: Write> fmt::Debug for LineSink<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineSink").field("path", &self.path).finish_non_exhaustive()
    }
}

impl LineSink {
    /// Creates the file `path`.
    pub(super) fn create(path: &Path) -> Result<Self, ArtifactError> {
        Self::new(File::create(path), path)
    }

    /// Flushes and closes the file.
    pub(super) fn finish(self) -> Result<PathBuf, WriteFailure> {
        self.close().map(|(path, _)| path)
    }
}

impl LineSink<NamedTempFile> {
    /// Creates a file that gets the name `path` when it is finished.
    pub(super) fn create_beside(path: &Path) -> Result<Self, ArtifactError> {
        replace::check(path)?;
        Self::new(replace::beside(path), path)
    }

    /// Closes the file and gives it its name.
    pub(super) fn persist(self) -> Result<PathBuf, WriteFailure> {
        let (path, file) = self.close()?;
        match file.persist(&path) {
            Ok(_) => Ok(path),
            Err(error) => Err(WriteFailure { path, error: error.error.to_string() }),
        }
    }
}

impl<F: Write> LineSink<F> {
    fn new(file: io::Result<F>, path: &Path) -> Result<Self, ArtifactError> {
        let output = file
            .and_then(|file| Output::new(file, path))
            .map_err(|why| ArtifactError::NotWritable { path: path.to_owned(), why })?;
        Ok(Self { path: path.to_owned(), output, failure: None })
    }

    /// Appends a whole line. After a failure nothing more is written, so that at most the last line
    /// of the file is truncated.
    pub(super) fn append(&mut self, line: io::Result<&[u8]>) {
        if self.failure.is_none() {
            self.failure = line.and_then(|line| self.output.write_all(line)).err();
        }
    }

    /// Passes appended lines to the operating system.
    pub(super) fn flush(&mut self) {
        if self.failure.is_none() {
            self.failure = self.output.flush().err();
        }
    }

    /// Completes the file.
    fn close(self) -> Result<(PathBuf, F), WriteFailure> {
        let Self { path, output, failure } = self;
        let closed = match failure {
            None => output.finish(),
            Some(error) => {
                output.discard();
                Err(error)
            }
        };
        match closed {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(WriteFailure { path, error: error.to_string() }),
        }
    }
}
