//! Datasets from files.

mod bailian;
mod burst_gpt;
mod inputs_json;
mod jsonl;
mod lines;
mod mooncake;
mod sharegpt;
#[cfg(test)]
mod tests;
mod trace;

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use serde_json::{Map, Value};

use self::lines::{Lines, MAX_LINE_BYTES};
use self::trace::Trace;
use super::{Conversation, DatasetError, FileFormat, Seed, TraceSettings};
use crate::tokenizer::TokenCounter;

/// Why a reader gave up, before the file's name is added.
#[derive(Debug)]
enum Fault {
    /// The system could not read on.
    Read(std::io::Error),
    /// A line, from 1, is not what it should be.
    Line(u64, String),
    /// An entry of a document, from 1, is not what it should be.
    Entry(usize, String),
    /// The content is of no known format.
    UnknownFormat,
    /// A flag's value does not go with the file or the tokenizer.
    Setting(&'static str, String),
}

/// Conversations, and a note on what was left out.
#[derive(Debug, Default)]
struct Loaded {
    conversations: Vec<Conversation>,
    note: String,
}

/// Reads the file at `path`, which may be a pipe: it is read once.
pub(super) fn read(
    path: &Path,
    format: Option<FileFormat>,
    traces: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Vec<Conversation>, DatasetError> {
    let named = |fault| match fault {
        Fault::Read(source) => DatasetError::Read { path: path.to_owned(), source },
        Fault::Line(line, reason) => DatasetError::Line { path: path.to_owned(), line, reason },
        Fault::Entry(entry, reason) => DatasetError::Entry { path: path.to_owned(), entry, reason },
        Fault::UnknownFormat => DatasetError::UnknownFormat { path: path.to_owned() },
        Fault::Setting(flag, reason) => DatasetError::Setting { flag, reason },
    };
    let file = File::open(path).map_err(Fault::Read).map_err(named)?;
    let loaded = read_from(file, path, format, traces, counter, seed).map_err(named)?;
    if !loaded.note.is_empty() {
        tracing::info!(path = %path.display(), "dataset{}", loaded.note);
    }
    if loaded.conversations.is_empty() {
        return Err(DatasetError::Empty { path: path.to_owned(), note: loaded.note });
    }
    Ok(loaded.conversations)
}

fn read_from(
    input: impl Read,
    path: &Path,
    format: Option<FileFormat>,
    traces: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Loaded, Fault> {
    let mut opening = Opening::read(input)?;
    let Some(format) = format.map_or_else(|| detect(&mut opening), |format| Ok(Some(format)))?
    else {
        return Ok(Loaded::default());
    };
    let input = BufReader::with_capacity(1 << 16, Cursor::new(opening.bytes).chain(opening.rest));
    if !is_trace(format)
        && let Some(flag) = given(traces)
    {
        let reason = "it is about traces, and the file is none".to_owned();
        return Err(Fault::Setting(flag, reason));
    }
    let trace = |block_tokens| Trace::new(traces, block_tokens, counter, seed);
    match format {
        FileFormat::MooncakeTrace => {
            mooncake::read(Lines::new(input), trace(mooncake::BLOCK_TOKENS)?)
        }
        FileFormat::BailianTrace => bailian::read(Lines::new(input), trace(bailian::BLOCK_TOKENS)?),
        FileFormat::BurstGptTrace => burst_gpt::read(input, trace(mooncake::BLOCK_TOKENS)?),
        FileFormat::SingleTurn => jsonl::read(Lines::new(input), path, jsonl::single_turn),
        FileFormat::MultiTurn => jsonl::read(Lines::new(input), path, jsonl::multi_turn),
        FileFormat::RandomPool => jsonl::read(Lines::new(input), path, jsonl::random_pool),
        FileFormat::RawPayload => jsonl::read(Lines::new(input), path, jsonl::raw_payload),
        FileFormat::InputsJson => inputs_json::read(input),
        FileFormat::ShareGpt => sharegpt::read(input, counter),
    }
}

const fn is_trace(format: FileFormat) -> bool {
    use FileFormat::{BailianTrace, BurstGptTrace, MooncakeTrace};
    matches!(format, MooncakeTrace | BailianTrace | BurstGptTrace)
}

/// The first flag about traces that is given.
fn given(traces: &TraceSettings) -> Option<&'static str> {
    let flags = [
        ("--isl-block-size", traces.block_tokens),
        ("--synthesis-max-isl", traces.max_input_tokens),
        ("--synthesis-max-osl", traces.max_output_tokens),
    ];
    flags.into_iter().find(|(_, value)| value.is_some()).map(|(flag, _)| flag)
}

/// Some editors begin a file with U+FEFF.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The start of a file, read ahead to tell its format, and the rest.
struct Opening<R> {
    bytes: Vec<u8>,
    rest: R,
}

impl<R: Read> Opening<R> {
    /// Reads the first bytes and drops a byte order mark.
    fn read(rest: R) -> Result<Self, Fault> {
        let mut opening = Self { bytes: Vec::new(), rest };
        while opening.bytes.len() < BYTE_ORDER_MARK.len() && opening.extend()? {}
        if opening.bytes.starts_with(BYTE_ORDER_MARK) {
            opening.bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(opening)
    }

    /// Reads some more; false at the end of the file.
    fn extend(&mut self) -> Result<bool, Fault> {
        let mut piece = self.rest.by_ref().take(1 << 16);
        Ok(piece.read_to_end(&mut self.bytes).map_err(Fault::Read)? > 0)
    }

    /// Where the first byte is that is no white space, if there is one.
    fn first_byte(&mut self) -> Result<Option<usize>, Fault> {
        let mut scanned = 0;
        loop {
            let new = &self.bytes[scanned..];
            if let Some(found) = new.iter().position(|byte| !byte.is_ascii_whitespace()) {
                return Ok(Some(scanned + found));
            }
            scanned = self.bytes.len();
            if !self.extend()? {
                return Ok(None);
            }
        }
    }

    /// The line that begins at `start`; `None` if it is longer than a line of
    /// JSONL may be.
    fn line_at(&mut self, start: usize) -> Result<Option<&[u8]>, Fault> {
        let mut scanned = start;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.bytes[scanned..]) {
                return Ok(Some(&self.bytes[start..scanned + length]));
            }
            scanned = self.bytes.len();
            if (scanned - start) as u64 > MAX_LINE_BYTES {
                return Ok(None);
            }
            if !self.extend()? {
                return Ok(Some(&self.bytes[start..]));
            }
        }
    }
}

/// Tells the format from the first line that is not blank; `None` where there
/// is no such line.
fn detect<R: Read>(opening: &mut Opening<R>) -> Result<Option<FileFormat>, Fault> {
    let Some(start) = opening.first_byte()? else { return Ok(None) };
    if opening.bytes[start] == b'[' {
        return Ok(Some(FileFormat::ShareGpt));
    }
    let number = 1 + memchr::memchr_iter(b'\n', &opening.bytes[..start]).count() as u64;
    // Too long a line for JSONL can still be a document in one line.
    let Some(line) = opening.line_at(start)? else { return Ok(Some(FileFormat::InputsJson)) };
    match serde_json::from_slice::<Map<String, Value>>(line) {
        Ok(members) => format_with(&members).map(Some).ok_or(Fault::UnknownFormat),
        Err(_) if burst_gpt::is_header(line) => Ok(Some(FileFormat::BurstGptTrace)),
        // An object that goes on in the next line: a document, not JSONL.
        Err(error) if error.is_eof() => Ok(Some(FileFormat::InputsJson)),
        Err(error) => Err(Fault::Line(number, json_reason(&error))),
    }
}

/// The format whose first line has these members.
fn format_with(members: &Map<String, Value>) -> Option<FileFormat> {
    let by_member = [
        ("data", FileFormat::InputsJson),
        ("turns", FileFormat::MultiTurn),
        ("chat_id", FileFormat::BailianTrace),
        ("input_length", FileFormat::MooncakeTrace),
        ("text_input", FileFormat::MooncakeTrace),
        ("messages", FileFormat::MooncakeTrace),
        ("payload", FileFormat::MooncakeTrace),
        ("text", FileFormat::SingleTurn),
        ("texts", FileFormat::SingleTurn),
        ("image", FileFormat::SingleTurn),
        ("images", FileFormat::SingleTurn),
        ("audio", FileFormat::SingleTurn),
        ("audios", FileFormat::SingleTurn),
        ("video", FileFormat::SingleTurn),
        ("videos", FileFormat::SingleTurn),
    ];
    by_member.into_iter().find(|(name, _)| members.contains_key(*name)).map(|(_, format)| format)
}

/// The fault that a JSON document has, at its line.
fn document_fault(error: serde_json::Error) -> Fault {
    if error.is_io() {
        Fault::Read(error.into())
    } else {
        Fault::Line(error.line().max(1) as u64, json_reason(&error))
    }
}

/// What is wrong with a piece of JSON, and at which column of its line.
fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    if error.column() == 0 {
        words.to_owned()
    } else {
        format!("{words} (column {})", error.column())
    }
}
