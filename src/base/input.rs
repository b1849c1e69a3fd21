//! Reads what others wrote, within limits: whole files, lines, documents, tables, compressed bodies and
//! YAML.
//!
//! Every reader of a file or a body that this program did not make goes through here, so that none can
//! forget a limit; a test finds readers that do not. What a source has is read in *parts*: a line, an
//! entry of a document, a row, a message. The limits of a source are:
//!
//! | what | limit |
//! |---|---|
//! | a part, and so each text in it | [`MAX_PART_BYTES`] |
//! | commas in a part, and so its members and elements | [`MAX_PART_ITEMS`] |
//! | successive blanks | [`MAX_BLANK_BYTES`] |
//! | nesting | 128 levels (`serde_json`), [`yaml::MAX_DEPTH`] and [`table::MAX_DEPTH`] |
//! | what a compressed source expands to | [`FREE_BYTES`], and [`MAX_RATIO`] times its size |
//! | parts of a compressed source | [`FREE_PARTS`], and one for each of its bytes |
//! | layers of compression | [`packed::MAX_LAYERS`] |
//!
//! A source that is not compressed may have as much as it likes, since whoever made it has that much.

pub mod json;
pub mod lines;
pub mod packed;
pub mod protobuf;
pub mod table;
mod thrift;
pub mod yaml;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use crate::platform::files;

/// Maximum size of a part in bytes.
pub const MAX_PART_BYTES: u64 = 64 << 20;

/// Maximum number of commas in a part: in memory, an element takes many times the bytes of a digit.
const MAX_PART_ITEMS: u64 = 1 << 23;

/// Maximum size of successive blanks in bytes. They compress so well that a small file could have
/// terabytes of them.
pub const MAX_BLANK_BYTES: u64 = 16 << 20;

/// What a compressed source may expand to in any case, in bytes.
const FREE_BYTES: u64 = 64 << 20;

/// How many times its size a compressed source may expand to besides. Gzip reaches 1032.
const MAX_RATIO: u64 = 1000;

/// Number of parts that a compressed source may have in any case.
const FREE_PARTS: u64 = 1_000_000;

/// Maximum size of a file of settings, a template, a certificate and the like in bytes.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Maximum number of bytes read from a pipe, whose length is unknown.
const MAX_PIPED_BYTES: u64 = 64 << 20;

/// Bytes that readers have read ahead of the part that they are in.
const READ_AHEAD: u64 = 1 << 20;

/// Capacity of the buffers between a file and its reader in bytes.
const BUFFER: usize = 1 << 16;

/// Returns the error of a source that exceeds a limit.
pub fn exceeded(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Returns a size in bytes in words.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// Opens a file or a pipe.
///
/// # Errors
///
/// A device is an error, since it may be endless, and so is a pipe once more than
/// [`MAX_PIPED_BYTES`] have been read from it.
pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(Box::new(file));
    }
    if files::is_device(kind) {
        let why = "it is a device; use a file, or a pipe that ends";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(Box::new(Piped { rest: file.take(MAX_PIPED_BYTES) }))
}

/// A pipe that is read up to a limit.
struct Piped {
    rest: io::Take<File>,
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.rest.read(buffer)?;
        if read == 0 && self.rest.limit() == 0 && !buffer.is_empty() {
            let most = size(MAX_PIPED_BYTES);
            return Err(exceeded(format!("the pipe has more than {most}; use a file instead")));
        }
        Ok(read)
    }
}

/// Reads the whole file or pipe at `path`.
///
/// # Errors
///
/// Fails if it is a device, or has more than `most` bytes.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, most)
}

/// Like [`bytes()`], for a text.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let bytes = bytes(path, most)?;
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8");
    String::from_utf8(bytes).map_err(invalid)
}

/// Reads `source` to its end.
///
/// # Errors
///
/// Fails if it has more than `most` bytes.
pub fn whole(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(exceeded(format!("it is larger than {}", size(most))));
    }
    Ok(bytes)
}

/// How much of a source was read. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Meter(Rc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Whether the source is compressed.
    is_packed: Cell<bool>,
    /// Bytes of the source.
    packed: Cell<u64>,
    /// Bytes of its content.
    plain: Cell<u64>,
    /// Bytes of its content since the last part.
    of_part: Cell<u64>,
    /// Commas since the last part.
    items: Cell<u64>,
    parts: Cell<u64>,
}

impl Meter {
    /// Returns the meter of a compressed source of so many bytes.
    pub fn of_packed(bytes: u64) -> Self {
        let meter = Self::default();
        meter.0.is_packed.set(true);
        meter.0.packed.set(bytes);
        meter
    }

