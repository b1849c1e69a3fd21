use std::io::repeat;

use super::lines::{LineFault, Lines};
use super::*;

/// Compresses lines of `length` bytes, of which there are `count`.
fn packed(length: usize, count: usize) -> Vec<u8> {
    let line = ["x".repeat(length - 1), "\n".to_owned()].concat();
    let block = line.repeat((1 << 20) / length);
    let blocks = (count * length) >> 20;
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    (0..blocks).for_each(|_| io::copy(&mut block.as_bytes(), &mut encoder).map(drop).unwrap());
    encoder.finish().unwrap()
}

/// Reads all lines as parts; returns their number, or the error.
fn read(source: &[u8]) -> Result<u64, String> {
    let input = Input::new(source).map_err(|error| error.to_string())?;
    let meter = input.meter();
    let mut lines = Lines::new(input, MAX_PART_BYTES);
    let mut count = 0;
    loop {
        match lines.next() {
            Ok(None) => return Ok(count),
            Ok(Some(_)) => meter.part().map_err(|error| error.to_string())?,
            Err(LineFault::Read(error)) => return Err(error.to_string()),
            Err(LineFault::TooLong { why, .. }) => return Err(why),
        }
        count += 1;
    }
}

#[test]
fn what_is_compressed_expands_within_limits_and_what_is_not_has_none() {
    // 60 MiB are free.
    assert_eq!(read(&packed(1 << 10, 60 << 10)), Ok(60 << 10));
    let bomb = packed(1 << 20, 300);
    assert!(bomb.len() < 60_000, "{}", bomb.len());
    let found = read(&bomb).unwrap_err();
    assert!(found.contains("expands to more than 64 MiB and 1000 times its size"), "{found}");
    let plain = "x\n".repeat(2 << 20);
    assert_eq!(read(plain.as_bytes()), Ok(2 << 20));
    let found = read(&packed(2, 2 << 20)).unwrap_err();
    assert!(found.contains("more than 1000000 entries"), "{found}");
}

#[test]
fn a_part_is_limited_even_if_the_reader_forgets_to_end_it() {
    let mut source = Input::from(&[][..]);
    source = Input::counting(repeat(b'x'), source.meter());
    let found = io::copy(&mut source, &mut io::sink()).unwrap_err();
    assert_eq!(found.to_string(), "an entry has more than 64 MiB");
    let source = &mut Input::counting(repeat(b','), Meter::default());
    let found = io::copy(source, &mut io::sink()).unwrap_err();
    assert_eq!(found.to_string(), "an entry has more than 8388608 elements");
}

#[test]
fn layers_of_compression_are_limited() {
    let layer = |bytes: Vec<u8>| zstd::encode_all(&*bytes, 1).unwrap();
    let mut bytes = b"a\nb\n".to_vec();
    for layers in 0..=3 {
        assert_eq!(read(&bytes), Ok(2), "{layers}");
        bytes = layer(bytes);
    }
    assert_eq!(read(&bytes), Err("it is compressed more than 3 times".to_owned()));
}

#[test]
fn whole_files_are_limited_and_devices_are_refused() {
    let place = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(place.path(), "12345").unwrap();
    assert_eq!(text(place.path(), 5).unwrap(), "12345");
    let error = |path: &Path, most| text(path, most).unwrap_err().to_string();
    assert_eq!(error(place.path(), 4), "it is larger than 4 bytes");
    assert!(error(Path::new("/dev/zero"), 1 << 10).contains("it is a device"));
    std::fs::write(place.path(), [0xff]).unwrap();
    assert_eq!(error(place.path(), 5), "it is not valid UTF-8");
}

#[test]
fn bodies_are_limited_after_decompression() {
    let gzip = |bytes: usize| {
        let mut encoder =
            flate2::read::GzEncoder::new(repeat(0).take(bytes as u64), flate2::Compression::fast());
        let mut packed = Vec::new();
        encoder.read_to_end(&mut packed).unwrap();
        packed
    };
    assert_eq!(packed::gunzipped(&gzip(100), 100).unwrap().map(|it| it.len()), Some(100));
    assert_eq!(packed::gunzipped(&gzip(101), 100).unwrap(), None);
    assert!(packed::gunzipped(b"no", 100).is_err());
    let found = packed::inflated(&gzip(200 << 20), 1 << 20).unwrap_err();
    assert_eq!(found.to_string(), "it is larger than 1 MiB");
}

#[test]
fn messages_of_many_fields_are_not_decoded() {
    use opentelemetry_proto::tonic::trace::v1::Span;
    // Attributes without content.
    let fields = |count: usize| protobuf::decoded::<Span>(&[0x4a, 0].repeat(count));
    assert_eq!(fields(3).unwrap().attributes.len(), 3);
    assert_eq!(fields((1 << 20) + 1).unwrap_err(), "a message has more than 1048576 fields");
}
