//! The parts of Thrift's compact protocol that are needed to look at the sizes in a Parquet file before
//! it is read (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

use std::io::{self, Read};

use super::exceeded;

/// How deep structures that are skipped may be within each other.
const MAX_DEPTH: usize = 32;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(super) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// A source of values, which counts its bytes.
pub(super) struct Thrift<R> {
    input: R,
    /// Number of bytes read.
    pub(super) read: u64,
}

fn damaged() -> io::Error {
    exceeded("the file is damaged")
}

impl<R: Read> Thrift<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, read: 0 }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.read += 1;
        Ok(byte[0])
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?;
        self.read += passed;
        if passed == bytes { Ok(()) } else { Err(damaged()) }
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    /// Reads a number of 16 to 64 bits.
    pub(super) fn number(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Reads the number and the kind of the elements of a list.
    pub(super) fn list(&mut self) -> io::Result<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        Ok((count, head & 0xf))
    }

    /// Reads a structure. `take` gets the number and the kind of each field, and returns whether it has read
    /// the field; other fields are skipped.
    pub(super) fn fields(
        &mut self,
        mut take: impl FnMut(&mut Self, i64, u8) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.each_field(0, &mut take)
    }

    fn each_field(
        &mut self,
        depth: usize,
        take: &mut dyn FnMut(&mut Self, i64, u8) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut field = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            field = match head >> 4 {
                0 => self.number()?,
                more => field + i64::from(more),
            };
            let kind = head & 0xf;
            if !take(self, field, kind)? {
                self.skip(kind, depth)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(damaged());
        }
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            UUID => self.pass(16),
            BINARY => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(kind, depth + 1))
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0xf, depth + 1)
                })
            }
            STRUCT => self.each_field(depth + 1, &mut |_, _, _| Ok(false)),
            _ => Err(damaged()),
        }
    }

    /// Skips an element of a collection, where truth values have a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if matches!(kind, TRUE | FALSE) { self.pass(1) } else { self.skip(kind, depth) }
    }
}
