//! How the shards of a run agreed on its start (`--shard auto`).

use serde::{Deserialize, Serialize};

/// Difference between two clocks beyond its possible error, in milliseconds, that is worth a warning:
/// more than hosts with a working NTP differ.
const SUSPICIOUS_MS: f64 = 10.0;

/// What a shard knows of the agreement of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Agreement {
    /// Indices of the shards that were not ready in time. The run started without them.
    pub absent: Vec<u64>,
    /// Time for which this shard waited for the others, in milliseconds.
    pub waited_ms: f64,
    /// The clock of its host.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clock: Option<ClockOffset>,
}

/// The clock of a host, compared with that of the file system which all shards share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClockOffset {
    /// Time by which the host's clock is ahead, in milliseconds; negative if it is behind.
    pub ahead_ms: f64,
    /// Largest possible error of that, in milliseconds: half of the time that writing the file took,
    /// and half of the resolution of its time stamp.
    pub error_ms: f64,
}

/// The largest difference between the clocks of two shards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockSpread {
    /// The shard whose clock is furthest behind.
    pub last: u64,
    /// The shard whose clock is furthest ahead.
    pub first: u64,
    /// The difference, in milliseconds.
    pub(crate) spread_ms: f64,
    /// Largest possible error of the difference, in milliseconds.
    pub error_ms: f64,
}

impl ClockSpread {
    /// Returns the largest difference between the clocks of these shards; `None` without two.
    pub fn from_clocks(clocks: impl Iterator<Item = (u64, ClockOffset)> + Clone) -> Option<Self> {
        let by_time =
            |a: &(u64, ClockOffset), b: &(u64, ClockOffset)| a.1.ahead_ms.total_cmp(&b.1.ahead_ms);
        let (last, behind) = clocks.clone().min_by(by_time)?;
        let (first, ahead) = clocks.max_by(by_time)?;
        (last != first).then_some(Self {
            last,
            first,
            spread_ms: ahead.ahead_ms - behind.ahead_ms,
            error_ms: ahead.error_ms + behind.error_ms,
        })
    }

    /// Returns a warning if the clocks certainly differ by more than they should.
    pub fn warning(&self) -> Option<String> {
        let Self { last, first, spread_ms, error_ms } = self;
        (spread_ms - error_ms > SUSPICIOUS_MS).then(|| {
            format!(
                "the clock of shard {first} is {spread_ms:.0} ms (±{error_ms:.0} ms) ahead of that of \
                 shard {last}, so it starts that much earlier; synchronize the clocks of the hosts"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_certain_difference_is_a_warning() {
        let clock = |ahead_ms, error_ms| ClockOffset { ahead_ms, error_ms };
        let spread =
            |clocks: &[(u64, ClockOffset)]| ClockSpread::from_clocks(clocks.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[(3, clock(5.0, 1.0))]), None);
        let found = spread(&[(0, clock(1.0, 2.0)), (1, clock(-7.0, 3.0)), (2, clock(8.0, 4.0))]);
        let expected = ClockSpread { last: 1, first: 2, spread_ms: 15.0, error_ms: 7.0 };
        assert_eq!(found, Some(expected));
        assert_eq!(expected.warning(), None);
        let far = spread(&[(0, clock(-250.0, 5.0)), (1, clock(100.0, 5.0))]).unwrap();
        let said = far.warning().unwrap();
        assert!(said.contains("shard 1 is 350 ms (±10 ms) ahead of that of shard 0"), "{said}");
    }
}
