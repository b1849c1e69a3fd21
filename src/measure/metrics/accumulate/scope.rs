//! Which requests of a phase results are computed from: all, or those of a time window.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter;
use std::ops::RangeInclusive;

use base::column::{Column, Store};
use base::parallel;
use base::statistics::Distribution;
use base::statistics::percentile::{exact_sum, percentile_of, with_failures};
use base::units::Nanos;
use client::record::{ErrorKind, RequestError};

use super::{Accumulator, Cell, Part, single, statistics};
use crate::metrics::metric::{Metric, MetricKind, MetricResult, Stats, Totals};
use crate::metrics::steady::share_in;
use crate::metrics::tag::{self, MetricTag, TagSet};
use crate::metrics::timeline::OverTime;

/// The metrics that each request has a value of, so that the values of some requests can be found
/// among those of all: 4 bytes per request, since most have the same metrics.
#[derive(Debug, Clone)]
pub(super) struct Shapes {
    numbers: HashMap<Shape, u32>,
    known: Vec<Shape>,
    /// The scope of the last request, which most have too.
    last: u32,
    of: Column<u32>,
}

impl Shapes {
    /// Creates the shapes of no requests.
    pub(super) fn new(store: Store) -> Self {
        Self { numbers: HashMap::new(), known: Vec::new(), last: 0, of: Column::new(store) }
    }

    /// Adds the next request.
    pub(super) fn push(&mut self, shape: Shape) {
        if self.known.get(self.last as usize) != Some(&shape) {
            self.last = *self.numbers.entry(shape).or_insert_with(|| {
                self.known.push(shape);
                (self.known.len() - 1) as u32
            });
        }
        self.of.push(self.last);
    }

    /// Iterates over those of all requests, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Shape> {
        self.of.iter().map(|number| self.known[number as usize])
    }
}

/// A set of metrics, and how the request failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    tags: TagSet,
    failed: bool,
    /// Whether it failed because the client did not wait for its end.
    cancelled: bool,
}

impl Shape {
    /// Creates the shape of a request without values, which failed with this error, if it did.
    pub(super) fn new(error: Option<&RequestError>) -> Self {
        let cancelled = error.is_some_and(|error| error.kind == ErrorKind::Cancelled);
        Self { tags: TagSet::default(), failed: error.is_some(), cancelled }
    }

    /// Returns whether it was cancelled after the server had begun its response.
    const fn has_no_end(self) -> bool {
        self.cancelled && self.contains(tag::ERROR_OSL)
    }

    pub(super) const fn insert(&mut self, tag: MetricTag) {
        self.tags.insert(tag);
    }

    pub(super) const fn contains(self, tag: MetricTag) -> bool {
        self.tags.contains(tag)
    }
}

/// Number of values from which threads share the computation; fewer take some milliseconds.
const MANY_VALUES: usize = 1 << 20;

/// Sums over requests that have a part for those that did not end: in a window, these took as much of the
/// server's time as others, and what arrived of them was generated in it.
const WITHOUT_END: [(MetricTag, MetricTag); 2] =
    [(tag::INPUT_SEQUENCE_LENGTH, tag::ERROR_ISL), (tag::OUTPUT_SEQUENCE_LENGTH, tag::ERROR_OSL)];

/// How a request belongs to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// By the time at which it was sent: for what the load at that time did to it.
    Start,
    /// By the share of its time that lies in it: for what was done.
    Share,
}

/// The requests that results are computed from.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) accumulator: &'a Accumulator,
    /// The facts about a part of the phase; absent for the whole.
    pub(super) part: Option<&'a Part>,
    /// The window in wall time; absent for all requests.
    pub(super) window: Option<&'a RangeInclusive<u64>>,
}

impl<'a> Scope<'a> {
    /// Computes the results, as [`Accumulator::results`] returns them.
    pub(super) fn results(self) -> Vec<MetricResult> {
        let Accumulator { registry, cells, .. } = self.accumulator;
        let totals = self.totals();
        let whole = self.part.is_none().then(|| self.accumulator.over_time(self.threads()));
        let over_time = self.part.map(|part| &part.over_time).or(whole.as_ref());
        let developer_mode = registry.settings().developer_mode;
        let shown = registry.presentation().iter().map(|at| (*at, registry.rows()[*at]));
        let shown: Vec<(usize, &Metric)> =
            shown.filter(|(_, metric)| metric.is_exported(developer_mode)).collect();
        let results = parallel::in_order(self.threads(), shown.len(), |number| {
            let (at, metric) = shown[number];
            let stats = self.stats(&cells[at], metric, &totals, over_time)?;
            Some(MetricResult { metric, stats })
        });
        results.into_iter().flatten().collect()
    }

