//! Any bytes, split into events anywhere, are a response of each dialect: content or an error. The
//! first event alone determines whether it has content.
#![no_main]

use base::units::Nanos;
use client::endpoint::{Config, EndpointType, build};
use client::record::{ResponseBody, SseEvent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, u8, Vec<u8>)| {
    let (is_event_stream, cut, bytes) = input;
    let end = bytes.len() as u32;
    let middle = u32::from(cut).min(end);
    let events = [(0, middle), (middle, end)]
        .map(|(start, end)| SseEvent { arrival: Nanos(1).into(), start, end })
        .to_vec();
    let body = ResponseBody { bytes, is_event_stream, events };
    for endpoint_type in EndpointType::ALL.iter().copied() {
        let endpoint = build(&Config::new(endpoint_type, true));
        let parsed = endpoint.parse(&body);
        assert!(parsed.error.is_some() || !parsed.content.is_empty());
        if is_event_stream && endpoint_type.traits().supports_streaming {
            let bears = endpoint.has_content(&body.bytes[..middle as usize]);
            let first = ResponseBody { events: body.events[..1].to_vec(), ..body.clone() };
            assert_eq!(bears, !endpoint.parse(&first).content.is_empty());
        }
    }
});
