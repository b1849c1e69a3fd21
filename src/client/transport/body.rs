//! Incremental processing of response bodies.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::header;

use super::budget::{Exhausted, Held};
use super::http1::ResponseHead;
use super::sse::SseDecoder;
use super::stamps::ReadArrival;
use crate::record::{ErrorKind, RequestError, ResponseBody, SseEvent};

/// Content type of server-sent events.
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// Bytes of a coded body that are decoded before their size is checked. Deflate expands a byte to
/// at most 1032 bytes.
const CODED_SLICE: usize = 4 << 10;

/// Maximum size of a whole stream, as a multiple of the maximum size of an event.
const EVENTS_PER_STREAM: usize = 4;

/// Processes a body incrementally: removes the content coding, appends the bytes and finds events.
pub(super) struct BodySink<'a> {
    coding: Option<Decoder>,
    /// Whether any bytes arrived. Without them, nothing can be truncated.
    has_begun: bool,
    events: Option<SseDecoder>,
    /// The read that the last bytes came from.
    read: ReadArrival,
    limit: usize,
    /// Decoded bytes that are not yet in the body.
    decoded: Vec<u8>,
    /// The body's part of the memory budget of all responses.
    held: Held<'a>,
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// `deflate` means zlib, but some servers send raw deflate; the first byte decides.
    Deflate,
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Bare(Box<DeflateDecoder<Vec<u8>>>),
}

