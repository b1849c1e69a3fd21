//! The start of a file, by which its format is detected.

use std::io::{BufRead, BufReader, Cursor, Read};

use bytes::Bytes;

use super::lines::MAX_LINE_BYTES;
use super::{Fault, packed};

/// Some editors write U+FEFF at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The start of a file, read ahead to detect its format, and the rest.
pub(super) struct Opening<'r> {
    pub(super) bytes: Vec<u8>,
    rest: Box<dyn Read + 'r>,
}

impl<'r> Opening<'r> {
    /// Reads the first bytes, of the content if the file is compressed, and removes a byte order mark.
    pub(super) fn read(file: impl Read + 'r) -> Result<Self, Fault> {
        let opening = Self::start(Box::new(file))?;
        let mut opening = if packed::is_packed(&opening.bytes) {
            let start = opening.bytes.clone();
            Self::start(packed::unpacked(&start, opening.whole()).map_err(Fault::Read)?)?
        } else {
            opening
        };
        if opening.bytes.starts_with(BYTE_ORDER_MARK) {
            opening.bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(opening)
    }

    fn start(rest: Box<dyn Read + 'r>) -> Result<Self, Fault> {
        let mut opening = Self { bytes: Vec::new(), rest };
        opening.extend()?;
        Ok(opening)
    }

    /// Reads more bytes; returns false at the end of the file.
    fn extend(&mut self) -> Result<bool, Fault> {
        let mut piece = self.rest.by_ref().take(1 << 16);
        Ok(piece.read_to_end(&mut self.bytes).map_err(Fault::Read)? > 0)
    }

    /// Returns the whole file, from its start.
    pub(super) fn whole(self) -> impl BufRead + use<'r> {
        BufReader::with_capacity(1 << 16, Cursor::new(self.bytes).chain(self.rest))
    }

    /// Returns the content of the whole file.
    pub(super) fn content(mut self) -> Result<Bytes, Fault> {
        self.rest.read_to_end(&mut self.bytes).map_err(Fault::Read)?;
        Ok(self.bytes.into())
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
            if (scanned - start) as u64 > MAX_LINE_BYTES {
                return Ok(None);
            }
            if !self.extend()? {
                return Ok(Some(&self.bytes[start..]));
            }
        }
    }
}
