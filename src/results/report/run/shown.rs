//! The requests that the page shows one by one.

use std::collections::BTreeSet;

use parquet::errors::ParquetError;
use serde_json::json;

use measure::metrics::Registry;
use measure::metrics::tag::MetricTag;

use super::{LATENCIES, Run};
use crate::console::Term;
use crate::report::document::{Every, Measure, ShownRequest, ShownRequests, Table};
use crate::report::requests::{self, PHASES};
use crate::report::sample::MAX_ROWS;

/// The requests, and whether the arrivals of all are shown.
pub(super) struct Shown {
    pub(super) requests: ShownRequests,
    pub(super) has_all_arrivals: bool,
}

impl Run<'_> {
    /// Describes which requests the charts of single requests show, unless they show all.
    pub(super) fn about_sample(&self) -> String {
        let Some(group) = self.sample.group else { return String::new() };
        format!(
            "{} of {} requests: of each {group} consecutive ones the first, the fastest, the slowest \
             and the first failed one, and those of the tables",
            self.sample.shown.len(),
            self.requests.len(),
        )
    }

    pub(super) fn shown(&self) -> Result<Shown, ParquetError> {
        let mut by_row: Vec<(u64, usize)> = (0..)
            .zip(self.sample.shown.values())
            .map(|(place, request)| (request.row, place))
            .collect();
        by_row.sort_unstable();
        let rows: Vec<u64> = by_row.iter().map(|(row, _)| *row).collect();
        let in_tables: BTreeSet<u64> = self
            .sample
            .slowest
            .iter()
            .chain(&self.sample.failed)
            .map(|at| self.sample.shown[at].row)
            .collect();
        if rows.is_empty() {
            return Ok(Shown { requests: ShownRequests::default(), has_all_arrivals: true });
        }
        let (details, has_all_arrivals) =
            requests::details(self.table, &rows, |row| in_tables.contains(&row))?;
        let mut shown: Vec<Option<requests::Details>> = Vec::new();
        shown.resize_with(rows.len(), || None);
        for ((_, place), details) in by_row.into_iter().zip(details) {
            shown[place] = Some(details);
        }
        let rows = self.sample.shown.values().zip(shown).map(|(request, details)| {
            let details = details.unwrap_or_default();
            let class = request.class.map(|class| self.requests.classes[class as usize].clone());
            let facts = [
                ("Session", json!(details.session)),
                ("Turn", json!(details.turn)),
                ("Time to first token (ms)", json!(request.ttft)),
                ("Input tokens", json!(request.isl)),
                ("Output tokens", json!(request.osl)),
                ("Error", json!(details.error)),
            ];
            let facts = facts.into_iter().filter(|(_, value)| !value.is_null()).collect();
            let phases = details.phases;
            ShownRequest(
                details.id,
                request.start / 1e3,
                request.duration,
                class,
                phases,
                details.arrivals,
                facts,
                LATENCIES.iter().map(|(_, value_of)| value_of(request)).collect(),
            )
        });
        let requests = ShownRequests {
            phases: PHASES.iter().map(|(name, _)| *name).collect(),
            measures: LATENCIES.iter().filter_map(|(tag, _)| measure(*tag)).collect(),
            count: self.requests.len(),
            every: self.every(),
            rows: rows.collect(),
        };
        Ok(Shown { requests, has_all_arrivals })
    }

    /// Returns the first request of each group of consecutive ones, if only some are shown.
    fn every(&self) -> Option<Every> {
        let nth = self.sample.group?;
        let places = (0..).zip(self.sample.shown.keys());
        let rows = places.filter(|(_, at)| at.is_multiple_of(nth)).map(|(place, _)| place);
        Some(Every { nth, rows: rows.collect() })
    }

    pub(super) fn request_tables(&self) -> Vec<Table> {
        let places = self.places();
        let table = |title: &str, note: String, list: &[usize]| Table {
            title: title.to_owned(),
            note,
            columns: [
                "Start (s)",
                "Duration (ms)",
                "Time to first token (ms)",
                "Inter token latency (ms)",
                "Input tokens",
                "Output tokens",
                "Outcome",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: list
                .iter()
                .map(|at| {
                    let request = &self.sample.shown[at];
                    let outcome = request
                        .class
                        .map_or("successful", |class| &self.requests.classes[class as usize]);
                    vec![
                        json!(request.start / 1e3),
                        json!(request.latency.unwrap_or(request.duration)),
                        json!(request.ttft),
                        json!(request.itl),
                        json!(request.isl),
                        json!(request.osl),
                        json!(outcome),
                    ]
                })
                .collect(),
            requests: list.iter().filter_map(|at| places.get(at).copied()).collect(),
        };
        let failed = self.requests.failed();
        let some = if failed > MAX_ROWS {
            format!("The first {MAX_ROWS} of {failed}.")
        } else {
            String::new()
        };
        let mut tables = vec![
            table("Slowest requests", String::new(), &self.sample.slowest),
            table("Requests that did not succeed", some, &self.sample.failed),
        ];
        tables.retain(|table| !table.rows.is_empty());
        tables
    }
}

/// Returns what the page computes of the metric `tag` for some of the requests.
fn measure(tag: MetricTag) -> Option<Measure> {
    let metric = Registry::row(tag)?;
    let charts = [format!("{tag}_cdf"), format!("{tag}_histogram")];
    Some(Measure {
        title: Term::for_metric(metric).name,
        unit: Term::for_metric(metric).unit,
        charts,
    })
}
