//! Any file is a dataset or rejected with a message. Every conversation of a dataset has turns, and
//! the body of every turn is JSON.
#![no_main]

use std::fs;
use std::sync::{Arc, LazyLock};

use base::environment::Environment;
use client::endpoint::{self, EndpointType};
use dataset::{Config, Dataset, FileFormat, Source, Synthesis, TraceSettings};
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;
use tokens::hub::Hub;
use tokens::tokenizer::TokenCounter;

static COUNTER: LazyLock<TokenCounter> = LazyLock::new(TokenCounter::builtin);
static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

// The first byte selects the format, the rest is the file.
fuzz_target!(|input: &[u8]| {
    let Some((number, bytes)) = input.split_first() else { return };
    fs::write(FILE.path(), bytes).unwrap();
    let formats: Vec<_> = [None].into_iter().chain(FileFormat::all().map(Some)).collect();
    let format = formats[usize::from(*number) % formats.len()];
    let traces = TraceSettings { synthesis: synthesis(*number), ..TraceSettings::default() };
    let is_pool = format == Some(FileFormat::RandomPool);
    let batch_size = if is_pool { 1 + usize::from(*number) % 3 } else { 1 };
    let source =
        Source::File { path: FILE.path().to_owned(), format, traces, entries: 1, batch_size };
    let config = Config { random_seed: Some(1), ..Config::new(source, vec!["m".to_owned()]) };
    match Dataset::load(&config, &COUNTER, true, &Hub::new(Environment::new(&|_| None))) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(dataset) => check(&dataset),
    }
});

/// Changes half of the traces.
fn synthesis(number: u8) -> Synthesis {
    match number {
        ..128 => Synthesis::default(),
        _ => Synthesis {
            prefix_len_multiplier: 1.5,
            prompt_len_multiplier: 0.5,
            prefix_root_multiplier: 2,
            ..Synthesis::default()
        },
    }
}

fn check(dataset: &Dataset) {
    let chat = endpoint::build(&endpoint::Config::new(EndpointType::CHAT, true));
    assert!(!dataset.conversations.is_empty());
    for conversation in &dataset.conversations {
        assert!(!conversation.turns.is_empty());
        let answers = vec![Some(Arc::from("x")); conversation.turns.len()];
        for turn in 0..conversation.turns.len() {
            // A trace may request prompts of millions of tokens.
            if conversation.turns[..=turn]
                .iter()
                .flat_map(|t| &t.texts)
                .any(|t| t.bytes() > 1 << 16)
            {
                break;
            }
            let body = chat.request_body(conversation, turn, &answers[..turn]);
            serde_json::from_slice::<&serde_json::value::RawValue>(&body).unwrap();
        }
    }
}
