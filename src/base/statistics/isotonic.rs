//! Isotonic regression: the non-decreasing sequence nearest to values with weights.

use std::ops::Range;

/// Consecutive values that have the same place in the sequence: their weighted mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The indices of the values.
    pub members: Range<usize>,
    pub mean: f64,
    pub weight: f64,
}

impl Block {
    /// Returns it with the values of `next`, which follows it.
    #[must_use]
    pub fn with(&self, next: &Self) -> Self {
        let weight = self.weight + next.weight;
        let mean = (self.weight * self.mean + next.weight * next.mean) / weight;
        Self { members: self.members.start..next.members.end, mean, weight }
    }
}

/// Returns the blocks of the non-decreasing sequence with the least weighted squares of differences
/// from `values`, each with its positive weight: neighbours that decrease are pooled until none do
/// (Ayer et al., "An empirical distribution function for sampling with incomplete information", The
/// Annals of Mathematical Statistics 26, 1955).
#[must_use]
pub fn blocks(values: impl IntoIterator<Item = (f64, f64)>) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for (at, (mean, weight)) in values.into_iter().enumerate() {
        let mut last = Block { members: at..at + 1, mean, weight };
        while let Some(before) = found.pop_if(|before| before.mean > last.mean) {
            last = before.with(&last);
        }
        found.push(last);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_that_decrease_are_pooled() {
        let even = |values: &[f64]| -> Vec<(Range<usize>, f64)> {
            let found = blocks(values.iter().map(|value| (*value, 1.0)));
            found.into_iter().map(|block| (block.members, block.mean)).collect()
        };
        assert_eq!(even(&[1.0, 2.0, 3.0]), [(0..1, 1.0), (1..2, 2.0), (2..3, 3.0)]);
        assert_eq!(even(&[1.0, 4.0, 2.0, 5.0]), [(0..1, 1.0), (1..3, 3.0), (3..4, 5.0)]);
        // 3 and 2 are pooled to 2.5, and 4 with them once 0 follows: (3 + 2 + 4 + 0) / 4.
        assert_eq!(even(&[3.0, 2.0, 4.0, 0.0]), [(0..4, 2.25)]);
        let weighted = blocks([(4.0, 1.0), (1.0, 3.0)]);
        assert_eq!(weighted, [Block { members: 0..2, mean: 1.75, weight: 4.0 }]);
    }

    proptest! {
        #[test]
        fn means_increase_and_keep_the_sum(
            values in prop::collection::vec((-10.0..10.0_f64, 0.1..5.0_f64), 1..40),
        ) {
            let found = blocks(values.iter().copied());
            prop_assert!(found.windows(2).all(|pair| pair[0].mean <= pair[1].mean));
            prop_assert!(found.windows(2).all(|pair| pair[0].members.end == pair[1].members.start));
            let sum: f64 = values.iter().map(|(value, weight)| value * weight).sum();
            let kept: f64 = found.iter().map(|block| block.mean * block.weight).sum();
            prop_assert!((sum - kept).abs() < 1e-9);
        }
    }
}
