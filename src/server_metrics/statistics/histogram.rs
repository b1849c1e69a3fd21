//! What a histogram counted.

use std::ops::Range;
use std::sync::Arc;

use super::super::histogram_estimate::{LearnedBuckets, percentiles};
use super::super::report::{Buckets, HistogramSlice, HistogramStats, Timeslice};
use super::super::store::{Column, HistogramColumns, bound};
use super::cumulative::Rise;
use super::slices::Slice;
use super::{Phase, per_second};

/// A histogram's samples in a phase, the baseline first.
struct Samples<'a> {
    counts: Rise,
    sums: Rise,
    /// Bounds that some sample has, and the counts at each point; no number where
    /// the sample did not have it.
    buckets: Vec<(&'a Arc<str>, Vec<f64>)>,
    /// For each point but the last, whether the server began anew before the next.
    falls: Vec<bool>,
}

pub(super) fn statistics(phase: &Phase<'_>, columns: &HistogramColumns) -> Option<HistogramStats> {
    let samples = Samples::of(phase, columns)?;
    let resets = samples.counts.resets(&samples.falls);
    let (mut count, mut sum) = (samples.counts.total(), samples.sums.total());
    let mut buckets = None;
    if resets.is_some() {
        (count, sum) = (count.max(0.0), sum.max(0.0));
    } else {
        buckets = Some(samples.rises(&samples.whole()));
    }
    let seconds = samples.counts.seconds();
    Some(HistogramStats {
        count,
        sum,
        count_rate: per_second(count, seconds),
        sum_rate: per_second(sum, seconds),
        percentiles: buckets.as_deref().and_then(|buckets| samples.percentiles(buckets, sum)),
        buckets,
        resets,
        timeslices: samples.slices(&phase.slices),
    })
}

impl<'a> Samples<'a> {
    fn of(phase: &Phase<'_>, columns: &'a HistogramColumns) -> Option<Self> {
        let counts = Rise::of(phase, &columns.count)?;
        let sums = Rise::of(phase, &columns.sum)?;
        let began =
            phase.reference.is_some_and(|scrape| columns.count.last_until(scrape).is_none());
        let along = |column: &Column| -> Vec<f64> {
            let scrapes = counts.points.iter().map(|point| point.scrape);
            let mut values = column.along(scrapes);
            if let (Some(first), Some(reference)) = (values.first_mut(), phase.reference) {
                let unknown = if began { 0.0 } else { f64::NAN };
                *first = column.last_until(reference).unwrap_or(unknown);
            }
            values
        };
        let buckets: Vec<_> =
            columns.buckets.iter().map(|(name, column)| (name, along(column))).collect();
        let mut falls = counts.falls();
        for (_, counts) in &buckets {
            for (fell, pair) in falls.iter_mut().zip(counts.windows(2)) {
                *fell |= pair[1] < pair[0];
            }
        }
        Some(Self { counts, sums, buckets, falls })
    }

    fn whole(&self) -> Range<usize> {
        0..self.counts.points.len().saturating_sub(1)
    }

    /// By how much the buckets rose that both ends of `cut` have.
    fn rises(&self, cut: &Range<usize>) -> Buckets {
        let rise = |(name, counts): &(&Arc<str>, Vec<f64>)| {
            let by = counts[cut.end] - counts[cut.start];
            (!by.is_nan()).then(|| (Arc::clone(name), by))
        };
        self.buckets.iter().filter_map(rise).collect()
    }

    /// The estimate, from the buckets' `rises` and what each scrape interval tells.
    fn percentiles(&self, rises: &[(Arc<str>, f64)], sum: f64) -> Option<[f64; 9]> {
        let bounds: Vec<f64> = rises.iter().map(|(name, _)| bound(name)).collect();
        let cumulative: Vec<f64> = rises.iter().map(|(_, rise)| *rise).collect();
        let kept: Vec<&Vec<f64>> = self
            .buckets
            .iter()
            .filter(|(name, _)| rises.iter().any(|(kept, _)| Arc::ptr_eq(kept, name)))
            .map(|(_, counts)| counts)
            .collect();
        let mut learned = LearnedBuckets::new(&bounds);
        let mut deltas = Vec::with_capacity(kept.len());
        for at in self.whole() {
            deltas.clear();
            deltas.extend(kept.iter().map(|counts| counts[at + 1] - counts[at]));
            if deltas.iter().all(|delta| *delta >= 0.0) {
                learned.observe(&deltas, self.sums.between(&(at..at + 1)));
            }
        }
        percentiles(&bounds, &cumulative, sum, &learned)
    }

    /// The slices in which the server did not begin anew.
    fn slices(&self, slices: &[Slice]) -> Vec<Timeslice<HistogramSlice>> {
        let cuts = self.counts.cuts(slices);
        let is_steady = |cut: &Range<usize>| !self.falls[cut.clone()].contains(&true);
        slices
            .iter()
            .zip(cuts)
            .filter(|(_, cut)| is_steady(cut))
            .map(|(slice, cut)| slice.with(self.slice(&cut)))
            .collect()
    }

    fn slice(&self, cut: &Range<usize>) -> HistogramSlice {
        let (count, sum) = (self.counts.between(cut), self.sums.between(cut));
        let avg = if count > 0.0 { sum / count } else { 0.0 };
        HistogramSlice { count, sum, avg, buckets: self.rises(cut) }
    }
}
