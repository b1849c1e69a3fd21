//! Finds values by rank without sorting or keeping all of them.
//!
//! Values are counted in bins, and only the bins that contain a wanted rank are divided further,
//! with one pass over all values for each division, until their values are few enough to sort: a
//! radix selection (Alabi et al., "Fast k-selection algorithms for graphics processing units", ACM
//! Journal of Experimental Algorithmics 17, 2012) for several ranks at once.

use std::collections::BTreeMap;

/// Maximum number of values that are sorted.
const SORTED: u64 = 1 << 17;

/// Binary logarithm of the number of bins that a span is divided into.
const BITS: u32 = 12;

/// The values in total: pairs of a value and its weight.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Number of values.
    pub count: u64,
    /// Sum of the weights.
    pub weight: u64,
    pub min: f64,
    pub max: f64,
}

impl Extent {
    /// Returns that of values with weights; `None` without values.
    pub fn of_values(values: impl Iterator<Item = (f64, u64)>) -> Option<Self> {
        let of_one = |(value, weight)| Self { count: 1, weight, min: value, max: value };
        values.map(of_one).reduce(Self::and)
    }

    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            weight: self.weight + other.weight,
            min: if other.min.total_cmp(&self.min).is_lt() { other.min } else { self.min },
            max: if other.max.total_cmp(&self.max).is_gt() { other.max } else { self.max },
        }
    }
}

/// Returns the value at each of `ranks`: the smallest value for which the weights of all values up
/// to and including it add up to more than the rank. With weights of 1, a rank is an index of the
/// sorted values. Ranks must be below the sum of all weights.
///
/// `values` is called once for each pass.
pub fn at_ranks<I>(
    values: impl Fn() -> I,
    extent: &Extent,
    ranks: impl IntoIterator<Item = u64>,
) -> BTreeMap<u64, f64>
where
    I: Iterator<Item = (f64, u64)>,
{
    let mut ranks: Vec<u64> = ranks.into_iter().filter(|rank| *rank < extent.weight).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut found = BTreeMap::new();
    let (low, high) = (key(extent.min), key(extent.max));
    let mut spans = vec![Span { low, high, before: 0, count: extent.count, ranks }];
    loop {
        for span in spans.extract_if(.., |span| span.low == span.high) {
            found.extend(span.ranks.into_iter().map(|rank| (rank, value(span.low))));
        }
        if spans.iter().map(|span| span.count).sum::<u64>() <= SORTED {
            break;
        }
        spans = divide(&spans, values());
    }
    if !spans.is_empty() {
        sort(&spans, values(), &mut found);
    }
    found
}

/// The values between two keys, which include those at some of the wanted ranks.
struct Span {
    low: u64,
    /// Inclusive.
    high: u64,
    /// Weight of all values below.
    before: u64,
    /// Number of values.
    count: u64,
    /// In ascending order.
    ranks: Vec<u64>,
}

impl Span {
    /// Returns the binary logarithm of the number of keys of a bin.
    const fn shift(&self) -> u32 {
        (u64::BITS - (self.high - self.low).leading_zeros()).saturating_sub(BITS)
    }
}

/// Returns which of the `spans`, which are in ascending order, contains `key`.
fn containing(spans: &[Span], key: u64) -> Option<usize> {
    let at = spans.partition_point(|span| span.high < key);
    spans.get(at).filter(|span| span.low <= key).map(|_| at)
}

/// Divides each span into bins, and returns those that contain wanted ranks.
fn divide(spans: &[Span], values: impl Iterator<Item = (f64, u64)>) -> Vec<Span> {
    let bins =
        |span: &Span| vec![(0_u64, 0_u64); ((span.high - span.low) >> span.shift()) as usize + 1];
    let mut counted: Vec<_> = spans.iter().map(bins).collect();
    for (value, weight) in values {
        let key = key(value);
        if let Some(at) = containing(spans, key) {
            let bin = &mut counted[at][((key - spans[at].low) >> spans[at].shift()) as usize];
            *bin = (bin.0 + weight, bin.1 + 1);
        }
    }
    let mut parts = Vec::new();
    for (span, bins) in spans.iter().zip(counted) {
        let mut before = span.before;
        let mut ranks = span.ranks.iter().copied().peekable();
        for (number, (weight, count)) in bins.into_iter().enumerate() {
            let after = before + weight;
            let inside: Vec<u64> =
                std::iter::from_fn(|| ranks.next_if(|rank| *rank < after)).collect();
            if !inside.is_empty() {
                let low = span.low + ((number as u64) << span.shift());
                let high = span.high.min(low.saturating_add((1 << span.shift()) - 1));
                parts.push(Span { low, high, before, count, ranks: inside });
            }
            before = after;
        }
    }
    parts
}

