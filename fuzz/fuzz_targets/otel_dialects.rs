//! Any attributes of a request are read, in whatever dialect they are.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use aiperf::dataset::{Config, Dataset, FileFormat, Source, TraceSettings};
use aiperf::environment::Environment;
use aiperf::hub::Hub;
use aiperf::tokenizer::TokenCounter;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tempfile::NamedTempFile;

static COUNTER: LazyLock<TokenCounter> = LazyLock::new(TokenCounter::builtin);
static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

fuzz_target!(|bytes: &[u8]| {
    // Each line is the name of an attribute and its value.
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let attributes: Vec<_> =
        pairs.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect();
    let span = json!({"traceId": "a1", "spanId": "b2", "startTimeUnixNano": 1,
                      "endTimeUnixNano": 2, "attributes": attributes});
    let spans = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]});
    fs::write(FILE.path(), spans.to_string()).unwrap();
    // Lengths in the traces are limited, since their prompts would take long to generate.
    let traces = TraceSettings { max_input_tokens: Some(1000), ..TraceSettings::default() };
    let (path, format) = (FILE.path().to_owned(), Some(FileFormat::Otel));
    let source = Source::File { path, format, traces, entries: 1, batch_size: 1 };
    let config = Config { random_seed: Some(1), ..Config::new(source, vec!["m".to_owned()]) };
    match Dataset::load(&config, &COUNTER, true, &Hub::new(Environment::new(&|_| None))) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(dataset) => assert!(dataset.conversations.iter().all(|it| !it.turns.is_empty())),
    }
});
