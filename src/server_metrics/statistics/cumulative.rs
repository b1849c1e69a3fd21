//! What a cumulative number rose by.

use std::ops::Range;

use crate::units::Nanos;

use super::super::report::{RateSpread, Resets};
use super::super::store::Column;
use super::slices::Slice;
use super::{Phase, per_second, spread};

/// The samples of a cumulative number in a phase, and before them what it rose
/// from.
#[derive(Debug)]
pub(super) struct Rise {
    /// Scrape, its time and the value there; the first is the baseline.
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) scrape: usize,
    time_ns: u64,
    value: f64,
}

impl Rise {
    /// `None` where `column` has no sample in the phase.
    pub(super) fn of(phase: &Phase<'_>, column: &Column) -> Option<Self> {
        let point = |(scrape, value)| Point { scrape, time_ns: phase.time(scrape), value };
        let samples = column.iter(phase.within.clone()).map(point);
        let baseline = phase.reference.map(|scrape| (scrape, column.before(scrape)));
        let points: Vec<Point> = baseline.map(point).into_iter().chain(samples).collect();
        (points.len() > usize::from(baseline.is_some())).then_some(Self { points })
    }

    /// By how much it rose; negative where it began anew.
    pub(super) fn total(&self) -> f64 {
        self.between(&(0..self.points.len().saturating_sub(1)))
    }

    /// By how much it rose from one point to another.
    pub(super) fn between(&self, cut: &Range<usize>) -> f64 {
        self.points[cut.end].value - self.points[cut.start].value
    }

    /// From the baseline to the last sample.
    pub(super) fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |last| self.points[0].seconds_to(last))
    }

    /// For each slice the points at or before its start and its end. The phase
    /// starts at the baseline.
    pub(super) fn cuts(&self, slices: &[Slice]) -> Vec<Range<usize>> {
        let mut start = 0;
        let cut = |slice: &Slice| {
            let after = self.points.partition_point(|point| point.time_ns <= slice.end_ns);
            let end = after.saturating_sub(1).max(start);
            let cut = start..end;
            start = end;
            cut
        };
        slices.iter().map(cut).collect()
    }

    /// For each point but the last, whether the next one is less.
    pub(super) fn falls(&self) -> Vec<bool> {
        self.points.windows(2).map(|pair| pair[1].value < pair[0].value).collect()
    }

    /// What `falls` come to; `None` without any.
    pub(super) fn resets(&self, falls: &[bool]) -> Option<Resets> {
        let reset_count = falls.iter().filter(|fell| **fell).count() as u64;
        let rises = self.points.windows(2).zip(falls);
        let total_with_resets =
            rises.map(|(pair, fell)| pair[1].value - if *fell { 0.0 } else { pair[0].value }).sum();
        (reset_count > 0).then_some(Resets { reset_count, total_with_resets })
    }

    /// The rates between the points where the value changed, falls left out; the
    /// mean is weighted by time.
    pub(super) fn point_rates(&self) -> Option<RateSpread> {
        let mut rates = Vec::new();
        let (mut rise, mut seconds) = (0.0, 0.0);
        let mut before = *self.points.first()?;
        for point in &self.points[1..] {
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

impl Point {
    fn seconds_to(&self, later: &Self) -> f64 {
        Nanos(later.time_ns.saturating_sub(self.time_ns)).as_seconds()
    }
}
