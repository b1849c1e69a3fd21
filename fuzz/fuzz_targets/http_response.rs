//! However a response is split into reads, it has the same head and body, or the same error.
#![no_main]

use client::record::RequestError;
use client::transport::http1::{Progress, ResponseDecoder, ResponseHead, ResponseSink};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Default, PartialEq)]
struct Received {
    status: Option<u16>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl ResponseSink for Received {
    fn head(&mut self, head: &ResponseHead<'_>) -> Result<(), RequestError> {
        assert!(self.status.is_none());
        self.status = Some(head.status);
        self.headers = head.headers().map(|(name, value)| (name.into(), value.into())).collect();
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        assert!(self.status.is_some() && !bytes.is_empty());
        self.body.extend_from_slice(bytes);
        Ok(())
    }
}

/// Returns what is received, how many bytes follow it, and whether the end of the connection then
/// ends it.
fn decode(bytes: &[u8], ends: impl Iterator<Item = usize>) -> (Received, Option<usize>, bool) {
    let (mut decoder, mut received) =
        (ResponseDecoder::new(&http::Method::POST), Received::default());
    let mut from = 0;
    for end in ends.chain([bytes.len()]) {
        match decoder.decode(&bytes[from..end], &mut received) {
            Ok(Progress::More) => from = end,
            Ok(Progress::Complete { rest }) => {
                return (received, Some(bytes.len() - end + rest), true);
            }
            Err(_) => return (received, None, false),
        }
    }
    let is_complete = decoder.close().is_ok();
    (received, None, is_complete)
}

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (bytes, cuts) = input;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut).min(bytes.len())).collect();
    cuts.sort_unstable();
    let whole = decode(&bytes, std::iter::empty());
    assert_eq!(decode(&bytes, cuts.into_iter()), whole);
    assert_eq!(decode(&bytes, 0..bytes.len()), whole);
});
