//! A file of lines that a kill may have cut short.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Lines are shorter than this: a request's is some kilobytes, a scrape's some megabytes.
const MOST_LINE_BYTES: u64 = 256 << 20;

/// An open file of lines.
pub(super) struct LineFile {
    pub(super) path: PathBuf,
    lines: BufReader<File>,
}

/// Why lines could not be read to the end.
pub(super) enum LineFailure {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// A line other than the last is not what it should be.
    Malformed {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl LineFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let lines = BufReader::with_capacity(1 << 18, File::open(path)?);
        Ok(Self { path: path.to_owned(), lines })
    }

    /// Gives each line that is not empty to `take`; returns what is to be said of
    /// the file. A last line that was cut short is left out.
    pub(super) fn read(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Option<String>, LineFailure> {
        let mut buffer = Vec::new();
        for number in 1.. {
            buffer.clear();
            let mut line = (&mut self.lines).take(MOST_LINE_BYTES);
            line.read_until(b'\n', &mut buffer).map_err(LineFailure::Unreadable)?;
            if line.limit() == 0 {
                let reason = format!("it is longer than {} MiB", MOST_LINE_BYTES >> 20);
                return Err(LineFailure::Malformed { line: number, reason });
            }
            let is_whole = buffer.ends_with(b"\n");
            let text = buffer.trim_ascii();
            if text.is_empty() {
                if is_whole {
                    continue;
                }
                break;
            }
            match take(text) {
                Ok(()) => {}
                Err(_) if !is_whole => {
                    return Ok(Some(format!(
                        "{}: the last line (line {number}) was cut short and is left out",
                        self.path.display()
                    )));
                }
                Err(reason) => return Err(LineFailure::Malformed { line: number, reason }),
            }
        }
        Ok(None)
    }
}
