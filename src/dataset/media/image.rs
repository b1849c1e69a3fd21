//! Encoding of images from pixels.

use jpeg_encoder::{ColorType, Encoder};

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
    use super::*;

    #[test]
    fn a_jpeg_has_its_size() {
        let file = jpeg(&[77; 16 * 8 * 3], 16, 8);
        assert!(file.starts_with(b"\xff\xd8\xff") && file.ends_with(b"\xff\xd9"));
        // Start of frame: length, 8 bits, height, width.
        let frame = file.windows(4).position(|four| four == [0xff, 0xc0, 0, 17]).unwrap();
        assert_eq!(file[frame + 4..frame + 9], [8, 0, 8, 0, 16]);
    }
}
