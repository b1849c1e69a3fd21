//! A tokenizer for clients that count tokens themselves: each word is a token, as for the server.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Puts the contents of all messages after each other.
const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ message['content'] }}{% if not loop.last %} {% endif %}{% endfor %}";

/// Writes a tokenizer of Hugging Face's library into `directory`. A word that the mock server does
/// not use is one token as well.
///
/// # Errors
///
/// If a file cannot be written.
pub(crate) fn write(directory: &Path) -> io::Result<()> {
    let words = mock_server::WORDS;
    let vocabulary: Map<String, Value> =
        (0..).zip(words).map(|(id, word)| ((*word).to_owned(), Value::from(id))).collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": words[0]},
    });
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 131_072,
        "clean_up_tokenization_spaces": false,
        "chat_template": CHAT_TEMPLATE,
    });
    fs::create_dir_all(directory)?;
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string())?;
    fs::write(directory.join("tokenizer_config.json"), config.to_string())
}
