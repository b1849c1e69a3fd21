//! Concurrency and throughput at each moment of a phase.
//!
//! Each request is a sequence of levels, each of which lasts until the next: 1 while it is in
//! flight, or the rate at which its tokens arrived. A [`Curve`] is the sum of the levels of
//! all requests, and its statistics weight each value by its duration. Requests are merged in
//! order of time with a heap of those in flight, so a curve with `n` changes takes O(n log n)
//! time and 12 bytes per change.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter;
use std::num::NonZero;
use std::ops::Range;

use super::metric::{Distribution, Observation, Stats};
use super::percentile::exact_sum;
use crate::metrics::tag;
use crate::units::Unit;

mod levels;

use levels::Levels;

/// A quantity over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Requests from their start to their end, including failed ones.
    Concurrency,
    /// Requests from their start to their first content event.
    PrefillConcurrency,
    /// Requests from their first content event to their end.
    DecodeConcurrency,
    /// Input tokens per second, spread evenly from a request's start to its first content event.
    PrefillThroughput,
    /// Output tokens per second: the tokens of a request after the first are divided equally
    /// among the gaps between its content events, and spread evenly within each gap.
    DecodeThroughput,
    /// Input and output tokens per second, with output tokens spread evenly from the first
    /// content event to the request's end.
    TotalThroughput,
    /// [`Curve::PrefillThroughput`] divided by [`Curve::PrefillConcurrency`].
    PrefillThroughputPerUser,
    /// [`Curve::DecodeThroughput`] divided by [`Curve::DecodeConcurrency`].
    DecodeThroughputPerUser,
    /// Tokens of the requests in flight: the whole input from the start, and the output that
    /// has arrived.
    TokensInFlight,
}

impl Curve {
    /// Returns the value if the levels of `users` requests add up to `sum`.
    fn value(self, sum: f64, users: u32) -> f64 {
        match self {
            Self::Concurrency | Self::PrefillConcurrency | Self::DecodeConcurrency => {
                f64::from(users)
            }
            Self::PrefillThroughputPerUser | Self::DecodeThroughputPerUser if users > 0 => {
                sum / f64::from(users)
            }
            _ => sum,
        }
    }
}

/// The time that a curve's statistics cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The whole time.
    Whole,
    /// Only while the curve had a request.
    Active,
}

/// The requests of a phase, for computing curves.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    requests: Vec<Request>,
}

/// A request; instants in wall clock nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) start: u64,
    first_content: Option<NonZero<u64>>,
    end: u64,
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
    pub(super) gap_count: u32,
    /// Index of its first gap among the gaps of all requests.
    gaps_from: usize,
}

/// The gaps between the content events of all requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gaps<'a> {
    values: &'a [f64],
    unit: Unit,
}

impl<'a> Gaps<'a> {
    /// Creates gaps from `values` in `unit`.
    pub(super) const fn new(values: &'a [f64], unit: Unit) -> Self {
        Self { values, unit }
    }

    /// Returns the gap at `at`, in nanoseconds.
    fn nanos(self, at: usize) -> u64 {
        let value = self.values.get(at).copied().unwrap_or_default();
        self.unit.convert(value, Unit::Nanoseconds).round() as u64
    }
}

impl Timeline {
    /// Adds a request whose gaps are at the indices `gaps`.
    pub(super) fn observe(&mut self, observation: &Observation, gaps: &Range<usize>) {
        let whole = |tag| observation.values.scalar(tag).map(|value| value as u32);
        let first_token = observation.values.scalar(tag::TIME_TO_FIRST_TOKEN);
        let start = observation.start_wall_ns;
        let after = |nanos: f64| start.saturating_add(nanos.round() as u64);
        self.requests.push(Request {
            start,
            first_content: first_token.and_then(|nanos| NonZero::new(after(nanos))),
            end: observation.end_wall_ns.max(start),
            input_tokens: whole(tag::INPUT_SEQUENCE_LENGTH),
            output_tokens: whole(tag::OUTPUT_SEQUENCE_LENGTH),
            gap_count: u32::try_from(gaps.len()).unwrap_or(u32::MAX),
            gaps_from: gaps.start,
        });
    }

