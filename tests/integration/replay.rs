//! Responses of real servers, repeated byte for byte over a socket. However the bytes are split,
//! content, usage and text are those of the capture.

use base::units::Nanos;
use client::record::{ResponseBody, SseEvent};
use client::transport::SseDecoder;

use crate::endpoint::{STREAMS, capture, dialect};
use crate::support::load::Load;
use crate::support::raw_server;

/// Returns the bytes of the stream as HTTP chunks of `size` bytes.
fn framed(body: &str, size: usize) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let mut bytes = head.as_bytes().to_vec();
    for piece in body.as_bytes().chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

#[test]
fn captures_over_a_socket_read_as_they_stand() {
    for (server, name, pieces, text, _) in STREAMS {
        let body = capture(server, name).body;
        for (chunk, write) in [(1, 1_000_000), (17, 1), (1000, 7), (100_000, 64)] {
            let bytes = framed(&body, chunk);
            let address = raw_server::serve(move |_, stream| {
                if raw_server::read_request(stream).is_some() {
                    for piece in bytes.chunks(write) {
                        raw_server::write(stream, piece);
                    }
                }
            });
            let record = Load::on(&format!("http://{address}")).run().records.remove(0);
            let context = format!("{server} {name} {chunk} {write}");
            assert_eq!(record.error, None, "{context}");
            let parsed = dialect(name).parse(&record.body);
            assert_eq!(parsed.error, None, "{context}");
            assert_eq!(parsed.output_text, *text, "{context}");
            assert_eq!(parsed.content.len(), *pieces, "{context}");
            assert!(parsed.content.is_sorted_by_key(|piece| piece.arrival.at), "{context}");
        }
    }
}

#[test]
fn every_split_of_a_capture_gives_the_same_events() {
    for (server, name, ..) in STREAMS {
        let body = capture(server, name).body.into_bytes();
        let split = |at: usize| {
            let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
            decoder.scan(&body[..at], 0, Nanos(1).into(), &mut events);
            decoder.scan(&body, at, Nanos(2).into(), &mut events);
            decoder.finish(&body, Nanos(2).into(), &mut events);
            events
        };
        let whole: Vec<_> = split(body.len()).iter().map(SseEvent::range).collect();
        for at in 0..body.len() {
            let events = split(at);
            assert!(
                events.iter().map(SseEvent::range).eq(whole.iter().cloned()),
                "{server} {name} {at}"
            );
            // Events that were complete before the split arrived first.
            assert!(
                events
                    .iter()
                    .all(|event| ((event.end as usize) < at) == (event.arrival.at == Nanos(1)))
            );
        }
        let read = ResponseBody { events: split(0), bytes: body.clone(), is_event_stream: true };
        assert_eq!(dialect(name).parse(&read).error, None);
    }
}
