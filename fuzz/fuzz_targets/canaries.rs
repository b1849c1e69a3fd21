//! Any file of canaries is rejected with a message, or has canaries that are the same once written.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use dataset::Canary;
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

fuzz_target!(|bytes: &[u8]| {
    fs::write(FILE.path(), bytes).unwrap();
    match Canary::read(FILE.path()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(canaries) => {
            let lines = canaries.iter().map(|canary| serde_json::to_string(canary).unwrap() + "\n");
            fs::write(FILE.path(), lines.collect::<String>()).unwrap();
            assert_eq!(Canary::read(FILE.path()).unwrap(), canaries);
        }
    }
});
