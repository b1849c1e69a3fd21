//! Datasets from files.

mod analysis;
mod bailian;
mod baseten;
#[cfg(test)]
mod bombs;
mod burst_gpt;
mod dag;
mod directory;
mod exgentic;
mod inputs_json;
mod jsonl;
mod lines;
mod mooncake;
mod opening;
mod otel;
mod prefix_tree;
mod random_pool;
mod sagemaker;
mod sharegpt;
mod speed_bench;
mod synthesis;
#[cfg(test)]
mod tests;
mod trace;
mod tracelab;
mod weka;
pub(crate) mod write;

pub(crate) use self::analysis::{Sessions, TraceAnalysis, Tree, analyze};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use self::lines::Lines;
use self::opening::Opening;
use self::sagemaker::Captures;
use self::sharegpt::Sent;
use self::trace::Trace;
#[cfg(test)]
use super::Conversation;
use super::account::Conversations;
use super::{DatasetError, FileFormat, Seed, TraceSettings, finish, rows, trees};
use crate::input::{self, Input};
use crate::setting::InvalidSetting;
use crate::tokenizer::TokenCounter;

/// Error of a reader, without the name of the file.
#[derive(Debug)]
enum Fault {
    /// The file cannot be read further.
    Read(std::io::Error),
    /// A line, from 1, is invalid.
    Line(u64, String),
    /// An entry of a document, from 1, is invalid.
    Entry(usize, String),
    /// The content matches no known format.
    UnknownFormat,
    /// The value of a flag does not fit the file or the tokenizer.
    Setting(&'static str, String),
}

/// Where a row is, from 1.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A line of a file.
    Line(u64),
    /// An entry of a table.
    Entry(usize),
}

impl Place {
    const fn fault(self, why: String) -> Fault {
        match self {
            Self::Line(number) => Fault::Line(number, why),
            Self::Entry(number) => Fault::Entry(number, why),
        }
    }
}

/// A row with its place, or why it cannot be read.
type Row = Result<(Place, Map<String, Value>), Fault>;

/// Conversations, and a note on what was changed or ignored.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) conversations: Conversations,
    note: String,
}

impl<C: Into<Conversations>> From<C> for Loaded {
    fn from(conversations: C) -> Self {
        Self { conversations: conversations.into(), note: String::new() }
    }
}

impl Loaded {
    /// Logs what was left out, changed or ignored when the file at `path` was read.
    ///
    /// # Errors
    ///
    /// Fails if no conversation is left, or if one starts too many others.
    fn noted(self, path: &Path) -> Result<Conversations, DatasetError> {
        let note = self.note();
        if !note.is_empty() {
            tracing::info!(path = %path.display(), "dataset{note}");
        }
        if self.conversations.is_empty() {
            return Err(DatasetError::Empty { path: path.to_owned(), note });
        }
        let path = || path.to_owned();
        let wrong = |(root, reason)| DatasetError::Entry { path: path(), entry: root + 1, reason };
        trees::check(&self.conversations).map_err(wrong)?;
        Ok(self.conversations)
    }

    /// Returns what was left out, changed or ignored, after a colon; empty if there was nothing.
    pub(super) fn note(&self) -> String {
        let reasons = self.conversations.account().reasons();
        let parts = [(&*reasons, " left out"), (&*self.note, "")];
        let parts = parts.into_iter().filter(|(part, _)| !part.is_empty());
        let parts: Vec<String> = parts.map(|(part, end)| format!("{part}{end}")).collect();
        if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) }
    }
}

/// Reads the file at `path` once, so that it may be a pipe, or the files of a directory. `entries` is
/// the number of requests to draw from a directory of pools, or from a file in batches of more than
/// one text.
pub(super) fn read(
    path: &Path,
    format: Option<FileFormat>,
    traces: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
    (entries, batch_size): (usize, usize),
) -> Result<Conversations, DatasetError> {
    let mut loaded = if path.is_dir() {
        let reading = directory::Reading { format, traces, entries, counter, seed };
        directory::read(path, &reading)?
    } else {
        read_file(path, format, traces, counter, seed)?
    };
    if batch_size > 1 {
        let lines = loaded.conversations.into_vec();
        loaded.conversations = random_pool::batches(lines, batch_size, entries, seed);
    }
    loaded.noted(path)
}

