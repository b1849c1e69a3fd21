//! One of several processes that share a schedule.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Every `count`th of something, from `index` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Parts")]
pub struct Shard {
    index: u64,
    count: u64,
}

/// A [`Shard`] as it is read, before it is known to be one.
#[derive(Deserialize)]
struct Parts {
    index: u64,
    count: u64,
}

impl From<Parts> for Shard {
    fn from(parts: Parts) -> Self {
        Self::new(parts.index, parts.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// The part of index `index` of `count`. No parts count as one, and an
    /// index past the last part as the last.
    #[must_use]
    pub const fn new(index: u64, count: u64) -> Self {
        let count = if count == 0 { 1 } else { count };
        Self { index: if index < count { index } else { count - 1 }, count }
    }

    /// Which part, from 0.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.index
    }

    /// How many parts there are.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Whether the thing of index `index` is in this part.
    #[must_use]
    pub const fn has(self, index: u64) -> bool {
        index % self.count == self.index
    }

    /// The index, in the whole, of the thing that is the `nth` of this part.
    #[must_use]
    pub const fn nth(self, nth: u64) -> u64 {
        self.index.saturating_add(nth.saturating_mul(self.count))
    }

    /// How many of the first `total` things are in this part.
    #[must_use]
    pub const fn share(self, total: u64) -> u64 {
        total.saturating_sub(self.index).div_ceil(self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_disjoint_and_make_the_whole(count in 1u64..7, total in 0u64..40) {
            let mut seen: Vec<u64> = (0..count)
                .flat_map(|index| {
                    let shard = Shard::new(index, count);
                    (0..shard.share(total)).map(move |nth| shard.nth(nth))
                })
                .collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..total).collect::<Vec<_>>());
            for index in 0..total {
                let owners = (0..count).filter(|shard| Shard::new(*shard, count).has(index));
                prop_assert_eq!(owners.count(), 1);
            }
        }
    }
}