    /// Returns all requests, in the order in which they were added.
    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the time from the first start to the last end; empty without requests.
    pub(super) fn window(&self) -> Range<u64> {
        let start = self.requests.iter().map(|request| request.start).min();
        let end = self.requests.iter().map(Request::end).max();
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Computes statistics of `curves` in each of the consecutive `windows`.
    pub(super) fn in_each(
        &self,
        curves: &[Curve],
        gaps: Gaps<'_>,
        windows: &[Range<u64>],
    ) -> Vec<OverTime> {
        let mut found = vec![OverTime::default(); windows.len()];
        for curve in curves {
            let mut found = found.iter_mut();
            let mut say = |durations: Durations| {
                let over = |span| durations.stats(span);
                if let Some(OverTime(curves)) = found.next() {
                    curves.push((*curve, over(Span::Whole), over(Span::Active)));
                }
            };
            self.follow_each(*curve, gaps, windows, &mut say);
        }
        found
    }

    /// Calls `say` with the values of `curve` and their durations in each of the consecutive
    /// `windows`; not at all if no request contributes to it.
    fn follow_each(
        &self,
        curve: Curve,
        gaps: Gaps<'_>,
        windows: &[Range<u64>],
        say: &mut dyn FnMut(Durations),
    ) {
        let [first, ..] = windows else { return };
        let window = first.start..windows.last().unwrap_or(first).end;
        let is_in = |request: &&Request| request.start < window.end && request.end() > window.start;
        let requests = self.requests.iter().filter(is_in);
        let mut all: Vec<Levels<'_>> =
            requests.filter_map(|request| Levels::of(curve, request, gaps)).collect();
        if !all.iter().any(Levels::says_something) {
            return;
        }
        all.sort_by_key(|levels| levels.from);
        let changes = all.iter().map(|levels| levels.most() + 1).sum();
        let mut durations = InEach::new(windows, changes, say);
        let mut sum = Sum::default();
        let mut users = 0;
        let mut started = 0;
        let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        loop {
            let next = all.get(started).map(|levels| levels.from);
            let ends = running.peek().map(|Reverse((at, _))| *at);
            let Some(at) = [next, ends].into_iter().flatten().min() else { break };
            durations.pass(at, curve.value(sum.value(), users), users > 0);
            if next == Some(at) {
                let levels = &mut all[started];
                if let Some(until) = levels.advance() {
                    users += 1;
                    sum.add(levels.level());
                    running.push(Reverse((until, started)));
                }
                started += 1;
            } else if let Some(mut first) = running.peek_mut() {
                let Reverse((ends, which)) = &mut *first;
                let levels = &mut all[*which];
                sum.remove(levels.level());
                if let Some(until) = levels.advance() {
                    sum.add(levels.level());
                    *ends = until;
                } else {
                    users -= 1;
                    PeekMut::pop(first);
                }
            }
        }
        durations.finish();
    }
}

/// Statistics of each curve, over the whole time and over its active part.
#[derive(Debug, Clone, Default)]
pub(super) struct OverTime(Vec<(Curve, Option<Stats>, Option<Stats>)>);

impl OverTime {
    /// Returns those of `curve` over `span`; `None` if no request contributes to it.
    pub(super) fn of(&self, curve: Curve, span: Span) -> Option<Stats> {
        let (_, whole, active) = self.0.iter().find(|(have, ..)| *have == curve)?;
        match span {
            Span::Whole => *whole,
            Span::Active => *active,
        }
    }
}

/// A running sum of levels with Neumaier's compensation for rounding; exactly 0 without terms.
#[derive(Debug, Default)]
struct Sum {
    rounded: f64,
    lost: f64,
    terms: usize,
}

impl Sum {
    fn add(&mut self, level: f64) {
        if level != 0.0 {
            self.terms += 1;
            self.shift(level);
        }
    }

    fn remove(&mut self, level: f64) {
        if level != 0.0 {
            self.terms -= 1;
            self.shift(-level);
        }
        if self.terms == 0 {
            (self.rounded, self.lost) = (0.0, 0.0);
        }
    }

    fn shift(&mut self, by: f64) {
        let next = self.rounded + by;
        self.lost += if self.rounded.abs() >= by.abs() {
            (self.rounded - next) + by
        } else {
            (by - next) + self.rounded
        };
        self.rounded = next;
    }

    fn value(&self) -> f64 {
        (self.rounded + self.lost).max(0.0)
    }
}

/// A curve in consecutive windows, each of which is reported at its end.
struct InEach<'a> {
    windows: std::slice::Iter<'a, Range<u64>>,
    present: Option<Durations>,
    say: &'a mut dyn FnMut(Durations),
}

impl<'a> InEach<'a> {
    /// Creates the windows; capacity for `changes` is reserved if there is only one window.
    fn new(windows: &'a [Range<u64>], changes: usize, say: &'a mut dyn FnMut(Durations)) -> Self {
        let room = if windows.len() == 1 { changes } else { 0 };
        let mut windows = windows.iter();
        let present = windows.next().map(|window| Durations::new(window.clone(), room));
        Self { windows, present, say }
    }

