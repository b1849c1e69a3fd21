//! Collects the exact values of one phase and computes its results for files and console.

mod canaries;
mod rates;
mod scope;
mod totals;

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::slice;
use std::sync::{Arc, OnceLock};

use base::column::{Column, Store};
use base::statistics::Percent;
use base::statistics::percentile::distribution_with;
use base::units::{Nanos, Unit};
use client::record::RequestError;

use super::metric::{
    MetricKind, MetricResult, Objective, Observation, Rank, Settings, Stats, Totals, Value,
};
use super::registry::Registry;
use super::slices::{Log, Slices, TooManySlices, cut};
use super::tag::{self, MetricTag};
use super::timeline::{Curve, Gaps, OverTime, Timeline};

pub(crate) use canaries::LeftOutCanaries;
pub use rates::{Extent, LongRun};
use scope::{Scope, Shape, Shapes};
pub use totals::{PhaseTotals, RowTotals};

/// Maximum number of distinct errors that are counted separately.
const MAX_ERRORS: usize = 1000;

/// Name of the errors beyond that.
const OTHER_ERRORS: &str = "OtherErrors";

/// The metric with the times between a request's content events.
const GAPS: MetricTag = tag::INTER_CHUNK_LATENCY;

/// Everything observed in one phase. Keeps every value, in its display unit, in columns.
#[derive(Debug, Clone)]
pub struct Accumulator {
    registry: Arc<Registry>,
    store: Store,
    /// One column for each of the registry's rows.
    cells: Vec<Cell>,
    /// Indices of the rows for which one value is kept, which each request may change.
    singles: Arc<[usize]>,
    errors: HashMap<RequestError, u64>,
    /// The canaries that are left out of everything else.
    canaries: LeftOutCanaries,
    timeline: Timeline,
    shapes: Shapes,
    /// Cached results, until another request is observed.
    results: OnceLock<Vec<MetricResult>>,
    /// Whether any request was observed.
    has_observed: bool,
    /// Each request, if slices are computed.
    log: Option<Arc<Log>>,
    /// The part of a phase that is observed; absent for a whole phase.
    part: Option<Part>,
    /// The round-trip time of the network in nanoseconds, if it is known.
    round_trip_ns: Option<f64>,
}

/// Facts about a part of a phase other than its requests.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Its length, which rates are relative to.
    pub(super) length: Nanos,
    /// The curves over its time, including requests that were sent earlier.
    pub(super) over_time: OverTime,
    /// By row: 0 for counts and sums that the phase has, so that a part without any has 0.
    pub(super) nothing: Arc<[Option<f64>]>,
}

/// The data of one metric.
#[derive(Debug, Clone)]
enum Cell {
    /// The values of a record metric.
    Column(Column<f64>),
    /// A count; `None` before anything was added.
    Sum(Option<f64>),
    /// The earliest instant, in wall clock nanoseconds.
    Earliest(Option<u64>),
    /// The latest instant, in the same unit.
    Latest(Option<(Rank, u64)>),
    /// Computed at the end; nothing is kept.
    Derived,
}

/// A request with a value; instants in wall clock nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Started {
    pub start: u64,
    pub end: u64,
    /// In the metric's display unit.
    pub value: Option<f64>,
}

