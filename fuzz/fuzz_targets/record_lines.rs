//! Any records, with any manifest and any summary, result in a report whose files can be written
//! and read again, or are rejected with a message.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use results::artifacts::rebuild;
use results::console::{self, Style};
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fn put(name: &str, content: Option<&[u8]>) {
    let path = DIRECTORY.path().join(name);
    match content {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => drop(fs::remove_file(path)),
    }
}

// Records, a summary and a manifest, separated by NUL.
fuzz_target!(|input: &[u8]| {
    let mut files = input.splitn(3, |byte| *byte == 0);
    let records = files.next().unwrap_or_default();
    let [summary, manifest] = [(); 2].map(|()| files.next().filter(|file| !file.is_empty()));
    put("run_manifest.json", manifest);
    put("profile_export_aiperf.json", summary);
    put("profile_export.jsonl", Some(records));
    match rebuild::rebuild(DIRECTORY.path()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        // A prefix in a manifest refers to other files in the directory.
        Ok(mut rebuilt) if manifest.is_none() => {
            let text = console::render(&rebuilt.report, Style::FILE);
            rebuild::write(&mut rebuilt, &text).unwrap();
            rebuild::rebuild(DIRECTORY.path()).unwrap();
        }
        Ok(_) => {}
    }
});
