//! Concurrency and throughput at each moment of a phase.
//!
//! Each request is a sequence of levels, each of which lasts until the next: 1 while it is in
//! flight, or the rate at which its tokens arrived. A [`Curve`] is the sum of the levels of
//! all requests, and its statistics weight each value by its duration. Requests are merged in
//! order of time with a heap of those in flight, so a curve with `n` changes takes O(n log n)
//! time, and 12 bytes per change in a [`Column`]; in memory are only the requests in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use base::column::{Column, Sorted, Store, fixed_struct};
use base::parallel;
use base::statistics::percentile::{Extent, at_ranks, exact_sum};
use base::units::Unit;

use super::metric::{Distribution, Observation, Stats};
use crate::metrics::tag;

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
    /// Returns when a request becomes part of the curve.
    const fn begin(self) -> Begin {
        match self {
            Self::DecodeConcurrency | Self::DecodeThroughput | Self::DecodeThroughputPerUser => {
                Begin::Content
            }
            _ => Begin::Start,
        }
    }

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
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    requests: Column<Request>,
    /// From the first start to the last end.
    window: Option<Range<u64>>,
}

fixed_struct! {
    /// A request; instants in wall clock nanoseconds.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct Request {
        pub(super) start: u64,
        /// 0 without content.
        first_content: u64,
        end: u64,
        /// 0 if unknown.
        input_tokens: u32,
        /// 0 if unknown.
        output_tokens: u32,
        pub(super) gap_count: u32,
        /// Index of its first gap among the gaps of all requests.
        gaps_from: u64,
    }
}

/// The gaps between the content events of all requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gaps<'a> {
    values: Option<&'a Column<f64>>,
    unit: Unit,
}

impl<'a> Gaps<'a> {
    /// Creates gaps from `values` in `unit`.
    pub(super) const fn new(values: Option<&'a Column<f64>>, unit: Unit) -> Self {
        Self { values, unit }
    }

    /// Returns the gaps of `request`, in nanoseconds.
    fn in_request(self, request: &Request) -> Vec<u64> {
        let from = request.gaps_from as usize;
        let values = self.values.map(|values| values.at(from..from + request.gap_count as usize));
        let nanos = |value| self.unit.convert(value, Unit::Nanoseconds).round() as u64;
        values.unwrap_or_default().into_iter().map(nanos).collect()
    }
}

impl Timeline {
    /// Creates the timeline of no requests.
    pub(super) const fn new(store: Store) -> Self {
        Self { requests: Column::new(store), window: None }
    }

    /// Adds a request whose gaps are at the indices `gaps`.
    pub(super) fn observe(&mut self, observation: &Observation, gaps: &Range<usize>) {
        let whole = |tag| observation.values.scalar(tag).map_or(0, |value| value as u32);
        let first_token = observation.values.scalar(tag::TIME_TO_FIRST_TOKEN);
        let start = observation.start_wall_ns;
        let after = |nanos: f64| start.saturating_add(nanos.round() as u64);
        let request = Request {
            start,
            first_content: first_token.map_or(0, after),
            end: observation.end_wall_ns.max(start),
            input_tokens: whole(tag::INPUT_SEQUENCE_LENGTH),
            output_tokens: whole(tag::OUTPUT_SEQUENCE_LENGTH),
            gap_count: u32::try_from(gaps.len()).unwrap_or(u32::MAX),
            gaps_from: gaps.start as u64,
        };
        let window = self.window.get_or_insert(start..start);
        *window = window.start.min(start)..window.end.max(request.end());
        self.requests.push(request);
    }

    /// Iterates over all requests, in the order in which they were added.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        self.requests.iter()
    }

    /// Returns the number of requests.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the time from the first start to the last end; empty without requests.
    pub(super) fn window(&self) -> Range<u64> {
        self.window.clone().unwrap_or_default()
    }

    /// Computes statistics of `curves` in each of the consecutive `windows`, using `store`. Each of
    /// the `threads` follows one curve at a time.
    pub(super) fn in_each(
        &self,
        curves: &[Curve],
        gaps: Gaps<'_>,
        windows: &[Range<u64>],
        store: &Store,
        threads: usize,
    ) -> Vec<OverTime> {
        let mut found = vec![OverTime::default(); windows.len()];
        let [first, ..] = windows else { return found };
        let time = first.start..windows.last().unwrap_or(first).end;
        let [at_start, at_content] =
            [Begin::Start, Begin::Content].map(|begin| self.sorted(begin, &time, store));
        let in_windows = |curve: Curve| {
            let requests = match curve.begin() {
                Begin::Start => &at_start,
                Begin::Content => &at_content,
            };
            let mut stats = Vec::new();
            let mut report = |durations: Durations| {
                let over = |span| durations.stats(span);
                stats.push((curve, over(Span::Whole), over(Span::Active)));
            };
            follow(curve, requests, gaps, windows, store, &mut report).then_some(stats)
        };
        let all = parallel::in_order(threads, curves.len(), |at| in_windows(curves[at]));
        for stats in all.into_iter().flatten() {
            found.iter_mut().zip(stats).for_each(|(OverTime(all), of_curve)| all.push(of_curve));
        }
        found
    }

    /// Sorts the requests that overlap `time` by when they become part of a curve.
    fn sorted(&self, begin: Begin, time: &Range<u64>, store: &Store) -> Sorted<Request> {
        let is_in = |request: &Request| request.start < time.end && request.end() > time.start;
        let requests = self.requests().filter(is_in);
        let store = store.scratch();
        match begin {
            Begin::Start => Sorted::new(requests, |request| request.start, &store),
            Begin::Content => {
                let requests = requests.filter(|request| request.first_content > 0);
                Sorted::new(requests, |request| request.first_content, &store)
            }
        }
    }
}