    /// Returns the number of threads that compute the results: one for few values, and for a window,
    /// of which each result needs its own copy of the values.
    fn threads(self) -> usize {
        let values = self.accumulator.cells.iter().map(|cell| match cell {
            Cell::Column(column) => column.len(),
            _ => 0,
        });
        let is_large = self.window.is_none() && values.sum::<usize>() >= MANY_VALUES;
        if is_large { parallel::threads() } else { 1 }
    }

    /// Computes the result of one metric, whose values are in `cell`; `None` without values.
    fn stats(
        self,
        cell: &Cell,
        metric: &Metric,
        totals: &Computed<'_>,
        over_time: Option<&OverTime>,
    ) -> Option<Stats> {
        let percents = &*self.accumulator.settings().percentiles;
        Some(match (cell, metric.kind) {
            (Cell::Column(_), _) => {
                let column = self.column(metric.tag)?;
                statistics(|| column.iter(), percents)?
            }
            (Cell::Earliest(_) | Cell::Latest(_), _) => {
                let instant = totals.instant(metric.tag)?;
                let stats = single(metric.to_display(instant as f64));
                Stats { instant: Some(instant), ..stats }
            }
            (_, MetricKind::OverTime(curve, span)) => over_time?.statistics(curve, span)?,
            (_, MetricKind::WithFailures(of)) => self.with_failures(of)?,
            (_, MetricKind::ShareOf(part, whole)) => self.share_of(part, whole)?,
            (_, MetricKind::RoundTrip) => {
                let round_trip = metric.to_display(self.accumulator.round_trip_ns?);
                statistics(|| iter::once(round_trip), percents)?
            }
            (_, MetricKind::LessRoundTrip(of)) => {
                let round_trip = metric.to_display(self.accumulator.round_trip_ns?);
                let column = self.column(of)?;
                statistics(|| column.iter().map(|value| (value - round_trip).max(0.0)), percents)?
            }
            _ => single(metric.to_display(totals.total(metric.tag)?)),
        })
    }

