//! The chunked transfer coding (RFC 9112, section 7.1).

use super::response::Malformed;

/// Maximum size of all extensions of a body in bytes. They are skipped.
const EXTENSIONS_LIMIT: usize = 16 << 10;

/// Maximum size of the trailers of a body in bytes.
const TRAILERS_LIMIT: usize = 16 << 10;

/// Maximum number of trailers of a body.
const TRAILER_COUNT: usize = 100;

/// Decodes a chunked body.
#[derive(Debug)]
pub(super) struct Chunked {
    next: Next,
    /// Remaining bytes of the current chunk.
    size: u64,
    /// Size of all extensions so far.
    extensions: usize,
    /// The lines after the last chunk.
    trailers: Vec<u8>,
    trailer_count: usize,
}

/// The next part of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The first digit of a size.
    Size,
    /// A further digit, or what follows the size.
    SizeOrEnd,
    /// Space after the size, or what follows it.
    Space,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// The first byte of a trailer, or of the line that ends the body.
    Trailer,
    TrailerOrEnd,
    TrailerLineFeed,
    LastLineFeed,
}

/// A part of a chunked body.
pub(super) enum Part<'a> {
    Data(&'a [u8]),
    /// All bytes are decoded, and more follow.
    More,
    End,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { next: Next::Size, size: 0, extensions: 0, trailers: Vec::new(), trailer_count: 0 }
    }

    /// Takes the next part from `bytes`.
    pub(super) fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Part<'a>, Malformed> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.next == Next::Data {
                let available = usize::try_from(self.size).unwrap_or(usize::MAX);
                let (data, rest) = bytes.split_at(available.min(bytes.len()));
                *bytes = rest;
                self.size -= data.len() as u64;
                if self.size == 0 {
                    self.next = Next::DataReturn;
                }
                return Ok(Part::Data(data));
            }
            *bytes = rest;
            match self.after(byte)? {
                Some(next) => self.next = next,
                None => return self.ended().map(|()| Part::End),
            }
        }
        Ok(Part::More)
    }

    /// Returns what comes after `byte`; `None` after the last byte of the body.
    fn after(&mut self, byte: u8) -> Result<Option<Next>, Malformed> {
        let next = match (self.next, byte) {
            (Next::Size | Next::SizeOrEnd, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)?
            }
            (Next::Size, _) => return Err(Malformed::new("a chunk without its size")),
            (Next::SizeOrEnd | Next::Space, b' ' | b'\t') => Next::Space,
            (Next::SizeOrEnd | Next::Space, b';') => Next::Extension,
            (Next::SizeOrEnd | Next::Space | Next::Extension, b'\r') => Next::SizeLineFeed,
            (Next::SizeOrEnd | Next::Space, _) => {
                return Err(Malformed::new("an invalid chunk size"));
            }
            (Next::Extension, b'\n') => return Err(Malformed::new("an invalid chunk extension")),
            (Next::Extension, _) => self.skip()?,
            (Next::SizeLineFeed, b'\n') if self.size == 0 => Next::Trailer,
            (Next::SizeLineFeed, b'\n') => Next::Data,
            (Next::DataReturn, b'\r') => Next::DataLineFeed,
            (Next::DataLineFeed, b'\n') => Next::Size,
            (Next::Trailer, b'\r') => Next::LastLineFeed,
            (Next::Trailer | Next::TrailerOrEnd, _) => self.add_to_trailer(byte)?,
            (Next::TrailerLineFeed, b'\n') => self.end_trailer()?,
            (Next::LastLineFeed, b'\n') => return Ok(None),
            _ => return Err(Malformed::new("a chunk without its end of line")),
        };
        Ok(Some(next))
    }

    fn add_digit(&mut self, byte: u8) -> Result<Next, Malformed> {
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        let size = self.size.checked_mul(16).and_then(|size| size.checked_add(digit.into()));
        self.size = size.ok_or(Malformed::new("a chunk that is too large"))?;
        Ok(Next::SizeOrEnd)
    }

    fn skip(&mut self) -> Result<Next, Malformed> {
        self.extensions += 1;
        if self.extensions < EXTENSIONS_LIMIT {
            Ok(Next::Extension)
        } else {
            Err(Malformed::new("chunk extensions that are too large"))
        }
    }

    fn add_to_trailer(&mut self, byte: u8) -> Result<Next, Malformed> {
        self.trailers.push(byte);
        match byte {
            _ if self.trailers.len() >= TRAILERS_LIMIT => {
                Err(Malformed::new("trailers that are too large"))
            }
            b'\r' if self.next == Next::TrailerOrEnd => Ok(Next::TrailerLineFeed),
            _ => Ok(Next::TrailerOrEnd),
        }
    }

    fn end_trailer(&mut self) -> Result<Next, Malformed> {
        self.trailers.push(b'\n');
        self.trailer_count += 1;
        if self.trailer_count > TRAILER_COUNT {
            return Err(Malformed::new("too many trailers"));
        }
        Ok(Next::Trailer)
    }

    /// Checks the trailers. Their values are not used.
    fn ended(&mut self) -> Result<(), Malformed> {
        if self.trailers.is_empty() {
            return Ok(());
        }
        self.trailers.extend_from_slice(b"\r\n");
        let mut headers = [httparse::EMPTY_HEADER; TRAILER_COUNT];
        match httparse::parse_headers(&self.trailers, &mut headers) {
            Ok(httparse::Status::Complete(_)) => Ok(()),
            _ => Err(Malformed::new("an invalid trailer")),
        }
    }
}
