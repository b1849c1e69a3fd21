//! `BurstGPT` traces: CSV with the columns `Timestamp` (seconds), `Request tokens` and
//! `Response tokens`; other columns are ignored.
//!
//! Each row is an independent request. Rows without tokens are requests that failed when the trace
//! was recorded. They are left out and counted.

use std::io::Read;

use csv::{Reader, StringRecord};

use super::synthesis::Shape;
use super::trace::{TimeUnit, Trace};
use super::{Fault, Loaded};
use crate::dataset::account::LeftOut;
use crate::dataset::{Conversation, Turn};
use crate::input::Input;

/// The columns that are used.
const COLUMNS: [&str; 3] = ["Timestamp", "Request tokens", "Response tokens"];

/// Returns whether a line is the header of such a file.
pub(super) fn is_header(line: &[u8]) -> bool {
    let mut reader = reader(line);
    reader.headers().is_ok_and(|header| columns(header).is_ok())
}

fn reader<R: Read>(input: R) -> Reader<R> {
    csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input)
}

/// Returns the positions of the columns.
fn columns(header: &StringRecord) -> Result<[usize; 3], String> {
    let mut places = [0; 3];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = header.iter().position(|name| name == column).ok_or_else(|| {
            format!(
                "the header does not contain the column `{column}`; required are {}",
                COLUMNS.join(", ")
            )
        })?;
    }
    Ok(places)
}

/// Reads all rows.
pub(super) fn read(input: Input<'_>, mut trace: Trace<'_>) -> Result<Loaded, Fault> {
    let meter = input.meter();
    let mut reader = reader(input);
    let columns = columns(reader.headers().map_err(fault)?).map_err(|why| Fault::Line(1, why))?;
    let mut conversations = Vec::new();
    let mut row = StringRecord::new();
    while reader.read_record(&mut row).map_err(fault)? {
        meter.part().map_err(Fault::Read)?;
        let number = row.position().map_or(0, csv::Position::line);
        let turn = turn(&row, columns, &mut trace).map_err(|why| Fault::Line(number, why))?;
        if let Some(turn) = turn {
            conversations.push(Conversation { turns: vec![turn], ..Conversation::default() });
        }
    }
    Ok(trace.loaded(conversations))
}

/// Returns the request of a row; `None` if it is left out.
fn turn(
    row: &StringRecord,
    columns: [usize; 3],
    trace: &mut Trace<'_>,
) -> Result<Option<Turn>, String> {
    let [at, asked, answered] = columns.map(|column| row.get(column).unwrap_or_default());
    let tokens = |column: usize, text: &str| {
        let wrong =
            || format!("{text:?} is not a valid number of tokens for `{}`", COLUMNS[column]);
        text.parse::<u32>().map_err(|_| wrong())
    };
    let at: f64 =
        at.parse().map_err(|_| format!("{at:?} is not a valid `Timestamp` in seconds"))?;
    let timestamp = trace.instant(at, TimeUnit::Seconds)?;
    let (asked, answered) = (tokens(1, asked)?, tokens(2, answered)?);
    if asked == 0 || answered == 0 {
        trace.leave_out(LeftOut::Failed, 1);
        return Ok(None);
    }
    if !trace.admits(asked) {
        return Ok(None);
    }
    let mut shape = Shape { input_tokens: asked, ..Shape::default() };
    trace.reshape([&mut shape]);
    let prompt = trace.prompt(&shape)?;
    Ok(Some(Turn {
        texts: vec![prompt.text],
        input_tokens: prompt.tokens,
        max_tokens: Some(trace.output_tokens(answered)?),
        timestamp: Some(timestamp),
        ..Turn::default()
    }))
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
