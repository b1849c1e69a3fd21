//! Lines of a text file, each of limited length.

use std::io::{self, BufRead, Read as _};

use super::{MAX_BLANK_BYTES, exceeded, size};

/// The lines that are not blank, in order.
pub struct Lines<R> {
    input: R,
    max_bytes: u64,
    /// Number of lines read.
    read: u64,
    /// Bytes of the blank lines before the next one.
    blank: u64,
    buffer: Vec<u8>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1; blank lines count.
    pub number: u64,
    /// Its bytes, without the line end.
    pub bytes: &'a [u8],
    /// Whether it has a line end, which the last one may lack.
    pub is_whole: bool,
}

/// Why a line cannot be read.
#[derive(Debug)]
pub enum LineFault {
    Read(io::Error),
    /// The line with this number is too long; what is left of it is the next line.
    TooLong {
        number: u64,
        why: String,
    },
}

impl<R: BufRead> Lines<R> {
    /// Creates a reader of lines of at most `max_bytes` bytes.
    pub const fn new(input: R, max_bytes: u64) -> Self {
        Self { input, max_bytes, read: 0, blank: 0, buffer: Vec::new() }
    }

    /// Returns the next line that is not blank; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Line<'_>>, LineFault> {
        loop {
            self.read += 1;
            self.buffer.clear();
            // A line with one byte more than allowed is too long.
            let mut bounded = self.input.by_ref().take(self.max_bytes + 1);
            bounded.read_until(b'\n', &mut self.buffer).map_err(LineFault::Read)?;
            let is_whole = self.buffer.ends_with(b"\n");
            if !is_whole && self.buffer.len() as u64 > self.max_bytes {
                let why = format!("longer than {}", size(self.max_bytes));
                return Err(LineFault::TooLong { number: self.read, why });
            }
            if self.buffer.is_empty() {
                return Ok(None);
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
            self.blank += self.buffer.len() as u64;
            if self.blank > MAX_BLANK_BYTES {
                let most = size(MAX_BLANK_BYTES);
                let why = format!("more than {most} of blanks before line {}", self.read + 1);
                return Err(LineFault::Read(exceeded(why)));
            }
        }
        self.blank = 0;
        let bytes = self.buffer.strip_suffix(b"\n");
        let is_whole = bytes.is_some();
        let bytes = bytes.unwrap_or(&self.buffer);
        Ok(Some(Line { number: self.read, bytes, is_whole }))
    }
}
