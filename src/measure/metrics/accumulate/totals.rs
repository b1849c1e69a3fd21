//! Totals of the values of a phase.

use base::statistics::percentile::exact_sum;

use super::{Accumulator, Cell};
use crate::metrics::metric::Metric;
use crate::metrics::tag::MetricTag;

/// Totals of the values of a phase, for each metric that has any, and of its failures.
#[derive(Debug, Clone, Default)]
pub struct PhaseTotals {
    /// Record metrics, counts and sums that have a value, in order of computation.
    pub rows: Vec<RowTotals>,
    /// Requests that failed.
    pub failures: u64,
}

/// Totals of the values of one metric, in the metric's own unit.
#[derive(Debug, Clone, Copy)]
pub struct RowTotals {
    /// The row.
    pub metric: &'static Metric,
    /// Number of finite values; `None` for a count or sum, which keeps no values.
    pub count: Option<u64>,
    /// Sum of the finite values.
    pub sum: f64,
    /// Sum of their magnitudes, which the rounding of the sum is relative to.
    pub magnitude: f64,
}

impl Accumulator {
    /// Returns the totals of everything observed.
    #[must_use]
    pub fn phase_totals(&self) -> PhaseTotals {
        let rows = self.registry.rows().iter().zip(&self.cells);
        PhaseTotals {
            rows: rows.filter_map(|(metric, cell)| RowTotals::new(metric, cell)).collect(),
            failures: self.failures(),
        }
    }
}

impl Accumulator {
    /// Returns the totals of a metric, without computing the results of any; `None` without a value.
    pub(crate) fn totals_of(&self, tag: MetricTag) -> Option<RowTotals> {
        let at = self.registry.position(tag)?;
        RowTotals::new(self.registry.rows()[at], &self.cells[at])
    }
}

impl RowTotals {
    fn new(metric: &'static Metric, cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Column(column) => {
                let finite = || column.iter().filter(|value| value.is_finite());
                let count = finite().count() as u64;
                let own_unit = |value| metric.display_unit.convert(value, metric.unit);
                (count > 0).then(|| Self {
                    metric,
                    count: Some(count),
                    sum: own_unit(exact_sum(finite())),
                    magnitude: own_unit(finite().map(f64::abs).sum()),
                })
            }
            Cell::Sum(sum) => {
                sum.map(|sum| Self { metric, count: None, sum, magnitude: sum.abs() })
            }
            Cell::Earliest(_) | Cell::Latest(_) | Cell::Derived => None,
        }
    }
}
