//! The exact half of the in-process reader: keeps the values of one phase and
//! computes what artifacts and console say of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::metric::{Kind, Metric, MetricResult, MetricTag, Observation, Stats, Totals, Value};
use super::percentile::{distribution, exact_sum, percentile};
use super::registry::Registry;
use crate::record::RequestError;

/// Kinds of failure that are told apart, by all that is known of them.
const MOST_ERRORS: usize = 1000;

/// Name of the failures that are not.
const OTHER_ERRORS: &str = "OtherErrors";

/// What has been observed of one phase. It keeps every value, in its display unit.
#[derive(Debug, Clone)]
pub struct Accumulator {
    registry: Arc<Registry>,
    /// One for each of the registry's rows.
    cells: Vec<Cell>,
    errors: HashMap<RequestError, u64>,
    /// Whether any request was observed.
    has_observed: bool,
}

/// What is kept of one metric.
#[derive(Debug, Clone)]
enum Cell {
    /// The values of a record metric.
    Column(Vec<f64>),
    /// A count or sum; `None` before anything was added.
    Sum(Option<f64>),
    /// The earliest or latest instant, in wall nanoseconds.
    Instant(Option<u64>),
    /// Computed at the end.
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
                Kind::SumOf(_) | Kind::PercentileOf(..) | Kind::Derived(_) => Cell::Derived,
            })
            .collect();
        Self { registry, cells, errors: HashMap::new(), has_observed: false }
    }

    /// Takes in one finished request.
    pub fn observe(&mut self, observation: &Observation) {
        self.has_observed = true;
        self.append_values(observation);
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

    /// Counts a failure. Servers put request numbers and times into their words:
    /// above [`MOST_ERRORS`] only code and class of a new kind are kept.
    fn count_error(&mut self, error: &RequestError, times: u64) {
        if let Some(count) = self.errors.get_mut(error) {
            *count += times;
        } else if self.errors.len() < MOST_ERRORS {
            self.errors.insert(error.clone(), times);
        } else {
            let rest = RequestError {
                code: error.code,
                ..RequestError::new(error.kind, OTHER_ERRORS, "errors with other messages")
            };
            *self.errors.entry(rest).or_default() += times;
        }
    }

    /// Appends a request's values to the columns. Values usually come in the
    /// rows' order, so the search for a row goes on from the one before.
    fn append_values(&mut self, observation: &Observation) {
        let rows = self.registry.rows();
        let mut next = 0;
        for (tag, value) in observation.values.iter() {
            let ahead = rows.iter().skip(next).position(|metric| metric.tag == tag);
            let Some(at) = ahead.map(|steps| next + steps).or_else(|| self.registry.position(tag))
            else {
                continue;
            };
            next = at + 1;
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

    /// Takes in what `other`, of the same registry, has observed.
    pub fn merge(&mut self, other: Self) {
        self.has_observed |= other.has_observed;
        for ((metric, cell), theirs) in
            self.registry.rows().iter().zip(&mut self.cells).zip(other.cells)
        {
            match (cell, theirs) {
                (Cell::Column(column), Cell::Column(values)) => column.extend(values),
                (Cell::Sum(kept), Cell::Sum(sum)) => *kept = added(*kept, sum),
                (Cell::Instant(kept), Cell::Instant(instant)) => {
                    *kept = match metric.kind {
                        Kind::Earliest(_) => earliest(*kept, instant),
                        _ => latest(*kept, instant),
                    };
                }
                _ => {}
            }
        }
        for (error, count) in other.errors {
            self.count_error(&error, count);
        }
    }

    /// Every metric that has a value, in catalogue order and display units;
    /// internal and experimental ones in developer mode only.
    #[must_use]
    pub fn results(&self) -> Vec<MetricResult> {
        let totals = self.totals();
        let rows = self.registry.rows();
        let developer_mode = self.registry.settings().developer_mode;
        self.registry
            .presentation()
            .iter()
            .filter(|at| rows[**at].is_exported(developer_mode))
            .filter_map(|at| {
                let metric = rows[*at];
                let stats = match &self.cells[*at] {
                    Cell::Column(column) => statistics(column)?,
                    Cell::Instant(instant) => single(metric.to_display((*instant)? as f64)),
                    _ => single(metric.to_display(totals.total(metric.tag)?)),
                };
                Some(MetricResult { metric, stats })
            })
            .collect()
    }

    /// The values of the record metric `tag` in its display unit, lists flattened; none
    /// where it is not measured.
    #[must_use]
    pub fn column(&self, tag: MetricTag) -> &[f64] {
        match self.registry.position(tag).map(|at| &self.cells[at]) {
            Some(Cell::Column(column)) => column,
            _ => &[],
        }
    }

    /// The [results](Self::results) of a phase that there need not have been:
    /// none where no request was observed, not even the metrics that are 0 then.
    #[must_use]
    pub fn results_if_any(&self) -> Vec<MetricResult> {
        if self.has_observed { self.results() } else { Vec::new() }
    }

    /// The failures, most frequent first.
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

    /// Aggregates, sums and derived results, each after those it is computed from.
    fn totals(&self) -> Computed<'_> {
        let mut computed = Computed { accumulator: self, derived: vec![None; self.cells.len()] };
        for (at, metric) in self.registry.rows().iter().enumerate() {
            computed.derived[at] = match metric.kind {
                Kind::SumOf(tag) => computed.sum_of(tag),
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
    /// The percentile of a record metric, in the unit of `row`; `None` where no
    /// request has it.
    fn percentile_of(&self, row: &Metric, tag: MetricTag, percent: f64) -> Option<f64> {
        let at = self.accumulator.registry.position(tag)?;
        let of = self.accumulator.registry.rows()[at];
        let Cell::Column(column) = &self.accumulator.cells[at] else { return None };
        let mut ascending = column.clone();
        ascending.sort_unstable_by(f64::total_cmp);
        percentile(&ascending, percent).map(|value| of.display_unit.convert(value, row.unit))
    }

    /// The sum of a record metric in its own unit; `None` where no request has it.
    fn sum_of(&self, tag: MetricTag) -> Option<f64> {
        let at = self.accumulator.registry.position(tag)?;
        let metric = self.accumulator.registry.rows()[at];
        match &self.accumulator.cells[at] {
            Cell::Column(column) if !column.is_empty() => {
                let sum = exact_sum(column.iter().copied());
                Some(metric.display_unit.convert(sum, metric.unit))
            }
            _ => None,
        }
    }
}

impl Totals for Computed<'_> {
    fn total(&self, tag: MetricTag) -> Option<f64> {
        let at = self.accumulator.registry.position(tag)?;
        match &self.accumulator.cells[at] {
            Cell::Sum(sum) => *sum,
            Cell::Derived => self.derived[at],
            Cell::Column(_) | Cell::Instant(_) => None,
        }
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
    Some(Stats { avg, distribution: Some(distribution) })
}

const fn single(value: f64) -> Stats {
    Stats { avg: value, distribution: None }
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
