//! What went on at each moment of a phase: how many requests were in flight, how
//! fast tokens came.
//!
//! Each request is a row of levels, each of which lasts until the next: 1 while it
//! is in flight, or the rate at which its tokens came. A [`Curve`] is the sum of the
//! levels of all requests, and its statistics weigh each value by how long it
//! lasted. Requests are merged in order of time, those in flight on a heap, so that
//! a curve of `n` changes costs O(n log n) time and 12 bytes a change.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter;
use std::num::NonZero;
use std::ops::Range;

use super::metric::{Distribution, Observation, Stats};
use super::percentile::exact_sum;
use crate::units::Unit;

mod levels;

use levels::Levels;

/// What is followed over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Requests from their start to their end, failed ones too.
    Concurrency,
    /// Requests from their start to their first content.
    PrefillConcurrency,
    /// Requests from their first content to their end.
    DecodeConcurrency,
    /// Input tokens per second: those of a request come evenly from its start to its
    /// first content.
    PrefillThroughput,
    /// Output tokens per second: those of a request after the first come in equal
    /// parts, each evenly in the time between two pieces of its content.
    DecodeThroughput,
    /// Both, the output tokens evenly from the first content to the request's end.
    TotalThroughput,
    /// [`Curve::PrefillThroughput`] over [`Curve::PrefillConcurrency`].
    PrefillThroughputPerUser,
    /// [`Curve::DecodeThroughput`] over [`Curve::DecodeConcurrency`].
    DecodeThroughputPerUser,
    /// Tokens of the requests in flight: all of the input from the start, of the
    /// output what has come.
    TokensInFlight,
}

impl Curve {
    /// The value where the levels of `users` requests add up to `sum`.
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

/// The time over which a curve's statistics go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// All of it.
    Whole,
    /// Only while there was a request for the curve to follow.
    Active,
}

/// When the requests of a phase were where.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    requests: Vec<Request>,
}

/// One request; instants in wall nanoseconds.
#[derive(Debug, Clone)]
struct Request {
    start: u64,
    first_content: Option<NonZero<u64>>,
    end: u64,
    input_tokens: Option<u32>,
    output_tokens: Option<u32>,
    gap_count: u32,
    /// Where the times between its pieces begin among those of all.
    gaps_from: usize,
}

/// Times between the pieces of content of all requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gaps<'a> {
    values: &'a [f64],
    unit: Unit,
}

impl<'a> Gaps<'a> {
    /// Of `values` in `unit`.
    pub(super) const fn new(values: &'a [f64], unit: Unit) -> Self {
        Self { values, unit }
    }

    /// The gap at `at`, in nanoseconds.
    fn nanos(self, at: usize) -> u64 {
        let value = self.values.get(at).copied().unwrap_or_default();
        self.unit.convert(value, Unit::Nanoseconds).round() as u64
    }
}

impl Timeline {
    /// Takes in a request whose gaps are those of `gaps` among all.
    pub(super) fn observe(&mut self, observation: &Observation, gaps: &Range<usize>) {
        let whole = |tag| observation.values.scalar(tag).map(|value| value as u32);
        let first_token = observation.values.scalar("time_to_first_token");
        let start = observation.start_wall_ns;
        let after = |nanos: f64| start.saturating_add(nanos.round() as u64);
        self.requests.push(Request {
            start,
            first_content: first_token.and_then(|nanos| NonZero::new(after(nanos))),
            end: observation.end_wall_ns.max(start),
            input_tokens: whole("input_sequence_length"),
            output_tokens: whole("output_sequence_length"),
            gap_count: u32::try_from(gaps.len()).unwrap_or(u32::MAX),
            gaps_from: gaps.start,
        });
    }

    /// Takes in the requests of `other`, whose gaps now come after `gaps_before` others.
    pub(super) fn merge(&mut self, other: Self, gaps_before: usize) {
        let shifted = |mut request: Request| {
            request.gaps_from += gaps_before;
            request
        };
        self.requests.extend(other.requests.into_iter().map(shifted));
    }

    /// From the first start to the last end; empty without requests.
    pub(super) fn window(&self) -> Range<u64> {
        let start = self.requests.iter().map(|request| request.start).min();
        let end = self.requests.iter().map(Request::end).max();
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Statistics of `curves` in each of `windows`, which follow each other.
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

    /// Gives to `say` how long `curve` had which value in each of `windows`, which
    /// follow each other; nothing where no request has what it follows.
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

/// Statistics of each curve, over all of the time and over its active part.
#[derive(Debug, Clone, Default)]
pub(super) struct OverTime(Vec<(Curve, Option<Stats>, Option<Stats>)>);

impl OverTime {
    /// Those of `curve` over `span`; `None` where no request has what it follows.
    pub(super) fn of(&self, curve: Curve, span: Span) -> Option<Stats> {
        let (_, whole, active) = self.0.iter().find(|(have, ..)| *have == curve)?;
        match span {
            Span::Whole => *whole,
            Span::Active => *active,
        }
    }
}

/// A sum of levels that come and go: Neumaier's compensation keeps what rounding
/// would lose, and without terms it is 0.
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

/// A curve in windows that follow each other: each is told when it is over.
struct InEach<'a> {
    windows: std::slice::Iter<'a, Range<u64>>,
    present: Option<Durations>,
    say: &'a mut dyn FnMut(Durations),
}

impl<'a> InEach<'a> {
    /// Room is made for `changes` at once where there is only one window.
    fn new(windows: &'a [Range<u64>], changes: usize, say: &'a mut dyn FnMut(Durations)) -> Self {
        let room = if windows.len() == 1 { changes } else { 0 };
        let mut windows = windows.iter();
        let present = windows.next().map(|window| Durations::new(window.clone(), room));
        Self { windows, present, say }
    }

    /// The curve was `value` from where it was known up to `until`.
    fn pass(&mut self, until: u64, value: f64, is_active: bool) {
        while let Some(present) = &mut self.present {
            present.pass(until, value, is_active);
            if until < present.window.end {
                break;
            }
            self.next();
        }
    }

    /// Goes to the next window.
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

/// How long a curve had which value in a window of time.
#[derive(Debug)]
pub(super) struct Durations {
    window: Range<u64>,
    /// Up to where it is known.
    now: u64,
    /// Values that lasted less than 4.3 s, in the end in ascending order.
    brief: Vec<Segment>,
    /// Those that lasted longer, and their nanoseconds.
    long: Vec<(f64, u64)>,
    /// Nanoseconds without a request to follow: the value is 0.
    idle: u64,
}

/// A value and the nanoseconds that it lasted. There are millions of them, so they
/// have no padding.
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

    /// The curve was `value` from where it was known up to `until`.
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

    /// Values and nanoseconds in `span`, in ascending order: no value is below 0.
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

    /// Mean, deviation, least, greatest and percentiles 50, 90, 95 and 99 over `span`,
    /// each value weighed by its time: a percentile is the least value that was not
    /// passed for so much of it. `None` for no time at all.
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
        Some(Stats { avg, distribution: Some(distribution) })
    }
}

#[cfg(test)]
mod tests;
