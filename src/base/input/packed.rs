//! Compressed files and bodies.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// How often a file may be compressed.
pub(super) const MAX_LAYERS: usize = 3;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns whether a file that begins with these bytes is compressed by gzip or zstd.
pub fn is_packed(start: &[u8]) -> bool {
    start.starts_with(GZIP) || start.starts_with(ZSTD)
}

/// Returns the content of a compressed file that begins with `start`.
pub(super) fn unpacked<'r>(
    start: &[u8],
    file: impl BufRead + 'r,
) -> io::Result<Box<dyn Read + 'r>> {
    Ok(if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(zstd::Decoder::with_buffer(file)?)
    })
}

/// Returns the content of a compressed message of which all is there.
///
/// # Errors
///
/// Fails if it is not valid, or if it has more than `most` bytes.
pub fn inflated(message: &[u8], most: u64) -> io::Result<Vec<u8>> {
    super::whole(unpacked(message, message)?, most)
}

/// Returns the content of a body with the content coding `gzip`; `None` if it has more than `most` bytes.
///
/// # Errors
///
/// Fails if it is not valid.
pub fn gunzipped(body: &[u8], most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(body).take(most.saturating_add(1)).read_to_end(&mut plain)?;
    Ok((plain.len() as u64 <= most).then_some(plain))
}
