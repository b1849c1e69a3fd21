//! Compressed files.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns whether a file that begins with these bytes is compressed by gzip or zstd.
pub(super) fn is_packed(start: &[u8]) -> bool {
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