/// When a request becomes part of a curve.
#[derive(Debug, Clone, Copy)]
enum Begin {
    /// At its start.
    Start,
    /// At its first content event.
    Content,
}

/// A request in flight: the end of its level, and its place in the order of requests and among
/// those in flight.
type InFlight = Reverse<(u64, u64, usize)>;

/// Calls `report` with the values of `curve` and their durations in each of the consecutive `windows`.
/// Returns whether any of the `requests` contributes to it.
fn follow(
    curve: Curve,
    requests: &Sorted<Request>,
    gaps: Gaps<'_>,
    windows: &[Range<u64>],
    store: &Store,
    report: &mut dyn FnMut(Durations),
) -> bool {
    let mut waiting = requests
        .iter()
        .filter_map(|request| Levels::for_request(curve, &request, gaps))
        .zip(0_u64..)
        .peekable();
    let mut durations = InEach::new(windows, store.scratch(), report);
    let mut sum = Sum::default();
    let mut users = 0;
    let mut contributes = false;
    let mut levels: Vec<Levels> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut running: BinaryHeap<InFlight> = BinaryHeap::new();
    loop {
        let next = waiting.peek().map(|(levels, _)| levels.from);
        let ends = running.peek().map(|Reverse((at, ..))| *at);
        let Some(at) = [next, ends].into_iter().flatten().min() else { break };
        durations.pass(at, curve.value(sum.value(), users), users > 0);
        if next == Some(at) {
            let Some((mut started, number)) = waiting.next() else { break };
            contributes |= started.says_something();
            if let Some(until) = started.advance() {
                users += 1;
                sum.add(started.level());
                let place = free.pop().unwrap_or(levels.len());
                running.push(Reverse((until, number, place)));
                if place == levels.len() {
                    levels.push(started);
                } else {
                    levels[place] = started;
                }
            }
        } else if let Some(mut first) = running.peek_mut() {
            let Reverse((ends, _, place)) = &mut *first;
            let levels = &mut levels[*place];
            sum.remove(levels.level());
            if let Some(until) = levels.advance() {
                sum.add(levels.level());
                *ends = until;
            } else {
                users -= 1;
                free.push(*place);
                PeekMut::pop(first);
            }
        }
    }
    durations.finish();
    contributes
}

/// Statistics of each curve, over the whole time and over its active part.
#[derive(Debug, Clone, Default)]
pub(super) struct OverTime(Vec<(Curve, Option<Stats>, Option<Stats>)>);

impl OverTime {
    /// Returns those of `curve` over `span`; `None` if no request contributes to it.
    pub(super) fn statistics(&self, curve: Curve, span: Span) -> Option<Stats> {
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
    store: Store,
    report: &'a mut dyn FnMut(Durations),
}

impl<'a> InEach<'a> {
    fn new(windows: &'a [Range<u64>], store: Store, report: &'a mut dyn FnMut(Durations)) -> Self {
        let mut each = Self { windows: windows.iter(), present: None, store, report };
        each.next();
        each
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
        let next = self.windows.next();
        let next = next.map(|window| Durations::new(window.clone(), self.store.clone()));
        if let Some(mut over) = std::mem::replace(&mut self.present, next) {
            over.finish();
            (self.report)(over);
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
    /// Values that lasted less than 4.3 s.
    brief: Column<Segment>,
    /// Values that lasted longer, with their nanoseconds.
    long: Vec<(f64, u64)>,
    /// Nanoseconds without a contributing request, where the value is 0.
    idle: u64,
}

fixed_struct! {
    /// A value and its duration in nanoseconds; without padding, since there are millions.
    #[derive(Debug, Clone, Copy, Default)]
    #[repr(C, packed(4))]
    struct Segment {
        value: f64,
        nanos: u32,
    }
}

impl Durations {
    const fn new(window: Range<u64>, store: Store) -> Self {
        let now = window.start;
        Self { window, now, brief: Column::new(store), long: Vec::new(), idle: 0 }
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
    }

    /// Iterates over values and nanoseconds in `span`; no value is below 0.
    fn values(&self, span: Span) -> impl Iterator<Item = (f64, u64)> + '_ {
        let idle = (span == Span::Whole && self.idle > 0).then_some((0.0, self.idle));
        let brief = self.brief.iter().map(|Segment { value, nanos }| (value, nanos.into()));
        idle.into_iter().chain(brief).chain(self.long.iter().copied())
    }

    /// Computes mean, standard deviation, minimum, maximum and percentiles 50, 90, 95 and 99 over
    /// `span`, weighted by duration: a percentile is the smallest value that was not exceeded for
    /// that fraction of the time. `None` if the duration of `span` is zero.
    pub(super) fn stats(&self, span: Span) -> Option<Stats> {
        let extent = Extent::of_values(self.values(span))?;
        let weighed = |of: &dyn Fn(f64) -> f64| {
            let terms = self.values(span).map(|(value, nanos)| of(value) * nanos as f64);
            exact_sum(terms) / extent.weight as f64
        };
        // The last nanosecond of the fraction, in the order of values.
        let rank = |percent: u8| {
            let wanted = u128::from(extent.weight) * u128::from(percent);
            u64::try_from(wanted.div_ceil(100)).unwrap_or(u64::MAX).saturating_sub(1)
        };
        let found = at_ranks(|| self.values(span), &extent, [50, 90, 95, 99].map(rank));
        let percentile = |percent| found.get(&rank(percent)).copied();
        let avg = weighed(&|value| value);
        let distribution = Distribution {
            min: extent.min,
            max: extent.max,
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
