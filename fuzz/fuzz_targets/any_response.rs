//! Any body is content or an error, and so is the value at any path in it.
#![no_main]

use base::units::Nanos;
use client::endpoint::{Config, EndpointType, build, chat_messages};
use client::record::{ResponseBody, SseEvent};
use libfuzzer_sys::fuzz_target;

// The first line is the path, the rest is the body.
fuzz_target!(|input: &[u8]| {
    let line = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let path = String::from_utf8_lossy(&input[..line]).into_owned();
    let bytes = input[line..].to_vec();
    let _ = chat_messages(&bytes);
    let event = SseEvent { arrival: Nanos(1).into(), start: 0, end: bytes.len() as u32 };
    for (endpoint_type, is_event_stream) in [
        (EndpointType::RAW, true),
        (EndpointType::RAW, false),
        (EndpointType::COHERE_RANKINGS, false),
        (EndpointType::IMAGE_GENERATION, true),
        (EndpointType::IMAGE_GENERATION, false),
        (EndpointType::AUDIO_TRANSCRIPTION, true),
        (EndpointType::AUDIO_TRANSCRIPTION, false),
        (EndpointType::VIDEO_GENERATION, false),
    ] {
        let endpoint = build(&Config {
            extra_inputs: vec![("response_field".to_owned(), path.clone().into())],
            ..Config::new(endpoint_type, is_event_stream)
        });
        let body = ResponseBody { bytes: bytes.clone(), is_event_stream, events: vec![event] };
        if let Ok(Some(step)) = endpoint.next_step(None, &body) {
            assert!(step.suffix.starts_with('/') && step.suffix.is_ascii());
            let _ = endpoint.next_step(Some(&step), &body);
        }
        let parsed = endpoint.parse(&body);
        assert!(parsed.error.is_some() || !parsed.content.is_empty());
    }
});
