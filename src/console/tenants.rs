//! The table of the tenants.

use super::format::{count, four_digits, number};
use super::layout::{Column, Table};
use super::style::Style;
use crate::metrics::breakdown::{GroupResult, Tenant};
use crate::metrics::tag::{self, MetricTag};
use crate::redact::printable;
use crate::run::RunReport;

/// A column: its name, that on a narrow terminal, the order in which it is left out, and what it shows.
type Shown = (&'static str, &'static str, u8, MetricTag, &'static str);

const COLUMNS: [Shown; 6] = [
    ("Requests", "Requests", 3, tag::REQUEST_COUNT, "avg"),
    ("TTFT p50 (ms)", "TTFT p50", 1, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 1, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 2, tag::REQUEST_LATENCY, "p50"),
    ("Latency p99 (ms)", "Lat. p99", 2, tag::REQUEST_LATENCY, "p99"),
    ("Good (ratio)", "Good", 4, tag::GOOD_REQUEST_FRACTION, "avg"),
];

/// Renders a row for each tenant, and how fair the throughput was; nothing without tenants.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let Some(found) = &report.breakdowns.tenants else { return String::new() };
    let groups = &report.breakdowns.by_tenant;
    let has = |tag| groups.iter().any(|group| group.value(tag, "avg").is_some());
    let shown: Vec<&Shown> = COLUMNS.iter().filter(|(.., tag, _)| has(*tag)).collect();
    let has_slowdown = found.tenants.iter().any(|tenant| tenant.slowdown.is_some());
    let row = |tenant: &Tenant| {
        let group = groups.iter().find(|group| *group.name == *tenant.name);
        let value = |(.., tag, statistic): &&Shown| {
            let value = group.and_then(|group: &GroupResult| group.value(*tag, statistic));
            match value {
                Some(value) if *tag == tag::REQUEST_COUNT => count(value as u64),
                Some(value) => four_digits(value),
                None => String::new(),
            }
        };
        let shares = [tenant.share, tenant.throughput_share];
        let mut cells = vec![printable(&tenant.name)];
        cells.extend(shares.map(|share| number(Some(100.0 * share))));
        cells.extend(shown.iter().map(value));
        if has_slowdown {
            cells.push(tenant.slowdown.map(four_digits).unwrap_or_default());
        }
        cells
    };
    let mut columns = vec![
        Column::name("Tenant"),
        Column::number("Share (%)").or("Share %"),
        Column::number("Throughput (%)").or("Tput %"),
    ];
    columns.extend(
        shown.iter().map(|(name, short, spare, ..)| Column::number(*name).or(short).spare(*spare)),
    );
    if has_slowdown {
        columns.push(Column::number("Slowdown"));
    }
    let table = Table::new("aiperf | Tenants", columns).rows(found.tenants.iter().map(row));
    let index = found.jain_index.map(|index| format!("Fairness (Jain's index): {index:.3}\n"));
    table.render(style) + &index.unwrap_or_default() + "\n"
}
