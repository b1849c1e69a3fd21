//! Number of slots that a limit opens, and when.

use base::units::Nanos;

use super::Shard;
use super::config::Limit;

/// A limit that grows in equal steps: the first slot is open from the start, and the last one opens
/// at the end of the ramp.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    limit: Limit,
    shard: Shard,
}

impl Line {
    /// Creates the line of `limit`.
    #[must_use]
    pub const fn new(limit: Limit) -> Self {
        Self { limit, shard: Shard::WHOLE }
    }

    /// Restricts the slots to those of `shard`.
    #[must_use]
    pub const fn shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// Returns the number of slots that are open `elapsed` after the start.
    #[must_use]
    pub fn open_at(&self, elapsed: Nanos) -> u64 {
        let Limit { most, ramp } = self.limit;
        let ramp = ramp.unwrap_or_default();
        let open = if elapsed >= ramp {
            most
        } else {
            let steps = u128::from(elapsed.0) * u128::from(most.saturating_sub(1));
            1 + (steps / u128::from(ramp.0)) as u64
        };
        self.shard.share(open.min(most))
    }

    /// Returns the time after the start at which the slot of index `slot` opens; `None` past the
    /// last slot.
    #[must_use]
    pub fn opens(&self, slot: u64) -> Option<Nanos> {
        let Limit { most, ramp } = self.limit;
        let index = Some(self.shard.nth(slot)).filter(|index| *index < most)?;
        let ramp = u128::from(ramp.unwrap_or_default().0);
        let steps = u128::from(most.saturating_sub(1)).max(1);
        Some(Nanos((ramp * u128::from(index)).div_ceil(steps) as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ramp_climbs_from_one_in_equal_steps() {
        let line = Line::new(Limit { most: 5, ramp: Some(Nanos(1000)) });
        let opens: Vec<_> = (0..6).map(|slot| line.opens(slot).map(|at| at.0)).collect();
        assert_eq!(opens, [Some(0), Some(250), Some(500), Some(750), Some(1000), None]);
        let open: Vec<_> =
            [0, 249, 250, 999, 1000, 5000].map(|at| line.open_at(Nanos(at))).to_vec();
        assert_eq!(open, [1, 1, 2, 4, 5, 5]);
    }

    #[test]
    fn without_a_ramp_all_are_open() {
        let line = Line::new(Limit::constant(7));
        assert_eq!((line.open_at(Nanos::ZERO), line.opens(6)), (7, Some(Nanos::ZERO)));
        let single = Line::new(Limit { most: 1, ramp: Some(Nanos(9)) });
        assert_eq!((single.open_at(Nanos::ZERO), single.opens(0)), (1, Some(Nanos::ZERO)));
    }

    proptest! {
        #[test]
        fn parts_open_what_the_whole_opens_and_when_it_does(
            most in 1u64..50, ramp in 0u64..10_000, count in 1u64..5, at in 0u64..12_000,
        ) {
            let whole = Line::new(Limit { most, ramp: Some(Nanos(ramp)) });
            let parts: Vec<_> = (0..count).map(|i| whole.shard(Shard::new(i, count))).collect();
            let at = Nanos(at);
            prop_assert_eq!(parts.iter().map(|part| part.open_at(at)).sum::<u64>(), whole.open_at(at));
            for part in parts {
                let opened = (0..).map_while(|slot| part.opens(slot)).filter(|opens| *opens <= at);
                prop_assert_eq!(opened.count() as u64, part.open_at(at));
            }
        }
    }
}
