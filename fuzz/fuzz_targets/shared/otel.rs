//! Loads bytes as a trace of OpenTelemetry.

use std::fs;
use std::sync::LazyLock;

use base::environment::Environment;
use dataset::{Config, Dataset, FileFormat, Source, TraceSettings};
use tempfile::NamedTempFile;
use tokens::hub::Hub;
use tokens::tokenizer::TokenCounter;

static COUNTER: LazyLock<TokenCounter> = LazyLock::new(TokenCounter::builtin);
static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

/// Checks that a file with these bytes is rejected with a reason, or has conversations with turns.
pub fn load(bytes: &[u8]) {
    fs::write(FILE.path(), bytes).unwrap();
    // Lengths in the traces are limited, since their prompts would take long to generate.
    let traces = TraceSettings { max_input_tokens: Some(1000), ..TraceSettings::default() };
    let (path, format) = (FILE.path().to_owned(), Some(FileFormat::Otel));
    let source = Source::File { path, format, traces, entries: 1, batch_size: 1 };
    let config = Config { random_seed: Some(1), ..Config::new(source, vec!["m".to_owned()]) };
    match Dataset::load(&config, &COUNTER, true, &Hub::new(Environment::new(&|_| None))) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(dataset) => assert!(dataset.conversations.iter().all(|it| !it.turns.is_empty())),
    }
}
