//! However a body is split into reads, it has the same events, in order and within its length.
#![no_main]

use base::units::Nanos;
use client::record::SseEvent;
use client::transport::SseDecoder;
use libfuzzer_sys::fuzz_target;

fn events(body: &[u8], ends: impl Iterator<Item = usize>) -> Vec<SseEvent> {
    let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
    let mut scanned = 0;
    for end in ends.chain([body.len()]) {
        decoder.scan(&body[..end], scanned, Nanos(1).into(), &mut events);
        assert!(decoder.pending(&body[..end]) <= end);
        scanned = end;
    }
    decoder.finish(body, Nanos(1).into(), &mut events);
    events
}

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (body, cuts) = input;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut).min(body.len())).collect();
    cuts.sort_unstable();
    let whole = events(&body, std::iter::empty());
    assert_eq!(events(&body, cuts.into_iter()), whole);
    assert_eq!(events(&body, 0..body.len()), whole);
    let mut from = 0;
    for event in whole {
        assert!(from <= event.start && event.start < event.end);
        assert!(event.end as usize <= body.len());
        from = event.end;
    }
});
