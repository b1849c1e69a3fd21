//! Columns: values in the order in which they were added, of which only a limited amount is in
//! memory.
//!
//! A column collects values in blocks. A full block stays in memory as long as the [`Store`] has
//! room, and is written to an unnamed file otherwise. Columns are read block by block.

mod sorted;
mod store;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

pub use sorted::Sorted;
use store::Block;
pub use store::Store;

/// Number of values of a block.
const BLOCK: usize = 4096;

/// A value with an encoding of a fixed size.
pub trait Fixed: Copy + Default {
    /// Number of bytes.
    const SIZE: usize;

    /// Appends the value's bytes.
    fn encode(self, bytes: &mut Vec<u8>);

    /// Returns the value of [`SIZE`](Self::SIZE) bytes.
    fn decode(bytes: &[u8]) -> Self;
}

macro_rules! fixed {
    ($($number:ty)*) => {$(
        impl Fixed for $number {
            const SIZE: usize = size_of::<$number>();

            fn encode(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(Self::default(), Self::from_le_bytes)
            }
        }
    )*};
}

fixed! { u8 u16 u32 u64 f32 f64 }

/// A byte that states whether there is a value, then the value or its default.
impl<T: Fixed> Fixed for Option<T> {
    const SIZE: usize = 1 + T::SIZE;

    fn encode(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        self.unwrap_or_default().encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Self {
        let (is_some, value) = bytes.split_first()?;
        (*is_some != 0).then(|| T::decode(value))
    }
}

/// Declares a struct of fixed values, which is a [`Fixed`] value itself.
#[macro_export]
macro_rules! fixed_struct {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($(#[$about_field:meta])* $visible_field:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$about_field])* $visible_field $field: $type),*
        }

        impl $crate::column::Fixed for $name {
            const SIZE: usize = 0 $(+ <$type as $crate::column::Fixed>::SIZE)*;

            fn encode(self, bytes: &mut Vec<u8>) {
                $(<$type as $crate::column::Fixed>::encode(self.$field, bytes);)*
            }

            fn decode(bytes: &[u8]) -> Self {
                let mut rest = bytes;
                $(
                    let (first, others) =
                        rest.split_at(<$type as $crate::column::Fixed>::SIZE.min(rest.len()));
                    let $field = <$type as $crate::column::Fixed>::decode(first);
                    rest = others;
                )*
                let _ = rest;
                Self { $($field),* }
            }
        }
    };
}

pub use fixed_struct;

/// Values in the order in which they were added.
#[derive(Debug, Clone)]
pub struct Column<T> {
    store: Store,
    /// Full blocks.
    blocks: Vec<Block<T>>,
    /// The last values, fewer than a block.
    tail: Vec<T>,
}

impl<T: Fixed> Column<T> {
    /// Creates an empty column whose blocks are kept in `store`.
    pub const fn new(store: Store) -> Self {
        Self { store, blocks: Vec::new(), tail: Vec::new() }
    }

    /// Creates a column of `values`.
    pub fn from_values(store: Store, values: impl IntoIterator<Item = T>) -> Self {
        let mut column = Self::new(store);
        column.extend(values);
        column
    }

    /// Appends a value.
    pub fn push(&mut self, value: T) {
        self.tail.push(value);
        if self.tail.len() == BLOCK {
            self.blocks.push(self.store.keep(&self.tail));
            self.tail.clear();
        }
    }

    /// Returns a store for columns that are soon dropped.
    pub fn scratch(&self) -> Store {
        self.store.scratch()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.blocks.len() * BLOCK + self.tail.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all values.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let blocks = self.blocks.iter().map(|block| self.store.read(block));
        blocks.chain([Cow::Borrowed(&*self.tail)]).flat_map(Values::new)
    }

    /// Returns the values at the indices `range`; indices beyond the last value are left out.
    pub fn at(&self, range: Range<usize>) -> Vec<T> {
        let range = range.start..range.end.min(self.len());
        let mut found = Vec::with_capacity(range.len());
        let mut next = range.start;
        while next < range.end {
            let (block, from) = (next / BLOCK, next % BLOCK);
            let until = BLOCK.min(from + range.end - next);
            match self.blocks.get(block) {
                Some(block) => self.store.read_part(block, from..until, &mut found),
                None => found.extend_from_slice(&self.tail[from..until]),
            }
            next += until - from;
        }
        found
    }
}

impl<T: Fixed> Extend<T> for Column<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.push(value);
        }
    }
}

impl<T: Fixed> Default for Column<T> {
    fn default() -> Self {
        Self::new(Store::default())
    }
}

/// Iterates over the values of a block.
struct Values<'a, T: Copy> {
    block: Cow<'a, [T]>,
    next: usize,
}

impl<'a, T: Copy> Values<'a, T> {
    const fn new(block: Cow<'a, [T]>) -> Self {
        Self { block, next: 0 }
    }
}

impl<T: Copy> Iterator for Values<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let value = self.block.get(self.next).copied();
        self.next += 1;
        value
    }
}
