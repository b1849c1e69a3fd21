//! Duration of Ogg files.

use super::duration::stream_info;

/// Returns the seconds of an Ogg file with Vorbis, Opus, FLAC or Speex (RFC 3533): the last
/// position of its first stream, in samples.
pub(super) fn seconds(file: &[u8]) -> Result<f64, &'static str> {
    let mut rest = file;
    let mut codec: Option<(u32, Codec)> = None;
    let mut last = 0;
    while let Some((page, after)) = Page::read(rest) {
        match codec {
            None => codec = Some((page.serial, Codec::from_packet(page.body)?)),
            Some((serial, _)) if serial == page.serial && page.position != u64::MAX => {
                last = last.max(page.position);
            }
            Some(_) => {}
        }
        rest = after;
    }
    let (_, codec) = codec.ok_or("its first page is truncated")?;
    Ok(last.saturating_sub(codec.skipped) as f64 / codec.rate)
}

struct Page<'a> {
    position: u64,
    serial: u32,
    body: &'a [u8],
}

impl<'a> Page<'a> {
    /// Parses the page at the start of `bytes`; returns it with the bytes after it. The last page
    /// may be cut off.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let head = bytes.first_chunk::<27>().filter(|head| head.starts_with(b"OggS"))?;
        let segments = bytes.get(27..27 + usize::from(head[26]))?;
        let length: usize = segments.iter().map(|segment| usize::from(*segment)).sum();
        let after = &bytes[27 + segments.len()..];
        let (body, after) = after.split_at(length.min(after.len()));
        let position = u64::from_le_bytes(*head[6..].first_chunk()?);
        let serial = u32::from_le_bytes(*head[14..].first_chunk()?);
        Some((Self { position, serial, body }, after))
    }
}

#[derive(Clone, Copy)]
struct Codec {
    /// Positions per second.
    rate: f64,
    /// Positions at the start that are not played.
    skipped: u64,
}

impl Codec {
    /// Parses the first packet of a stream.
    fn from_packet(packet: &[u8]) -> Result<Self, &'static str> {
        let number = |at: usize| {
            let four = packet.get(at..)?.first_chunk()?;
            Some(u32::from_le_bytes(*four))
        };
        let rate = if packet.starts_with(b"\x01vorbis") {
            number(12)
        } else if packet.starts_with(b"OpusHead") {
            // Positions are at 48 kHz, whatever the recording (RFC 7845, 4).
            let skipped =
                packet.get(10..12).map_or(0, |two| u64::from(two[0]) | u64::from(two[1]) << 8);
            return Ok(Self { rate: 48_000.0, skipped });
        } else if packet.starts_with(b"\x7fFLAC") {
            let info = packet.get(17..).unwrap_or_default();
            // It does not matter here whether it contains the number of samples.
            stream_info(info)?;
            info.get(10..13)
                .map(|r| u32::from(r[0]) << 12 | u32::from(r[1]) << 4 | u32::from(r[2]) >> 4)
        } else if packet.starts_with(b"Speex   ") {
            number(36)
        } else {
            return Err("its first stream is not Vorbis, Opus, FLAC or Speex");
        };
        match rate {
            Some(rate) if rate > 0 => Ok(Self { rate: f64::from(rate), skipped: 0 }),
            _ => Err("its sample rate is truncated or 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(serial: u32, position: u64, body: &[u8]) -> Vec<u8> {
        let mut page = b"OggS\0\0".to_vec();
        page.extend(position.to_le_bytes());
        page.extend(serial.to_le_bytes());
        page.extend([0; 8]);
        page.extend([1, body.len() as u8]);
        page.extend(body);
        page
    }

    fn vorbis(rate: u32) -> Vec<u8> {
        let mut packet = b"\x01vorbis\0\0\0\0\x01".to_vec();
        packet.extend(rate.to_le_bytes());
        packet
    }

    #[test]
    fn the_last_position_counts() {
        let file = [
            page(1, 0, &vorbis(16_000)),
            page(2, 9_999_999, b"another stream"),
            page(1, 8_000, b"x"),
            page(1, u64::MAX, b"no packet ends here"),
            page(1, 24_000, b"y"),
        ];
        assert_eq!(seconds(&file.concat()), Ok(1.5));
        assert_eq!(seconds(&file[0]), Ok(0.0));
    }

    #[test]
    fn opus_skips_its_start() {
        let mut head = b"OpusHead\x01\x01".to_vec();
        head.extend(312u16.to_le_bytes());
        let file = [page(7, 0, &head), page(7, 48_312, b"x")].concat();
        assert_eq!(seconds(&file), Ok(1.0));
    }

    #[test]
    fn other_streams_are_refused() {
        assert!(seconds(&page(1, 0, b"\x80theora")).is_err());
        assert!(seconds(&page(1, 0, &vorbis(0))).is_err());
        assert!(seconds(b"OggS").is_err());
    }

    proptest! {
        #[test]
        fn any_length_and_rate(rate in 1u32..400_000, position in 0u64..1 << 40, cut in 0usize..30) {
            let mut file = [page(1, 0, &vorbis(rate)), page(1, position, b"x")].concat();
            let seconds_read = seconds(&file).unwrap();
            prop_assert!((seconds_read - position as f64 / f64::from(rate)).abs() < 1e-6 * (1.0 + seconds_read));
            file.truncate(file.len() - cut.min(28));
            prop_assert!(seconds(&file).is_ok());
        }
    }
}
