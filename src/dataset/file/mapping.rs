//! Formats of traces in which each row is a request: what one of them is, in one declaration.

use std::io::Read;

use csv::{Reader, StringRecord};
use serde_json::{Map, Value};

use base::input::Input;

use super::synthesis::Shape;
use super::trace::{TimeUnit, Trace};
use super::{Fault, Loaded, Row, mooncake};
use crate::account::LeftOut;
use crate::{Conversation, TraceSettings, Turn};

/// A format in which each row is a request. Its entry in the list of formats gives it its name.
pub(super) struct Mapping {
    /// Members of its first row, all of which a row of this format has. Formats with several of them
    /// are detected before those with one; without any, a format is not detected by members.
    pub(super) members: &'static [&'static str],
    /// Tokens of the block that a hash ID stands for, unless the settings have another number.
    pub(super) block_tokens: u32,
    /// The form of its prompts, which decides which flags affect it.
    pub(super) prompts: Prompts,
    /// How its rows are read.
    pub(super) rows: Rows,
}

/// The form of the prompts of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompts {
    /// Lengths and hash IDs of blocks.
    Blocks,
    /// Lengths.
    Lengths,
    /// Texts or messages, which are sent as they are.
    Recorded,
}

/// How the rows of a format are read.
pub(super) enum Rows {
    /// From the text of the file.
    Text(fn(Input<'_>, Trace<'_>) -> Result<Loaded, Fault>),
    /// As objects, from JSONL or from a table.
    Objects(fn(&mut dyn Iterator<Item = Row>, Trace<'_>, &TraceSettings) -> Result<Loaded, Fault>),
    /// From CSV with these columns.
    Csv(Columns),
}

impl Mapping {
    /// A format of CSV with these columns.
    pub(super) const fn csv(columns: Columns) -> Self {
        let (block_tokens, prompts) = (mooncake::BLOCK_TOKENS, Prompts::Lengths);
        Self { members: &[], block_tokens, prompts, rows: Rows::Csv(columns) }
    }

    /// Returns whether a row with these members may be of this format.
    pub(super) fn has(&self, members: &Map<String, Value>) -> bool {
        !self.members.is_empty() && self.members.iter().all(|name| members.contains_key(*name))
    }

    /// Returns whether a line is the header of a file of this format.
    pub(super) fn has_header(&self, line: &[u8]) -> bool {
        let Rows::Csv(columns) = &self.rows else { return false };
        reader(line).headers().is_ok_and(|header| columns.find(header).is_ok())
    }
}

/// The columns of a CSV file that are used; others are ignored. Each row is an independent request. Rows
/// without tokens are requests that failed when the trace was recorded; they are left out and counted.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// When the request was sent, in seconds.
    pub(super) timestamp: &'static str,
    /// Tokens of the prompt.
    pub(super) input_tokens: &'static str,
    /// Tokens of the response.
    pub(super) output_tokens: &'static str,
}

impl Columns {
    /// Returns the names of the columns.
    pub(super) const fn names(&self) -> [&'static str; 3] {
        [self.timestamp, self.input_tokens, self.output_tokens]
    }

    /// Returns the positions of the columns.
    fn find(&self, header: &StringRecord) -> Result<[usize; 3], String> {
        let names = self.names();
        let mut found = [0; 3];
        for (position, column) in found.iter_mut().zip(names) {
            *position = header.iter().position(|name| name == column).ok_or_else(|| {
                format!(
                    "the header does not contain the column `{column}`; required are {}",
                    names.join(", ")
                )
            })?;
        }
        Ok(found)
    }

    /// Reads all rows.
    pub(super) fn read(&self, input: Input<'_>, mut trace: Trace<'_>) -> Result<Loaded, Fault> {
        let meter = input.meter();
        let mut reader = reader(input);
        let found = self.find(reader.headers().map_err(fault)?);
        let found = found.map_err(|why| Fault::Line(1, why))?;
        let mut conversations = Vec::new();
        let mut row = StringRecord::new();
        while reader.read_record(&mut row).map_err(fault)? {
            meter.part().map_err(Fault::Read)?;
            let number = row.position().map_or(0, csv::Position::line);
            let cells = found.map(|column| row.get(column).unwrap_or_default());
            let turn = self.turn(cells, &mut trace).map_err(|why| Fault::Line(number, why))?;
            if let Some(turn) = turn {
                conversations.push(Conversation { turns: vec![turn], ..Conversation::default() });
            }
        }
        Ok(trace.loaded(conversations))
    }

    /// Returns the request of a row; `None` if it is left out.
    fn turn(&self, cells: [&str; 3], trace: &mut Trace<'_>) -> Result<Option<Turn>, String> {
        let [at, input, output] = cells;
        let tokens = |column: &str, text: &str| {
            let wrong = || format!("{text:?} is not a valid number of tokens for `{column}`");
            text.parse::<u32>().map_err(|_| wrong())
        };
        let wrong = || format!("{at:?} is not a valid `{}` in seconds", self.timestamp);
        let at: f64 = at.parse().map_err(|_| wrong())?;
        let timestamp = trace.instant(at, TimeUnit::Seconds)?;
        let input = tokens(self.input_tokens, input)?;
        let output = tokens(self.output_tokens, output)?;
        if input == 0 || output == 0 {
            trace.leave_out(LeftOut::Failed, 1);
            return Ok(None);
        }
        if !trace.admits(input) {
            return Ok(None);
        }
        let mut shape = Shape { input_tokens: input, ..Shape::default() };
        trace.reshape([&mut shape]);
        let prompt = trace.prompt(&shape)?;
        Ok(Some(Turn {
            texts: vec![prompt.text],
            input_tokens: prompt.tokens,
            max_tokens: Some(trace.output_tokens(output)?),
            timestamp: Some(timestamp),
            ..Turn::default()
        }))
    }
}

fn reader<R: Read>(input: R) -> Reader<R> {
    csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input)
}

fn fault(error: csv::Error) -> Fault {
    let line = error.position().map_or(1, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(source) => Fault::Read(source),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => Fault::Line(
            line,
            format!("expected {expected_len} columns, as in the header, got {len}"),
        ),
        csv::ErrorKind::Utf8 { .. } => Fault::Line(line, "not valid UTF-8".to_owned()),
        other => Fault::Line(line, format!("{other:?}")),
    }
}
