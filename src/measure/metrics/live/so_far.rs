//! The results of the current phase so far, in bounded memory.
//!
//! Counts, sums, means and extremes are exact; percentiles come from histograms and are at most
//! 0.8% too high. Metrics over time, of failures and of GPUs are only in the final results.

use base::statistics::percentile::percentiles;
use base::statistics::{Percent, Percentiles};
use base::units::Nanos;

use crate::metrics::Registry;
use crate::metrics::histogram::Histogram;
use crate::metrics::metric::{
    Distribution, Metric, MetricKind, MetricResult, Observation, Rank, Stats, Totals, Value,
};
use crate::metrics::tag::{self, MetricTag};

/// Resolution of percentiles, in parts of a display unit.
const RESOLUTION: f64 = 1e6;

/// The observations of one phase.
#[derive(Debug, Clone, Default)]
pub(super) struct SoFar {
    phase: u32,
    /// One cell for each of the registry's rows; empty before the first request.
    cells: Vec<Cell>,
}

/// The data of one metric.
#[derive(Debug, Clone)]
enum Cell {
    /// The values of a record metric, in its display unit.
    Values(Spread),
    /// A count, in the metric's own unit; absent before anything was added.
    Sum(Option<f64>),
    /// The earliest instant, in wall clock nanoseconds.
    Earliest(Option<u64>),
    /// The latest instant, in the same unit.
    Latest(Option<(Rank, u64)>),
    /// Computed from others, or not known before the end.
    Nothing,
}

/// The distribution of some values.
#[derive(Debug, Clone, Default)]
struct Spread {
    count: u64,
    sum: f64,
    mean: f64,
    /// Sum of squared differences from the mean (Welford).
    squares: f64,
    min: f64,
    max: f64,
    /// Values in parts of [`RESOLUTION`]; `None` once any was negative.
    histogram: Option<Histogram>,
}

