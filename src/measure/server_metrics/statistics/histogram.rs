//! Statistics of a histogram.

use std::ops::Range;
use std::sync::Arc;

use super::super::histogram_estimate::{LearnedBuckets, percentiles};
use super::super::report::{Buckets, HistogramSlice, HistogramStats, Timeslice};
use super::super::store::{Column, HistogramColumns, bound};
use super::cumulative::Rise;
use super::slices::Slice;
use super::{Phase, Span};

/// A histogram's samples in a phase, beginning with the baseline.
struct Samples<'a> {
    counts: Rise,
    sums: Rise,
    /// The bounds of all samples, with the count at each point; NaN if the sample does not have the
    /// bound.
    buckets: Vec<(&'a Arc<str>, Vec<f64>)>,
    /// For each point but the last, whether the server restarted before the next.
    falls: Vec<bool>,
    /// See [`Doubts::late_increase`](crate::server_metrics::report::Doubts::late_increase).
    late_increase: Option<f64>,
}

pub(super) fn statistics(phase: &Phase<'_>, columns: &HistogramColumns) -> Option<HistogramStats> {
    let samples = Samples::in_phase(phase, columns)?;
    let resets = samples.counts.resets(&samples.falls);
    let (mut count, mut sum) = (samples.counts.total(), samples.sums.total());
    let mut buckets = None;
    if resets.is_some() {
        (count, sum) = (count.max(0.0), sum.max(0.0));
    } else {
        buckets = Some(samples.rises(&samples.whole()));
    }
    Some(HistogramStats {
        count,
        sum,
        count_rate: samples.counts.rate(count),
        sum_rate: samples.sums.rate(sum),
        percentiles: buckets.as_deref().and_then(|buckets| samples.percentiles(buckets, sum)),
        buckets,
        greatest: None,
        resets,
        doubts: phase.doubts(samples.counts.has_large_first_value(), samples.late_increase),
        timeslices: samples.slices(&phase.slices),
    })
}

impl<'a> Samples<'a> {
    fn in_phase(phase: &Phase<'_>, columns: &'a HistogramColumns) -> Option<Self> {
        let late = phase.span.late_of(&columns.count);
        let counts = Rise::and_late(phase, &columns.count, late.scrapes.clone())?;
        let mut sums = Rise::and_late(phase, &columns.sum, late.scrapes)?;
        sums.from = counts.from;
        let along = |column: &Column| -> Vec<f64> {
            let scrapes = counts.points.iter().map(|point| point.scrape);
            let mut values = column.along(scrapes);
            if let Some(first) = values.first_mut() {
                let Span { reference, samples, .. } = &phase.span;
                let known = columns.bucket_baseline(column, *reference, samples.clone());
                *first = known.unwrap_or(f64::NAN);
            }
            values
        };
        let buckets: Vec<_> =
            columns.buckets.iter().map(|(name, column)| (name, along(column))).collect();
        let mut falls = counts.falls();
        for (_, counts) in &buckets {
            // A bound that was missing is compared with its last count before.
            let mut before = f64::NAN;
            for (index, count) in counts.iter().enumerate().filter(|(_, count)| !count.is_nan()) {
                if *count < before {
                    falls[index - 1] = true;
                }
                before = *count;
            }
        }
        Some(Self { counts, sums, buckets, falls, late_increase: late.doubtful })
    }

    fn whole(&self) -> Range<usize> {
        0..self.counts.points.len().saturating_sub(1)
    }

    /// Returns the increases of the buckets that both ends of `cut` have.
    fn rises(&self, cut: &Range<usize>) -> Buckets {
        let rise = |(name, counts): &(&Arc<str>, Vec<f64>)| {
            let by = counts[cut.end] - counts[cut.start];
            (!by.is_nan()).then(|| (Arc::clone(name), by))
        };
        self.buckets.iter().filter_map(rise).collect()
    }

    /// Returns the estimate from the buckets' `rises` and the information of each scrape interval.
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

    /// Returns the slices without a restart of the server.
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
