//! PNG files (RFC 2083).

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// Returns a PNG file of red, green and blue bytes.
pub fn file(pixels: &[u8], width: u16, height: u16, compression: Compression) -> Vec<u8> {
    let mut header = Vec::with_capacity(13);
    header.extend(u32::from(width).to_be_bytes());
    header.extend(u32::from(height).to_be_bytes());
    // 8 bits, colours, and the only defined methods.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"IDAT", &rows(pixels, width, compression));
    chunk(&mut file, *b"IEND", &[]);
    file
}

/// Returns the rows, each with the filter type 0 (none) as its prefix.
fn rows(pixels: &[u8], width: u16, compression: Compression) -> Vec<u8> {
    let row = 3 * usize::from(width);
    let mut data = ZlibEncoder::new(Vec::new(), compression);
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_file_has_its_chunks_and_pixels() {
        let pixels: Vec<u8> = (0..2 * 3 * 3).collect();
        for compression in [Compression::none(), Compression::default()] {
            let file = file(&pixels, 3, 2, compression);
            assert!(
                file.starts_with(
                    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0"
                )
            );
            // The last chunk is the same in every file, and its checksum is published.
            assert!(file.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
            let length = u32::from_be_bytes(*file[33..].first_chunk().unwrap()) as usize;
            let mut rows = Vec::new();
            flate2::read::ZlibDecoder::new(&file[41..41 + length]).read_to_end(&mut rows).unwrap();
            assert_eq!(rows, [&[0][..], &pixels[..9], &[0], &pixels[9..]].concat());
        }
    }
}
