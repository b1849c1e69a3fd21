//! Opens existing files for reading.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use zstd::stream::read::Decoder;

use base::input::{self, table};

use super::layout;

/// Maximum size of a file that is read as a whole in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Reads the whole file at `path`, which must satisfy [`regular`].
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    input::whole(regular(path)?, MAX_BYTES)
}

/// Opens the table in `file`, which is [`regular`].
pub(super) fn table(file: File) -> Result<SerializedFileReader<File>, ParquetError> {
    table::check_depth(&file)?;
    let checked = file.try_clone()?;
    let reader = SerializedFileReader::new(file)?;
    table::check_sizes(&checked, reader.metadata(), false)?;
    Ok(reader)
}

/// Opens the file at `path`, which must satisfy [`regular`], and decompresses it if its name ends in
/// `.zst`.
///
/// The file of a killed run ends where its last bytes were written.
pub(super) fn decompressed(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = regular(path)?;
    if layout::is_compressed(path) {
        Ok(Box::new(Unfinished(Decoder::new(file)?)))
    } else {
        Ok(Box::new(file))
    }
}

/// Decompresses a frame that may lack its end.
struct Unfinished<R>(R);

impl<R: Read> Read for Unfinished<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.0.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

/// Opens the file at `path`.
///
/// # Errors
///
/// A pipe or a device is an error, since reading it might never end.
pub fn regular(path: &Path) -> io::Result<File> {
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}
