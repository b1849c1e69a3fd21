//! How soon after its last content the responses of a server end.
//!
//! The end of a stream comes right after its last content. If the client waits for a core at that
//! time, the kernel merges both, and the content may have arrived at any time of the wait. Of other
//! requests the time between them is known, and what the server does does not depend on whether the
//! client waits. So how long it likely is follows from all requests: each has either its time, if the
//! content and the end have different timestamps, or an upper bound. This is the reverse Kaplan–Meier
//! estimate, for data that are censored on the left (Ware and DeMets, "Reanalysis of some baboon
//! descent data", Biometrics 32, 1976).

use base::column::{Column, Sorted, Store, fixed_struct};

/// Share of the requests that ended at most as soon.
const SHARE: f64 = 0.99;
/// Number of requests with a bound from which the time is learned: less than the bound of one of
/// these is not claimed.
const ENOUGH: usize = 10;

fixed_struct! {
    /// The time from the last content of a response to its end, in nanoseconds.
    #[derive(Debug, Clone, Copy, Default)]
    struct End {
        /// The time, or an upper bound.
        at_most: u32,
        /// Whether it is the time: 0 or 1.
        is_known: u8,
    }
}

/// The ends of responses.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    all: Column<End>,
}

impl Ends {
    /// Creates a collection whose values will be in `store`.
    pub(super) const fn keeping_in(store: Store) -> Self {
        Self { all: Column::new(store) }
    }

    /// Adds a response whose end has the timestamp `gap` after that of its last content, which may
    /// have arrived by `uncertainty` earlier; both in nanoseconds.
    pub(super) fn push(&mut self, gap: u32, uncertainty: u32) {
        let is_known = u8::from(gap > 0);
        self.all.push(End { at_most: gap.saturating_add(uncertainty), is_known });
    }

    /// Returns how long after the last content a response likely ends at most, in nanoseconds; `None`
    /// if there are too few responses.
    pub(super) fn likely_gap(&self) -> Option<f64> {
        let sorted = Sorted::new(
            self.all.iter(),
            |end| u64::from(end.at_most) << 1 | u64::from(end.is_known),
            &self.all.scratch(),
        );
        // Each known time is the last of those that are at most as long: the share of times that are
        // shorter falls by that factor. Here, its logarithm.
        let ranked = || (1_usize..).zip(sorted.iter()).skip(ENOUGH - 1);
        let factor = |rank: usize, end: End| {
            if end.is_known == 0 { 0.0 } else { (-1.0 / rank as f64).ln_1p() }
        };
        let mut longer: f64 = ranked().skip(1).map(|(rank, end)| factor(rank, end)).sum();
        let mut ranked = ranked().peekable();
        while let Some((_, end)) = ranked.next() {
            let Some((rank, next)) = ranked.peek() else { return Some(f64::from(end.at_most)) };
            // Rounding must not decide about a share of exactly 99%.
            if longer >= SHARE.ln() - 1e-9 {
                return Some(f64::from(end.at_most));
            }
            longer -= factor(*rank, *next);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likely_gap(ends: impl IntoIterator<Item = (u32, u32)>) -> Option<f64> {
        let mut all = Ends::default();
        ends.into_iter().for_each(|(gap, uncertainty)| all.push(gap, uncertainty));
        all.likely_gap()
    }

    #[test]
    fn known_times_have_their_percentile() {
        // At least 99% of 999 are at most 990.
        assert_eq!(likely_gap((1..=999).map(|gap| (gap, 0))), Some(990.0));
        assert_eq!(likely_gap((1..=999).rev().map(|gap| (gap, 0))), Some(990.0));
        // Of 50, all must be.
        assert_eq!(likely_gap((1..=50).map(|gap| (gap, 0))), Some(50.0));
    }

    #[test]
    fn bounds_say_that_long_times_are_rare() {
        // Half of the ends are known to be soon; that the others waited with their content says
        // nothing about when they came.
        let ends = (1..=100).map(|gap| if gap % 2 == 0 { (gap, 0) } else { (0, 5_000_000) });
        assert_eq!(likely_gap(ends), Some(100.0));
        // A known time that is longer than the bounds: the share of shorter ones is 1 - 1/90, or
        // 1 - 1/102.
        let ends = |count| (0..50).map(|_| (0, 100)).chain((51..count).map(|_| (0, 1000)));
        assert_eq!(likely_gap(ends(90).chain([(5000, 0)])), Some(5000.0));
        assert_eq!(likely_gap(ends(102).chain([(5000, 0)])), Some(100.0));
    }

    #[test]
    fn nothing_is_claimed_below_the_bounds_of_some() {
        assert_eq!(likely_gap([]), None);
        assert_eq!(likely_gap((0..9).map(|_| (10, 0))), None);
        assert_eq!(likely_gap((1..=12).map(|bound| (0, bound * 100))), Some(1000.0));
        assert_eq!(likely_gap((0..400).map(|_| (0, 6_000_000))), Some(6_000_000.0));
    }
}
