//! A file of lines that may be truncated because the process was killed.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use base::input::lines::{Line, LineFault, Lines};

use crate::artifacts::open;

/// Maximum size of a line: a request takes some kilobytes, a scrape some megabytes.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// An open file of lines.
pub(super) struct LineFile {
    pub(super) path: PathBuf,
    lines: Lines<BufReader<Box<dyn Read>>>,
}

/// Malformed lines.
pub(super) struct Faults {
    /// Number of the first one, from 1, and what is wrong with it.
    pub(super) first: (usize, String),
    pub(super) count: usize,
}

/// The reason why lines could not be read to the end.
pub(super) enum LineFailure {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// A line other than the last is malformed.
    Malformed {
        /// The line number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl LineFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let lines = BufReader::with_capacity(1 << 18, open::decompressed(path)?);
        Ok(Self { path: path.to_owned(), lines: Lines::new(lines, MAX_LINE_BYTES) })
    }

    /// Like [`LineFile::read`], but continues after malformed lines and returns these, too.
    pub(super) fn read_rest(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> io::Result<(Option<String>, Option<Faults>)> {
        let mut faults: Option<Faults> = None;
        loop {
            match self.read(&mut take) {
                Ok(note) => return Ok((note, faults)),
                Err(LineFailure::Unreadable(why)) => return Err(why),
                Err(LineFailure::Malformed { line, reason }) => {
                    let first = || Faults { first: (line, reason), count: 0 };
                    faults.get_or_insert_with(first).count += 1;
                }
            }
        }
    }

    /// Passes each line that is not empty to `take`, from the current position; returns a note
    /// about the file, if any. A truncated last line is left out.
    pub(super) fn read(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Option<String>, LineFailure> {
        loop {
            let line = self.lines.next().map_err(|fault| match fault {
                LineFault::Read(why) => LineFailure::Unreadable(why),
                LineFault::TooLong { number, why } => {
                    LineFailure::Malformed { line: number as usize, reason: why }
                }
            })?;
            let Some(Line { number, bytes, is_whole }) = line else { break };
            match take(bytes.trim_ascii()) {
                Ok(()) => {}
                Err(_) if !is_whole => {
                    return Ok(Some(format!(
                        "{}: the last line (line {number}) is incomplete and is ignored",
                        self.path.display()
                    )));
                }
                Err(reason) => {
                    return Err(LineFailure::Malformed { line: number as usize, reason });
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_without_end_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records.jsonl.zst");
        let read = |blank: usize| {
            let lines = ["{}\n".to_owned(), "\n".repeat(blank), "{}\n".to_owned()].concat();
            std::fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
            let mut count = 0;
            let read = LineFile::open(&path).unwrap().read_rest(|_| {
                count += 1;
                Ok(())
            });
            (read.is_ok(), count)
        };
        assert_eq!(read(16 << 20), (true, 2));
        assert_eq!(read((16 << 20) + 1), (false, 1));
        assert!(std::fs::metadata(&path).unwrap().len() < 100_000);
    }
}
