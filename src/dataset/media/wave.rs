//! WAV files: duration and writing.

/// Returns the seconds of a WAV file (Multimedia Programming Interface and Data Specifications
/// 1.0). Truncated data counts up to its end, as does data without a stated length.
pub(super) fn seconds(file: &[u8]) -> Result<f64, &'static str> {
    let mut rest = file.get(12..).ok_or("it is truncated")?;
    let mut bytes_per_second = None;
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = &after[..length.min(after.len())];
        match (&head[..4], bytes_per_second) {
            (b"fmt ", _) => bytes_per_second = Some(rate(body)?),
            (b"data", None) => return Err("its data precedes its format"),
            (b"data", Some(rate)) => {
                let data = if length == 0 { after } else { body };
                return Ok(data.len() as f64 / rate);
            }
            _ => {}
        }
        // Chunks begin at even positions.
        rest = after.get(length.saturating_add(length & 1)..).unwrap_or_default();
    }
    Err("it does not contain any data")
}

/// Returns the bytes per second.
fn rate(format: &[u8]) -> Result<f64, &'static str> {
    let Some(&[tag, tag_high, _, _, r0, r1, r2, r3, b0, b1, b2, b3, align, align_high]) =
        format.first_chunk::<14>()
    else {
        return Err("its format is truncated");
    };
    let frame = u16::from_le_bytes([align, align_high]);
    let samples = u32::from_le_bytes([r0, r1, r2, r3]);
    let said = u32::from_le_bytes([b0, b1, b2, b3]);
    // Integers and floating-point numbers; compressed data has blocks instead.
    let is_plain = matches!(u16::from_le_bytes([tag, tag_high]), 1 | 3 | 0xfffe);
    let rate = if is_plain { f64::from(samples) * f64::from(frame) } else { f64::from(said) };
    if rate > 0.0 { Ok(rate) } else { Err("its format has 0 bytes per second") }
}

/// Creates a WAV file of integers; `data` has samples of `depth` bits.
pub(super) fn write(data: &[u8], rate: u32, channels: u16, depth: u16) -> Vec<u8> {
    let frame = u32::from(channels) * u32::from(depth / 8);
    let length = data.len() as u32;
    let mut file = Vec::with_capacity(data.len() + 45);
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    put(b"RIFF");
    put(&(36 + length + (length & 1)).to_le_bytes());
    put(b"WAVEfmt ");
    put(&16u32.to_le_bytes());
    put(&1u16.to_le_bytes());
    put(&channels.to_le_bytes());
    put(&rate.to_le_bytes());
    put(&(rate * frame).to_le_bytes());
    put(&(frame as u16).to_le_bytes());
    put(&depth.to_le_bytes());
    put(b"data");
    put(&length.to_le_bytes());
    put(data);
    if length & 1 == 1 {
        put(&[0]);
    }
    file
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Creates a file with one channel of 8 bits at 8 kHz and a chunk of odd length before its
    /// data.
    fn file(said: u32, data: usize) -> Vec<u8> {
        let mut file = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x01\0".to_vec();
        file.extend(8000u32.to_le_bytes());
        file.extend(8000u32.to_le_bytes());
        file.extend([1, 0, 8, 0]);
        file.extend(b"data");
        file.extend(said.to_le_bytes());
        file.extend(vec![0; data]);
        file
    }

    #[test]
    fn data_is_measured_by_its_format() {
        assert_eq!(seconds(&file(4000, 4000)), Ok(0.5));
        assert_eq!(seconds(&file(u32::MAX, 2000)), Ok(0.25));
        assert_eq!(seconds(&file(0, 2000)), Ok(0.25));
        assert_eq!(seconds(&file(8000, 12_000)), Ok(1.0));
    }

    #[test]
    fn headers_that_are_none_are_named() {
        assert_eq!(seconds(b"RIFF"), Err("it is truncated"));
        assert_eq!(seconds(b"RIFF\0\0\0\0WAVE"), Err("it does not contain any data"));
        assert_eq!(
            seconds(b"RIFF\0\0\0\0WAVEdata\x01\0\0\0a"),
            Err("its data precedes its format")
        );
        assert!(seconds(b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0\x01\0").is_err());
        let mut still = file(10, 10);
        still.iter_mut().skip(36).take(4).for_each(|byte| *byte = 0);
        assert!(seconds(&still).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            frames in 0u32..2000,
            rate in 1u32..200_000,
            channels in 1u16..3,
            depth in prop::sample::select(vec![8u16, 16, 24, 32]),
        ) {
            let bytes = frames as usize * usize::from(channels) * usize::from(depth / 8);
            let file = write(&vec![1; bytes], rate, channels, depth);
            prop_assert_eq!(file.len() % 2, 0);
            let length = u32::from_le_bytes(*file[4..].first_chunk().unwrap()) as usize;
            prop_assert_eq!(length + 8, file.len());
            // A stated length of zero means data to the end, which is empty here.
            let read = seconds(&file).unwrap();
            prop_assert!((read - f64::from(frames) / f64::from(rate)).abs() < 1e-9);
        }
    }
}
