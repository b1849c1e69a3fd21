//! The page and the charts of a run.

mod charts;
mod facts;
mod notices;
mod shown;

use std::path::Path;

use parquet::errors::ParquetError;

use super::document::{Document, Section};
use super::requests::{Request, Requests};
use super::sample::Sample;
use super::timeline::Intervals;
use crate::metrics::metric::MetricResult;
use crate::metrics::tag::{self, MetricTag};
use crate::run::RunReport;

/// Returns a value of a request.
pub(super) type ValueOf = fn(&Request) -> Option<f64>;

/// The latencies with a distribution, and their values.
pub(super) const LATENCIES: [(MetricTag, ValueOf); 3] = [
    (tag::TIME_TO_FIRST_TOKEN, |request| request.ttft),
    (tag::INTER_TOKEN_LATENCY, |request| request.itl),
    (tag::REQUEST_LATENCY, |request| request.latency),
];

/// A run whose requests have been read.
pub(super) struct Run<'a> {
    report: &'a RunReport,
    table: &'a Path,
    requests: Requests,
    sample: Sample,
    intervals: Intervals,
}

impl<'a> Run<'a> {
    /// Reads the requests of `report` from the `table`; a run without records has none.
    pub(super) fn read(report: &'a RunReport, table: &'a Path) -> Result<Self, ParquetError> {
        let requests = if table.exists() {
            Requests::read(table, report.outcome.start_wall_ns)?
        } else {
            Requests::default()
        };
        let sample = Sample::of(&requests.all);
        let end = requests.all.iter().map(Request::end).fold(0.0, f64::max);
        Ok(Self { report, table, requests, sample, intervals: Intervals::until(end) })
    }

    /// Returns the page.
    pub(super) fn document(&self) -> Result<Document, ParquetError> {
        let shown = self.shown()?;
        let mut sections = vec![
            Section::new("Latency", "", self.latencies()),
            Section::new(
                "Over time",
                format!(
                    "All charts share the time axis. Values are those of intervals of {}, each \
                     drawn from its start.",
                    self.intervals.described()
                ),
                self.timelines(),
            ),
            Section::new("Server", "Gauges that the server exposes.", self.server()),
            Section::new("Requests", self.about_sample(shown.has_all_arrivals), self.scatters()),
        ];
        if let Some(requests) = sections.last_mut() {
            requests.tables = self.request_tables();
        }
        sections.push(Section {
            tables: vec![self.statistics()],
            ..Section::new("Statistics", "", vec![])
        });
        sections.retain(|section| !section.is_empty());
        Ok(Document {
            title: self.title(),
            facts: self.facts(),
            notices: self.notices(),
            figures: self.figures(),
            sections,
            requests: shown.requests,
        })
    }

    fn result(&self, tag: MetricTag) -> Option<&MetricResult> {
        self.report.results.iter().find(|result| result.metric.tag == tag)
    }
}

/// Formats a value with four significant digits, or as a whole number.
pub(super) fn rounded(value: f64) -> String {
    let digits = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    let decimals = usize::try_from(4 - digits).unwrap_or(0).min(6);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}