impl Accumulator {
    /// Nothing observed yet; all values will be in memory.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        Self::keeping_in(Store::default(), registry)
    }

    /// Nothing observed yet; values will be in `store`.
    pub fn keeping_in(store: Store, registry: Arc<Registry>) -> Self {
        let cells: Vec<Cell> = registry
            .rows()
            .iter()
            .map(|metric| match metric.kind {
                MetricKind::Record(_) | MetricKind::RecordList(_) => {
                    Cell::Column(Column::new(store.clone()))
                }
                MetricKind::Count(_) | MetricKind::Tally(_) => Cell::Sum(None),
                MetricKind::Earliest(_) => Cell::Earliest(None),
                MetricKind::Latest(_) => Cell::Latest(None),
                MetricKind::SumOf(_)
                | MetricKind::PercentileOf(..)
                | MetricKind::ShareOf(..)
                | MetricKind::OverTime(..)
                | MetricKind::WithFailures(_)
                | MetricKind::RoundTrip
                | MetricKind::LessRoundTrip(_)
                | MetricKind::Derived(_)
                | MetricKind::OfSession(_)
                | MetricKind::OfSessions(_)
                | MetricKind::OfGpus(..)
                | MetricKind::OfDeployment(_) => Cell::Derived,
            })
            .collect();
        let is_single =
            |cell: &Cell| matches!(cell, Cell::Sum(_) | Cell::Earliest(_) | Cell::Latest(_));
        let singles = cells.iter().enumerate().filter(|(_, cell)| is_single(cell));
        let singles = singles.map(|(at, _)| at).collect();
        Self {
            registry,
            cells,
            singles,
            errors: HashMap::new(),
            canaries: LeftOutCanaries::default(),
            timeline: Timeline::new(store.clone()),
            shapes: Shapes::new(store.clone()),
            results: OnceLock::new(),
            has_observed: false,
            log: None,
            part: None,
            round_trip_ns: None,
            store,
        }
    }

    /// Keeps what is needed for [slices](Self::slices), too.
    #[must_use]
    pub fn sliced(self) -> Self {
        let log = Log::new(self.store.clone());
        Self { log: Some(Arc::new(log)), ..self }
    }

    /// Sets the round-trip time of the network in nanoseconds, if it is known; the results now
    /// include it, and the latencies without it.
    pub fn set_round_trip(&mut self, round_trip_ns: Option<f64>) {
        self.round_trip_ns = round_trip_ns;
        self.results = OnceLock::new();
    }

    /// Creates an accumulator for a part of a phase.
    pub(super) fn of_part(registry: Arc<Registry>, part: Part) -> Self {
        Self { part: Some(part), ..Self::new(registry) }
    }

    /// Returns when each request started and ended, wall clock nanoseconds, and whether it succeeded,
    /// in the order in which they started.
    pub fn spans(&self) -> Vec<(u64, u64, bool)> {
        let requests = self.timeline.requests();
        let succeeded = self.shapes.iter().map(|shape| shape.contains(tag::REQUEST_COUNT));
        let mut spans: Vec<(u64, u64, bool)> = requests
            .zip(succeeded)
            .map(|(request, succeeded)| (request.start, request.end(), succeeded))
            .collect();
        spans.sort_unstable();
        spans
    }

    /// Returns the requests in the order in which they started, each with its value of the record
    /// metric `tag` if it has one, or with 1 if a count counted it.
    pub fn in_order(&self, tag: MetricTag) -> Vec<Started> {
        let column = self.column(tag);
        let mut values = column.map(Column::iter);
        let requests = self.timeline.requests().zip(self.shapes.iter());
        let mut found: Vec<Started> = requests
            .map(|(request, shape)| {
                let value = match &mut values {
                    Some(values) if shape.contains(tag) => values.next(),
                    None if shape.contains(tag) => Some(1.0),
                    _ => None,
                };
                Started { start: request.start, end: request.end(), value }
            })
            .collect();
        found.sort_by_key(|request| (request.start, request.end));
        found
    }

    /// Returns how many successful requests missed each objective, unless tenants have their own. A request
    /// without a value misses it.
    pub fn missed_objectives(&self) -> Vec<(Objective, u64)> {
        let is_success = |shape: &Shape| shape.contains(tag::REQUEST_COUNT);
        let succeeded = self.shapes.iter().filter(|shape| is_success(shape)).count();
        let missed = |objective: &Objective| {
            let values = self.column(objective.tag)?.iter();
            let met = values.filter(|value| objective.is_met(*value)).count();
            Some((objective.clone(), succeeded.saturating_sub(met) as u64))
        };
        let shared = (!self.registry.has_own_objectives()).then_some(&self.settings().objectives);
        shared.into_iter().flatten().filter_map(missed).collect()
    }

    /// Returns the number of requests, including failed ones.
    pub fn request_count(&self) -> usize {
        self.timeline.len()
    }

    /// Returns the number of requests and the longest time from the start of one to its end; `None`
    /// without requests.
    pub(crate) fn longest_request(&self) -> Option<(u64, Nanos)> {
        let lengths =
            self.timeline.requests().map(|request| request.end().saturating_sub(request.start));
        let (count, longest) =
            lengths.fold((0, 0), |(count, longest), length| (count + 1, longest.max(length)));
        (count > 0).then_some((count, Nanos(longest)))
    }

    /// Returns the counts of the canaries that are left out of everything else.
    pub(crate) const fn canaries(&self) -> LeftOutCanaries {
        self.canaries
    }

    /// Adds a finished request.
    pub fn observe(&mut self, observation: &Observation) {
        self.has_observed = true;
        self.results = OnceLock::new();
        let settings = self.registry.settings();
        if settings.leaves_out_canary(observation) {
            return self.canaries.add(observation);
        }
        if settings.leaves_out(observation) {
            return self.count(observation);
        }
        if let Some(log) = &mut self.log {
            Arc::make_mut(log).push(observation, &self.registry);
        }
        let gaps = self.gap_count();
        let mut shape = self.append_values(observation);
        self.timeline.observe(observation, &(gaps..self.gap_count()));
        let Self { registry, cells, singles, .. } = &mut *self;
        for at in singles.iter() {
            let metric = registry.rows()[*at];
            match (metric.kind, &mut cells[*at]) {
                (MetricKind::Earliest(instant), Cell::Earliest(kept)) => {
                    *kept = [*kept, instant(observation)].into_iter().flatten().min();
                }
                (MetricKind::Latest(instant), Cell::Latest(kept)) => {
                    *kept = (*kept).max(Some(instant(observation)));
                }
                (_, Cell::Sum(kept)) => {
                    let increment = registry.increment(metric, observation);
                    *kept = added(*kept, increment);
                    if increment.is_some_and(|increment| increment > 0.0) {
                        shape.insert(metric.tag);
                    }
                }
                _ => {}
            }
        }
        self.shapes.push(shape);
        if let Some(error) = &observation.error {
            self.count_error(error, 1);
        }
    }

    /// Adds a finished request to the counts alone.
    fn count(&mut self, observation: &Observation) {
        let Self { registry, cells, singles, .. } = self;
        for at in singles.iter() {
            if let Cell::Sum(kept) = &mut cells[*at] {
                *kept = added(*kept, registry.increment(registry.rows()[*at], observation));
            }
        }
    }

    /// Counts an error. Since servers may put request IDs and times in messages, only the code
    /// and class of a new error are kept beyond [`MAX_ERRORS`].
    fn count_error(&mut self, error: &RequestError, times: u64) {
        if let Some(count) = self.errors.get_mut(error) {
            *count += times;
        } else if self.errors.len() < MAX_ERRORS {
            self.errors.insert(error.clone(), times);
        } else {
            let rest = RequestError {
                code: error.code,
                ..RequestError::new(error.kind, OTHER_ERRORS, "errors with other messages")
            };
            *self.errors.entry(rest).or_default() += times;
        }
    }

    /// Appends a request's values to the columns; returns the metrics that have any.
    fn append_values(&mut self, observation: &Observation) -> Shape {
        let rows = self.registry.rows();
        let failed = observation.error.is_some();
        let mut shape = Shape::new(observation.error.as_ref());
        for (tag, value) in observation.values.iter() {
            let Some(at) = self.registry.position(tag) else { continue };
            if !rows[at].is_counted_of(failed) {
                continue;
            }
            if let Cell::Column(column) = &mut self.cells[at] {
                shape.insert(tag);
                match value {
                    Value::Scalar(value) => column.push(rows[at].to_display(*value)),
                    Value::List(list) => {
                        column.extend(list.iter().map(|value| rows[at].to_display(*value)));
                    }
                }
            }
        }
        shape
    }

    /// Returns every metric that has a value, in catalogue order and display units. Internal and
    /// experimental metrics are included only in developer mode.
    #[must_use]
    pub fn results(&self) -> Vec<MetricResult> {
        self.results.get_or_init(|| self.scope().results()).clone()
    }

    /// Returns the results of a part of the phase, from `window.start()` to `window.end()` in wall
    /// time. Statistics cover the requests that started in it; in counts, sums and rates, each request
    /// counts by the share of its time that lies in it; and curves cover everything in flight.
    pub(super) fn results_in(&self, window: &RangeInclusive<u64>) -> Vec<MetricResult> {
        let (start, end) = (*window.start(), *window.end());
        let whole = start..end;
        let over_time = self.timeline.in_each(
            &self.curves(),
            self.gaps(),
            slice::from_ref(&whole),
            &self.store,
            1,
        );
        let part = Part {
            length: Nanos(end.saturating_sub(start)),
            over_time: over_time.into_iter().next().unwrap_or_default(),
            nothing: self.nothing(),
        };
        Scope { accumulator: self, part: Some(&part), window: Some(window) }.results()
    }

    /// Everything observed.
    fn scope(&self) -> Scope<'_> {
        Scope { accumulator: self, part: self.part.as_ref(), window: None }
    }

    /// Divides the phase, which covers `window` in wall time, into slices of `duration`; `None`
    /// unless it is [sliced](Self::sliced).
    pub fn slices(
        &self,
        window: &Range<u64>,
        duration: Nanos,
    ) -> Result<Option<Slices>, TooManySlices> {
        let Some(log) = &self.log else { return Ok(None) };
        let slices = cut(window, duration)?;
        let bounds = slices.iter().map(|slice| slice.start_ns..slice.end_ns);
        let over_time = self.timeline.in_each(
            &self.curves(),
            self.gaps(),
            &bounds.collect::<Vec<_>>(),
            &self.store,
            1,
        );
        let registry = Arc::clone(&self.registry);
        Ok(Some(Slices::new(registry, Arc::clone(log), &slices, over_time, self.nothing())))
    }

    /// Returns, by row, 0 for each count and sum that the phase has.
    fn nothing(&self) -> Arc<[Option<f64>]> {
        let totals = self.scope().totals();
        let rows = self.registry.rows().iter();
        rows.map(|metric| match metric.kind {
            MetricKind::Count(_) | MetricKind::Tally(_) | MetricKind::SumOf(_) => {
                totals.total(metric.tag).map(|_| 0.0)
            }
            _ => None,
        })
        .collect()
    }

    /// Returns the curves over the time of the whole phase, computed by `threads`.
    fn over_time(&self, threads: usize) -> OverTime {
        let whole = self.timeline.window();
        let windows = slice::from_ref(&whole);
        let curves = self.curves();
        let found = self.timeline.in_each(&curves, self.gaps(), windows, &self.store, threads);
        found.into_iter().next().unwrap_or_default()
    }

    /// Returns the curves that the rows need, without duplicates.
    fn curves(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for metric in self.registry.rows() {
            if let MetricKind::OverTime(curve, _) = metric.kind
                && !curves.contains(&curve)
            {
                curves.push(curve);
            }
        }
        curves
    }

    fn gaps(&self) -> Gaps<'_> {
        let unit = Registry::row(GAPS).map_or(Unit::Nanoseconds, |metric| metric.display_unit);
        Gaps::new(self.column(GAPS), unit)
    }

    /// Returns the values of the record metric `tag` in its display unit, with lists flattened;
    /// `None` if it is not measured.
    #[must_use]
    pub fn column(&self, tag: MetricTag) -> Option<&Column<f64>> {
        match &self.cells[self.registry.position(tag)?] {
            Cell::Column(column) => Some(column),
            _ => None,
        }
    }

    /// Returns the number of times between content events.
    fn gap_count(&self) -> usize {
        self.column(GAPS).map_or(0, Column::len)
    }

    /// Returns the [results](Self::results) of an optional phase: empty if no request was
    /// observed, without the metrics that would be 0.
    #[must_use]
    pub fn results_if_any(&self) -> Vec<MetricResult> {
        if self.has_observed { self.results() } else { Vec::new() }
    }

    /// Returns the settings of the metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(super) fn settings(&self) -> &Settings {
        self.registry.settings()
    }

    /// Returns the requests over time.
    pub(super) const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Returns a store for columns that are soon dropped.
    pub(super) fn scratch(&self) -> Store {
        self.store.scratch()
    }

    /// Returns the number of requests that failed.
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns the errors, most frequent first.
    #[must_use]
    pub fn errors(&self) -> Vec<(RequestError, u64)> {
        let mut errors: Vec<_> =
            self.errors.iter().map(|(error, count)| (error.clone(), *count)).collect();
        errors.sort_by(|(a, a_count), (b, b_count)| {
            let key =
                |error: &RequestError| (error.code, error.name.clone(), error.message.clone());
            b_count.cmp(a_count).then_with(|| key(a).cmp(&key(b)))
        });
        errors
    }
}

/// Returns the statistics of `values`, which is called several times, with the further percentiles of
/// `percents`; `None` if there are none.
pub(super) fn statistics<I: Iterator<Item = f64>>(
    values: impl Fn() -> I,
    percents: &[Percent],
) -> Option<Stats> {
    let distribution = distribution_with(values, percents)?;
    let avg = distribution.sum / distribution.count as f64;
    Some(Stats { avg, instant: None, distribution: Some(distribution) })
}

const fn single(value: f64) -> Stats {
    Stats { avg: value, instant: None, distribution: None }
}

fn added(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
