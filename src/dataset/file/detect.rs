//! Detection of the format of a file from its beginning.

use serde_json::{Map, Value};

use super::mapping::Mapping;
use super::opening::Opening;
use super::{Fault, FileFormat, MAPPINGS, dag, exgentic, json_reason, jsonl, otel, tracelab, weka};

/// What is said of a text or CSV file.
const NOT_JSON: &str = "not JSON: each line of a dataset is an object, such as {\"text\": \"Hello\"}; \
                        convert text and CSV files";

/// Detects the format from the first line that is not blank; `None` if all are blank.
pub(super) fn detect(opening: &mut Opening<'_>) -> Result<Option<FileFormat>, Fault> {
    if otel::encoding::is_framed(&opening.bytes) {
        return Ok(Some(FileFormat::Otel));
    }
    let Some(start) = opening.first_byte()? else { return Ok(None) };
    if opening.bytes[start] == b'[' {
        return Ok(Some(FileFormat::ShareGpt));
    }
    let number = 1 + memchr::memchr_iter(b'\n', &opening.bytes[..start]).count() as u64;
    // A line that is too long for JSONL can still be a document on one line.
    let Some(line) = opening.line_at(start)? else {
        return Ok(Some(document_format(&opening.bytes)));
    };
    match serde_json::from_slice::<Map<String, Value>>(line) {
        Ok(members) => format_with(&members).map(Some).ok_or(Fault::UnknownFormat),
        Err(error) => match mapped(|mapping| mapping.has_header(line)) {
            Some(format) => Ok(Some(format)),
            // An object that continues on the next line is a document, not JSONL.
            None if error.is_eof() => Ok(Some(document_format(&opening.bytes))),
            None if line.trim_ascii_start().starts_with(b"{") => {
                Err(Fault::Line(number, json_reason(&error)))
            }
            None => Err(Fault::Line(number, NOT_JSON.to_owned())),
        },
    }
}

/// Returns the format of a document that has several lines and begins with these bytes.
fn document_format(bytes: &[u8]) -> FileFormat {
    let position = |name: &str| memchr::memmem::find(bytes, name.as_bytes());
    let is_first = |one: Option<usize>, other: Option<usize>| {
        one.is_some_and(|one| other.is_none_or(|other| one < other))
    };
    if is_first(position("\"hash_id_scope\""), position("\"data\"")) {
        FileFormat::WekaTrace
    } else if otel::document::begins(bytes) {
        FileFormat::Otel
    } else {
        FileFormat::InputsJson
    }
}

/// Returns the format whose first line has these members.
pub(super) fn format_with(members: &Map<String, Value>) -> Option<FileFormat> {
    if members.contains_key("question_id") && members.contains_key("messages") {
        return Some(FileFormat::SpeedBench("qualitative"));
    }
    if jsonl::is_batch(members) {
        return Some(FileFormat::OpenAiBatch);
    }
    let has = |mapping: &Mapping| mapping.has(members);
    if let Some(format) = mapped(|mapping| mapping.members.len() > 1 && has(mapping)) {
        return Some(format);
    }
    if exgentic::has(members) {
        return Some(FileFormat::Exgentic);
    }
    if tracelab::has(members) {
        return Some(FileFormat::TraceLab);
    }
    if weka::has(members) {
        return Some(FileFormat::WekaTrace);
    }
    if dag::has(members) {
        return Some(FileFormat::DagJsonl);
    }
    if otel::has(members) {
        return Some(FileFormat::Otel);
    }
    let by_member = |formats: &[(&str, FileFormat)]| {
        let found = formats.iter().find(|(name, _)| members.contains_key(*name));
        found.map(|(_, format)| *format)
    };
    by_member(&CONVERSATIONS).or_else(|| mapped(has)).or_else(|| by_member(&REQUESTS))
}

/// Members by which files with a conversation or a document in each row are detected.
const CONVERSATIONS: [(&str, FileFormat); 2] =
    [("data", FileFormat::InputsJson), ("turns", FileFormat::MultiTurn)];

/// Members by which files with a request in each row are detected that are not mappings.
const REQUESTS: [(&str, FileFormat); 14] = [
    ("input_length", FileFormat::MooncakeTrace),
    ("text_input", FileFormat::MooncakeTrace),
    ("messages", FileFormat::MooncakeTrace),
    ("payload", FileFormat::MooncakeTrace),
    ("text", FileFormat::SingleTurn),
    ("texts", FileFormat::SingleTurn),
    ("image", FileFormat::SingleTurn),
    ("images", FileFormat::SingleTurn),
    ("image_uuids", FileFormat::SingleTurn),
    ("audio", FileFormat::SingleTurn),
    ("audios", FileFormat::SingleTurn),
    ("video", FileFormat::SingleTurn),
    ("videos", FileFormat::SingleTurn),
    ("prompt", FileFormat::SingleTurn),
];

/// Returns the first of the formats in which each row is a request that `matches`.
fn mapped(matches: impl Fn(&Mapping) -> bool) -> Option<FileFormat> {
    MAPPINGS.iter().find(|(_, mapping)| matches(mapping)).map(|(format, _)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::mapping::Rows;

    #[test]
    fn every_format_of_rows_is_detected_and_no_other_one_has_its_marks() {
        for (format, mapping) in MAPPINGS {
            if let Rows::Csv(columns) = &mapping.rows {
                let header = columns.names().join(", ");
                assert_eq!(mapped(|other| other.has_header(header.as_bytes())), Some(*format));
            } else {
                let row = mapping.members.iter().map(|name| ((*name).to_owned(), Value::Null));
                assert_eq!(format_with(&row.collect()), Some(*format));
            }
        }
    }
}
