//! The steady state beside the whole phase.

use base::statistics::Percent;
use base::units::Nanos;
use measure::metrics::SteadyState;
use measure::metrics::metric::Statistic;
use measure::metrics::steady::HEADLINES;

use super::format::{count, four_digits};
use super::{Cell, Column, Table, label};
use crate::run::RunReport;

/// The statistics of both, and the order in which a narrow terminal does without those of the whole
/// phase.
const STATISTICS: [(Statistic, u8); 3] = [
    (Statistic::Avg, 3),
    (Statistic::Percentile(Percent::whole(50)), 1),
    (Statistic::Percentile(Percent::whole(99)), 2),
];

/// Returns the headline metrics of the steady state beside those of the whole phase; `None` without a
/// steady state.
pub(super) fn steady(report: &RunReport) -> Option<Table> {
    let steady = report.steady_state.as_ref().ok()?;
    let rows = HEADLINES.iter().filter_map(|tag| {
        let [of_steady, whole] = [&steady.results, &report.results]
            .map(|results| results.iter().find(|result| result.metric.tag == *tag));
        let values = STATISTICS
            .iter()
            .flat_map(|(one, _)| [of_steady, whole].map(|result| Cell::statistic(result, *one)));
        Some(std::iter::once(label(whole?.metric)).chain(values).collect())
    });
    let statistics = STATISTICS.iter().flat_map(|(one, spare)| {
        [Column::number(one.to_string()), Column::number(format!("{one} (whole)")).spare(*spare)]
    });
    Some(Table {
        title: title(steady, report),
        note: "While the load was held and the server had it, beside the whole phase.".to_owned(),
        columns: std::iter::once(Column::label("Metric")).chain(statistics).collect(),
        rows: rows.collect(),
        ..Table::default()
    })
}

/// Returns the bounds of the steady state, and how many requests started in it.
fn title(steady: &SteadyState, report: &RunReport) -> String {
    let phase = report.outcome.start_wall_ns;
    let after = |at: u64| four_digits(Nanos(at.saturating_sub(phase)).as_seconds());
    format!(
        "Steady State: {} s to {} s, {} requests ({:.0}%)",
        after(steady.start_ns),
        after(steady.end_ns),
        count(steady.request_count),
        steady.request_share * 100.0,
    )
}
