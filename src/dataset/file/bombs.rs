//! Small files that would take much memory or time: every format rejects each of them by a limit.

use std::borrow::Cow;
use std::collections::HashMap;

use super::mapping::{Columns, Rows};
use super::*;
use crate::TraceSettings;

/// The bytes that a file of a format has before a value.
fn before_a_value(format: Option<FileFormat>) -> Cow<'static, str> {
    if let Some(columns) = columns(format) {
        return format!("{}\n", columns.names().join(",")).into();
    }
    match format {
        Some(FileFormat::ShareGpt) => r#"[{"conversations": [{"from": "human", "value": "#,
        Some(FileFormat::WekaTrace) => r#"{"id": "a", "requests": [{"type": "n", "model": "#,
        Some(FileFormat::Otel) => r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "#,
        Some(FileFormat::InputsJson) => r#"{"data": [{"payloads": [{"prompt": "#,
        _ => r#"{"text": "#,
    }
    .into()
}

/// The columns of a format of CSV, which has neither elements nor depth.
fn columns(format: Option<FileFormat>) -> Option<Columns> {
    match format?.mapping()?.rows {
        Rows::Csv(columns) => Some(columns),
        _ => None,
    }
}

/// Values that are too long, that have too many elements, and that are too deep: how they begin, what is
/// repeated how often, and words of the error, which may be that a value of its kind is not expected.
const VALUES: [(&str, &str, usize, &[&str]); 3] = [
    ("\"", "x", 66 << 20, &["64 MiB"]),
    ("[0", ",0", 33 << 20, &["8388608 elements", "64 MiB", "invalid type"]),
    ("", "[", 1 << 20, &["recursion limit exceeded", "invalid type", "EOF while parsing", "valid"]),
];

fn packed(begin: &str, more: &str, count: usize) -> Vec<u8> {
    let content = [begin, &more.repeat(count)].concat();
    let packed = zstd::encode_all(content.as_bytes(), 3).unwrap();
    assert!(packed.len() < 50_000, "{}", packed.len());
    packed
}

fn error(packed: &[u8], format: Option<FileFormat>) -> String {
    let counter = TokenCounter::builtin();
    let settings = TraceSettings::default();
    match read_from(packed, Path::new(""), format, &settings, &counter, Seed(1)) {
        Ok(loaded) => panic!("{format:?}: {} conversations", loaded.conversations.len()),
        Err(fault) => named(fault, Path::new("bomb")).to_string(),
    }
}

/// All formats, and the detection of the format.
fn formats() -> Vec<Option<FileFormat>> {
    FileFormat::all().map(Some).chain([None]).collect()
}

#[test]
fn blanks_before_the_first_byte_are_limited_in_every_format() {
    // Lines of one byte take as long as all formats with longer ones, so that few formats have them.
    let empty = packed("", "\n", 66 << 20);
    let blank = packed("", &format!("{}\n", " ".repeat(63)), 66 << 14);
    for format in formats() {
        let is_empty = matches!(format, None | Some(FileFormat::MooncakeTrace));
        // A line of blanks is a header of CSV.
        let lines = if is_empty || columns(format).is_some() { &empty } else { &blank };
        let found = error(lines, format);
        assert!(found.contains(" MiB"), "{format:?}: {found}");
    }
    let found = error(&packed("", " ", 66 << 20), None);
    assert!(found.contains("begins with more than 16 MiB of blanks"), "{found}");
}

#[test]
fn texts_elements_and_depth_are_limited_in_every_format() {
    for (begin, more, count, words) in VALUES {
        let mut known: HashMap<Cow<'_, str>, Vec<u8>> = HashMap::new();
        for format in formats() {
            if columns(format).is_some() && begin != "\"" {
                continue;
            }
            let before = before_a_value(format);
            let bomb = known
                .entry(before)
                .or_insert_with_key(|before| packed(&[before, begin].concat(), more, count));
            let found = error(bomb, format);
            assert!(words.iter().any(|it| found.contains(it)), "{format:?}: {found}");
        }
    }
}
