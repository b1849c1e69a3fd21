//! An unnamed file for records that do not fit into memory.
//!
//! Frames are collected and written in segments of a few hundred kilobytes, one after the other. A
//! segment is read back as a whole. A segment that cannot be written stays in memory, as encoded
//! bytes.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use base::platform::files::UnnamedFile;

use super::codec;
use crate::record::RequestRecord;

/// Size of a segment in bytes.
const SEGMENT_BYTES: usize = 256 << 10;

/// Records that were spilled and not yet read back.
#[derive(Debug)]
pub(super) struct Spill {
    directory: PathBuf,
    file: Option<Arc<UnnamedFile>>,
    /// Position of the next segment.
    end: u64,
    segments: VecDeque<SegmentLocation>,
    /// Frames of the segment that has not been written yet.
    open: Vec<u8>,
    open_records: u64,
    /// Why the file accepts no more records.
    failure: Option<io::Error>,
}

/// Location of a segment.
#[derive(Debug)]
enum SegmentLocation {
    File { file: Arc<UnnamedFile>, at: u64, length: usize, records: u64 },
    Memory { bytes: Vec<u8>, records: u64 },
}

impl SegmentLocation {
    const fn records(&self) -> u64 {
        match self {
            Self::File { records, .. } | Self::Memory { records, .. } => *records,
        }
    }
}

/// A segment that could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unwritten {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

/// A segment taken out of the spill, which is read without holding a lock.
#[derive(Debug)]
pub(super) struct Segment(SegmentLocation);

impl Spill {
    /// Creates a spill to a file that is created in `directory` when it is first needed.
    pub(super) const fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            file: None,
            end: 0,
            segments: VecDeque::new(),
            open: Vec::new(),
            open_records: 0,
            failure: None,
        }
    }

    /// Returns whether the spill accepts records; it does not after a failed write.
    pub(super) const fn is_usable(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns whether no records are waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.open.is_empty()
    }

    /// Drops all records and returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        let written: u64 = self.segments.iter().map(SegmentLocation::records).sum();
        let dropped = written + self.open_records;
        *self = Self::new(std::mem::take(&mut self.directory));
        dropped
    }

    /// Adds the frame of a record. If a segment could not be written, the error contains the number
    /// and the bytes of the records that stay in memory.
    pub(super) fn push(&mut self, frame: &[u8]) -> Result<(), Unwritten> {
        self.open.extend_from_slice(frame);
        self.open_records += 1;
        if self.open.len() < SEGMENT_BYTES {
            return Ok(());
        }
        let records = std::mem::take(&mut self.open_records);
        match self.write() {
            Ok((file, at)) => {
                let length = self.open.len();
                self.open.clear();
                self.segments.push_back(SegmentLocation::File { file, at, length, records });
                Ok(())
            }
            Err(error) => {
                tracing::warn!(
                    "cannot write records to a spill file in {}: {error}; they stay in memory",
                    self.directory.display()
                );
                self.failure = Some(error);
                let bytes = std::mem::take(&mut self.open);
                let unwritten = Unwritten { records, bytes: bytes.len() as u64 };
                self.segments.push_back(SegmentLocation::Memory { bytes, records });
                Err(unwritten)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn set_file(&mut self, file: UnnamedFile) {
        self.file = Some(Arc::new(file));
    }

    #[cfg(test)]
    pub(super) const fn file(&self) -> Option<&Arc<UnnamedFile>> {
        self.file.as_ref()
    }

    /// Writes the open segment and returns its location.
    fn write(&mut self) -> io::Result<(Arc<UnnamedFile>, u64)> {
        let file = if let Some(file) = &self.file {
            Arc::clone(file)
        } else {
            let file = UnnamedFile::in_directory(&self.directory)?;
            Arc::clone(self.file.insert(Arc::new(file)))
        };
        let at = self.end;
        file.write_all_at(&self.open, at)?;
        self.end += self.open.len() as u64;
        Ok((file, at))
    }

    /// Takes a segment out; `None` if there is none. Taking the last segment closes the file, which
    /// releases its disk space.
    pub(super) fn take(&mut self) -> Option<Segment> {
        if let Some(place) = self.segments.pop_front() {
            if self.segments.is_empty() && self.failure.is_none() {
                (self.file, self.end) = (None, 0);
            }
            return Some(Segment(place));
        }
        let records = std::mem::take(&mut self.open_records);
        let bytes = std::mem::take(&mut self.open);
        (!bytes.is_empty()).then_some(Segment(SegmentLocation::Memory { bytes, records }))
    }
}

impl Segment {
    /// Returns the records of the segment and the number of its records that could not be read.
    pub(super) fn read(self, shared: &[Bytes]) -> (Vec<RequestRecord>, u64) {
        let (bytes, expected) = match self.0 {
            SegmentLocation::Memory { bytes, records } => (Ok(bytes), records),
            SegmentLocation::File { file, at, length, records } => {
                let mut bytes = vec![0; length];
                (file.read_exact_at(&mut bytes, at).map(|()| bytes), records)
            }
        };
        let mut records = Vec::new();
        let outcome = bytes.map_err(|error| error.to_string()).and_then(|bytes| {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (record, after) = codec::decode(rest, shared)?;
                records.push(record);
                rest = after;
            }
            Ok(())
        });
        let lost = expected.saturating_sub(records.len() as u64);
        if let Err(error) = outcome {
            tracing::error!("cannot read {lost} spilled records back: {error}");
        }
        (records, lost)
    }
}
