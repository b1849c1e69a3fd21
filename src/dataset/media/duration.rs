//! Duration of audio, read from the headers of its file.

use super::{mp3, ogg, wave};

/// Maximum plausible duration: two weeks. Headers with more are wrong.
const MAX_SECONDS: f64 = 14.0 * 24.0 * 3600.0;

/// Returns the duration of `file` in seconds; `None` if the format does not contain it, or is not
/// one of WAV, FLAC, MP3 and Ogg.
///
/// # Errors
///
/// Describes what is wrong with the file's headers.
pub fn audio_seconds(file: &[u8]) -> Result<Option<f64>, &'static str> {
    match said_seconds(file)? {
        Some(seconds) if seconds > MAX_SECONDS => Err("its duration is implausible"),
        seconds => Ok(seconds),
    }
}

fn said_seconds(file: &[u8]) -> Result<Option<f64>, &'static str> {
    let tagless = without_id3(file);
    if tagless.starts_with(b"fLaC") {
        flac(&tagless[4..])
    } else if file.starts_with(b"OggS") {
        ogg::seconds(file).map(Some)
    } else if file.starts_with(b"RIFF") || file.starts_with(b"RF64") {
        wave::seconds(file).map(Some)
    } else if mp3::is_mp3(file) {
        mp3::seconds(file).map(Some)
    } else {
        Ok(None)
    }
}

/// Returns `file` without a leading `ID3v2` tag (id3.org, ID3v2.4, 3.1).
pub(super) fn without_id3(file: &[u8]) -> &[u8] {
    let Some((b"ID3", head)) = file.split_first_chunk::<3>() else { return file };
    let Some(&[_, _, flags, a, b, c, d]) = head.first_chunk::<7>() else { return file };
    let size = [a, b, c, d].iter().fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
    let footer = if flags & 0x10 == 0 { 0 } else { 10 };
    file.get(10 + size + footer..).unwrap_or_default()
}

/// Returns the seconds of a FLAC file from the data after its first four bytes (RFC 9639, 8.2),
/// which begins with the stream information. Returns `None` if the number of samples is unknown.
fn flac(blocks: &[u8]) -> Result<Option<f64>, &'static str> {
    if blocks.first().is_none_or(|kind| kind & 0x7f != 0) {
        return Err("its stream information is not at the start");
    }
    let info = blocks.get(4..38).ok_or("its stream information is truncated")?;
    stream_info(info)
}

/// Returns the seconds from the information of a FLAC stream: the rate has 20 bits, and the number
/// of samples 36.
pub(super) fn stream_info(info: &[u8]) -> Result<Option<f64>, &'static str> {
    let Some(packed) = info.get(10..18).and_then(<[u8]>::first_chunk) else {
        return Err("its stream information is truncated");
    };
    let packed = u64::from_be_bytes(*packed);
    let (rate, samples) = (packed >> 44, packed & 0xf_ffff_ffff);
    match (rate, samples) {
        (0, _) => Err("its sample rate is 0"),
        (_, 0) => Ok(None),
        (rate, samples) => Ok(Some(samples as f64 / rate as f64)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flac_file(rate: u64, samples: u64) -> Vec<u8> {
        let mut file = b"fLaC\x80\0\0\x22".to_vec();
        file.extend([0; 10]);
        // Two channels of 16 bits.
        file.extend((rate << 44 | 1 << 41 | 15 << 36 | samples).to_be_bytes());
        file.extend([0; 16]);
        file
    }

    #[test]
    fn flac_says_its_samples() {
        assert_eq!(audio_seconds(&flac_file(44_100, 441_000)), Ok(Some(10.0)));
        assert_eq!(audio_seconds(&flac_file(44_100, 0)), Ok(None));
        assert!(audio_seconds(&flac_file(0, 5)).is_err());
        assert!(audio_seconds(b"fLaC\0\0\0\x22").is_err());
        // 2^36 - 1 seconds are 2,000 years.
        assert_eq!(audio_seconds(&flac_file(1, (1 << 36) - 1)), Err("its duration is implausible"));
        // With a leading tag of 2 bytes.
        let tagged = [b"ID3\x04\0\0\0\0\0\x02ab", flac_file(8000, 4000).as_slice()].concat();
        assert_eq!(audio_seconds(&tagged), Ok(Some(0.5)));
    }

    #[test]
    fn other_formats_say_nothing() {
        assert_eq!(audio_seconds(b""), Ok(None));
        assert_eq!(audio_seconds(b"\x1a\x45\xdf\xa3"), Ok(None));
    }

    proptest! {
        #[test]
        fn flac_of_any_length(rate in 8000u64..655_350, samples in 1u64..1 << 33) {
            let seconds = audio_seconds(&flac_file(rate, samples)).unwrap().unwrap();
            prop_assert!((seconds * rate as f64 - samples as f64).abs() < 1e-3);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, magic in 0usize..6) {
            let magics: [&[u8]; 6] =
                [b"", b"fLaC", b"OggS\0\x02", b"RIFF\0\0\0\0WAVE", b"ID3\x04\0\0\0\0\0\x02", b"\xff\xfb\x90\0"];
            let file = [magics[magic], &bytes].concat();
            if let Ok(Some(seconds)) = audio_seconds(&file) {
                prop_assert!(seconds.is_finite() && seconds >= 0.0);
            }
        }
    }
}