impl<'a> BodySink<'a> {
    /// Creates a sink for a response with this head. `limit` is the maximum size of an event, or of
    /// a body without events; a stream with its events may have four times that size.
    pub(super) fn new(
        response: &ResponseHead<'_>,
        limit: usize,
        held: Held<'a>,
    ) -> Result<Self, RequestError> {
        let value = |name| response.values(&name).next();
        let is_event_stream = value(header::CONTENT_TYPE).is_some_and(|kind| {
            kind.trim_ascii_start()
                .get(..EVENT_STREAM.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(EVENT_STREAM))
        });
        let coding =
            value(header::CONTENT_ENCODING).map(|coding| coding.trim_ascii().to_ascii_lowercase());
        let coding = match coding.as_deref() {
            None | Some(b"" | b"identity") => None,
            Some(b"gzip" | b"x-gzip") => {
                Some(Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))))
            }
            Some(b"deflate") => Some(Decoder::Deflate),
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                let message =
                    format!("the response has the unsupported content encoding `{other}`");
                return Err(RequestError::new(
                    ErrorKind::Other,
                    "UnsupportedContentEncoding",
                    message,
                ));
            }
        };
        Ok(Self {
            coding,
            has_begun: false,
            events: is_event_stream.then(SseDecoder::default),
            read: ReadArrival::default(),
            limit,
            decoded: Vec::new(),
            held,
        })
    }

    pub(super) const fn is_event_stream(&self) -> bool {
        self.events.is_some()
    }

    /// Appends bytes that `read` returned.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        read: ReadArrival,
        body: &mut ResponseBody,
    ) -> Result<(), RequestError> {
        self.begin_read(read, body);
        self.has_begun |= !piece.is_empty();
        let Some(decoder) = &mut self.coding else {
            let scanned = body.bytes.len();
            self.make_room(piece.len(), body)?;
            body.bytes.extend_from_slice(piece);
            return self.appended(scanned, body);
        };
        decoder.choose(piece);
        for slice in piece.chunks(CODED_SLICE) {
            let scanned = body.bytes.len();
            let outcome = match &mut self.coding {
                Some(coding) => coding.decode(slice, &mut self.decoded),
                None => Ok(()),
            };
            self.take_decoded(body)?;
            outcome?;
            self.appended(scanned, body)?;
        }
        Ok(())
    }

    /// Appends the decoded bytes.
    fn take_decoded(&mut self, body: &mut ResponseBody) -> Result<(), RequestError> {
        self.make_room(self.decoded.len(), body)?;
        body.bytes.append(&mut self.decoded);
        Ok(())
    }

    /// Reserves room for `more` bytes within the budget of all responses. A full buffer is doubled,
    /// up to the maximum size of a whole stream.
    fn make_room(&mut self, more: usize, body: &mut ResponseBody) -> Result<(), RequestError> {
        let (length, capacity) = (body.bytes.len(), body.bytes.capacity());
        let needed = length + more;
        let bytes = if needed > capacity {
            needed.max((2 * capacity).min(self.whole_limit()))
        } else {
            capacity
        };
        let events = body.events.capacity() * size_of::<SseEvent>();
        self.hold(bytes.saturating_add(events))?;
        if bytes > capacity {
            body.bytes.reserve_exact(bytes - length);
        }
        Ok(())
    }

    /// Returns the maximum size of a whole stream with its events. Event offsets have 32 bits.
    fn whole_limit(&self) -> usize {
        self.limit.saturating_mul(EVENTS_PER_STREAM).min(u32::MAX as usize)
    }

    fn hold(&mut self, bytes: usize) -> Result<(), RequestError> {
        self.held.grow_to(bytes).map_err(|Exhausted { limit }| {
            let message = format!(
                "the response exceeds the memory limit of {} MiB for all responses being received",
                limit >> 20
            );
            RequestError::new(ErrorKind::Other, "OutOfMemoryForResponses", message)
        })
    }

    /// Starts to process bytes of `read`, which may differ from the read before.
    fn begin_read(&mut self, read: ReadArrival, body: &mut ResponseBody) {
        if read != self.read {
            self.end_read(body);
            self.read = read;
        }
    }

    /// Ends a read, all of whose bytes are here. The event at its end arrived exactly when the last
    /// byte did; framing of the next event is not considered.
    fn end_read(&self, body: &mut ResponseBody) {
        let is_between_events =
            self.events.as_ref().is_none_or(|events| events.pending(&body.bytes) == 0);
        if self.read.ends_at_stamp
            && is_between_events
            && let Some(event) = body.events.last_mut()
            && event.arrival == self.read.arrival
        {
            event.arrival.uncertainty = 0;
        }
    }

    /// Finds events in the appended bytes and enforces the limit.
    fn appended(&mut self, scanned: usize, body: &mut ResponseBody) -> Result<(), RequestError> {
        let arrival = self.read.arrival;
        let (pending, whole) = match &mut self.events {
            None => (body.bytes.len(), 0),
            Some(events) => {
                events.scan(&body.bytes, scanned, arrival, &mut body.events);
                let events_bytes = body.events.len() * size_of::<SseEvent>();
                (events.pending(&body.bytes), body.bytes.len() + events_bytes)
            }
        };
        let refuse = |what: &str, limit: usize| {
            let message = format!("the response has {what} of more than {limit} bytes");
            Err(RequestError::new(ErrorKind::Other, "ResponseTooLarge", message))
        };
        let most = self.whole_limit();
        if pending > self.limit {
            refuse("an event or a body", self.limit)
        } else if whole > most || body.bytes.len() > u32::MAX as usize {
            refuse("events", most)
        } else {
            Ok(())
        }
    }

    /// Completes the body; `read` is its last read.
    ///
    /// # Errors
    ///
    /// Fails if the content coding is incomplete.
    pub(super) fn finish(
        &mut self,
        read: ReadArrival,
        body: &mut ResponseBody,
    ) -> Result<(), RequestError> {
        self.begin_read(read, body);
        let arrival = read.arrival;
        let scanned = body.bytes.len();
        let decoded = match &mut self.coding {
            Some(decoder) if self.has_begun => decoder.finish(&mut self.decoded),
            _ => Ok(()),
        };
        let decoded = self.take_decoded(body).and(decoded);
        let outcome = decoded.and_then(|()| self.appended(scanned, body));
        match &mut self.events {
            Some(events) => events.finish(&body.bytes, arrival, &mut body.events),
            None if body.bytes.is_empty() => {}
            None => body.events.push(SseEvent { arrival, start: 0, end: body.bytes.len() as u32 }),
        }
        self.end_read(body);
        outcome
    }
}

