//! Any messages with their lengths are OpenTelemetry traces or log records in protobuf, or rejected
//! with a message.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use aiperf::dataset::{Config, Dataset, FileFormat, Source, TraceSettings};
use aiperf::environment::Environment;
use aiperf::hub::Hub;
use aiperf::tokenizer::TokenCounter;
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

static COUNTER: LazyLock<TokenCounter> = LazyLock::new(TokenCounter::builtin);
static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

fuzz_target!(|bytes: &[u8]| {
    // The first byte of each piece is its length.
    let mut framed = Vec::new();
    let mut rest = bytes;
    while let Some((length, tail)) = rest.split_first() {
        let (message, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend(message);
        rest = tail;
    }
    fs::write(FILE.path(), framed).unwrap();
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
