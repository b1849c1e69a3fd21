//! The start of a file, by which its format is detected.

use std::io::Read as _;

use bytes::Bytes;

use base::input::{Input, MAX_BLANK_BYTES, MAX_PART_BYTES, exceeded};

use super::Fault;

/// Some editors write U+FEFF at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The start of a file, read ahead to detect its format, and the rest.
pub(super) struct Opening<'r> {
    pub(super) bytes: Vec<u8>,
    rest: Input<'r>,
}

impl<'r> Opening<'r> {
    /// Reads the first bytes, of the content if the file is compressed, and removes a byte order mark.
    pub(super) fn read(file: impl std::io::Read + 'r) -> Result<Self, Fault> {
        let rest = Input::new(file).map_err(Fault::Read)?;
        let mut opening = Self { bytes: Vec::new(), rest };
        opening.extend()?;
        if opening.bytes.starts_with(BYTE_ORDER_MARK) {
            opening.bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(opening)
    }

    /// Reads more bytes; returns false at the end of the file.
    fn extend(&mut self) -> Result<bool, Fault> {
        let mut piece = self.rest.by_ref().take(1 << 16);
        Ok(piece.read_to_end(&mut self.bytes).map_err(Fault::Read)? > 0)
    }

    /// Returns the whole file, from its start.
    pub(super) fn whole(self) -> Input<'r> {
        self.rest.after(self.bytes)
    }

    /// Returns the content of the whole file.
    pub(super) fn content(self) -> Result<Bytes, Fault> {
        Ok(self.whole().rest().map_err(Fault::Read)?.into())
    }

    /// Returns the first line that is not blank, without line breaks; empty if there is none.
    pub(super) fn first_line(&mut self) -> Result<&[u8], Fault> {
        let Some(start) = self.first_byte()? else { return Ok(&[]) };
        Ok(self.line_at(start)?.unwrap_or_default())
    }

    /// Returns the position of the first byte that is not white space, if there is one.
    pub(super) fn first_byte(&mut self) -> Result<Option<usize>, Fault> {
        let mut scanned = 0;
        loop {
            let new = &self.bytes[scanned..];
            if let Some(found) = new.iter().position(|byte| !byte.is_ascii_whitespace()) {
                return Ok(Some(scanned + found));
            }
            scanned = self.bytes.len();
            if scanned as u64 > MAX_BLANK_BYTES {
                let why =
                    format!("it begins with more than {} MiB of blanks", MAX_BLANK_BYTES >> 20);
                return Err(Fault::Read(exceeded(why)));
            }
            if !self.extend()? {
                return Ok(None);
            }
        }
    }

    /// Returns the line that begins at `start`; `None` if it is longer than a JSONL line may be.
    pub(super) fn line_at(&mut self, start: usize) -> Result<Option<&[u8]>, Fault> {
        let mut scanned = start;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.bytes[scanned..]) {
                return Ok(Some(&self.bytes[start..scanned + length]));
            }
            scanned = self.bytes.len();
            if (scanned - start) as u64 > MAX_PART_BYTES {
                return Ok(None);
            }
            if !self.extend()? {
                return Ok(Some(&self.bytes[start..]));
            }
        }
    }
}
