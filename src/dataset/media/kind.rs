//! Detection of file formats by their first bytes.

use super::MediaKinds;

/// Returns the media type of a file of `kind`; `None` if its format is unknown.
pub(super) fn media_type(kind: MediaKinds, bytes: &[u8]) -> Option<&'static str> {
    match kind {
        MediaKinds::IMAGE => image(bytes),
        MediaKinds::AUDIO => audio(bytes),
        _ => video(bytes),
    }
}

/// Returns the formats of `kind`, for messages.
pub(super) const fn known(kind: MediaKinds) -> &'static str {
    if kind.contains(MediaKinds::IMAGE) {
        "PNG, JPEG, GIF, WebP, BMP, TIFF and AVIF"
    } else if kind.contains(MediaKinds::AUDIO) {
        "WAV, FLAC, MP3, Ogg, M4A and WebM"
    } else {
        "MP4, QuickTime, WebM, Matroska and AVI"
    }
}

fn image(bytes: &[u8]) -> Option<&'static str> {
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    if begins(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if begins(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if begins(b"GIF87a") || begins(b"GIF89a") {
        Some("image/gif")
    } else if riff(bytes) == Some(b"WEBP") {
        Some("image/webp")
    } else if begins(b"II*\0") || begins(b"MM\0*") {
        Some("image/tiff")
    } else if matches!(brand(bytes), Some(b"avif" | b"avis")) {
        Some("image/avif")
    } else if begins(b"BM") && bytes.len() >= 26 && bytes[6..10] == [0; 4] {
        Some("image/bmp")
    } else {
        None
    }
}

fn audio(bytes: &[u8]) -> Option<&'static str> {
    if riff(bytes) == Some(b"WAVE") {
        Some("audio/wav")
    } else if super::duration::without_id3(bytes).starts_with(b"fLaC") {
        Some("audio/flac")
    } else if bytes.starts_with(b"OggS") {
        Some("audio/ogg")
    } else if matches!(brand(bytes), Some(b"M4A " | b"M4B " | b"isom" | b"mp42" | b"mp41")) {
        Some("audio/mp4")
    } else if bytes.starts_with(EBML) {
        Some("audio/webm")
    } else if super::mp3::is_mp3(bytes) {
        Some("audio/mpeg")
    } else {
        None
    }
}

fn video(bytes: &[u8]) -> Option<&'static str> {
    if riff(bytes) == Some(b"AVI ") {
        Some("video/x-msvideo")
    } else if bytes.starts_with(EBML) {
        let head = &bytes[..bytes.len().min(64)];
        let is_webm = head.windows(4).any(|four| four == b"webm");
        Some(if is_webm { "video/webm" } else { "video/x-matroska" })
    } else {
        match brand(bytes)? {
            b"qt  " => Some("video/quicktime"),
            b"M4A " | b"M4B " | b"avif" | b"avis" | b"heic" => None,
            _ => Some("video/mp4"),
        }
    }
}

const EBML: &[u8] = b"\x1a\x45\xdf\xa3";

/// Returns the form type of a RIFF file.
fn riff(bytes: &[u8]) -> Option<&[u8; 4]> {
    let is_riff = bytes.starts_with(b"RIFF") || bytes.starts_with(b"RF64");
    bytes.get(8..12).filter(|_| is_riff)?.try_into().ok()
}

/// Returns the brand of an ISO base media file (ISO/IEC 14496-12).
fn brand(bytes: &[u8]) -> Option<&[u8; 4]> {
    (bytes.get(4..8)? == b"ftyp").then_some(())?;
    bytes.get(8..12)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_are_told_by_their_first_bytes() {
        let image = |bytes: &[u8]| media_type(MediaKinds::IMAGE, bytes);
        assert_eq!(image(b"\x89PNG\r\n\x1a\n...."), Some("image/png"));
        assert_eq!(image(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(image(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(image(b"RIFF\0\0\0\0WAVEfmt "), None);
        assert_eq!(image(b"<html>"), None);
        let audio = |bytes: &[u8]| media_type(MediaKinds::AUDIO, bytes);
        assert_eq!(audio(b"RIFF\0\0\0\0WAVEfmt "), Some("audio/wav"));
        assert_eq!(audio(b"fLaC\0\0\0\x22"), Some("audio/flac"));
        assert_eq!(audio(b"OggS\0\x02"), Some("audio/ogg"));
        assert_eq!(audio(b"\x89PNG\r\n\x1a\n"), None);
        let video = |bytes: &[u8]| media_type(MediaKinds::VIDEO, bytes);
        assert_eq!(video(b"\0\0\0\x18ftypmp42"), Some("video/mp4"));
        assert_eq!(video(b"\x1a\x45\xdf\xa3....\x42\x82\x84webm"), Some("video/webm"));
        assert_eq!(video(b"\0\0\0\x18ftypM4A "), None);
        assert_eq!(video(b""), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            for kind in MediaKinds::all().iter() {
                let _ = media_type(kind, &bytes);
            }
        }
    }
}
