//! Faults are found, or not, in the output of any request with any texts.
#![no_main]

use client::endpoint::EndpointType;
use libfuzzer_sys::fuzz_target;
use measure::metrics::fixture::{START, dataset, measurer, record, registry, whole};
use measure::metrics::output::Faults;
use serde_json::json;

// The body of the request, the output, and the reasoning before it.
fuzz_target!(|input: (Vec<u8>, String, String)| {
    let (payload, content, reasoning) = input;
    let message = json!({"content": content, "reasoning_content": reasoning});
    let response = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    let mut request = record(START, whole(START, 1, &response.to_string()));
    request.payload = payload.into();
    let registry = registry(EndpointType::CHAT, Default::default(), false);
    let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(request);
    let faults = measured.observation.output.faults;
    assert_eq!(Faults::from_names(&faults.names().unwrap_or_default()), faults);
});
