//! The rows of a file, as JSON objects. Binary values become base64.

use std::fs::File;
use std::io::BufRead;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader as _, Length, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{self, Field};
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value};

use base::input::json::{Each, documents};
use base::input::{Input, Meter, table};

/// A row: its columns by name.
pub(super) type Row = Map<String, Value>;

/// Rows, or why one cannot be read.
type Rows = Box<dyn Iterator<Item = Result<Row, String>>>;

/// Opens the rows of `file`, whose format is in its name.
pub(super) fn open(file: File, name: &str) -> Result<Rows, String> {
    if name.ends_with(".parquet") {
        return parquet(file);
    }
    Ok(json(Input::new(file).map_err(|why| why.to_string())?))
}

/// Number of rows that are decoded together, which limits the memory that they take.
const BATCH: usize = 64;

/// Opens the rows of a Parquet file.
pub(super) fn parquet(file: impl ChunkReader + 'static) -> Result<Rows, String> {
    let file = Arc::new(file);
    table::check_depth(&*file).map_err(|why| why.to_string())?;
    let meter = Meter::of_packed(file.len());
    let reader =
        SerializedFileReader::new(Shared(Arc::clone(&file))).map_err(|why| why.to_string())?;
    table::check_sizes(&*file, reader.metadata(), true).map_err(|why| why.to_string())?;
    let mut rows = RowIter::from_file_into(Box::new(reader)).with_batch_size(BATCH);
    let mut is_broken = false;
    Ok(Box::new(std::iter::from_fn(move || {
        if is_broken {
            return None;
        }
        // The reader panics for some files that are damaged.
        let row = catch_unwind(AssertUnwindSafe(|| rows.next())).unwrap_or_else(|_| {
            Some(Err(ParquetError::General("the file is damaged".to_owned())))
        })?;
        let row = row.map_err(|why| why.to_string()).and_then(|row| {
            let size = row.get_column_iter().map(|(_, field)| size(field)).sum();
            let counted = meter.add(size).and_then(|()| meter.part());
            counted.map_err(|why| why.to_string())?;
            Ok(object(row))
        });
        is_broken = row.is_err();
        Some(row)
    })))
}

/// Returns the bytes of the texts in a value.
fn size(field: &Field) -> u64 {
    match field {
        Field::Str(text) => text.len() as u64,
        Field::Bytes(bytes) => bytes.len() as u64,
        Field::Group(row) => row.get_column_iter().map(|(_, field)| size(field)).sum(),
        Field::ListInternal(list) => list.elements().iter().map(size).sum(),
        Field::MapInternal(map) => {
            map.entries().iter().map(|(key, field)| size(key) + size(field)).sum()
        }
        _ => 0,
    }
}

/// A file that is looked at before it is read.
struct Shared<F>(Arc<F>);

impl<F: Length> Length for Shared<F> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<F: ChunkReader> ChunkReader for Shared<F> {
    type T = F::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<F::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

fn object(row: record::Row) -> Row {
    row.into_columns().into_iter().map(|(name, field)| (name, value(&field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) | Field::Date(value) | Field::TimeMillis(value) => (*value).into(),
        Field::Long(value)
        | Field::TimeMicros(value)
        | Field::TimestampMillis(value)
        | Field::TimestampMicros(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => BASE64_STANDARD.encode(bytes.data()).into(),
        Field::Group(row) => {
            let members = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
            Value::Object(members.collect())
        }
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            let entries = map.entries().iter();
            let name = |field| match value(field) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Value::Object(entries.map(|(key, field)| (name(key), value(field))).collect())
        }
        Field::Float16(_) | Field::Decimal(_) => field.to_string().into(),
    }
}

/// Reads objects, which are in an array or follow each other. Another value is a row without columns.
pub(super) fn json(mut input: Input<'static>) -> Rows {
    let meter = input.meter();
    if first_byte(&mut input) == Some(b'[') {
        let mut rows: Vec<Result<Row, String>> = Vec::new();
        let each = Each::new(&meter, "a list of objects", |row| {
            rows.push(Ok(columns(row)));
            Ok(())
        });
        let mut document = documents(input);
        if let Err(why) = each.deserialize(&mut document).and_then(|()| document.end()) {
            rows = vec![Err(why.to_string())];
        }
        return Box::new(rows.into_iter());
    }
    let rows = documents(input).into_iter();
    Box::new(rows.map(move |row| {
        let row = row.map_err(|why| why.to_string())?;
        meter.part().map_err(|why| why.to_string())?;
        Ok(columns(row))
    }))
}

fn columns(row: Value) -> Row {
    match row {
        Value::Object(columns) => columns,
        _ => Row::new(),
    }
}

/// Skips white space, and returns the byte after it.
fn first_byte(input: &mut impl BufRead) -> Option<u8> {
    loop {
        let waiting = input.fill_buf().ok()?;
        let blank = waiting.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match waiting.get(blank) {
            Some(byte) => {
                let byte = *byte;
                input.consume(blank);
                return Some(byte);
            }
            None if blank == 0 => return None,
            None => input.consume(blank),
        }
    }
}

#[cfg(test)]
mod tests;
