//! Metrics with their statistics.

use base::statistics::Percent;
use measure::metrics::Metric;
use measure::metrics::metric::{MetricResult, Statistic};

use super::{Cell, Column, Table};

/// Names longer than this have their unit on a separate line.
const LONGEST_ON_ONE_LINE: usize = 30;

/// The statistics, and the order in which a narrow terminal does without them.
const STATISTICS: [(Statistic, u8); 7] = [
    (Statistic::Avg, 0),
    (Statistic::Min, 2),
    (Statistic::Max, 4),
    (Statistic::Percentile(Percent::whole(99)), 0),
    (Statistic::Percentile(Percent::whole(90)), 3),
    (Statistic::Percentile(Percent::whole(50)), 0),
    (Statistic::Std, 1),
];

/// Returns a row for each result.
pub fn of_metrics<'a>(title: String, results: impl Iterator<Item = &'a MetricResult>) -> Table {
    let row = |result: &MetricResult| {
        let values = STATISTICS.iter().map(|(one, _)| Cell::statistic(Some(result), *one));
        std::iter::once(label(result.metric)).chain(values).collect()
    };
    statistics(title, results.map(row).collect())
}

/// Returns a table with a column for each of the statistics avg, min, max, p99, p90, p50 and std.
pub fn statistics(title: String, rows: Vec<Vec<Cell>>) -> Table {
    let statistics =
        STATISTICS.iter().map(|(one, spare)| Column::number(one.to_string()).spare(*spare));
    let columns = std::iter::once(Column::label("Metric")).chain(statistics).collect();
    Table { title, columns, rows, ..Table::default() }
}

/// Returns the name of a metric with its unit.
pub fn label(metric: &Metric) -> Cell {
    let separator = if metric.header.len() > LONGEST_ON_ONE_LINE { '\n' } else { ' ' };
    Cell::Name(
        format!("{}{separator}({})", metric.header, metric.display_unit),
        format!("{} ({})", metric.short_header, metric.display_unit),
    )
}
