//! Datasets from files.

mod analysis;
mod bailian;
mod baseten;
#[cfg(test)]
mod bombs;
mod burst_gpt;
mod dag;
mod detect;
mod directory;
mod exgentic;
mod inputs_json;
mod jsonl;
mod lines;
mod mapping;
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
mod trace_flags;
mod tracelab;
mod weka;
pub mod write;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use self::detect::{detect, format_with};
use self::lines::Lines;
use self::mapping::{Mapping, Rows};
use self::opening::Opening;
use self::sharegpt::Sent;
use self::trace::Trace;
use self::trace_flags::check_traces;
use base::input::{self, Input};
use base::setting::{InvalidSetting, Named as _, named};
use tokens::tokenizer::TokenCounter;

#[cfg(test)]
use super::Conversation;
use super::account::Conversations;
use super::{DatasetError, Seed, TraceSettings, finish, rows, trees};

pub use self::analysis::{Sessions, TraceAnalysis, Tree, analyze};

/// Makes the list of formats: their names and what they are. In parentheses is the module that declares
/// a format in which each row is a request.
macro_rules! formats {
    (
        $($(#[$doc:meta])* $name:literal => $format:ident $(($module:ident))?,)+
        parts { $($part_name:literal => $part:literal,)+ }
    ) => {
        /// Formats of dataset files.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum FileFormat {
            $($(#[$doc])* $format,)+
            /// JSONL with one question per line: a part of SPEED-Bench, or a category of it.
            SpeedBench(&'static str),
        }

        named! { FileFormat { $($name => $format,)+ $($part_name => SpeedBench($part),)+ } }

        /// The formats in which each row is a request.
        const MAPPINGS: &[(FileFormat, &Mapping)] =
            &[$($((FileFormat::$format, &$module::FORMAT),)?)+];
    };
}

formats! {
    /// JSONL with one request per line.
    "single_turn" => SingleTurn,
    /// JSONL with one conversation per line.
    "multi_turn" => MultiTurn,
    /// JSONL with one request per line, drawn at random.
    "random_pool" => RandomPool,
    /// JSONL with one body per line, sent unchanged.
    "raw_payload" => RawPayload,
    /// JSONL of OpenAI's Batch API, whose bodies are sent unchanged.
    "openai_batch" => OpenAiBatch,
    /// `inputs.json` of an earlier run, whose bodies are sent unchanged.
    "inputs_json" => InputsJson,
    /// JSON array of ShareGPT conversations.
    "sharegpt" => ShareGpt,
    /// JSONL with one request per line: lengths or prompts, and the time of the request.
    "mooncake_trace" => MooncakeTrace,
    /// JSONL with one request per line, linked to the request before it.
    "bailian_trace" => BailianTrace(bailian),
    /// CSV with one request per line.
    "burst_gpt_trace" => BurstGptTrace(burst_gpt),
    /// JSONL with one conversation per line, whose turns may start others.
    "dag_jsonl" => DagJsonl,
    /// JSON documents with the requests of an agent and of its sub-agents.
    "weka_trace" => WekaTrace,
    /// JSONL with one request of an agent per line.
    "tracelab" => TraceLab,
    /// JSONL with one session of an agent per line, with its messages.
    "exgentic" => Exgentic,
    /// A table with one request per row, with its prompt.
    "baseten_trace" => BasetenTrace(baseten),
    /// JSONL with one request per line, captured by an Amazon `SageMaker` endpoint.
    "sagemaker_data_capture" => SageMakerDataCapture(sagemaker),
    /// OpenTelemetry traces of requests to models.
    "otel" => Otel,
    parts {
        "speed_bench_qualitative" => "qualitative",
        "speed_bench_coding" => "coding",
        "speed_bench_humanities" => "humanities",
        "speed_bench_math" => "math",
        "speed_bench_multilingual" => "multilingual",
        "speed_bench_qa" => "qa",
        "speed_bench_rag" => "rag",
        "speed_bench_reasoning" => "reasoning",
        "speed_bench_roleplay" => "roleplay",
        "speed_bench_stem" => "stem",
        "speed_bench_summarization" => "summarization",
        "speed_bench_writing" => "writing",
        "speed_bench_throughput_1k" => "throughput_1k",
        "speed_bench_throughput_1k_low_entropy" => "throughput_1k_low_entropy",
        "speed_bench_throughput_1k_mixed" => "throughput_1k_mixed",
        "speed_bench_throughput_1k_high_entropy" => "throughput_1k_high_entropy",
        "speed_bench_throughput_2k" => "throughput_2k",
        "speed_bench_throughput_2k_low_entropy" => "throughput_2k_low_entropy",
        "speed_bench_throughput_2k_mixed" => "throughput_2k_mixed",
        "speed_bench_throughput_2k_high_entropy" => "throughput_2k_high_entropy",
        "speed_bench_throughput_8k" => "throughput_8k",
        "speed_bench_throughput_8k_low_entropy" => "throughput_8k_low_entropy",
        "speed_bench_throughput_8k_mixed" => "throughput_8k_mixed",
        "speed_bench_throughput_8k_high_entropy" => "throughput_8k_high_entropy",
        "speed_bench_throughput_16k" => "throughput_16k",
        "speed_bench_throughput_16k_low_entropy" => "throughput_16k_low_entropy",
        "speed_bench_throughput_16k_mixed" => "throughput_16k_mixed",
        "speed_bench_throughput_16k_high_entropy" => "throughput_16k_high_entropy",
        "speed_bench_throughput_32k" => "throughput_32k",
        "speed_bench_throughput_32k_low_entropy" => "throughput_32k_low_entropy",
        "speed_bench_throughput_32k_mixed" => "throughput_32k_mixed",
        "speed_bench_throughput_32k_high_entropy" => "throughput_32k_high_entropy",
    }
}

impl FileFormat {
    /// Returns all formats, with one of the parts of SPEED-Bench.
    pub fn all() -> impl Iterator<Item = Self> {
        let is_other_part =
            |format: &Self| matches!(format, Self::SpeedBench(part) if *part != "qa");
        Self::NAMES.iter().map(|(_, format)| *format).filter(move |format| !is_other_part(format))
    }

    /// Returns the declaration of a format in which each row is a request.
    fn mapping(self) -> Option<&'static Mapping> {
        MAPPINGS.iter().find(|(format, _)| *format == self).map(|(_, mapping)| *mapping)
    }
}

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
enum RowPlace {
    /// A line of a file.
    Line(u64),
    /// An entry of a table.
    Entry(usize),
}

impl RowPlace {
    const fn fault(self, why: String) -> Fault {
        match self {
            Self::Line(number) => Fault::Line(number, why),
            Self::Entry(number) => Fault::Entry(number, why),
        }
    }
}

/// A row with its place, or why it cannot be read.
type Row = Result<(RowPlace, Map<String, Value>), Fault>;

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
pub fn read_recorded(
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
pub fn inline(path: &Path) -> Option<Vec<u8>> {
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
/// `traces.entries` conversations. The first row determines their format: `exgentic`, or else `weka_trace`.
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
    (1..).map(RowPlace::Entry).zip(rows).map(|(place, row)| match row {
        Ok(row) => Ok((place, row)),
        Err(why) => Err(place.fault(why)),
    })
}

/// Returns the lines of a file as rows.
fn of_lines(input: Input<'_>) -> impl Iterator<Item = Row> {
    Lines::new(input).map(|line| {
        let line = line?;
        let place = RowPlace::Line(line.number);
        let row = jsonl::from_object(&line.text).map_err(|why| place.fault(why))?;
        Ok((place, row))
    })
}

/// Reads the rows that pass the `filters`, which only `exgentic` has.
fn read_rows(
    format: FileFormat,
    mut rows: impl Iterator<Item = Row>,
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
    if let Some(Mapping { rows: Rows::Objects(read), block_tokens, .. }) = format.mapping() {
        return read(&mut rows, Trace::new(traces, *block_tokens, counter, seed)?, traces);
    }
    match format {
        FileFormat::Exgentic => exgentic::read(rows, filters, traces, counter, seed),
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
            let mapped =
                MAPPINGS.iter().filter(|(_, mapping)| matches!(mapping.rows, Rows::Objects(_)));
            let mapped: String =
                mapped.map(|(format, _)| format.name().replace('_', "-") + ", ").collect();
            let why = format!(
                "a Parquet file has one of the formats {mapped}exgentic and weka-trace; choose one \
                 of them, or convert the file to JSONL"
            );
            Err(Fault::Setting("--custom-dataset-type", why))
        }
    }
}

/// Reads a Parquet file, whose end has the places of its parts.
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

/// Returns the format of the file or directory at `path` if its beginning shows it, which the one of
/// Parquet does not.
pub fn detected_format(path: &Path) -> Result<Option<FileFormat>, DatasetError> {
    if path.is_dir() {
        return directory::detect(path).map(Some);
    }
    let opened = input::open(path).map_err(Fault::Read).and_then(Opening::read);
    let found = opened.and_then(|mut opening| {
        if opening.bytes.starts_with(PARQUET) {
            return Ok(None);
        }
        detect(&mut opening)
    });
    found.map_err(|fault| named(fault, path))
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
        FileFormat::WekaTrace => {
            let mut documents = weka::Documents::new(traces, counter, seed)?;
            documents.read(input)?;
            documents.finish()
        }
        FileFormat::TraceLab => tracelab::read(Lines::new(input), traces, counter, seed),
        FileFormat::Exgentic => read_rows(format, of_lines(input), &[], traces, (counter, seed)),
        FileFormat::DagJsonl => dag::read(Lines::new(input)),
        FileFormat::Otel => {
            let mut recorded = otel::Traces::new(trace(mooncake::BLOCK_TOKENS)?, traces);
            recorded.read(input)?;
            recorded.finish()
        }
        FileFormat::SingleTurn => jsonl::read_requests(Lines::new(input), path),
        FileFormat::MultiTurn => jsonl::read(Lines::new(input), path, jsonl::multi_turn),
        FileFormat::RandomPool => jsonl::read(Lines::new(input), path, jsonl::random_pool),
        FileFormat::RawPayload => jsonl::read(Lines::new(input), path, jsonl::raw_payload),
        FileFormat::OpenAiBatch => jsonl::read_batch(Lines::new(input)),
        FileFormat::InputsJson => inputs_json::read(input),
        FileFormat::SpeedBench(part) => speed_bench::read(Lines::new(input), part),
        FileFormat::ShareGpt => sharegpt::read(input, counter, Sent::First),
        mapped => {
            let mapping = mapped.mapping().ok_or(Fault::UnknownFormat)?;
            let trace = trace(mapping.block_tokens)?;
            match &mapping.rows {
                Rows::Text(read) => read(input, trace),
                Rows::Csv(columns) => columns.read(input, trace),
                Rows::Objects(read) => read(&mut of_lines(input), trace, traces),
            }
        }
    }
}

/// The first bytes of Parquet files, and of files of Arrow IPC.
const PARQUET: &[u8] = b"PAR1";
const ARROW: &[u8] = b"ARROW1";

/// Returns the error of a JSON document with its line.
fn document_fault(error: serde_json::Error) -> Fault {
    if error.is_io() {
        Fault::Read(error.into())
    } else {
        Fault::Line(error.line().max(1) as u64, json_reason(&error))
    }
}

/// Returns the description of a JSON error and its column.
pub(super) fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    if error.column() == 0 {
        words.to_owned()
    } else {
        format!("{words} (column {})", error.column())
    }
}
