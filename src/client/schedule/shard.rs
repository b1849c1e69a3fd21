//! A shard: one of several processes that share a schedule.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Every `count`th item of something, starting with `index`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "Parts")]
pub struct Shard {
    index: u64,
    count: u64,
}

/// A [`Shard`] as it is read, before validation.
#[derive(Deserialize, schemars::JsonSchema)]
struct Parts {
    index: u64,
    count: u64,
}

impl TryFrom<Parts> for Shard {
    type Error = String;

    fn try_from(Parts { index, count }: Parts) -> Result<Self, String> {
        match count {
            0 => Err("the number of shards must be at least 1".to_owned()),
            _ if count > Self::MAX_COUNT => {
                Err(format!("the number of shards must be at most {}", Self::MAX_COUNT))
            }
            _ if index >= count => Err(format!(
                "shards are numbered from 0, so the last of {count} is {}/{count}",
                count - 1
            )),
            _ => Ok(Self { index, count }),
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Parses `i/n`, with i less than n.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let parts = text.split_once('/').and_then(|(i, n)| number(i).zip(number(n)));
        let (index, count) =
            parts.ok_or("expected the shard and the number of shards, such as 0/4".to_owned())?;
        Parts { index, count }.try_into()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// The only shard of an unsharded run.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Maximum number of shards.
    pub const MAX_COUNT: u64 = 1 << 16;

    /// Returns the shard with this index, from 0, of `count`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if there are too many.
    pub fn checked(index: u64, count: u64) -> Result<Self, String> {
        Parts { index, count }.try_into()
    }

    #[cfg(test)]
    pub(crate) fn new(index: u64, count: u64) -> Self {
        assert!(index < count);
        Self { index, count }
    }

    /// Returns the index of the shard, from 0.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Returns the name of its directory among those of all shards: `shard-3`.
    pub fn directory(self) -> String {
        format!("shard-{}", self.index)
    }

    /// Returns the number of shards.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Returns whether the item of index `index` belongs to this shard.
    #[must_use]
    pub const fn has(self, index: u64) -> bool {
        index % self.count == self.index
    }

    /// Returns the index in the whole of the `nth` item of this shard.
    #[must_use]
    pub const fn nth(self, nth: u64) -> u64 {
        self.index.saturating_add(nth.saturating_mul(self.count))
    }

    /// Returns how many of the first `total` items belong to this shard.
    #[must_use]
    pub const fn share(self, total: u64) -> u64 {
        total.saturating_sub(self.index).div_ceil(self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shards_are_below_their_count() {
        assert_eq!("0/1".parse(), Ok(Shard::new(0, 1)));
        assert_eq!(" 3 / 4 ".parse(), Ok(Shard::new(3, 4)));
        for wrong in ["", "1", "/", "1/", "4/4", "0/0", "-1/4", "1/4/5", "0/65537", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        assert_eq!("65535/65536".parse(), Ok(Shard::new(65_535, 65_536)));
    }

    #[test]
    fn what_is_read_is_a_shard_or_refused() {
        let read = |text: &str| serde_json::from_str::<Shard>(text);
        assert_eq!(read(r#"{"index":2,"count":3}"#).unwrap(), Shard::new(2, 3));
        let most = r#"{"index":0,"count":18446744073709551615}"#;
        for wrong in [r#"{"index":3,"count":3}"#, r#"{"index":0,"count":0}"#, most] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_said_is_read_again(index in any::<u64>(), count in any::<u64>(), text in ".*") {
            let read = format!("{index}/{count}").parse::<Shard>();
            prop_assert_eq!(read.is_ok(), index < count && count <= Shard::MAX_COUNT);
            if let Ok(shard) = read {
                prop_assert_eq!(shard.to_string().parse(), Ok(shard));
            }
            let _ = text.parse::<Shard>();
        }

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
