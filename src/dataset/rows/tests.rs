use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// Writes a file with these columns, each by `write`.
fn table(schema: &str, mut write: impl FnMut(&mut ColumnWriter<'_>)) -> Bytes {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_page_size_limit(8 << 20)
        .build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        write(column.untyped());
        column.close().unwrap();
    }
    group.close().unwrap();
    let bytes: Bytes = file.into_inner().unwrap().into();
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    bytes
}

/// Writes a text so many times.
fn texts(text: Vec<u8>, count: usize) -> Bytes {
    let text = ByteArray::from(text);
    table("message a { required binary text (UTF8); }", |column| {
        let ColumnWriter::ByteArrayColumnWriter(column) = column else { panic!() };
        column.write_batch(&vec![text.clone(); count], None, None).unwrap();
    })
}

/// Reads all rows; returns their number, or the error.
fn read(file: Bytes) -> Result<usize, String> {
    let mut count = 0;
    for row in parquet(file)? {
        row?;
        count += 1;
    }
    Ok(count)
}

#[test]
fn texts_of_a_table_are_limited_like_a_line() {
    assert_eq!(read(texts(vec![b'x'; 1 << 20], 50)), Ok(50));
    let found = read(texts(vec![b'x'; 70 << 20], 1)).unwrap_err();
    assert_eq!(found, "a page of 1 values has 70 MiB, more than 64 MiB");
}

#[test]
fn rows_that_repeat_a_text_expand_within_limits() {
    let found = read(texts(vec![b'x'; 1 << 20], 100)).unwrap_err();
    assert!(found.contains("more than 64 MiB and 1000 times its size"), "{found}");
}

#[test]
fn the_number_of_rows_is_limited_by_the_size_of_the_file() {
    let file = table("message a { optional int32 number; }", |column| {
        let ColumnWriter::Int32ColumnWriter(column) = column else { panic!() };
        for _ in 0..30 {
            column.write_batch(&[], Some(&vec![0; 1_000_000]), None).unwrap();
        }
    });
    let found = read(file).unwrap_err();
    assert!(
        found.starts_with("it has 30000000 rows, more than 1000000 and one for each"),
        "{found}"
    );
}

#[test]
fn groups_within_each_other_are_limited() {
    let nested = |depth: usize| {
        let groups = "required group g { ".repeat(depth);
        let schema = format!("message a {{ {groups} required int32 n; {} }}", "}".repeat(depth));
        table(&schema, |column| {
            let ColumnWriter::Int32ColumnWriter(column) = column else { panic!() };
            column.write_batch(&[7], None, None).unwrap();
        })
    };
    assert_eq!(read(nested(50)), Ok(1));
    assert_eq!(read(nested(150)).unwrap_err(), "nested more than 100 levels deep");
}

#[test]
fn damaged_files_are_errors() {
    let file = texts(b"text".to_vec(), 3);
    for at in 0..file.len() {
        for bits in [0xff, 0x01] {
            let mut damaged = file.to_vec();
            damaged[at] ^= bits;
            drop(read(damaged.into()));
        }
        drop(read(file.slice(..at)));
    }
}