impl Decoder {
    /// Distinguishes zlib from raw deflate by the first byte of the body.
    fn choose(&mut self, piece: &[u8]) {
        if let (Self::Deflate, Some(first)) = (&*self, piece.first()) {
            // The low half of the first byte of a zlib header is the method: 8.
            *self = if first & 0x0f == 8 {
                Self::Zlib(Box::new(ZlibDecoder::new(Vec::new())))
            } else {
                Self::Bare(Box::new(DeflateDecoder::new(Vec::new())))
            };
        }
    }

    /// Decodes `piece` and appends the result to `out`.
    fn decode(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), RequestError> {
        let flushed = match self {
            Self::Gzip(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Self::Zlib(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Self::Bare(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Self::Deflate => Ok(()),
        };
        self.take(flushed, out)
    }

    /// Appends the rest to `out`. Here gzip detects a truncated body.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RequestError> {
        let finished = match self {
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Bare(decoder) => decoder.try_finish(),
            Self::Deflate => Ok(()),
        };
        self.take(finished, out)
    }

    fn take(&mut self, outcome: io::Result<()>, out: &mut Vec<u8>) -> Result<(), RequestError> {
        match self {
            Self::Gzip(decoder) => out.append(decoder.get_mut()),
            Self::Zlib(decoder) => out.append(decoder.get_mut()),
            Self::Bare(decoder) => out.append(decoder.get_mut()),
            Self::Deflate => {}
        }
        outcome.map_err(|error| {
            let message = format!("cannot decode the response's content encoding: {error}");
            RequestError::new(ErrorKind::Other, "ContentEncodingError", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use base::units::Nanos;

    use super::super::budget::Budget;
    use super::*;
    use crate::record::Arrival;

    fn read(at: u64, ends_at_stamp: bool) -> ReadArrival {
        let arrival = Arrival { at: Nanos(at), read_lag: 1, uncertainty: 9 };
        ReadArrival { arrival, is_kernel: true, ends_at_stamp }
    }

    /// Returns the uncertainties of the events in `pieces`, each of which comes from its own read.
    fn uncertainties(pieces: &[(&str, ReadArrival)]) -> Vec<u32> {
        let headers =
            [httparse::Header { name: "Content-Type", value: b"text/event-stream; charset=utf-8" }];
        let budget = Budget::new(1 << 20);
        let head = ResponseHead::from_headers(&headers);
        let mut sink = BodySink::new(&head, 1000, budget.hold()).unwrap();
        let mut body = ResponseBody::default();
        for (piece, read) in pieces {
            sink.push(piece.as_bytes(), *read, &mut body).unwrap();
        }
        sink.finish(pieces.last().unwrap().1, &mut body).unwrap();
        body.events.iter().map(|event| event.arrival.uncertainty).collect()
    }

    #[test]
    fn only_what_a_read_ends_with_is_certain() {
        let (one, two) = (read(100, true), read(200, true));
        assert_eq!(uncertainties(&[("data: a\n\n", one), ("data: b\n\n", two)]), [0, 0]);
        assert_eq!(uncertainties(&[("data: a\n\ndata: b\n\n", one)]), [9, 0]);
        // The same in the frames of a chunked body.
        assert_eq!(uncertainties(&[("data: a\n\n", one), ("data: b\n\n", one)]), [9, 0]);
        // More bytes came after the first event, perhaps later.
        assert_eq!(uncertainties(&[("data: a\n\nda", one), ("ta: b\n\n", two)]), [9, 0]);
        assert_eq!(uncertainties(&[("data: a\n\n", read(100, false))]), [9]);
        // Without the final empty line, the event ends with the body.
        assert_eq!(uncertainties(&[("data: a", one)]), [0]);
    }

    #[test]
    fn what_a_later_read_brings_makes_no_earlier_event_certain() {
        let pieces = [("data: a\n\n", read(100, false)), ("\n", read(200, true))];
        assert_eq!(uncertainties(&pieces), [9]);
    }
}
