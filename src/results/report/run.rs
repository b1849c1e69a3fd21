//! The page and the charts of a run.

mod charts;
mod facts;
mod gpus;
mod notices;
mod shown;
mod stages;

use std::collections::BTreeSet;
use std::path::Path;

use parquet::errors::ParquetError;

use base::statistics::percentile::percentile_of;
use measure::metrics::ConsoleGroup;
use measure::metrics::metric::MetricResult;
use measure::metrics::tag::{self, MetricTag};

use super::chart::Chart;
use super::document::{Document, Section};
use super::gaps::Gaps;
use super::lanes::Lanes;
use super::plot::Charts;
use super::requests::{Request, Requests};
use super::sample::Sample;
use super::stages::Stages;
use super::timeline::Intervals;
use crate::run::RunReport;
use crate::tables;

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
    stages: Stages,
    /// The times between content events; absent without streaming.
    gaps: Option<Gaps>,
    /// What lanes did; absent without lanes.
    lanes: Option<Lanes>,
}

impl<'a> Run<'a> {
    /// Reads the requests of `report` from the `table`; a run without records has none.
    pub(super) fn read(report: &'a RunReport, table: &'a Path) -> Result<Self, ParquetError> {
        let requests = if table.exists() {
            Requests::read(table, report.outcome.start_wall_ns)?
        } else {
            Requests::default()
        };
        let sample = Sample::from_requests(&requests);
        let end = requests.iter().map(|request| request.end()).fold(0.0, f64::max);
        let durations = || requests.iter().map(|request| request.duration);
        let typical = percentile_of(durations, 50.0).unwrap_or(0.0);
        let intervals = Intervals::up_to(end, requests.len(), typical);
        let mut run = Self {
            report,
            table,
            requests,
            sample,
            intervals,
            stages: Stages::default(),
            gaps: None,
            lanes: None,
        };
        if run.result(tag::INTER_TOKEN_LATENCY).is_some() && table.exists() {
            run.gaps = Some(Gaps::read(table, report.outcome.start_wall_ns, intervals)?);
        }
        if report.outcome.replay.is_some() && table.exists() {
            run.lanes = Some(Lanes::read(table, report.outcome.start_wall_ns)?);
        }
        // Most servers do not report any.
        if run.result(tag::SERVER_UNATTRIBUTED_TIME).is_some() && table.exists() {
            let slowest = run.sample.slowest.iter().filter_map(|at| run.sample.shown.get(at));
            let rows: BTreeSet<u64> = slowest.map(|request| request.row).collect();
            run.stages = Stages::read(table, report.outcome.start_wall_ns, intervals, &rows)?;
        }
        Ok(run)
    }

    /// Returns the page.
    pub(super) fn document(&self) -> Result<Document, ParquetError> {
        let shown = self.shown()?;
        let mut sections = vec![
            Section::new("Latency", "", self.latencies()).with(self.error_bounds()),
            Section::new(
                "Over time",
                "All charts share the time axis and the intervals. A horizontal line is the value of an interval, \
                 and a point in its middle is a percentile of the requests that started in it.",
                self.timelines(),
            ),
            Section::new("Lanes", "", self.lanes()),
            Section::new(
                "Stages",
                "The time of each request by stage, as its server reports it.",
                self.stages(),
            )
            .with(self.stage_tables()),
        ];
        sections.extend(tables::of_run(self.report).into_iter().map(|table| {
            let charts = if table.title == tables::TURNS { self.turns() } else { Vec::new() };
            Section::new(table.title.clone(), "", charts).with([table])
        }));
        sections.extend(self.sessions().map(Section::from_table));
        sections.extend([
            Section::new("Server", "What the server reports about itself.", self.server()),
            Section::new("GPUs", "", vec![]).with(self.gpus()),
            Section::new("Requests", about_requests(shown.has_all_arrivals), self.scatters())
                .with(self.request_tables()),
            Section::new("Statistics", "", vec![]).with(vec![self.statistics()]),
        ]);
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

    /// Returns the charts that are drawn as pictures.
    pub(super) fn plots(&self) -> Charts {
        let charts = [
            self.latencies(),
            self.timelines(),
            self.lanes(),
            self.stages(),
            self.server(),
            self.scatters(),
            self.turns(),
            self.first_tokens(),
        ];
        let charts = charts.into_iter().flatten().filter(|chart| !chart.is_empty());
        Charts { subject: self.subject(), charts: charts.collect() }
    }

    /// Returns the statistics of sessions, if there are any.
    fn sessions(&self) -> Option<tables::Table> {
        let is_of = |result: &&MetricResult| result.metric.group == ConsoleGroup::Sessions;
        let mut results: Vec<_> = self.report.results.iter().filter(is_of).collect();
        results.sort_by_key(|result| result.metric.order);
        let table = tables::of_metrics("Sessions".to_owned(), results.into_iter());
        let note = "All requests of a conversation and of those that it starts together; times and \
                    tokens are those of completed sessions.";
        (!table.rows.is_empty()).then(|| tables::Table { note: note.to_owned(), ..table })
    }

    fn lanes(&self) -> Vec<Chart> {
        self.lanes.as_ref().and_then(Lanes::chart).into_iter().collect()
    }

    fn result(&self, tag: MetricTag) -> Option<&MetricResult> {
        self.report.results.iter().find(|result| result.metric.tag == tag)
    }
}

fn about_requests(has_all_arrivals: bool) -> String {
    let mut text = "Select a point or a row to see the phases of the request.".to_owned();
    if !has_all_arrivals {
        text += " The arrivals of tokens are shown for some requests only, to limit the size of the \
                 page.";
    }
    text
}
