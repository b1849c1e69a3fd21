//! The table of the tenants.

use serde_json::json;

use super::Run;
use crate::metrics::breakdown::Tenant;
use crate::metrics::tag::{self, MetricTag};
use crate::report::document::Table;

/// The columns after the shares: their titles, and the statistic of a metric that each shows.
const COLUMNS: [(&str, MetricTag, &str); 8] = [
    ("Requests", tag::REQUEST_COUNT, "avg"),
    ("Failed", tag::ERROR_REQUEST_COUNT, "avg"),
    ("Time to first token p50 (ms)", tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("Time to first token p99 (ms)", tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Request latency p50 (ms)", tag::REQUEST_LATENCY, "p50"),
    ("Request latency p99 (ms)", tag::REQUEST_LATENCY, "p99"),
    ("Output tokens", tag::TOTAL_OSL, "avg"),
    ("Good requests (ratio)", tag::GOOD_REQUEST_FRACTION, "avg"),
];

impl Run<'_> {
    /// Returns the tenants compared with each other, if there are any.
    pub(super) fn tenants(&self) -> Option<Table> {
        let found = self.report.breakdowns.tenants.as_ref()?;
        let groups = &self.report.breakdowns.by_tenant;
        let has = |tag| groups.iter().any(|group| group.value(tag, "avg").is_some());
        let shown: Vec<_> = COLUMNS.iter().filter(|(_, tag, _)| has(*tag)).collect();
        let row = |tenant: &Tenant| {
            let group = groups.iter().find(|group| *group.name == *tenant.name);
            let values = shown
                .iter()
                .map(|(_, tag, name)| json!(group.and_then(|group| group.value(*tag, name))));
            let percent = |share: f64| json!(100.0 * share);
            [json!(tenant.name), percent(tenant.share), percent(tenant.throughput_share)]
                .into_iter()
                .chain([json!(tenant.slowdown)])
                .chain(values)
                .collect()
        };
        let index =
            found.jain_index.map(|index| format!(" Jain's index of fairness is {index:.3}."));
        let first = ["Tenant", "Share (%)", "Throughput (%)", "Slowdown"];
        Some(Table {
            title: "Tenants".to_owned(),
            note: format!(
                "The share that each tenant is entitled to, and its share of the throughput.{}",
                index.unwrap_or_default()
            ),
            columns: first
                .into_iter()
                .chain(shown.iter().map(|(title, ..)| *title))
                .map(str::to_owned)
                .collect(),
            rows: found.tenants.iter().map(row).collect(),
            requests: Vec::new(),
        })
    }
}
