//! Encoding of images from pixels.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use jpeg_encoder::{ColorType, Encoder};

/// Creates a PNG file (RFC 2083) of red, green and blue bytes without compression, since noise
/// cannot be compressed.
pub(super) fn png(pixels: &[u8], width: u16, height: u16) -> Vec<u8> {
    let mut header = Vec::with_capacity(13);
    header.extend(u32::from(width).to_be_bytes());
    header.extend(u32::from(height).to_be_bytes());
    // 8 bits, colours, and the only defined methods.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"IDAT", &rows(pixels, width));
    chunk(&mut file, *b"IEND", &[]);
    file
}

/// Returns the rows, each with the filter type 0 (none) as its prefix.
fn rows(pixels: &[u8], width: u16) -> Vec<u8> {
    let row = 3 * usize::from(width);
    let mut data = ZlibEncoder::new(Vec::new(), Compression::none());
    for row in pixels.chunks(row.max(1)) {
        // Writing to memory cannot fail.
        let _ = data.write_all(&[0]).and_then(|()| data.write_all(row));
    }
    data.finish().unwrap_or_default()
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    let mut check = Crc::new();
    check.update(&name);
    check.update(data);
    file.extend((data.len() as u32).to_be_bytes());
    file.extend(name);
    file.extend(data);
    file.extend(check.sum().to_be_bytes());
}

/// Creates a JPEG file of red, green and blue bytes.
pub(super) fn jpeg(pixels: &[u8], width: u16, height: u16) -> Vec<u8> {
    let mut file = Vec::new();
    // It fails only if there are too few pixels.
    let _ = Encoder::new(&mut file, QUALITY).encode(pixels, width, height, ColorType::Rgb);
    file
}

/// The usual default quality.
const QUALITY: u8 = 75;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_png_has_its_chunks_and_pixels() {
        let pixels: Vec<u8> = (0..2 * 3 * 3).collect();
        let file = png(&pixels, 3, 2);
        assert!(
            file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0")
        );
        // The last chunk is the same in every file, and its checksum is published.
        assert!(file.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
        let length = u32::from_be_bytes(*file[33..].first_chunk().unwrap()) as usize;
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(&file[41..41 + length]).read_to_end(&mut rows).unwrap();
        assert_eq!(rows, [&[0][..], &pixels[..9], &[0], &pixels[9..]].concat());
    }

    #[test]
    fn a_jpeg_has_its_size() {
        let file = jpeg(&[77; 16 * 8 * 3], 16, 8);
        assert!(file.starts_with(b"\xff\xd8\xff") && file.ends_with(b"\xff\xd9"));
        // Start of frame: length, 8 bits, height, width.
        let frame = file.windows(4).position(|four| four == [0xff, 0xc0, 0, 17]).unwrap();
        assert_eq!(file[frame + 4..frame + 9], [8, 0, 8, 0, 16]);
    }
}
