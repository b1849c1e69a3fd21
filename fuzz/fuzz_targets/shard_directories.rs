//! The directories of two shards with any records and any manifests result in one report, or are
//! rejected with a message. The directories remain unchanged.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use results::artifacts::rebuild;
use results::console::{self, Style};
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

// Manifest and records of one shard, then of the other, separated by NUL.
fuzz_target!(|input: &[u8]| {
    // A prefix refers to other files.
    if input.windows(6).any(|text| text == b"prefix") {
        return;
    }
    let mut files = input.splitn(4, |byte| *byte == 0);
    let mut written = Vec::new();
    let parts: Vec<PathBuf> = ["a", "b"].map(|part| DIRECTORY.path().join(part)).into();
    for part in &parts {
        fs::create_dir_all(part).unwrap();
        for name in ["run_manifest.json", "profile_export.jsonl"] {
            let content = files.next().unwrap_or_default();
            fs::write(part.join(name), content).unwrap();
            written.push((part.join(name), content));
        }
    }
    match rebuild::combine(&parts, Some(DIRECTORY.path().join("whole")), true, &[], &[]) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(mut rebuilt) => {
            let text = console::render(&rebuilt.report, Style::FILE);
            rebuild::write(&mut rebuilt, &text).unwrap();
        }
    }
    for (path, content) in written {
        assert_eq!(fs::read(path).unwrap(), content);
    }
});
