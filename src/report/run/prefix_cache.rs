//! The table of the prefix cache.

use serde_json::json;

use super::Run;
use crate::console::prefix_cache::{lines, rows};
use crate::report::document::Table;

/// The titles of the columns after the first.
const COLUMNS: [&str; 6] = [
    "Requests",
    "Prompt tokens",
    "Repeated (%)",
    "Cached (%)",
    "Computed again (%)",
    "Mean time to first token (ms)",
];

impl Run<'_> {
    /// Returns what prompts repeat beside what the server read from its cache, if either is known.
    pub(super) fn prefix_cache(&self) -> Option<Table> {
        let cache = self.report.outcome.prefix_cache.as_ref()?;
        if cache.cached_ratio().is_none() && cache.total.expected_ratio == 0.0 {
            return None;
        }
        let percent = |ratio: Option<f64>| json!(ratio.map(|ratio| 100.0 * ratio));
        let rows = rows(cache).into_iter().map(|(name, of)| {
            vec![
                json!(name),
                json!(of.requests),
                json!(of.prompt_tokens),
                percent(Some(of.expected_ratio)),
                percent(of.cached_ratio),
                percent(of.repeated_prefill_ratio),
                json!(of.mean_ttft_ms),
            ]
        });
        let about =
            "Repeated is what a cache that started empty and kept everything would have found.";
        Some(Table {
            title: "Prefix cache".to_owned(),
            note: [about.to_owned()].into_iter().chain(lines(cache)).collect::<Vec<_>>().join(" "),
            columns: ["Prompts"].into_iter().chain(COLUMNS).map(str::to_owned).collect(),
            rows: rows.collect(),
            requests: Vec::new(),
        })
    }
}
