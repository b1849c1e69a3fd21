//! The increase of a cumulative value.

use std::ops::Range;

use base::units::Nanos;

use super::super::report::{RateSpread, Resets};
use super::super::store::Column;
use super::slices::Slice;
use super::{Phase, per_second, spread};

/// A first value is large if it exceeds the largest later increase by this factor.
const LARGE: f64 = 100.0;
/// Minimum number of scrapes after the first that must have observed its increase.
const LATER_SCRAPES: usize = 3;
/// The limit for a large value that did not increase at all.
const LARGE_ALONE: f64 = 100_000.0;

/// The samples of a cumulative value in a phase, preceded by its baseline and followed by late
/// counts.
#[derive(Debug)]
pub(super) struct Rise {
    /// Scrape, its time and the value; the first is the baseline.
    pub(super) points: Vec<Point>,
    /// The point at which rates begin: the baseline, or the one after it if the first value is
    /// large.
    pub(super) from: usize,
    /// The time at which rates end: the last sample that is not late, or the final scrape if all
    /// are.
    until_ns: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) scrape: usize,
    time_ns: u64,
    value: f64,
}

impl Rise {
    /// Includes the values of the scrapes `late`. Returns `None` without a sample of `column`.
    pub(super) fn and_late(phase: &Phase<'_>, column: &Column, late: Range<usize>) -> Option<Self> {
        let point = |(scrape, value)| Point { scrape, time_ns: phase.time(scrape), value };
        let reference = phase.span.reference;
        let baseline = reference.map(|scrape| point((scrape, column.before(scrape))));
        let mut samples: Vec<Point> = column.iter(phase.span.samples.clone()).map(point).collect();
        let last_ns = samples.last().map(|last| last.time_ns);
        samples.extend(column.iter(late).map(point));
        let until_ns = last_ns.or_else(|| phase.span.last().map(|scrape| phase.time(scrape)))?;
        let is_new = phase.knows_reference
            && reference.is_some_and(|scrape| column.last_until(scrape).is_none());
        let from = usize::from(is_new && is_large(&samples));
        let is_there = !samples.is_empty();
        let points = baseline.into_iter().chain(samples).collect();
        is_there.then_some(Self { points, from, until_ns })
    }

    /// Returns whether its first value in the phase is far larger than its later increases.
    pub(super) const fn has_large_first_value(&self) -> bool {
        self.from > 0
    }

    /// Returns its increase; negative if it was reset.
    pub(super) fn total(&self) -> f64 {
        self.between(&(0..self.points.len().saturating_sub(1)))
    }

    /// Returns its increase between two points.
    pub(super) fn between(&self, cut: &Range<usize>) -> f64 {
        self.points[cut.end].value - self.points[cut.start].value
    }

    /// Returns `total` per second from the baseline to the last sample that is not late; with a
    /// large first value, the increase since then per second since then.
    pub(super) fn rate(&self, total: f64) -> f64 {
        let from = &self.points[self.from];
        let rise = (total - self.between(&(0..self.from))).max(0.0);
        let rise = if self.from == 0 { total } else { rise };
        per_second(rise, Nanos(self.until_ns.saturating_sub(from.time_ns)).as_seconds())
    }

    /// Returns, for each slice, the points at or before its start and its end. The phase starts at
    /// the baseline.
    pub(super) fn cuts(&self, slices: &[Slice]) -> Vec<Range<usize>> {
        let mut start = self.from;
        let cut = |slice: &Slice| {
            let after = self.points.partition_point(|point| point.time_ns <= slice.end_ns);
            // Late counts belong to the last slice.
            let after = if slice.end_ns >= self.until_ns { self.points.len() } else { after };
            let end = after.saturating_sub(1).max(start);
            let cut = start..end;
            start = end;
            cut
        };
        slices.iter().map(cut).collect()
    }

    /// Returns, for each point but the last, whether the next value is smaller.
    pub(super) fn falls(&self) -> Vec<bool> {
        self.points.windows(2).map(|pair| pair[1].value < pair[0].value).collect()
    }

    /// Returns the resets at `falls`; `None` if there are none.
    pub(super) fn resets(&self, falls: &[bool]) -> Option<Resets> {
        let reset_count = falls.iter().filter(|fell| **fell).count() as u64;
        let rises = self.points.windows(2).zip(falls);
        let total_with_resets =
            rises.map(|(pair, fell)| pair[1].value - if *fell { 0.0 } else { pair[0].value }).sum();
        (reset_count > 0).then_some(Resets { reset_count, total_with_resets })
    }

    /// Returns statistics of the rates between points with changed values, without decreases; the
    /// mean is weighted by time.
    pub(super) fn point_rates(&self) -> Option<RateSpread> {
        let mut rates = Vec::new();
        let (mut rise, mut seconds) = (0.0, 0.0);
        let (first, later) = self.points[self.from..].split_first()?;
        let mut before = *first;
        for point in later {
            let (by, took) = (point.value - before.value, before.seconds_to(point));
            if by > 0.0 && took > 0.0 {
                rates.push(per_second(by, took));
                rise += by;
                seconds += took;
            }
            if by != 0.0 {
                before = *point;
            }
        }
        Some(RateSpread { avg: per_second(rise, seconds), ..spread(&rates)? })
    }
}

/// Returns whether the first of `samples` is far larger than the later increases.
fn is_large(samples: &[Point]) -> bool {
    let Some((first, later)) = samples.split_first() else { return false };
    let rises = samples.windows(2).map(|pair| pair[1].value - pair[0].value);
    let greatest = rises.fold(0.0, f64::max);
    let least = if greatest > 0.0 { LARGE * greatest } else { LARGE_ALONE };
    later.len() >= LATER_SCRAPES && first.value > least
}

impl Point {
    fn seconds_to(&self, later: &Self) -> f64 {
        Nanos(later.time_ns.saturating_sub(self.time_ns)).as_seconds()
    }
}
