//! Any `tiktoken.model` with any `tokenizer_config.json` is a tokenizer or rejected with a message, and a
//! text does not have more tokens than bytes.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use base::environment::Environment;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokens::tokenizer::{Source, TokenCounter};

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Each byte is a token. What follows are further lines.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let lines = (0..=u8::MAX).map(|byte| format!("{} {byte}\n", base64(byte)));
    lines.collect::<String>().into_bytes()
});

fn base64(byte: u8) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let [high, low] = [byte >> 2, (byte & 3) << 4].map(|digit| DIGITS[usize::from(digit)] as char);
    format!("{high}{low}==")
}

fuzz_target!(|input: (bool, &[u8], bool, &str, &str)| {
    let (has_bytes, model, is_kimi, config, text) = input;
    let model = if has_bytes { [&BYTES, model].concat() } else { model.to_vec() };
    let kimi = format!(
        r#"{{"auto_map": {{"AutoTokenizer": "tokenization_kimi.TikTokenTokenizer"}}, "added_tokens_decoder": {}}}"#,
        if config.is_empty() { "{}" } else { config }
    );
    fs::write(DIRECTORY.path().join("tiktoken.model"), model).unwrap();
    fs::write(
        DIRECTORY.path().join("tokenizer_config.json"),
        if is_kimi { &*kimi } else { config },
    )
    .unwrap();
    let source = Source::Path(DIRECTORY.path().to_owned());
    if let Ok(counter) = TokenCounter::load(&source, Environment::new(&|_| None)) {
        assert!(counter.count(text) <= text.len() as u64);
    }
});
