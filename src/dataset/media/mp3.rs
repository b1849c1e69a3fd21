//! MPEG audio files: their duration and encoding.

use bytes::Bytes;

use super::duration::without_id3;
use super::ffmpeg::Job;

/// Sample rates in Hz that a layer 3 file may have.
pub(super) const SAMPLE_RATES: [u32; 9] =
    [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];

/// Returns the job that encodes a WAV file as an MP3 file.
pub(super) fn job(wave: &Bytes) -> Job {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Job {
        input: texts(&["-f", "wav"]),
        pieces: Box::new(std::iter::once(wave.to_vec())),
        sound: None,
        output: texts(&["-c:a", "libmp3lame", "-f", "mp3"]),
    }
}

/// Returns whether the file begins with consecutive frames of MPEG audio, after an optional tag.
pub(super) fn is_mp3(file: &[u8]) -> bool {
    let frames = without_id3(file);
    let Some(first) = Frame::read(frames) else { return false };
    match frames.get(first.bytes..) {
        None => false,
        Some([]) => true,
        Some(rest) => Frame::read(rest).is_some_and(|second| second.rate == first.rate),
    }
}

/// Returns the seconds of all frames (ISO/IEC 11172-3 and 13818-3), except for a frame that only
/// contains their number.
pub(super) fn seconds(file: &[u8]) -> Result<f64, &'static str> {
    let mut rest = without_id3(file);
    let mut seconds = 0.0;
    let mut is_first = true;
    while !rest.is_empty() {
        let Some(frame) = Frame::read(rest) else {
            // A tag at the end, or damage: continue with the next frame.
            rest =
                rest[1..].iter().position(|byte| *byte == 0xff).map_or(&[], |at| &rest[at + 1..]);
            continue;
        };
        let (body, after) = rest.split_at(frame.bytes.min(rest.len()));
        if !(is_first && says_frames(body)) {
            seconds += f64::from(frame.samples) / f64::from(frame.rate);
        }
        is_first = false;
        rest = after;
    }
    if is_first { Err("it does not have an MPEG audio frame") } else { Ok(seconds) }
}

/// Returns whether a frame contains a table of the file's frames instead of sound.
fn says_frames(frame: &[u8]) -> bool {
    let head = &frame[..frame.len().min(64)];
    [&b"Xing"[..], b"Info", b"VBRI"].iter().any(|name| head.windows(4).any(|four| four == *name))
}

/// The fields of a frame header.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Samples per second.
    rate: u32,
    samples: u32,
    /// Length of the frame in bytes.
    bytes: usize,
}

/// Bit rates in kbit/s, by index from 1: version 1 of layers 1 to 3, then version 2 of layer 1, and
/// of layers 2 and 3.
#[rustfmt::skip]
const BIT_RATES: &[[u32; 14]] = &[
    [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const RATES: [u32; 3] = [44_100, 48_000, 32_000];

impl Frame {
    /// Parses the frame at the start of `bytes`. Frames with a free bit rate are not supported.
    fn read(bytes: &[u8]) -> Option<Self> {
        let &[0xff, version, rates, _] = bytes.first_chunk::<4>()? else { return None };
        if version & 0xe0 != 0xe0 {
            return None;
        }
        let (is_first, divisor) = match version >> 3 & 3 {
            3 => (true, 1),
            2 => (false, 2),
            0 => (false, 4),
            _ => return None,
        };
        let layer = 4 - usize::from(version >> 1 & 3);
        let row = match (is_first, layer) {
            (_, 4) => return None,
            (true, layer) => layer - 1,
            (false, 1) => 3,
            (false, _) => 4,
        };
        let bit_rate = BIT_RATES[row].get(usize::from(rates >> 4).checked_sub(1)?)? * 1000;
        let rate = RATES.get(usize::from(rates >> 2 & 3))? / divisor;
        let padding = u32::from(rates >> 1 & 1);
        let samples = match (layer, is_first) {
            (1, _) => 384,
            (3, false) => 576,
            _ => 1152,
        };
        let bytes = if layer == 1 {
            (12 * bit_rate / rate + padding) * 4
        } else {
            samples / 8 * bit_rate / rate + padding
        };
        Some(Self { rate, samples, bytes: bytes as usize })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Creates a frame of version 1, layer 3, 128 kbit/s, 44.1 kHz: 417 bytes.
    fn frame(start: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xff, 0xfb, 0x90, 0];
        frame.extend([0; 32]);
        frame.extend(start);
        frame.resize(417, 0);
        frame
    }

    #[test]
    fn frames_have_the_lengths_of_the_standard() {
        let read = |bytes: [u8; 4]| Frame::read(&bytes).map(|f| (f.rate, f.samples, f.bytes));
        assert_eq!(read([0xff, 0xfb, 0x90, 0]), Some((44_100, 1152, 417)));
        assert_eq!(read([0xff, 0xfb, 0x92, 0]), Some((44_100, 1152, 418)));
        // Version 2, layer 3, 64 kbit/s, 22.05 kHz.
        assert_eq!(read([0xff, 0xf3, 0x80, 0]), Some((22_050, 576, 208)));
        // Version 1, layer 1, 64 kbit/s, 48 kHz.
        assert_eq!(read([0xff, 0xff, 0x24, 0]), Some((48_000, 384, 64)));
        for wrong in [[0xff, 0xfb, 0, 0], [0xff, 0xfb, 0xf0, 0], [0xff, 0xfb, 0x9c, 0]] {
            assert_eq!(read(wrong), None);
        }
    }

    #[test]
    fn all_frames_are_played_but_a_table() {
        let sound = frame(b"").repeat(100);
        let seconds_of = |file: &[u8]| seconds(file).unwrap();
        let expected = 100.0 * 1152.0 / 44_100.0;
        assert!((seconds_of(&sound) - expected).abs() < 1e-9);
        assert!((seconds_of(&[frame(b"Xing"), sound.clone()].concat()) - expected).abs() < 1e-9);
        let tagged = [&b"ID3\x04\0\0\0\0\0\x02ab"[..], &sound, b"TAGtitle"].concat();
        assert!(is_mp3(&tagged));
        assert!((seconds_of(&tagged) - expected).abs() < 1e-9);
    }

    #[test]
    fn other_bytes_are_not_frames() {
        assert!(!is_mp3(b""));
        assert!(!is_mp3(b"\xff\xfe text in UTF-16"));
        assert!(!is_mp3(&[frame(b""), b"and then text".to_vec()].concat()));
        assert!(seconds(b"text").is_err());
    }

    proptest! {
        #[test]
        fn any_number_of_frames(count in 1usize..300, junk in "[a-z]{0,40}") {
            let file = [frame(b"").repeat(count), junk.into_bytes()].concat();
            let expected = count as f64 * 1152.0 / 44_100.0;
            prop_assert!((seconds(&file).unwrap() - expected).abs() < 1e-9);
        }
    }
}
