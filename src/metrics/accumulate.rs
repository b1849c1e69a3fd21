//! Collects the exact values of one phase and computes its results for files and console.

mod totals;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::metric::{Kind, Metric, MetricResult, Observation, Stats, Totals, Value};
use super::percentile::{distribution, exact_sum, percentile, with_failures};
use super::registry::Registry;
use super::slices::{Log, Slices, TooManySlices, cut};
use super::tag::{self, MetricTag};
use super::timeline::{Curve, Gaps, OverTime, Timeline};
use crate::record::RequestError;
use crate::units::{Nanos, Unit};

pub(crate) use totals::{PhaseTotals, RowTotals};

/// Maximum number of distinct errors that are counted separately.
const MAX_ERRORS: usize = 1000;

/// Name of the errors beyond that.
const OTHER_ERRORS: &str = "OtherErrors";

/// The metric with the times between a request's content events.
const GAPS: MetricTag = tag::INTER_CHUNK_LATENCY;

/// Everything observed in one phase. Keeps every value, in its display unit.
#[derive(Debug, Clone)]
pub struct Accumulator {
    registry: Arc<Registry>,
    /// One column for each of the registry's rows.
    cells: Vec<Cell>,
    errors: HashMap<RequestError, u64>,
    timeline: Timeline,
    /// Cached results, until another request is observed.
    results: OnceLock<Vec<MetricResult>>,
    /// Whether any request was observed.
    has_observed: bool,
    /// Each request, if slices are computed.
    log: Option<Arc<Log>>,
    /// The part of a phase that is observed; absent for a whole phase.
    part: Option<Part>,
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
    Column(Vec<f64>),
    /// A count or sum; `None` before anything was added.
    Sum(Option<f64>),
    /// The earliest or latest instant, in wall clock nanoseconds.
    Instant(Option<u64>),
    /// Computed at the end; nothing is kept.
    Derived,
}

