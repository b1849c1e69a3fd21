//! Response bodies, piece by piece.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};

use super::sse::SseDecoder;
use super::stamps::ReadArrival;
use crate::record::{ErrorKind, RequestError, ResponseBody, SseEvent};

/// Bytes of a coded body that are decoded before their size is looked at:
/// deflate turns a byte into at most 1032.
const CODED_SLICE: usize = 4 << 10;

/// A whole stream may be this many times as long as one event.
const EVENTS_PER_STREAM: usize = 4;

/// Takes the pieces of a body: removes the content coding, appends, finds events.
pub(super) struct BodySink {
    coding: Option<Decoder>,
    /// A piece has come: without one there is nothing that could be cut.
    has_begun: bool,
    events: Option<SseDecoder>,
    /// The read that brought the last piece.
    read: ReadArrival,
    limit: usize,
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// `deflate` means zlib, but some send it bare: the first byte tells.
    Deflate,
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Bare(Box<DeflateDecoder<Vec<u8>>>),
}

impl BodySink {
    /// A sink for a response with these headers; `limit` bounds an event, or a
    /// body without events, and four times that a stream with its events.
    pub(super) fn new(headers: &HeaderMap, limit: usize) -> Result<Self, RequestError> {
        let value =
            |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let is_event_stream = value(header::CONTENT_TYPE).is_some_and(|kind| {
            kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
        });
        let coding =
            value(header::CONTENT_ENCODING).map(|coding| coding.trim().to_ascii_lowercase());
        let coding = match coding.as_deref() {
            None | Some("" | "identity") => None,
            Some("gzip" | "x-gzip") => {
                Some(Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))))
            }
            Some("deflate") => Some(Decoder::Deflate),
            Some(other) => {
                let message =
                    format!("the response has content-encoding `{other}`, which is not supported");
                return Err(RequestError::new(
                    ErrorKind::Parse,
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
        })
    }

    /// Whether the body is an event stream.
    pub(super) const fn is_event_stream(&self) -> bool {
        self.events.is_some()
    }

    /// Appends a piece that `read` brought.
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
            body.bytes.extend_from_slice(piece);
            return self.appended(scanned, body);
        };
        decoder.choose(piece);
        for slice in piece.chunks(CODED_SLICE) {
            let scanned = body.bytes.len();
            if let Some(decoder) = &mut self.coding {
                decoder.decode(slice, &mut body.bytes)?;
            }
            self.appended(scanned, body)?;
        }
        Ok(())
    }

    /// What comes now was brought by `read`, which may be another one than before.
    fn begin_read(&mut self, read: ReadArrival, body: &mut ResponseBody) {
        if read != self.read {
            self.end_read(body);
            self.read = read;
        }
    }

    /// All bytes of the last read are here. The event that they end with came just
    /// when the last byte did; framing of the next one is not looked for.
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

    /// Finds the events in what was appended, and holds it to the limit.
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
            Err(RequestError::new(ErrorKind::Parse, "ResponseTooLarge", message))
        };
        // Event offsets are 32 bits wide.
        let most = self.limit.saturating_mul(EVENTS_PER_STREAM).min(u32::MAX as usize);
        if pending > self.limit {
            refuse("an event or a body", self.limit)
        } else if whole > most || body.bytes.len() > u32::MAX as usize {
            refuse("events", most)
        } else {
            Ok(())
        }
    }

    /// The body is complete, by what `read` brought last: an error where its
    /// content coding is not.
    pub(super) fn finish(
        &mut self,
        read: ReadArrival,
        body: &mut ResponseBody,
    ) -> Result<(), RequestError> {
        self.begin_read(read, body);
        let arrival = read.arrival;
        let scanned = body.bytes.len();
        let decoded = match &mut self.coding {
            Some(decoder) if self.has_begun => decoder.finish(&mut body.bytes),
            _ => Ok(()),
        };
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
    /// Tells zlib from bare deflate by the first byte of the body.
    fn choose(&mut self, piece: &[u8]) {
        if let (Self::Deflate, Some(first)) = (&*self, piece.first()) {
            // The low half of a zlib header's first byte names the method: 8.
            *self = if first & 0x0f == 8 {
                Self::Zlib(Box::new(ZlibDecoder::new(Vec::new())))
            } else {
                Self::Bare(Box::new(DeflateDecoder::new(Vec::new())))
            };
        }
    }

    /// Appends to `out` all that can be decoded after `piece`.
    fn decode(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), RequestError> {
        let flushed = match self {
            Self::Gzip(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Self::Zlib(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Self::Bare(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Self::Deflate => Ok(()),
        };
        self.take(flushed, out)
    }

    /// Appends to `out` what is left; gzip tells here whether it was cut.
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
            let message = format!("the response's content encoding is broken: {error}");
            RequestError::new(ErrorKind::Parse, "ContentEncodingError", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Arrival;
    use crate::units::Nanos;

    fn read(at: u64, ends_at_stamp: bool) -> ReadArrival {
        let arrival = Arrival { at: Nanos(at), read_lag: 1, uncertainty: 9 };
        ReadArrival { arrival, is_kernel: true, ends_at_stamp }
    }

    /// The uncertainties of the events that pieces make, each with its read.
    fn uncertainties(pieces: &[(&str, ReadArrival)]) -> Vec<u32> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "text/event-stream".parse().unwrap());
        let mut sink = BodySink::new(&headers, 1000).unwrap();
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
        // The same, in the frames that a chunked body comes in.
        assert_eq!(uncertainties(&[("data: a\n\n", one), ("data: b\n\n", one)]), [9, 0]);
        // Something came after the first event, perhaps later.
        assert_eq!(uncertainties(&[("data: a\n\nda", one), ("ta: b\n\n", two)]), [9, 0]);
        assert_eq!(uncertainties(&[("data: a\n\n", read(100, false))]), [9]);
        // Without its last empty line the event ends with the body.
        assert_eq!(uncertainties(&[("data: a", one)]), [0]);
    }

    #[test]
    fn what_a_later_read_brings_makes_no_earlier_event_certain() {
        let pieces = [("data: a\n\n", read(100, false)), ("\n", read(200, true))];
        assert_eq!(uncertainties(&pieces), [9]);
    }
}
