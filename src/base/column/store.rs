//! Where the blocks of columns are kept.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::{BLOCK, Fixed};
use crate::platform::files::UnnamedFile;

/// Keeps blocks in memory up to a limit, and in an unnamed file beyond it. Without a directory, and
/// after a failed write, all blocks stay in memory.
///
/// Clones share the limit and the file.
#[derive(Clone, Default)]
pub struct Store(Option<Arc<Spilling>>);

/// A store with a directory.
struct Spilling {
    directory: PathBuf,
    limit: usize,
    in_memory: AtomicUsize,
    /// The file, created for its first block; `None` if that failed.
    file: OnceLock<Option<UnnamedFile>>,
    /// Where the next block is written.
    end: AtomicU64,
    has_failed: AtomicBool,
}

/// A full block.
#[derive(Debug, Clone)]
pub(super) enum Block<T> {
    Memory(Arc<Resident<T>>),
    /// Encoded values at this position in the file.
    File(u64),
}

/// A block in memory, which is subtracted from the store's memory when it is dropped.
pub(super) struct Resident<T> {
    values: Box<[T]>,
    store: Store,
}

/// Number of bytes that the columns of a run keep in memory: the values of 10⁵ requests.
const RUN_LIMIT: usize = 32 << 20;

impl Store {
    /// Creates the store of a run whose files are in `directory`.
    pub fn of_run(directory: PathBuf) -> Self {
        Self::spilling_to(directory, RUN_LIMIT)
    }

    /// Creates a store that keeps at most `limit` bytes in memory, and the rest in an unnamed file
    /// in `directory`.
    pub fn spilling_to(directory: PathBuf, limit: usize) -> Self {
        Self(Some(Arc::new(Spilling {
            directory,
            limit,
            in_memory: AtomicUsize::new(0),
            file: OnceLock::new(),
            end: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        })))
    }

    /// Returns a store with a file of its own and a quarter of the limit, for columns that are soon
    /// dropped.
    pub fn scratch(&self) -> Self {
        self.0.as_ref().map_or_else(Self::default, |shared| {
            Self::spilling_to(shared.directory.clone(), shared.limit / 4)
        })
    }

    pub(super) fn keep<T: Fixed>(&self, values: &[T]) -> Block<T> {
        if let Some(spilling) = &self.0
            && spilling.in_memory.load(Relaxed) + size_of_val(values) > spilling.limit
            && let Some(at) = spilling.write(values)
        {
            return Block::File(at);
        }
        if let Some(spilling) = &self.0 {
            spilling.in_memory.fetch_add(size_of_val(values), Relaxed);
        }
        Block::Memory(Arc::new(Resident { values: values.into(), store: self.clone() }))
    }

    pub(super) fn read<'a, T: Fixed>(&self, block: &'a Block<T>) -> Cow<'a, [T]> {
        match block {
            Block::Memory(block) => Cow::Borrowed(&block.values),
            Block::File(_) => {
                let mut values = Vec::with_capacity(BLOCK);
                self.read_part(block, 0..BLOCK, &mut values);
                Cow::Owned(values)
            }
        }
    }

    /// Appends the values at the indices `part` of `block`.
    pub(super) fn read_part<T: Fixed>(
        &self,
        block: &Block<T>,
        part: Range<usize>,
        values: &mut Vec<T>,
    ) {
        match block {
            Block::Memory(block) => values.extend_from_slice(&block.values[part]),
            Block::File(at) => {
                let mut bytes = vec![0; part.len() * T::SIZE];
                let at = at + (part.start * T::SIZE) as u64;
                if let Some(spilling) = &self.0 {
                    spilling.read(&mut bytes, at);
                }
                values.extend(bytes.chunks_exact(T::SIZE).map(T::decode));
            }
        }
    }
}

impl Spilling {
    /// Writes a block; returns its position, or `None` if that failed now or earlier.
    fn write<T: Fixed>(&self, values: &[T]) -> Option<u64> {
        if self.has_failed.load(Relaxed) {
            return None;
        }
        let mut bytes = Vec::with_capacity(values.len() * T::SIZE);
        for value in values {
            value.encode(&mut bytes);
        }
        let file = self.file.get_or_init(|| {
            let created = UnnamedFile::in_directory(&self.directory);
            created.map_err(|error| self.fail(&error)).ok()
        });
        let file = file.as_ref()?;
        let at = self.end.fetch_add(bytes.len() as u64, Relaxed);
        let written = file.write_all_at(&bytes, at);
        written.map_err(|error| self.fail(&error)).ok()?;
        Some(at)
    }

    /// Notes that nothing more can be written, and logs it once.
    fn fail(&self, error: &io::Error) {
        if !self.has_failed.swap(true, Relaxed) {
            tracing::warn!(
                "cannot write a temporary file in {}: {error}; the values of all requests stay in \
                 memory",
                self.directory.display()
            );
        }
    }

    /// Fills `bytes` from the position `at` of the file.
    fn read(&self, bytes: &mut [u8], at: u64) {
        let file = self.file.get().and_then(Option::as_ref);
        let lost = || Err(io::Error::from(io::ErrorKind::NotFound));
        if let Err(error) = file.map_or_else(lost, |file| file.read_exact_at(bytes, at)) {
            bytes.fill(0);
            tracing::error!(
                "cannot read a temporary file in {}: {error}; statistics are wrong",
                self.directory.display()
            );
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(spilling) = &self.0 else { return f.write_str("Store(memory)") };
        f.debug_struct("Store")
            .field("directory", &spilling.directory)
            .field("in_memory", &spilling.in_memory)
            .field("end", &spilling.end)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Resident<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resident").field(&self.values.len()).finish()
    }
}

impl<T> Drop for Resident<T> {
    fn drop(&mut self) {
        if let Some(spilling) = &self.store.0 {
            spilling.in_memory.fetch_sub(size_of_val(&*self.values), Relaxed);
        }
    }
}

#[cfg(test)]
impl Store {
    /// Returns the number of bytes in memory and in the file.
    pub(super) fn sizes(&self) -> (usize, u64) {
        self.0.as_ref().map_or((0, 0), |spilling| {
            (spilling.in_memory.load(Relaxed), spilling.end.load(Relaxed))
        })
    }
}