/// Reads a dataset file or directory of any format, with the responses that were recorded, for other
/// uses than sending it.
pub(crate) fn read_recorded(
    path: &Path,
    format: Option<FileFormat>,
    counter: &TokenCounter,
) -> Result<Conversations, DatasetError> {
    let traces = TraceSettings { prefers_recorded: true, ..TraceSettings::default() };
    let mut conversations = read(path, format, &traces, counter, RECORDED_SEED, (1, 1))?;
    finish::fill_ids(&mut conversations, &mut 0);
    Ok(conversations)
}

/// The seed of texts that are generated for a trace that is not sent: always the same ones.
const RECORDED_SEED: Seed = Seed(0);

fn read_file(
    path: &Path,
    format: Option<FileFormat>,
    traces: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Loaded, DatasetError> {
    if let Some(content) = inline(path) {
        // Media are relative to the working directory, and errors do not repeat the content.
        let name = Path::new("data:");
        let read = read_from(Cursor::new(content), Path::new(""), format, traces, counter, seed);
        return read.map_err(|fault| named(fault, name));
    }
    let file = input::open(path).map_err(Fault::Read).map_err(|fault| named(fault, path))?;
    read_from(file, path, format, traces, counter, seed).map_err(|fault| named(fault, path))
}

/// Returns the content of a data URL, such as `data:,{"text":"a"}`; `None` if `path` is not one.
pub(crate) fn inline(path: &Path) -> Option<Vec<u8>> {
    let (_, content) = path.to_str()?.strip_prefix("data:")?.split_once(',')?;
    Some(percent_decode_str(content).collect())
}

/// Returns the error of a reader with the name of the file.
fn named(fault: Fault, path: &Path) -> DatasetError {
    let path = path.to_owned();
    match fault {
        Fault::Read(source) => DatasetError::Read { path, source },
        Fault::Line(line, reason) => DatasetError::Line { path, line, reason },
        Fault::Entry(entry, reason) => DatasetError::Entry { path, entry, reason },
        Fault::UnknownFormat => DatasetError::UnknownFormat { path },
        Fault::Setting(flag, reason) => InvalidSetting::new(flag, reason).into(),
    }
}

/// Reads the public dataset ShareGPT. The error has the line.
pub(super) fn read_sharegpt(file: File, counter: &TokenCounter) -> Result<Loaded, String> {
    let read = Input::new(file).map_err(Fault::Read);
    let read = read.and_then(|input| sharegpt::read(input, counter, Sent::All));
    read.map_err(|fault| match fault {
        Fault::Line(line, reason) => format!("line {line}: {reason}"),
        Fault::Read(error) => error.to_string(),
        Fault::Entry(_, reason) | Fault::Setting(_, reason) => reason,
        Fault::UnknownFormat => "unknown format".to_owned(),
    })
}

/// Reads the rows of a dataset of the hub that pass the `filters` as traces of agents, up to
/// `traces.entries` conversations. The first row tells their format: `exgentic`, or else `weka_trace`.
/// `unusable` makes the error of the dataset.
pub(super) fn read_agents(
    rows: impl Iterator<Item = Result<Map<String, Value>, String>>,
    filters: &[(String, String)],
    traces: &TraceSettings,
    (counter, seed): (&TokenCounter, Seed),
    unusable: impl Fn(String) -> DatasetError,
) -> Result<Loaded, DatasetError> {
    let read = || {
        let mut rows = of_table(rows).peekable();
        let format = match rows.peek() {
            Some(Ok((_, row))) if exgentic::has(row) => FileFormat::Exgentic,
            _ => FileFormat::WekaTrace,
        };
        read_rows(format, rows, filters, traces, (counter, seed))
    };
    read().map_err(|fault| match fault {
        Fault::Setting(flag, reason) => InvalidSetting::new(flag, reason).into(),
        Fault::Entry(number, reason) => unusable(format!("row {number}: {reason}")),
        Fault::Line(_, reason) => unusable(reason),
        Fault::Read(error) => unusable(error.to_string()),
        Fault::UnknownFormat => unusable("unknown format".to_owned()),
    })
}

/// Returns the rows of a table with their places.
fn of_table(
    rows: impl Iterator<Item = Result<Map<String, Value>, String>>,
) -> impl Iterator<Item = Row> {
    (1..).map(Place::Entry).zip(rows).map(|(place, row)| match row {
        Ok(row) => Ok((place, row)),
        Err(why) => Err(place.fault(why)),
    })
}

/// Returns the lines of a file as rows.
fn of_lines(input: Input<'_>) -> impl Iterator<Item = Row> {
    Lines::new(input).map(|line| {
        let line = line?;
        let place = Place::Line(line.number);
        let row = jsonl::from_object(&line.text).map_err(|why| place.fault(why))?;
        Ok((place, row))
    })
}

/// Reads the rows that pass the `filters`, which only `exgentic` has.
fn read_rows(
    format: FileFormat,
    rows: impl Iterator<Item = Row>,
    filters: &[(String, String)],
    traces: &TraceSettings,
    (counter, seed): (&TokenCounter, Seed),
) -> Result<Loaded, Fault> {
    check_traces(format, traces)?;
    let refused = filters.first().filter(|_| format != FileFormat::Exgentic);
    if let Some((column, _)) = refused {
        let why = format!("documents of weka_trace do not have columns such as {column}");
        return Err(Fault::Setting("--dataset-filter", why));
    }
    match format {
        FileFormat::Exgentic => exgentic::read(rows, filters, traces, counter, seed),
        FileFormat::BasetenTrace => baseten::read(rows, traces, counter, seed),
        FileFormat::WekaTrace => {
            let mut documents = weka::Documents::new(traces, counter, seed)?;
            for row in rows {
                if documents.is_full() {
                    break;
                }
                let (place, row) = row?;
                documents.add_row(row).map_err(|why| place.fault(why))?;
            }
            documents.finish()
        }
        _ => {
            let why = "a Parquet file has one of the formats baseten-trace, exgentic and weka-trace; \
                       choose one of them, or convert the file to JSONL";
            Err(Fault::Setting("--custom-dataset-type", why.to_owned()))
        }
    }
}

/// Reads a Parquet file, whose end says where its parts are.
fn read_parquet(
    format: Option<FileFormat>,
    content: Bytes,
    traces: &TraceSettings,
    (counter, seed): (&TokenCounter, Seed),
) -> Result<Loaded, Fault> {
    let rows = rows::parquet(content).map_err(|why| Fault::Entry(1, why))?;
    let mut rows = of_table(rows);
    let Some(first) = rows.next().transpose()? else { return Ok(Loaded::default()) };
    let format = format.or_else(|| format_with(&first.1)).ok_or(Fault::UnknownFormat)?;
    read_rows(format, std::iter::once(Ok(first)).chain(rows), &[], traces, (counter, seed))
}

/// Rejects trace flags for a dataset of the hub without traces.
pub(super) fn refuse_traces(traces: &TraceSettings) -> Result<(), DatasetError> {
    check_traces(FileFormat::SingleTurn, traces).map_err(|fault| match fault {
        Fault::Setting(flag, _) => {
            let why = "applies to traces, but the dataset is not a trace; remove the flag";
            InvalidSetting::new(flag, why).into()
        }
        other => named(other, Path::new("")),
    })
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
    if opening.bytes.starts_with(PARQUET) {
        return read_parquet(format, opening.content()?, traces, (counter, seed));
    }
    if opening.bytes.starts_with(ARROW) {
        let why = "Arrow files are not supported; convert it to Parquet, such as with pyarrow";
        return Err(Fault::Setting("--input-file", why.to_owned()));
    }
    let format = format.map_or_else(|| detect(&mut opening), |format| Ok(Some(format)))?;
    match format {
        Some(format) => read_as(format, opening.whole(), path, traces, counter, seed),
        None => Ok(Loaded::default()),
    }
}

/// Reads a file of this format. Media are relative to the directory of `path`.
fn read_as(
    format: FileFormat,
    input: Input<'_>,
    path: &Path,
    traces: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Loaded, Fault> {
    check_traces(format, traces)?;
    let trace = |block_tokens| Trace::new(traces, block_tokens, counter, seed);
    match format {
        FileFormat::MooncakeTrace => {
            mooncake::read(Lines::new(input), trace(mooncake::BLOCK_TOKENS)?)
        }
        FileFormat::BailianTrace => bailian::read(Lines::new(input), trace(bailian::BLOCK_TOKENS)?),
        FileFormat::BurstGptTrace => burst_gpt::read(input, trace(mooncake::BLOCK_TOKENS)?),
        FileFormat::WekaTrace => {
            let mut documents = weka::Documents::new(traces, counter, seed)?;
            documents.read(input)?;
            documents.finish()
        }
        FileFormat::TraceLab => tracelab::read(Lines::new(input), traces, counter, seed),
        FileFormat::Exgentic | FileFormat::BasetenTrace => {
            read_rows(format, of_lines(input), &[], traces, (counter, seed))
        }
        FileFormat::DagJsonl => dag::read(Lines::new(input)),
        FileFormat::Otel => {
            let mut recorded = otel::Traces::new(trace(mooncake::BLOCK_TOKENS)?, traces);
            recorded.read(input)?;
            recorded.finish()
        }
        FileFormat::SageMakerDataCapture => {
            let mut captures = Captures::new(trace(mooncake::BLOCK_TOKENS)?);
            captures.read(Lines::new(input))?;
            captures.finish()
        }
        FileFormat::SingleTurn => jsonl::read_requests(Lines::new(input), path),
        FileFormat::MultiTurn => jsonl::read(Lines::new(input), path, jsonl::multi_turn),
        FileFormat::RandomPool => jsonl::read(Lines::new(input), path, jsonl::random_pool),
        FileFormat::RawPayload => jsonl::read(Lines::new(input), path, jsonl::raw_payload),
        FileFormat::OpenAiBatch => jsonl::read_batch(Lines::new(input)),
        FileFormat::InputsJson => inputs_json::read(input),
        FileFormat::SpeedBench(part) => speed_bench::read(Lines::new(input), part),
        FileFormat::ShareGpt => sharegpt::read(input, counter, Sent::First),
    }
}

/// Rejects trace flags that do not affect files of this format.
fn check_traces(format: FileFormat, traces: &TraceSettings) -> Result<(), Fault> {
    use FileFormat::{
        BailianTrace, BasetenTrace, BurstGptTrace, Exgentic, MooncakeTrace, Otel, RandomPool,
        SageMakerDataCapture, TraceLab, WekaTrace,
    };
    let synthesis = &traces.synthesis;
    let of_blocks = [
        ("--isl-block-size", traces.block_tokens.is_some()),
        ("--synthesis-prefix-len-multiplier", synthesis.prefix_len_multiplier != 1.0),
        ("--synthesis-prefix-root-multiplier", synthesis.prefix_root_multiplier != 1),
    ];
    let of_prompts = [
        ("--synthesis-prompt-len-multiplier", synthesis.prompt_len_multiplier != 1.0),
        ("--prompt-corpus", traces.corpus.is_some()),
    ];
    let of_agents = [("--use-think-time-only", traces.uses_think_time)];
    let of_entries = [("--num-dataset-entries", traces.entries.is_some())];
    let of_outputs = [("--replay-outputs", traces.replay_outputs.is_some())];
    let of_requests = [
        ("--trace-session-sample-ratio", traces.session_sample_ratio.is_some()),
        ("--max-context-length", traces.max_context_tokens.is_some()),
        ("--force-min-tokens", traces.force_min_tokens == Some(true)),
        ("--synthesis-max-isl", traces.max_input_tokens.is_some()),
        ("--synthesis-max-osl", traces.max_output_tokens.is_some()),
        ("--synthesis-speedup-ratio", synthesis.speedup_ratio != 1.0),
        ("--synthesis-output-len-multiplier", synthesis.output_len_multiplier != 1.0),
    ];
    let (refused, reason): (&[&[(&'static str, bool)]], &str) = match format {
        _ if format != Otel && traces.replay_outputs.is_some() => {
            (&[&of_outputs], "applies to otel, which has the responses; remove the flag")
        }
        WekaTrace | TraceLab => (&[], ""),
        _ if !matches!(format, RandomPool | Exgentic) && traces.entries.is_some() => (
            &[&of_entries],
            "applies to generated prompts, pools and traces of agents; remove the flag",
        ),
        _ if traces.uses_think_time => (
            &[&of_agents],
            "applies to weka_trace and tracelab, which have think times; remove the flag",
        ),
        MooncakeTrace | BailianTrace => (&[], ""),
        BurstGptTrace | Otel => (
            &[&of_blocks[1..]],
            "applies to prompts that share hash IDs, which the trace does not have; remove the flag",
        ),
        SageMakerDataCapture | Exgentic | BasetenTrace => (
            &[&of_blocks, &of_prompts],
            "applies to generated prompts, but recorded prompts are sent as they are; remove the \
             flag",
        ),
        _ => (
            &[&of_blocks, &of_requests, &of_prompts],
            "applies to traces, but the file is not a trace; remove the flag",
        ),
    };
    match refused.iter().copied().flatten().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(Fault::Setting(flag, reason.to_owned())),
    }
}

/// The first bytes of Parquet files, and of files of Arrow IPC.
const PARQUET: &[u8] = b"PAR1";
const ARROW: &[u8] = b"ARROW1";

/// Detects the format from the first line that is not blank; `None` if all are blank.
fn detect(opening: &mut Opening<'_>) -> Result<Option<FileFormat>, Fault> {
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
        Err(_) if burst_gpt::is_header(line) => Ok(Some(FileFormat::BurstGptTrace)),
        // An object that continues on the next line is a document, not JSONL.
        Err(error) if error.is_eof() => Ok(Some(document_format(&opening.bytes))),
        Err(error) => Err(Fault::Line(number, json_reason(&error))),
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
fn format_with(members: &Map<String, Value>) -> Option<FileFormat> {
    if members.contains_key("question_id") && members.contains_key("messages") {
        return Some(FileFormat::SpeedBench("qualitative"));
    }
    if jsonl::is_batch(members) {
        return Some(FileFormat::OpenAiBatch);
    }
    if sagemaker::has(members) {
        return Some(FileFormat::SageMakerDataCapture);
    }
    if baseten::has(members) {
        return Some(FileFormat::BasetenTrace);
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
        ("image_uuids", FileFormat::SingleTurn),
        ("audio", FileFormat::SingleTurn),
        ("audios", FileFormat::SingleTurn),
        ("video", FileFormat::SingleTurn),
        ("videos", FileFormat::SingleTurn),
        ("prompt", FileFormat::SingleTurn),
    ];
    by_member.into_iter().find(|(name, _)| members.contains_key(*name)).map(|(_, format)| format)
}

/// Returns the error of a JSON document with its line.
fn document_fault(error: serde_json::Error) -> Fault {
    if error.is_io() {
        Fault::Read(error.into())
    } else {
        Fault::Line(error.line().max(1) as u64, json_reason(&error))
    }
}

/// Returns the description of a JSON error and its column.
fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    if error.column() == 0 {
        words.to_owned()
    } else {
        format!("{words} (column {})", error.column())
    }
}