    /// Records that the curve was `value` until `until`.
    fn pass(&mut self, until: u64, value: f64, is_active: bool) {
        while let Some(present) = &mut self.present {
            present.pass(until, value, is_active);
            if until < present.window.end {
                break;
            }
            self.next();
        }
    }

    /// Advances to the next window.
    fn next(&mut self) {
        let next = self.windows.next().map(|window| Durations::new(window.clone(), 0));
        if let Some(mut over) = std::mem::replace(&mut self.present, next) {
            over.finish();
            (self.say)(over);
        }
    }

    fn finish(mut self) {
        while self.present.is_some() {
            self.next();
        }
    }
}

/// The values of a curve in a time window with their durations.
#[derive(Debug)]
pub(super) struct Durations {
    window: Range<u64>,
    /// The time up to which values are recorded.
    now: u64,
    /// Values that lasted less than 4.3 s; sorted at the end.
    brief: Vec<Segment>,
    /// Values that lasted longer, with their nanoseconds.
    long: Vec<(f64, u64)>,
    /// Nanoseconds without a contributing request, where the value is 0.
    idle: u64,
}

/// A value and its duration in nanoseconds; without padding, since there are millions.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Segment {
    value: f64,
    nanos: u32,
}

impl Durations {
    fn new(window: Range<u64>, changes: usize) -> Self {
        let now = window.start;
        Self { window, now, brief: Vec::with_capacity(changes), long: Vec::new(), idle: 0 }
    }

    /// Records that the curve was `value` until `until`.
    fn pass(&mut self, until: u64, value: f64, is_active: bool) {
        let until = until.min(self.window.end);
        let Some(nanos) = until.checked_sub(self.now).filter(|nanos| *nanos > 0) else { return };
        self.now = until;
        if !is_active {
            self.idle += nanos;
        } else if let Ok(nanos) = u32::try_from(nanos) {
            self.brief.push(Segment { value, nanos });
        } else {
            self.long.push((value, nanos));
        }
    }

    fn finish(&mut self) {
        self.pass(self.window.end, 0.0, false);
        self.brief.sort_unstable_by(|a, b| {
            let (a, b) = (a.value, b.value);
            a.total_cmp(&b)
        });
        self.long.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    }

    /// Returns values and nanoseconds in `span` in ascending order; no value is below 0.
    fn ascending(&self, span: Span) -> impl Iterator<Item = (f64, u64)> + Clone {
        let idle = (span == Span::Whole && self.idle > 0).then_some((0.0, self.idle));
        let brief = self.brief.iter().map(|segment| (segment.value, u64::from(segment.nanos)));
        let mut brief = brief.peekable();
        let mut long = self.long.iter().copied().peekable();
        let active = iter::from_fn(move || match (brief.peek(), long.peek()) {
            (Some((brief_value, _)), Some((long_value, _))) if long_value < brief_value => {
                long.next()
            }
            (None, _) => long.next(),
            _ => brief.next(),
        });
        idle.into_iter().chain(active)
    }

    /// Computes mean, standard deviation, minimum, maximum and percentiles 50, 90, 95 and 99 over
    /// `span`, weighted by duration: a percentile is the smallest value that was not exceeded for
    /// that fraction of the time. `None` if the duration of `span` is zero.
    pub(super) fn stats(&self, span: Span) -> Option<Stats> {
        let all = self.ascending(span);
        let total: u64 = all.clone().map(|(_, nanos)| nanos).sum();
        let weighed = |of: &dyn Fn(f64) -> f64| {
            exact_sum(all.clone().map(|(value, nanos)| of(value) * nanos as f64)) / total as f64
        };
        let percentile = |percent: u8| {
            let wanted = u128::from(total) * u128::from(percent);
            let mut passed = 0;
            let is_reached = |(_, nanos): &(f64, u64)| {
                passed += u128::from(*nanos) * 100;
                passed >= wanted
            };
            all.clone().find(is_reached).map(|(value, _)| value)
        };
        let (min, _) = all.clone().next()?;
        let (max, _) = all.clone().last()?;
        let avg = weighed(&|value| value);
        let distribution = Distribution {
            min,
            max,
            std: weighed(&|value| (value - avg).powi(2)).sqrt(),
            p50: percentile(50)?,
            p90: percentile(90)?,
            p95: percentile(95)?,
            p99: percentile(99)?,
            ..Distribution::UNKNOWN
        };
        Some(Stats { avg, instant: None, distribution: Some(distribution) })
    }
}

#[cfg(test)]
mod tests;