    /// Counts bytes of the source's content.
    ///
    /// # Errors
    ///
    /// Fails if the part is too long, or the source expands too much.
    pub fn add(&self, bytes: u64) -> io::Result<()> {
        let Counts { is_packed, packed, plain, of_part, items, .. } = &*self.0;
        plain.set(plain.get() + bytes);
        of_part.set(of_part.get() + bytes);
        if of_part.get() > MAX_PART_BYTES + READ_AHEAD {
            return Err(exceeded(format!("an entry has more than {}", size(MAX_PART_BYTES))));
        }
        if items.get() > MAX_PART_ITEMS {
            return Err(exceeded(format!("an entry has more than {MAX_PART_ITEMS} elements")));
        }
        let most = FREE_BYTES.saturating_add(packed.get().saturating_mul(MAX_RATIO));
        if is_packed.get() && plain.get() > most {
            return Err(exceeded(format!(
                "it expands to more than {} and {MAX_RATIO} times its size; decompress it first if \
                 that is right",
                size(FREE_BYTES)
            )));
        }
        Ok(())
    }

    /// Counts bytes of the source's content that a part of it expands to.
    ///
    /// # Errors
    ///
    /// Fails if the source expands too much.
    pub fn unpacked(&self, bytes: u64) -> io::Result<()> {
        self.0.is_packed.set(true);
        self.add(bytes)?;
        self.renew();
        Ok(())
    }

    /// Begins another part.
    ///
    /// # Errors
    ///
    /// Fails if there are too many for the size of the compressed source.
    pub fn part(&self) -> io::Result<()> {
        self.parts(1)
    }

    /// Begins another part after so many.
    ///
    /// # Errors
    ///
    /// Fails if there are too many for the size of the compressed source.
    pub fn parts(&self, count: u64) -> io::Result<()> {
        let Counts { is_packed, packed, parts, .. } = &*self.0;
        self.renew();
        parts.set(parts.get().saturating_add(count));
        if is_packed.get() && parts.get() > FREE_PARTS.saturating_add(packed.get()) {
            return Err(exceeded(format!(
                "it has more than {FREE_PARTS} entries and one for each of its bytes; decompress it \
                 first if that is right"
            )));
        }
        Ok(())
    }

    /// Begins another part that is not kept.
    fn renew(&self) {
        self.0.of_part.set(0);
        self.0.items.set(0);
    }
}

/// A source whose reader counts its bytes.
struct Counted<R> {
    source: R,
    meter: Meter,
    is_packed: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let Counts { packed, items, .. } = &*self.meter.0;
        if self.is_packed {
            packed.set(packed.get() + read as u64);
        } else {
            let commas = memchr::memchr_iter(b',', &buffer[..read]).count();
            items.set(items.get() + commas as u64);
            self.meter.add(read as u64)?;
        }
        Ok(read)
    }
}

/// The content of a source, decompressed, within the limits. A reader calls [`Meter::part`] after each
/// part; one that forgets it fails once it has read [`MAX_PART_BYTES`].
pub struct Input<'r> {
    reader: BufReader<Box<dyn Read + 'r>>,
    meter: Meter,
}

impl<'r> Input<'r> {
    /// Decompresses a source by gzip or zstd if it begins as they do.
    pub fn new(source: impl Read + 'r) -> io::Result<Self> {
        let meter = Meter::default();
        let counted = Counted { source, meter: meter.clone(), is_packed: true };
        let mut source: Box<dyn Read + 'r> = Box::new(counted);
        for layer in 0.. {
            let start = whole(source.by_ref().take(4), 4)?;
            let is_packed = packed::is_packed(&start);
            let rest = Cursor::new(start.clone()).chain(source);
            if !is_packed {
                source = Box::new(rest);
                break;
            }
            if layer == packed::MAX_LAYERS {
                let most = packed::MAX_LAYERS;
                return Err(exceeded(format!("it is compressed more than {most} times")));
            }
            meter.0.is_packed.set(true);
            source = packed::unpacked(&start, BufReader::with_capacity(BUFFER, rest))?;
        }
        Ok(Self::counting(source, meter))
    }

    fn counting(source: impl Read + 'r, meter: Meter) -> Self {
        let counted = Counted { source, meter: meter.clone(), is_packed: false };
        Self { reader: BufReader::with_capacity(BUFFER, Box::new(counted)), meter }
    }

    /// Returns what counts the parts.
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Returns the input with `bytes` before it that were read from it.
    pub fn after(self, bytes: Vec<u8>) -> Self {
        let Self { reader, meter } = self;
        let whole = Cursor::new(bytes).chain(reader);
        Self { reader: BufReader::with_capacity(BUFFER, Box::new(whole)), meter }
    }

    /// Reads what is left of it. It is one part of any length.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            self.meter.renew();
            let piece = self.reader.by_ref().take(MAX_PART_BYTES / 2);
            if { piece }.read_to_end(&mut bytes)? == 0 {
                return Ok(bytes);
            }
        }
    }
}

impl<'r> From<&'r [u8]> for Input<'r> {
    fn from(bytes: &'r [u8]) -> Self {
        Self::counting(bytes, Meter::default())
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }
}

#[cfg(test)]
mod tests;