impl Accumulator {
    /// Nothing observed yet.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        let cells = registry
            .rows()
            .iter()
            .map(|metric| match metric.kind {
                Kind::Record(_) | Kind::RecordList(_) => Cell::Column(Vec::new()),
                Kind::Count(_) | Kind::Sum(_) => Cell::Sum(None),
                Kind::Earliest(_) | Kind::Latest(_) => Cell::Instant(None),
                Kind::SumOf(_)
                | Kind::PercentileOf(..)
                | Kind::OverTime(..)
                | Kind::WithFailures(_)
                | Kind::Derived(_) => Cell::Derived,
            })
            .collect();
        Self {
            registry,
            cells,
            errors: HashMap::new(),
            timeline: Timeline::default(),
            results: OnceLock::new(),
            has_observed: false,
            log: None,
            part: None,
        }
    }

    /// Like [`Accumulator::new`], but keeps what is needed for [slices](Self::slices).
    #[must_use]
    pub(crate) fn sliced(registry: Arc<Registry>) -> Self {
        Self { log: Some(Arc::default()), ..Self::new(registry) }
    }

    /// Creates an accumulator for a part of a phase.
    pub(super) fn of_part(registry: Arc<Registry>, part: Part) -> Self {
        Self { part: Some(part), ..Self::new(registry) }
    }

    /// Adds a finished request.
    pub fn observe(&mut self, observation: &Observation) {
        self.has_observed = true;
        self.results = OnceLock::new();
        if let Some(log) = &mut self.log {
            Arc::make_mut(log).push(observation, &self.registry);
        }
        let gaps = self.column(GAPS).len();
        self.append_values(observation);
        self.timeline.observe(observation, &(gaps..self.column(GAPS).len()));
        for (metric, cell) in self.registry.rows().iter().zip(&mut self.cells) {
            match (metric.kind, cell) {
                (Kind::Earliest(instant), Cell::Instant(kept)) => {
                    *kept = earliest(*kept, instant(observation));
                }
                (Kind::Latest(instant), Cell::Instant(kept)) => {
                    *kept = latest(*kept, instant(observation));
                }
                (_, Cell::Sum(kept)) => {
                    *kept = added(*kept, self.registry.increment(metric, observation));
                }
                _ => {}
            }
        }
        if let Some(error) = &observation.error {
            self.count_error(error, 1);
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

    /// Appends a request's values to the columns.
    fn append_values(&mut self, observation: &Observation) {
        let rows = self.registry.rows();
        let failed = observation.error.is_some();
        for (tag, value) in observation.values.iter() {
            let Some(at) = self.registry.position(tag) else { continue };
            if !rows[at].is_counted_of(failed) {
                continue;
            }
            if let Cell::Column(column) = &mut self.cells[at] {
                match value {
                    Value::Scalar(value) => column.push(rows[at].to_display(*value)),
                    Value::List(list) => {
                        column.extend(list.iter().map(|value| rows[at].to_display(*value)));
                    }
                }
            }
        }
    }

    /// Returns every metric that has a value, in catalogue order and display units. Internal and
    /// experimental metrics are included only in developer mode.
    #[must_use]
    pub fn results(&self) -> Vec<MetricResult> {
        self.results.get_or_init(|| self.compute()).clone()
    }

    fn compute(&self) -> Vec<MetricResult> {
        let totals = self.totals();
        let whole = self.part.is_none().then(|| self.over_time());
        let over_time = self.part.as_ref().map(|part| &part.over_time).or(whole.as_ref());
        let rows = self.registry.rows();
        let developer_mode = self.registry.settings().developer_mode;
        self.registry
            .presentation()
            .iter()
            .filter(|at| rows[**at].is_exported(developer_mode))
            .filter_map(|at| {
                let metric = rows[*at];
                let stats = match (&self.cells[*at], metric.kind) {
                    (Cell::Column(column), _) => statistics(column)?,
                    (Cell::Instant(instant), _) => Stats {
                        instant: Some((*instant)?),
                        ..single(metric.to_display((*instant)? as f64))
                    },
                    (_, Kind::OverTime(curve, span)) => over_time?.of(curve, span)?,
                    (_, Kind::WithFailures(of)) => self.with_failures(of)?,
                    _ => single(metric.to_display(totals.total(metric.tag)?)),
                };
                Some(MetricResult { metric, stats })
            })
            .collect()
    }

    /// Divides the phase, which covers `window` in wall time, into slices of `duration`; `None`
    /// unless it is [sliced](Self::sliced).
    pub(crate) fn slices(
        &self,
        window: &Range<u64>,
        duration: Nanos,
    ) -> Result<Option<Slices>, TooManySlices> {
        let Some(log) = &self.log else { return Ok(None) };
        let slices = cut(window, duration)?;
        let bounds = slices.iter().map(|slice| slice.start_ns..slice.end_ns);
        let over_time =
            self.timeline.in_each(&self.curves(), self.gaps(), &bounds.collect::<Vec<_>>());
        let registry = Arc::clone(&self.registry);
        Ok(Some(Slices::new(registry, Arc::clone(log), &slices, over_time, self.nothing())))
    }

    /// Returns, by row, 0 for each count and sum that the phase has.
    fn nothing(&self) -> Arc<[Option<f64>]> {
        let totals = self.totals();
        let rows = self.registry.rows().iter();
        rows.map(|metric| match metric.kind {
            Kind::Count(_) | Kind::Sum(_) | Kind::SumOf(_) => totals.total(metric.tag).map(|_| 0.0),
            _ => None,
        })
        .collect()
    }

    /// Returns the curves over the time of the whole phase.
    fn over_time(&self) -> OverTime {
        let found = self.timeline.in_each(&self.curves(), self.gaps(), &[self.timeline.window()]);
        found.into_iter().next().unwrap_or_default()
    }

    /// Returns the curves that the rows need, without duplicates.
    fn curves(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for metric in self.registry.rows() {
            if let Kind::OverTime(curve, _) = metric.kind
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

    /// Returns statistics of a record metric with an infinite value for each failed request.
    fn with_failures(&self, of: MetricTag) -> Option<Stats> {
        let failures = usize::try_from(self.failures()).ok().filter(|failures| *failures > 0)?;
        let distribution = with_failures(self.column(of).to_vec(), failures)?;
        Some(Stats { avg: f64::INFINITY, instant: None, distribution: Some(distribution) })
    }

    /// Returns the values of the record metric `tag` in its display unit, with lists flattened;
    /// empty if it is not measured.
    #[must_use]
    pub(crate) fn column(&self, tag: MetricTag) -> &[f64] {
        match self.registry.position(tag).map(|at| &self.cells[at]) {
            Some(Cell::Column(column)) => column,
            _ => &[],
        }
    }

    /// Returns the [results](Self::results) of an optional phase: empty if no request was
    /// observed, without the metrics that would be 0.
    #[must_use]
    pub(crate) fn results_if_any(&self) -> Vec<MetricResult> {
        if self.has_observed { self.results() } else { Vec::new() }
    }

    /// Returns the number of requests that failed.
    fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns the errors, most frequent first.
    #[must_use]
    pub(crate) fn errors(&self) -> Vec<(RequestError, u64)> {
        let mut errors: Vec<_> =
            self.errors.iter().map(|(error, count)| (error.clone(), *count)).collect();
        errors.sort_by(|(a, a_count), (b, b_count)| {
            let key =
                |error: &RequestError| (error.code, error.name.clone(), error.message.clone());
            b_count.cmp(a_count).then_with(|| key(a).cmp(&key(b)))
        });
        errors
    }

    /// Returns 0 for a row that is a count or sum of the phase that this is a part of.
    fn nothing_of(&self, row: usize) -> Option<f64> {
        self.part.as_ref().and_then(|part| part.nothing.get(row).copied().flatten())
    }

    /// Computes aggregate, sum and derived results, each after those it depends on.
    fn totals(&self) -> Computed<'_> {
        let mut computed = Computed { accumulator: self, derived: vec![None; self.cells.len()] };
        for (at, metric) in self.registry.rows().iter().enumerate() {
            computed.derived[at] = match metric.kind {
                Kind::SumOf(tag) => computed.sum_of(tag).or_else(|| self.nothing_of(at)),
                Kind::PercentileOf(tag, percent) => computed.percentile_of(metric, tag, percent),
                Kind::Derived(compute) => compute(&computed).filter(|value| value.is_finite()),
                _ => None,
            };
        }
        computed
    }
}

/// Totals while they are being computed.
struct Computed<'a> {
    accumulator: &'a Accumulator,
    derived: Vec<Option<f64>>,
}

impl Computed<'_> {
    /// Returns the percentile of a record metric, in the unit of `row`; `None` if no request has
    /// the metric.
    fn percentile_of(&self, row: &Metric, tag: MetricTag, percent: f64) -> Option<f64> {
        let of = self.accumulator.registry.rows()[self.accumulator.registry.position(tag)?];
        let mut ascending = self.accumulator.column(tag).to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        percentile(&ascending, percent).map(|value| of.display_unit.convert(value, row.unit))
    }

    /// Returns the sum of a record metric in its own unit; `None` if no request has it.
    fn sum_of(&self, tag: MetricTag) -> Option<f64> {
        let metric = self.accumulator.registry.rows()[self.accumulator.registry.position(tag)?];
        let column = self.accumulator.column(tag);
        let sum = || metric.display_unit.convert(exact_sum(column.iter().copied()), metric.unit);
        (!column.is_empty()).then(sum)
    }
}

