//! The table of the steady state beside the whole phase.

use super::format::{count, number};
use super::layout::{Column, Table, numbers};
use super::style::Style;
use super::table::label;
use crate::metrics::SteadyState;
use crate::metrics::metric::{Distribution, MetricResult, Stats};
use crate::metrics::steady::{HEADLINES, Unsteady};
use crate::run::RunReport;
use crate::units::Nanos;

/// The statistics, and the order in which a narrow terminal does without them.
const STATISTICS: [(&str, u8); 6] = [
    ("avg", 0),
    ("avg (whole)", 3),
    ("p50", 0),
    ("p50 (whole)", 1),
    ("p99", 0),
    ("p99 (whole)", 2),
];

/// Renders the headline metrics of the steady state beside those of the whole phase; without a steady
/// state, one line that states why.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let steady = match &report.steady_state {
        Ok(steady) => steady,
        Err(Unsteady::UnknownLoad) => return String::new(),
        Err(reason) => return format!("No steady state: {reason}\n\n"),
    };
    let of = |results: &[MetricResult], tag| {
        results.iter().find(|result| result.metric.tag == tag).map(|result| result.stats)
    };
    let rows = HEADLINES.iter().filter_map(|tag| {
        let metric = report.results.iter().find(|result| result.metric.tag == *tag)?.metric;
        let [steady, whole] = [&steady.results, &report.results].map(|results| of(results, *tag));
        let avg = |stats: Option<Stats>| number(stats.map(|stats| stats.avg)).into();
        let of_distribution = |stats: Option<Stats>, field: fn(&Distribution) -> f64| {
            number(stats.and_then(|stats| stats.distribution).as_ref().map(field)).into()
        };
        Some([
            label(metric),
            avg(steady),
            avg(whole),
            of_distribution(steady, |d| d.p50),
            of_distribution(whole, |d| d.p50),
            of_distribution(steady, |d| d.p99),
            of_distribution(whole, |d| d.p99),
        ])
    });
    let columns = [Column::label("Metric")].into_iter().chain(numbers(&STATISTICS));
    Table::new(&title(steady, report), columns).rows(rows).render(style) + "\n"
}

/// Returns the bounds of the steady state, and how many requests started in it.
fn title(steady: &SteadyState, report: &RunReport) -> String {
    let phase = report.outcome.start_wall_ns;
    let after = |at: u64| number(Some(Nanos(at.saturating_sub(phase)).as_seconds()));
    format!(
        "aiperf | Steady State: {} s to {} s, {} requests ({:.0}%)",
        after(steady.start_ns),
        after(steady.end_ns),
        count(steady.request_count),
        steady.request_share * 100.0,
    )
}