/// Finds all ranks of `spans` by sorting the values in them.
fn sort(spans: &[Span], values: impl Iterator<Item = (f64, u64)>, found: &mut BTreeMap<u64, f64>) {
    let mut kept: Vec<Vec<(u64, u64)>> = spans.iter().map(|_| Vec::new()).collect();
    for (value, weight) in values {
        let key = key(value);
        if let Some(at) = containing(spans, key) {
            kept[at].push((key, weight));
        }
    }
    for (span, mut kept) in spans.iter().zip(kept) {
        kept.sort_unstable();
        let mut after = span.before;
        let mut ranks = span.ranks.iter().copied().peekable();
        for (key, weight) in kept {
            after += weight;
            let reached = std::iter::from_fn(|| ranks.next_if(|rank| *rank < after));
            found.extend(reached.map(|rank| (rank, value(key))));
        }
    }
}

/// Returns a number that orders values as [`f64::total_cmp`] does.
pub const fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Returns the value of a [`key`].
const fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 0 { !key } else { key & !(1 << 63) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The ranks of sorted copies, each of which is repeated as often as its weight.
    fn by_sorting(values: &[(f64, u64)]) -> Vec<f64> {
        let repeated = values.iter().flat_map(|(value, weight)| (0..*weight).map(|_| *value));
        let mut all: Vec<f64> = repeated.collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn all_ranks(values: &[(f64, u64)]) -> Vec<f64> {
        let Some(extent) = Extent::of_values(values.iter().copied()) else { return Vec::new() };
        at_ranks(|| values.iter().copied(), &extent, 0..extent.weight).into_values().collect()
    }

    #[test]
    fn more_values_than_are_sorted_at_once_are_found_by_division() {
        // Most values lie close together, a few far away, and some are equal.
        let count = 3 * SORTED as u32;
        let spread = |at: u32| match at % 1000 {
            0 => f64::from(at) * 1e9,
            1..100 => 50.0,
            _ => 50.0 + f64::from(at.wrapping_mul(2_654_435_761)) / 1e12,
        };
        let values: Vec<f64> = (0..count).map(spread).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let each_once = || values.iter().map(|value| (*value, 1));
        let extent = Extent::of_values(each_once()).unwrap();
        let last = extent.weight - 1;
        let ranks = [0, 1, last / 100, last / 10, last / 2, last / 2 + 1, last - last / 100, last];
        let found = at_ranks(each_once, &extent, ranks);
        assert_eq!(found.len(), ranks.len());
        for rank in ranks {
            assert_eq!(found[&rank], sorted[rank as usize], "{rank}");
        }
    }

    #[test]
    fn equal_values_need_no_division() {
        let values = || (0..2 * SORTED).map(|_| (7.0, 1));
        let extent = Extent::of_values(values()).unwrap();
        assert_eq!(at_ranks(values, &extent, [0, SORTED]), [(0, 7.0), (SORTED, 7.0)].into());
    }

    proptest! {
        #[test]
        fn the_value_at_each_rank_is_that_of_sorting(
            values in prop::collection::vec((-1e3..1e3_f64, 0..4_u64), 0..50),
        ) {
            prop_assert_eq!(all_ranks(&values), by_sorting(&values));
        }

        #[test]
        fn divided_spans_find_the_same(
            values in prop::collection::vec((any::<f64>(), 1..4_u64), 1..50),
        ) {
            let Some(extent) = Extent::of_values(values.iter().copied()) else { return Ok(()) };
            let (low, high) = (key(extent.min), key(extent.max));
            let ranks = (0..extent.weight).collect();
            let mut spans = vec![Span { low, high, before: 0, count: extent.count, ranks }];
            // After six divisions, each span has a single key.
            for _ in 0..6 {
                spans = divide(&spans, values.iter().copied());
            }
            let found: Vec<u64> = spans
                .iter()
                .flat_map(|span| {
                    assert_eq!(span.low, span.high);
                    span.ranks.iter().map(|_| span.low)
                })
                .collect();
            let expected: Vec<u64> = by_sorting(&values).into_iter().map(key).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn keys_order_values(a in any::<f64>(), b in any::<f64>()) {
            prop_assert_eq!(key(a).cmp(&key(b)), a.total_cmp(&b));
            prop_assert_eq!(value(key(a)).to_bits(), a.to_bits());
        }
    }
}