impl Totals for Computed<'_> {
    fn total(&self, tag: MetricTag) -> Option<f64> {
        let at = self.accumulator.registry.position(tag)?;
        match &self.accumulator.cells[at] {
            Cell::Sum(sum) => sum.or_else(|| self.accumulator.nothing_of(at)),
            Cell::Derived => self.derived[at],
            Cell::Column(_) | Cell::Instant(_) => None,
        }
    }

    fn duration(&self) -> Option<Nanos> {
        let whole = || self.total(tag::BENCHMARK_DURATION).map(|nanos| Nanos(nanos as u64));
        self.accumulator.part.as_ref().map(|part| part.length).or_else(whole)
    }

    fn instant(&self, tag: MetricTag) -> Option<u64> {
        match self.accumulator.cells.get(self.accumulator.registry.position(tag)?)? {
            Cell::Instant(instant) => *instant,
            _ => None,
        }
    }
}

fn statistics(column: &[f64]) -> Option<Stats> {
    let distribution = distribution(&mut column.to_vec())?;
    let avg = distribution.sum / distribution.count as f64;
    Some(Stats { avg, instant: None, distribution: Some(distribution) })
}

const fn single(value: f64) -> Stats {
    Stats { avg: value, instant: None, distribution: None }
}

fn earliest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    [a, b].into_iter().flatten().min()
}

fn latest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    [a, b].into_iter().flatten().max()
}

fn added(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
