//! Limits of Parquet files. Their reader allocates whatever a file declares, so that this is checked before.

use std::io::{self, Cursor};

use bytes::Buf as _;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;

use super::thrift::{I32, LIST, STRUCT, Thrift};
use super::{FREE_BYTES, FREE_PARTS, MAX_PART_BYTES, MAX_RATIO, exceeded, size};

/// Maximum depth of groups within each other.
pub const MAX_DEPTH: usize = 100;

/// Maximum size of a page in bytes, which usually has a megabyte. Writers close a page after a number of
/// values, so that pages with images are larger.
const MAX_PAGE_BYTES: u64 = 512 << 20;

/// The last bytes of a file: the length of its description, and a mark.
const FOOTER: usize = 8;

/// Checks what can be checked before the description of a file is parsed: the depth of its groups.
///
/// # Errors
///
/// Fails if the file is too deep, or damaged.
pub fn check_depth(file: &impl ChunkReader) -> io::Result<()> {
    let footer = (FOOTER as u64).min(file.len());
    let mut end = file.get_bytes(file.len() - footer, footer as usize)?;
    if end.len() < FOOTER {
        return Ok(());
    }
    let length = u64::from(end.get_u32_le());
    let Some(start) = (file.len() - footer).checked_sub(length) else { return Ok(()) };
    let description = file.get_bytes(start, length as usize)?;
    let mut description = Thrift::new(Cursor::new(description));
    // The numbers of children that the groups around the next one still have.
    let mut open: Vec<i64> = Vec::new();
    description.fields(|of, field, kind| {
        // `schema` of FileMetaData.
        if (field, kind) != (2, LIST) {
            return Ok(false);
        }
        let (count, _) = of.list()?;
        for _ in 0..count {
            let mut children = 0;
            of.fields(|of, field, kind| {
                // `num_children` of SchemaElement.
                let is_wanted = (field, kind) == (5, I32);
                if is_wanted {
                    children = of.number()?;
                }
                Ok(is_wanted)
            })?;
            if let Some(rest) = open.last_mut() {
                *rest -= 1;
            }
            if children > 0 {
                open.push(children);
            }
            while open.last().is_some_and(|rest| *rest <= 0) {
                open.pop();
            }
            if open.len() > MAX_DEPTH {
                return Err(exceeded(format!("nested more than {MAX_DEPTH} levels deep")));
            }
        }
        Ok(true)
    })
}

/// Checks the sizes in a file before its rows are read: those of its pages, and if the rows are kept, how
/// many there are, and what they expand to.
///
/// # Errors
///
/// Fails if it has too many rows for its size, if a page is too large, if it would expand too much, or if
/// it is damaged.
pub fn check_sizes(
    file: &impl ChunkReader,
    metadata: &ParquetMetaData,
    are_kept: bool,
) -> io::Result<()> {
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(u64::MAX);
    if are_kept && rows > FREE_PARTS.saturating_add(file.len()) {
        return Err(exceeded(format!(
            "it has {rows} rows, more than {FREE_PARTS} and one for each of its {} bytes",
            file.len()
        )));
    }
    let mut left = file.len();
    let damaged = || exceeded("the file is damaged");
    for column in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let start = u64::try_from(start).map_err(|_| damaged())?;
        let length = u64::try_from(column.compressed_size()).map_err(|_| damaged())?;
        // Columns do not overlap.
        left = left.checked_sub(length).ok_or_else(damaged)?;
        let expanded = check_pages(file, start, length)?;
        let most = FREE_BYTES.saturating_add(file.len().saturating_mul(MAX_RATIO));
        if are_kept && expanded > most {
            return Err(exceeded(format!(
                "it expands to {}, more than {} and {MAX_RATIO} times its size",
                size(expanded),
                size(FREE_BYTES)
            )));
        }
    }
    Ok(())
}

/// The sizes in the header of a page.
#[derive(Debug, Default)]
struct Page {
    is_dictionary: bool,
    uncompressed: u64,
    compressed: u64,
    values: u64,
}

/// Checks the pages of a column, which begin at `start` and have `length` bytes. Returns what the texts in
/// its dictionary expand to, in bytes.
fn check_pages(file: &impl ChunkReader, start: u64, length: u64) -> io::Result<u64> {
    let end = start.saturating_add(length).min(file.len());
    let mut at = start;
    let mut dictionary = Page::default();
    let mut values = 0;
    while at < end {
        let (page, header) = page(file, at)?;
        at = at.saturating_add(header).saturating_add(page.compressed);
        let most = MAX_PART_BYTES.saturating_mul(page.values.max(1)).min(MAX_PAGE_BYTES);
        if page.uncompressed > most {
            return Err(exceeded(format!(
                "a page of {} values has {}, more than {}",
                page.values,
                size(page.uncompressed),
                size(most)
            )));
        }
        if page.is_dictionary {
            dictionary = page;
        } else {
            values += page.values;
        }
    }
    // The values of a dictionary are taken to be used equally.
    let each = dictionary.uncompressed / dictionary.values.max(1);
    Ok(each.saturating_mul(values))
}

/// Reads the header of the page at `at`; returns it with its length.
fn page(file: &impl ChunkReader, at: u64) -> io::Result<(Page, u64)> {
    let mut page = Page::default();
    let mut header = Thrift::new(file.get_read(at)?);
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
    // The numbers of the fields of PageHeader in parquet.thrift.
    header.fields(|of, field, kind| {
        match (field, kind) {
            (2, I32) => page.uncompressed = unsigned(of.number()?),
            (3, I32) => page.compressed = unsigned(of.number()?),
            // The headers of data, of a dictionary, and of data of the second version.
            (5 | 7 | 8, STRUCT) => {
                page.is_dictionary = field == 7;
                of.fields(|of, field, kind| {
                    let is_count = (field, kind) == (1, I32);
                    if is_count {
                        page.values = unsigned(of.number()?);
                    }
                    Ok(is_count)
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((page, header.read))
}
