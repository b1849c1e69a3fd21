//! The table of sessions.

use serde_json::{Value, json};

use super::Run;
use crate::metrics::ConsoleGroup;
use crate::metrics::metric::Statistic;
use crate::report::document::Table;

/// The statistics of each metric.
const STATISTICS: [&str; 7] = ["avg", "min", "p50", "p90", "p99", "max", "std"];

impl Run<'_> {
    /// Returns the statistics of sessions, if they have several turns.
    pub(super) fn sessions(&self) -> Option<Table> {
        let of_sessions = self
            .report
            .results
            .iter()
            .filter(|result| result.metric.group == ConsoleGroup::Sessions);
        let mut results: Vec<_> = of_sessions.collect();
        results.sort_by_key(|result| result.metric.order);
        let rows = results.iter().map(|result| {
            let title = json!(format!("{} ({})", result.metric.header, result.metric.display_unit));
            let value = |name: &&str| -> Value {
                let value = Statistic::named(name).and_then(|one| one.of(&result.stats));
                json!(value.filter(|value| value.is_finite()))
            };
            std::iter::once(title).chain(STATISTICS.iter().map(value)).collect()
        });
        let rows: Vec<Vec<Value>> = rows.collect();
        (!rows.is_empty()).then(|| Table {
            title: "Sessions".to_owned(),
            note: "All requests of a conversation and of those that it starts together; times and \
                   tokens are those of completed sessions."
                .to_owned(),
            columns: std::iter::once("Metric").chain(STATISTICS).map(str::to_owned).collect(),
            rows,
            requests: Vec::new(),
        })
    }
}