impl SoFar {
    /// Adds a finished request of phase number `phase`. A later phase replaces an earlier one.
    pub(super) fn observe(&mut self, registry: &Registry, phase: u32, observation: &Observation) {
        if phase < self.phase {
            return;
        }
        if phase > self.phase || self.cells.is_empty() {
            let cells = registry.rows().iter().map(|metric| Cell::for_metric(metric)).collect();
            *self = Self { phase, cells };
        }
        let failed = observation.error.is_some();
        let is_left_out = registry.settings().leaves_out(observation);
        for (metric, cell) in registry.rows().iter().zip(&mut self.cells) {
            match (metric.kind, cell) {
                // Only the counts have it, of which each knows whether it does.
                (_, cell) if is_left_out && !matches!(cell, Cell::Sum(_)) => {}
                (_, Cell::Values(spread)) if metric.is_counted_of(failed) => {
                    let value = observation.values.get(metric.tag);
                    let values: &[f64] = match value {
                        Some(Value::Scalar(value)) => std::slice::from_ref(value),
                        Some(Value::List(values)) => values,
                        None => &[],
                    };
                    for value in values {
                        spread.add(metric.to_display(*value));
                    }
                }
                (MetricKind::Earliest(instant), Cell::Earliest(kept)) => {
                    *kept = [*kept, instant(observation)].into_iter().flatten().min();
                }
                (MetricKind::Latest(instant), Cell::Latest(kept)) => {
                    *kept = (*kept).max(Some(instant(observation)));
                }
                (_, Cell::Sum(kept)) => {
                    if let Some(more) = registry.increment(metric, observation) {
                        *kept = Some(kept.unwrap_or(0.0) + more);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the results of phase number `phase`, as after a phase that ended with the last
    /// response; empty before its first.
    pub(super) fn results(&self, registry: &Registry, phase: u32) -> Vec<MetricResult> {
        if self.phase != phase || self.cells.is_empty() {
            return Vec::new();
        }
        let totals = Computed::new(self, registry);
        let developer_mode = registry.settings().developer_mode;
        let shown = registry.presentation().iter().map(|at| (*at, registry.rows()[*at]));
        let shown = shown.filter(|(_, metric)| metric.is_exported(developer_mode));
        let result = |(at, metric): (usize, &'static Metric)| {
            let single = |avg| Stats { avg, instant: None, distribution: None };
            let stats = match &self.cells[at] {
                Cell::Values(spread) => spread.stats(&registry.settings().percentiles)?,
                Cell::Earliest(_) | Cell::Latest(_) => {
                    let at = totals.instant(metric.tag)?;
                    Stats { instant: Some(at), ..single(metric.to_display(at as f64)) }
                }
                Cell::Sum(_) | Cell::Nothing => {
                    single(metric.to_display(totals.total(metric.tag)?))
                }
            };
            Some(MetricResult { metric, stats })
        };
        shown.filter_map(result).collect()
    }
}

impl Cell {
    fn for_metric(metric: &Metric) -> Self {
        match metric.kind {
            MetricKind::Record(_) | MetricKind::RecordList(_) => Self::Values(Spread::default()),
            MetricKind::Count(_) | MetricKind::Tally(_) => Self::Sum(None),
            MetricKind::Earliest(_) => Self::Earliest(None),
            MetricKind::Latest(_) => Self::Latest(None),
            _ => Self::Nothing,
        }
    }
}

impl Spread {
    fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0 {
            (self.min, self.max) = (value, value);
            self.histogram = Some(Histogram::default());
        }
        self.count += 1;
        self.sum += value;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if value < 0.0 {
            self.histogram = None;
        }
        if let Some(histogram) = &mut self.histogram {
            histogram.add((value * RESOLUTION).round() as u64, 1);
        }
    }

    /// Returns the percentile `percent`; NaN if it is not known.
    fn percentile(&self, percent: f64) -> f64 {
        let found = self.histogram.as_ref().and_then(|it| it.interpolated(percent));
        found.map_or(f64::NAN, |value| (value / RESOLUTION).min(self.max))
    }

    /// Returns the statistics with the further percentiles of `percents`; `None` without values.
    fn stats(&self, percents: &[Percent]) -> Option<Stats> {
        let at = |percent| self.percentile(percent);
        let distribution = Distribution {
            count: self.count,
            sum: self.sum,
            min: self.min,
            max: self.max,
            std: (self.squares / self.count as f64).max(0.0).sqrt(),
            further: Percentiles::compute(percents, at),
            ..percentiles(at)
        };
        let avg = self.sum / self.count as f64;
        (self.count > 0).then_some(Stats { avg, instant: None, distribution: Some(distribution) })
    }
}

/// Totals while they are being computed, each after those it depends on.
struct Computed<'a> {
    so_far: &'a SoFar,
    registry: &'a Registry,
    derived: Vec<Option<f64>>,
}

impl<'a> Computed<'a> {
    fn new(so_far: &'a SoFar, registry: &'a Registry) -> Self {
        let rows = registry.rows();
        let mut computed = Self { so_far, registry, derived: vec![None; rows.len()] };
        for (at, metric) in rows.iter().enumerate() {
            computed.derived[at] = match metric.kind {
                MetricKind::SumOf(of) => computed
                    .values(of)
                    .map(|(of, spread)| of.display_unit.convert(spread.sum, of.unit)),
                MetricKind::PercentileOf(of, percent) => computed.values(of).map(|(of, spread)| {
                    of.display_unit.convert(spread.percentile(percent), metric.unit)
                }),
                MetricKind::ShareOf(part, whole) => computed
                    .values(part)
                    .zip(computed.values(whole))
                    .map(|((_, part), (_, whole))| 100.0 * part.sum / whole.sum),
                MetricKind::Derived(compute) => compute(&computed),
                _ => None,
            }
            .filter(|value| value.is_finite());
        }
        computed
    }

    /// Returns the values of the record metric `tag`, if there are any.
    fn values(&self, tag: MetricTag) -> Option<(&'static Metric, &'a Spread)> {
        let at = self.registry.position(tag)?;
        match &self.so_far.cells[at] {
            Cell::Values(spread) if spread.count > 0 => Some((self.registry.rows()[at], spread)),
            _ => None,
        }
    }
}

impl Totals for Computed<'_> {
    fn total(&self, tag: MetricTag) -> Option<f64> {
        let at = self.registry.position(tag)?;
        match &self.so_far.cells[at] {
            Cell::Sum(sum) => *sum,
            Cell::Nothing => self.derived[at],
            Cell::Values(_) | Cell::Earliest(_) | Cell::Latest(_) => None,
        }
    }

    fn duration(&self) -> Option<Nanos> {
        self.total(tag::BENCHMARK_DURATION).map(|nanos| Nanos(nanos as u64))
    }

    fn instant(&self, tag: MetricTag) -> Option<u64> {
        match self.so_far.cells.get(self.registry.position(tag)?)? {
            Cell::Earliest(instant) => *instant,
            Cell::Latest(instant) => instant.map(|(_, at)| at),
            _ => None,
        }
    }
}
