//! The paths of loads that followed the verdicts on their levels.

use serde_json::{Value, json};

use super::Run;
use crate::judge::AdaptivePath;
use crate::metrics::Registry;
use crate::report::document::Table;
use crate::setting::Named as _;

impl Run<'_> {
    /// Returns a table of the windows of each adaptive load.
    pub(super) fn adaptive(&self) -> Vec<Table> {
        self.report.outcome.adaptive.iter().map(|path| self.path(path)).collect()
    }

    fn path(&self, path: &AdaptivePath) -> Table {
        let origin = self.report.outcome.start_wall_ns;
        let judged = path.windows.iter().map(|window| &window.conditions);
        let judged = judged.max_by_key(|conditions| conditions.len());
        let conditions = judged.into_iter().flatten().map(|it| {
            let unit =
                Registry::row(it.condition.metric).map_or("", |row| row.display_unit.label());
            format!("{} {} {unit}", it.condition.metric, it.condition.statistic).trim().to_owned()
        });
        let conditions: Vec<String> = conditions.collect();
        let rows = path.windows.iter().map(|window| {
            let start = (window.start_ns as f64 - origin as f64) / 1e9;
            let observed = (0..conditions.len())
                .map(|at| json!(window.conditions.get(at).and_then(|it| it.observed)));
            let first: [Value; 5] = [
                json!(start),
                json!(window.seconds()),
                json!(window.level),
                json!(window.stage.name()),
                json!(window.requests.sent()),
            ];
            let verdict = json!(window.verdict.in_words());
            first.into_iter().chain(observed).chain([verdict]).collect()
        });
        let control = path.adaptive.control.name().replace('_', " ");
        let first = ["Start (s)", "Time (s)", &control, "Stage", "Requests"].map(str::to_owned);
        let last = "Verdict".to_owned();
        Table {
            title: format!("Adaptive load of {}", path.phase),
            note: format!("The windows in order: {}.", path.finding()),
            rows: rows.collect(),
            columns: first.into_iter().chain(conditions.iter().cloned()).chain([last]).collect(),
            requests: Vec::new(),
        }
    }
}