    /// Computes aggregate, sum and derived results, each after those it depends on.
    pub(super) fn totals(self) -> Computed<'a> {
        let rows = self.accumulator.registry.rows();
        let mut computed = Computed { scope: self, derived: vec![None; rows.len()] };
        for (at, metric) in rows.iter().enumerate() {
            computed.derived[at] = match metric.kind {
                MetricKind::SumOf(tag) => self.sum_of(tag).or_else(|| self.nothing_of(at)),
                MetricKind::PercentileOf(tag, percent) => self.percentile_of(metric, tag, percent),
                MetricKind::ShareOf(part, whole) => self.share_of(part, whole).map(|it| it.avg),
                MetricKind::Derived(compute) => {
                    compute(&computed).filter(|value| value.is_finite())
                }
                _ => None,
            };
        }
        computed
    }

    /// Iterates over the requests with what they have, how many gaps, and how much of each is in the
    /// scope: from 0 to 1.
    fn requests(self, by: By) -> impl Iterator<Item = (Shape, u32, f64)> {
        let Accumulator { shapes, timeline, .. } = self.accumulator;
        shapes.iter().zip(timeline.requests()).map(move |(shape, request)| {
            let share = self.window.map_or(1.0, |window| match by {
                By::Start => f64::from(u8::from(window.contains(&request.start))),
                By::Share => share_in(request.start, request.end(), window),
            });
            (shape, request.gap_count, share)
        })
    }

    /// Iterates over the values of a record metric in its display unit, with how much of its request
    /// is in the scope.
    fn values(
        self,
        tag: MetricTag,
        column: &'a Column<f64>,
        by: By,
    ) -> impl Iterator<Item = (f64, f64)> {
        let have = self.requests(by).filter(move |(shape, ..)| shape.contains(tag));
        let shares = have.flat_map(move |(_, gaps, share)| {
            let count = if tag == super::GAPS { gaps as usize } else { 1 };
            iter::repeat_n(share, count)
        });
        column.iter().zip(shares)
    }

    /// Returns the values of a record metric of the requests that started in the scope, in its
    /// display unit, with lists flattened; `None` if it is not measured.
    fn column(self, tag: MetricTag) -> Option<Cow<'a, Column<f64>>> {
        let all = self.accumulator.column(tag)?;
        if self.window.is_none() {
            return Some(Cow::Borrowed(all));
        }
        let started = self.values(tag, all, By::Start).filter(|(_, share)| *share > 0.0);
        let values = started.map(|(value, _)| value);
        Some(Cow::Owned(Column::from_values(self.accumulator.store.scratch(), values)))
    }

    /// Returns the count at `row`.
    fn count(self, row: usize, kept: Option<f64>) -> Option<f64> {
        if self.window.is_none() {
            return kept;
        }
        let tag = self.accumulator.registry.rows()[row].tag;
        let have = self.requests(By::Share).filter(|(shape, ..)| shape.contains(tag));
        Some(exact_sum(have.map(|(.., share)| share))).filter(|count| *count > 0.0)
    }

    /// Returns 0 for a row that is a count or sum of the phase that this is a part of.
    fn nothing_of(self, row: usize) -> Option<f64> {
        self.part.and_then(|part| part.nothing.get(row).copied().flatten())
    }

    /// Returns the percentile of a record metric, in the unit of `row`; `None` if no request has
    /// the metric.
    fn percentile_of(self, row: &Metric, tag: MetricTag, percent: f64) -> Option<f64> {
        let registry = &self.accumulator.registry;
        let of = registry.rows()[registry.position(tag)?];
        let column = self.column(tag)?;
        let value = percentile_of(|| column.iter(), percent)?;
        Some(of.display_unit.convert(value, row.unit))
    }

    /// Returns the sum of a record metric in its own unit; `None` if no request has it. In a window, it
    /// includes what had arrived of requests [without an end](WITHOUT_END).
    fn sum_of(self, tag: MetricTag) -> Option<f64> {
        let registry = &self.accumulator.registry;
        let metric = registry.rows()[registry.position(tag)?];
        let column = self.accumulator.column(tag)?;
        let (sum, is_empty) = if self.window.is_none() {
            (exact_sum(column.iter()), column.is_empty())
        } else {
            let without_end = WITHOUT_END.iter().find(|(of, _)| *of == tag);
            let without_end = without_end.and_then(|(_, tag)| self.without_end(*tag));
            let shares = || {
                let ended = self.values(tag, column, By::Share);
                let in_window = ended.filter(|(_, share)| *share > 0.0);
                in_window.map(|(value, share)| value * share).chain(without_end)
            };
            (exact_sum(shares()), shares().next().is_none())
        };
        (!is_empty).then(|| metric.display_unit.convert(sum, metric.unit))
    }

    /// Returns the sum of the shares of a record metric of failed requests, in its display unit, of those
    /// that were cancelled after their first content; `None` without any in the window.
    fn without_end(self, tag: MetricTag) -> Option<f64> {
        let mut values = self.accumulator.column(tag)?.iter();
        let shares = self.requests(By::Share).filter_map(|(shape, _, share)| {
            let value = if shape.contains(tag) { values.next()? } else { return None };
            (shape.has_no_end() && share > 0.0).then_some(value * share)
        });
        let shares: Vec<f64> = shares.collect();
        (!shares.is_empty()).then(|| exact_sum(shares.iter().copied()))
    }

    /// Returns the sum of a record metric as a share of that of another one; `None` if that is 0.
    fn share_of(self, part: MetricTag, whole: MetricTag) -> Option<Stats> {
        let whole = self.sum_of(whole).filter(|whole| *whole > 0.0)?;
        let sum = self.sum_of(part)?;
        let count = whole.round() as u64;
        let distribution = Distribution { count, sum, ..Distribution::UNKNOWN };
        let avg = 100.0 * sum / whole;
        Some(Stats { avg, distribution: Some(distribution), ..Stats::default() })
    }

    /// Returns statistics of a record metric with an infinite value for each failed request.
    fn with_failures(self, of: MetricTag) -> Option<Stats> {
        let is_failure = |(shape, _, share): &(Shape, u32, f64)| shape.failed && *share > 0.0;
        let failures = self.requests(By::Start).filter(is_failure).count() as u64;
        if failures == 0 {
            return None;
        }
        let column = self.column(of)?;
        let distribution =
            with_failures(|| column.iter(), failures, &self.accumulator.settings().percentiles)?;
        Some(Stats { avg: f64::INFINITY, instant: None, distribution: Some(distribution) })
    }
}

/// Totals while they are being computed.
pub(super) struct Computed<'a> {
    scope: Scope<'a>,
    derived: Vec<Option<f64>>,
}

impl Totals for Computed<'_> {
    fn total(&self, tag: MetricTag) -> Option<f64> {
        let Scope { accumulator, .. } = self.scope;
        let at = accumulator.registry.position(tag)?;
        match &accumulator.cells[at] {
            Cell::Sum(sum) => self.scope.count(at, *sum).or_else(|| self.scope.nothing_of(at)),
            Cell::Derived => self.derived[at],
            Cell::Column(_) | Cell::Earliest(_) | Cell::Latest(_) => None,
        }
    }

    fn duration(&self) -> Option<Nanos> {
        let whole = || self.total(tag::BENCHMARK_DURATION).map(|nanos| Nanos(nanos as u64));
        self.scope.part.map(|part| part.length).or_else(whole)
    }

    /// A window has its own bounds instead.
    fn instant(&self, tag: MetricTag) -> Option<u64> {
        let Scope { accumulator, window, .. } = self.scope;
        match accumulator.cells.get(accumulator.registry.position(tag)?)? {
            Cell::Earliest(instant) if window.is_none() => *instant,
            Cell::Latest(instant) if window.is_none() => instant.map(|(_, at)| at),
            _ => None,
        }
    }
}
