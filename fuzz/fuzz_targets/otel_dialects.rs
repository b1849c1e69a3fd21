//! Any attributes of a request are read, in whatever dialect they are.
#![no_main]

#[path = "shared/otel.rs"]
mod otel;

use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|bytes: &[u8]| {
    // Each line is the name of an attribute and its value.
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let attributes: Vec<_> =
        pairs.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect();
    let span = json!({"traceId": "a1", "spanId": "b2", "startTimeUnixNano": 1,
                      "endTimeUnixNano": 2, "attributes": attributes});
    let spans = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]});
    otel::load(spans.to_string().as_bytes());
});
