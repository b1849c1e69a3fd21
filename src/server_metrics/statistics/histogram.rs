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
        let along = |column: &Column| -> Vec<f64> {
            let scrapes = counts.points.iter().map(|point| point.scrape);
            let mut values = column.along(scrapes);
            if let Some(first) = values.first_mut() {
                let known = columns.bucket_baseline(column, phase.reference, phase.within.clone());
                *first = known.unwrap_or(f64::NAN);
            }
            values
        };
        let buckets: Vec<_> =
            columns.buckets.iter().map(|(name, column)| (name, along(column))).collect();
        let mut falls = counts.falls();
        for (_, counts) in &buckets {
            // A bound that was away is compared with its last count before.
            let mut before = f64::NAN;
            for (index, count) in counts.iter().enumerate().filter(|(_, count)| !count.is_nan()) {
                if *count < before {
                    falls[index - 1] = true;
                }
                before = *count;
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
        let whole = self.whole();
        let kept: Vec<&Vec<f64>> = self
            .buckets
            .iter()
            .map(|(_, counts)| counts)
            .filter(|counts| !(counts[whole.end] - counts[whole.start]).is_nan())
            .collect();
        let mut learned = LearnedBuckets::new(&bounds);
        let mut deltas = Vec::with_capacity(kept.len());
        for at in whole {
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
