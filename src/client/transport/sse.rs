//! Finds the boundaries of server-sent events in a growing body.
//!
//! It finds boundaries only: an event ends with an empty line, and lines end with CR, LF or CRLF,
//! as in the WHATWG HTML standard. The content of events is parsed later, outside of the measured
//! path.

use memchr::memchr2;

use crate::record::{Arrival, SseEvent};

/// Finder of event boundaries, called after each append to a body.
#[derive(Debug, Clone, Default)]
pub struct SseDecoder {
    /// First byte of the event that is being received.
    event_start: usize,
    /// First byte of the line that is being received.
    line_start: usize,
    /// Whether the last byte was a CR; a LF that follows belongs to it.
    after_cr: bool,
}

impl SseDecoder {
    /// Scans the bytes of `body` from `scanned` on, which arrived at `arrival`, and appends every
    /// event that they complete to `events`.
    ///
    /// The range of an event contains its lines and their line ends, but not the empty line.
    pub fn scan(
        &mut self,
        body: &[u8],
        scanned: usize,
        arrival: Arrival,
        events: &mut Vec<SseEvent>,
    ) {
        if body.len() == scanned {
            // No new bytes. A LF that belongs to a CR may still come.
            return;
        }
        let mut at = scanned;
        if self.after_cr && body.get(at) == Some(&b'\n') {
            at += 1;
            self.skip_line_feed(at);
        }
        self.after_cr = false;
        while let Some(found) = body.get(at..).and_then(|rest| memchr2(b'\n', b'\r', rest)) {
            let line_end = at + found;
            at = line_end + 1;
            let is_empty = line_end == self.line_start;
            self.line_start = at;
            if is_empty {
                self.finish_event(line_end, arrival, events);
                self.event_start = at;
            }
            if body[line_end] == b'\r' {
                match body.get(at) {
                    Some(b'\n') => {
                        at += 1;
                        self.skip_line_feed(at);
                    }
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
    }

    /// Appends the rest as an event, for servers that end a stream without the final empty line.
    pub fn finish(&mut self, body: &[u8], arrival: Arrival, events: &mut Vec<SseEvent>) {
        self.finish_event(body.len(), arrival, events);
        self.event_start = body.len();
    }

    /// Returns the size in bytes of the event that is being received.
    #[must_use]
    pub const fn pending(&self, body: &[u8]) -> usize {
        body.len().saturating_sub(self.event_start)
    }

    /// Skips the LF of a CRLF, which belongs to the line end before it.
    fn skip_line_feed(&mut self, after: usize) {
        if self.event_start == self.line_start {
            self.event_start = after;
        }
        self.line_start = after;
    }

    fn finish_event(&self, end: usize, arrival: Arrival, events: &mut Vec<SseEvent>) {
        if end > self.event_start {
            events.push(SseEvent { arrival, start: self.event_start as u32, end: end as u32 });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use base::units::Nanos;

    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut decoder, mut body, mut events) = (SseDecoder::default(), Vec::new(), Vec::new());
        for (index, piece) in pieces.iter().enumerate() {
            let scanned = body.len();
            body.extend_from_slice(piece);
            decoder.scan(&body, scanned, Nanos(index as u64).into(), &mut events);
        }
        decoder.finish(&body, Nanos(99).into(), &mut events);
        events.iter().map(|event| body[event.range()].to_vec()).collect()
    }

    #[test]
    fn each_line_end_ends_events() {
        for end in ["\n", "\r\n", "\r"] {
            let body = format!("data: a{end}{end}data: b{end}data: c{end}{end}");
            let events = split(&[body.as_bytes()]);
            let lines = |event: &[u8]| {
                String::from_utf8_lossy(event).trim_end().replace("\r\n", "\n").replace('\r', "\n")
            };
            assert_eq!(
                events.iter().map(|event| lines(event)).collect::<Vec<_>>(),
                ["data: a", "data: b\ndata: c"],
                "{end:?}"
            );
        }
    }

    #[test]
    fn an_event_bears_the_arrival_of_the_read_that_completed_it() {
        let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
        let body = b"data: one\n\ndata: two\n\n";
        decoder.scan(&body[..10], 0, Nanos(1).into(), &mut events);
        assert!(events.is_empty());
        decoder.scan(&body[..15], 10, Nanos(2).into(), &mut events);
        assert_eq!(events, [SseEvent { arrival: Nanos(2).into(), start: 0, end: 10 }]);
        decoder.scan(body, 15, Nanos(3).into(), &mut events);
        assert_eq!(events[1], SseEvent { arrival: Nanos(3).into(), start: 11, end: 21 });
    }

    #[test]
    fn a_crlf_may_be_split_even_around_nothing() {
        let whole = [b"data: a\r\n".to_vec(), b"data: b\r\n".to_vec()];
        let pieces: [&[u8]; 6] = [b"data: a\r", b"", b"\n\r", b"", b"\ndata: b\r\n\r", b"\n"];
        assert_eq!(split(&pieces), whole);
    }

    #[test]
    fn empty_lines_alone_are_not_events() {
        assert!(split(&[b"\n\n\r\n\r\r\n"]).is_empty());
    }

    #[test]
    fn a_piece_without_bytes_changes_nothing() {
        let body = b"data: a\r\n\r\ndata: b\r\n\r\n";
        for cut in 0..body.len() {
            assert_eq!(split(&[&body[..cut], b"", &body[cut..]]), split(&[body]), "{cut}");
        }
    }

    #[test]
    fn a_stream_without_its_last_empty_line_keeps_the_event() {
        assert_eq!(split(&[b"data: a\n\ndata: b"]), [b"data: a\n".to_vec(), b"data: b".to_vec()]);
    }

    #[test]
    fn a_piece_of_nothing_parts_no_line_end() {
        assert_eq!(split(&[b"data: a\r", b"", b"\ndata: b\r\n\r\n"]).len(), 1);
        assert_eq!(split(&[b"", b"data: a\n", b"", b"\n"]).len(), 1);
    }

    proptest! {
        #[test]
        fn every_split_of_a_body_gives_the_same_events(
            body in "([ab:]|\n|\r|\r\n){0,60}",
            cuts in prop::collection::vec(0usize..64, 0..6),
        ) {
            let body = body.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&body[from..cut]);
                from = cut;
            }
            pieces.push(&body[from..]);
            prop_assert_eq!(split(&pieces), split(&[body]));
        }
    }
}
