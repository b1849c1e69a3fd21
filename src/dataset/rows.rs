//! The rows of a file, as JSON objects. Binary values become base64.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{self, Field};
use serde_json::{Deserializer, Map, Value};

/// A row: its columns by name.
pub(super) type Row = Map<String, Value>;

/// Rows, or why one cannot be read.
type Rows = Box<dyn Iterator<Item = Result<Row, String>>>;

/// Opens the rows of `file`, whose format is in its name.
pub(super) fn open(file: File, name: &str) -> Result<Rows, String> {
    if name.ends_with(".parquet") {
        return parquet(file);
    }
    Ok(json(BufReader::with_capacity(1 << 16, file)))
}

/// Opens the rows of a Parquet file.
pub(super) fn parquet(file: impl ChunkReader + 'static) -> Result<Rows, String> {
    let reader = SerializedFileReader::new(file).map_err(|why| why.to_string())?;
    let mut rows = RowIter::from_file_into(Box::new(reader));
    let mut is_broken = false;
    Ok(Box::new(std::iter::from_fn(move || {
        if is_broken {
            return None;
        }
        // The reader panics for some files that are damaged.
        let row = catch_unwind(AssertUnwindSafe(|| rows.next())).unwrap_or_else(|_| {
            Some(Err(ParquetError::General("the file is damaged".to_owned())))
        })?;
        is_broken = row.is_err();
        Some(row.map(object).map_err(|why| why.to_string()))
    })))
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

/// Reads objects, which are in an array or follow each other.
pub(super) fn json(mut input: impl BufRead + 'static) -> Rows {
    if first_byte(&mut input) == Some(b'[') {
        return match serde_json::from_reader::<_, Vec<Row>>(input) {
            Ok(rows) => Box::new(rows.into_iter().map(Ok)),
            Err(why) => Box::new(std::iter::once(Err(why.to_string()))),
        };
    }
    let rows = Deserializer::from_reader(input).into_iter();
    Box::new(rows.map(|row| row.map_err(|why| why.to_string())))
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
