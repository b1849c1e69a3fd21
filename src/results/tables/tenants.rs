//! The tenants beside each other.

use measure::metrics::breakdown::Tenant;
use measure::metrics::tag;

use super::{Cell, Column, Groups, Shown, Table};
use crate::run::RunReport;

const COLUMNS: [Shown; 8] = [
    ("Requests", "Requests", 4, tag::REQUEST_COUNT, "avg"),
    ("Failed", "Failed", 3, tag::ERROR_REQUEST_COUNT, "avg"),
    ("Output tokens", "Tokens", 1, tag::TOTAL_OSL, "avg"),
    ("TTFT p50 (ms)", "TTFT p50", 2, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 2, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 3, tag::REQUEST_LATENCY, "p50"),
    ("Latency p99 (ms)", "Lat. p99", 3, tag::REQUEST_LATENCY, "p99"),
    ("Good (ratio)", "Good", 5, tag::GOOD_REQUEST_FRACTION, "avg"),
];

/// Returns a row for each tenant, and how fair the throughput was; `None` without tenants.
pub(super) fn tenants(report: &RunReport) -> Option<Table> {
    let found = report.breakdowns.tenants.as_ref()?;
    let groups = &report.breakdowns.by_tenant;
    let shown = Groups::new(&COLUMNS, || groups.iter().map(|group| &group.results));
    let has_slowdown = found.tenants.iter().any(|tenant| tenant.slowdown.is_some());
    let row = |tenant: &Tenant| {
        let group = groups.iter().find(|group| *group.name == *tenant.name);
        let results = group.map_or(&[][..], |group| &group.results);
        let mut cells = vec![Cell::Text(tenant.name.clone())];
        cells.extend([tenant.share, tenant.throughput_share].map(|it| Cell::percent(Some(it))));
        cells.extend(has_slowdown.then(|| tenant.slowdown.into()));
        cells.extend(shown.cells(results));
        cells
    };
    let mut columns = vec![
        Column::name("Tenant"),
        Column::number("Share (%)").or("Share %"),
        Column::number("Throughput (%)").or("Tput %"),
    ];
    columns.extend(has_slowdown.then(|| Column::number("Slowdown")));
    columns.extend(shown.columns());
    let index = found.jain_index.map(|index| format!("Fairness (Jain's index): {index:.3}"));
    Some(Table {
        title: "Tenants".to_owned(),
        note: "The share that each tenant is entitled to, and its share of the throughput."
            .to_owned(),
        columns,
        rows: found.tenants.iter().map(row).collect(),
        findings: index.into_iter().collect(),
        ..Table::default()
    })
}
