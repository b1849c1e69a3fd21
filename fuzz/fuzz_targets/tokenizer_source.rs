//! Any tokenizer name is valid; looking it up in a cache never fails.
#![no_main]

use std::sync::LazyLock;

use base::environment::Environment;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokens::tokenizer::{self, Source};

static CACHE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|input: (&str, &str)| {
    let (name, revision) = input;
    let source = Source::parse(name).at_revision(revision);
    assert!(name == "builtin" || source.to_string() == name);
    let environment = |variable: &str| {
        variable.starts_with("HF_").then(|| CACHE.path().to_string_lossy().into_owned())
    };
    let _ = tokenizer::is_local(name, revision, Environment::new(&environment));
});
