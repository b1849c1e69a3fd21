//! What limits a run: its verdicts, its slowest requests, and what the server reported around them.

pub(super) mod causes;
mod growth;

use base::redact::printable;
use base::units::Nanos;
use client::server_family::SeriesKind;
use measure::metrics::metric::Observation;
use measure::metrics::silence::Gaps;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::time_breakdown::TimeBreakdown;
use measure::multi_run::GroupResults;
use measure::server_metrics::report::{MetricReport, ServerMetrics};
use measure::server_metrics::store::{EndpointStore, Values};
use measure::server_metrics::watch;

use super::layout::{Cell, Column, Table};
use super::panel;
use super::screen::LINES;
use super::style::Style;
use super::{failed, headline, run};
use crate::run::RunReport;
use crate::tables::format::{four_digits, number};

/// The metrics of a slow request that are shown if any has them: title, order of being left out, and
/// whether they are times, which are in milliseconds.
const OF_REQUEST: [(MetricTag, &str, u8, bool); 9] = [
    (tag::REQUEST_LATENCY, "latency", 0, true),
    (tag::TIME_TO_FIRST_TOKEN, "TTFT", 0, true),
    (tag::SERVER_QUEUE_TIME, "queue", 0, true),
    (tag::SERVER_QUEUE_AND_PREFILL_TIME, "queue+prefill", 0, true),
    (tag::SERVER_PREFILL_TIME, "prefill", 0, true),
    (tag::SERVER_DECODE_TIME, "decode", 3, true),
    (tag::SERVER_PREFILL_AND_DECODE_TIME, "prefill+decode", 4, true),
    (tag::INPUT_SEQUENCE_LENGTH, "input tokens", 1, false),
    (tag::OUTPUT_SEQUENCE_LENGTH, "output tokens", 2, false),
];

/// What causes are found by of a successful request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    start_wall_ns: u64,
    latency_ns: f64,
    /// The longest time between two of its events, and the number of events before it.
    longest_gap: Option<(f64, usize)>,
}

impl Request {
    /// Returns that of a request; `None` if it failed.
    pub fn from_observation(observation: &Observation) -> Option<Self> {
        Some(Self {
            start_wall_ns: observation.start_wall_ns,
            latency_ns: observation.values.scalar(tag::REQUEST_LATENCY)?,
            longest_gap: Gaps::between_events(observation).and_then(|gaps| gaps.longest()),
        })
    }
}

/// One of the slowest requests.
#[derive(Debug, Clone)]
pub struct Slow {
    start_wall_ns: u64,
    end_wall_ns: u64,
    /// The values of [`OF_REQUEST`], in the units of memory.
    values: [Option<f64>; OF_REQUEST.len()],
    longest_gap_ns: Option<f64>,
}

impl Slow {
    /// Returns what is shown of a request.
    pub fn from_observation(observation: &Observation) -> Self {
        Self {
            start_wall_ns: observation.start_wall_ns,
            end_wall_ns: observation.end_wall_ns,
            values: OF_REQUEST.map(|(tag, ..)| observation.values.scalar(tag)),
            longest_gap_ns: Gaps::between_events(observation)
                .and_then(|gaps| gaps.longest())
                .map(|(gap, _)| gap),
        }
    }

    /// Returns its latency in nanoseconds; 0 if it has none.
    pub fn latency_ns(&self) -> f64 {
        self.values.first().copied().flatten().unwrap_or(0.0)
    }
}

/// Returns the causes of the results of a run with these successful `requests`, the one that limits the
/// throughput first.
#[must_use]
pub fn causes(report: &RunReport, requests: &[Request]) -> Vec<String> {
    causes::causes(report, requests)
}

/// Renders what limits a run with these successful `requests`, of which `slow` are the slowest, the slowest
/// first.
#[must_use]
pub fn explained(report: &RunReport, requests: &[Request], slow: &[Slow], style: Style) -> String {
    let width = style.width.into();
    let (mut text, stated) = if failed::has_failed(report) {
        (failed::render(report, style).fitted(LINES), &failed::STATED[..])
    } else {
        (headline::header(report, style), &[][..])
    };
    text.push('\n');
    let lines = causes(report, requests).into_iter().chain(largest_part(report));
    for line in lines.flat_map(|line| panel::wrapped(&line, width)) {
        text.push_str(&line);
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&run::details(report, stated, style));
    if !slow.is_empty() {
        text.push_str(&slowest(report, slow, style));
        text.push('\n');
        if let Some(metrics) = &report.server_metrics {
            text.push_str(&around(metrics, slow, style));
        }
    }
    text
}

/// Renders what the results of several runs show together, and what limits each of them, which has a name
/// and causes.
#[must_use]
pub fn explained_runs(
    results: &GroupResults,
    runs: &[(String, Vec<String>)],
    style: Style,
) -> String {
    let mut text = String::new();
    for cause in causes::of_group(results) {
        text.push_str(&panel::wrapped(&cause, style.width.into()).join("\n"));
        text.push_str("\n\n");
    }
    for (name, causes) in runs {
        text.push_str(&printable(name));
        text.push('\n');
        let width = usize::from(style.width).saturating_sub(2);
        for line in causes.iter().flat_map(|cause| panel::wrapped(cause, width)) {
            text.push_str("  ");
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// States which part of the mean latency is the largest, or why it is not known.
fn largest_part(report: &RunReport) -> Option<String> {
    let division = match report.outcome.time_breakdown.as_ref()? {
        TimeBreakdown::Found(division) => division,
        TimeBreakdown::None { reason, .. } => {
            return Some(format!(
                "Which part of the latency is the largest is not known: {reason}."
            ));
        }
    };
    let latency = division.get(tag::REQUEST_LATENCY)?;
    let part = latency.parts.iter().max_by(|a, b| a.mean_ms.total_cmp(&b.mean_ms))?;
    Some(format!(
        "Of the mean request latency of {} ms, the largest part is {}: {} ms ({:.0}%).",
        four_digits(latency.mean_ms),
        part.stage.title(),
        four_digits(part.mean_ms),
        100.0 * part.mean_ms / latency.mean_ms
    ))
}

/// Renders the slowest requests beside the mean of all.
fn slowest(report: &RunReport, slow: &[Slow], style: Style) -> String {
    let shown: Vec<usize> = (0..OF_REQUEST.len())
        .filter(|at| slow.iter().any(|it| it.values.get(*at).copied().flatten().is_some()))
        .collect();
    let start = report.outcome.start_wall_ns;
    let mut columns = vec![Column::label("Request"), Column::number("start (s)").spare(5)];
    columns.extend(
        shown
            .iter()
            .filter_map(|at| OF_REQUEST.get(*at))
            .map(|(_, name, order, _)| Column::number(*name).spare(*order)),
    );
    let has_gaps = slow.iter().any(|it| it.longest_gap_ns.is_some());
    columns.extend(has_gaps.then(|| Column::number("longest gap").or("gap").spare(1)));
    let row = |(at, one): (usize, &Slow)| {
        let began = Nanos(one.start_wall_ns.saturating_sub(start)).as_seconds();
        let values = shown.iter().map(|at| {
            let value = one.values.get(*at).copied().flatten();
            let is_time = OF_REQUEST.get(*at).is_some_and(|(.., is_time)| *is_time);
            let unit = if is_time { 1e6 } else { 1.0 };
            value.map_or_else(String::new, |value| four_digits(value / unit))
        });
        let gap = one.longest_gap_ns.map_or_else(String::new, |gap| four_digits(gap / 1e6));
        let row = [format!("{}", at + 1), number(Some(began))].into_iter().chain(values);
        row.chain(has_gaps.then_some(gap)).collect::<Vec<_>>()
    };
    let mean = shown
        .iter()
        .filter_map(|at| OF_REQUEST.get(*at))
        .map(|(tag, ..)| report.average(*tag).map_or_else(String::new, four_digits));
    let mean = ["mean of all".to_owned(), String::new()].into_iter().chain(mean);
    let mean = mean.chain(has_gaps.then(String::new)).collect();
    let rows = slow.iter().enumerate().map(row).chain([mean]);
    Table::new("aiperf | Slowest Requests (times in ms)", columns).rows(rows).render(style)
}

/// Renders the highest value of each of the server's important gauges while the slowest requests ran,
/// beside the mean over the run.
fn around(metrics: &ServerMetrics, slow: &[Slow], style: Style) -> String {
    let families = watch::families(&metrics.report);
    let gauges = families.iter().flat_map(|(_, shown)| shown);
    let gauges = gauges.filter(|shown| shown.metric.kind == SeriesKind::Gauge);
    let rows: Vec<Vec<Cell>> = gauges
        .map(|shown| {
            let series = &shown.metric.series;
            let mean = series.iter().filter_map(|series| series.stats.named("avg"));
            let text = |value| four_digits(shown.watched.shown(value));
            let mean = mean.max_by(f64::total_cmp).map_or_else(String::new, text);
            let at = slow.iter().map(|one| {
                let value = highest(metrics.store.endpoints(), shown.metric, one);
                value.map_or_else(|| "-".to_owned(), text).into()
            });
            let unit = shown.watched.shown_unit().map(|unit| format!(" ({unit})"));
            let name = printable(&shown.metric.name) + &unit.unwrap_or_default();
            let name = Cell::from(name);
            [name, mean.into()].into_iter().chain(at).collect()
        })
        .collect();
    if rows.is_empty() {
        return "No metrics of the server were scraped that show its load.\n".to_owned();
    }
    let columns = [Column::name("Metric"), Column::number("mean of run").or("mean")];
    let of_requests = (1..=slow.len()).map(|at| Column::number(format!("{at}")));
    let title = "aiperf | Server, highest values while they ran";
    Table::new(title, columns.into_iter().chain(of_requests)).rows(rows).render(style)
}

/// Returns the highest value of a gauge's series while a request ran, including that of the scrape
/// before it.
fn highest(endpoints: &[EndpointStore], metric: &MetricReport, during: &Slow) -> Option<f64> {
    let queue_of = |endpoint: &EndpointStore| {
        let times = || endpoint.scrapes().iter().map(|scrape| scrape.first_byte_ns);
        let from = times().rposition(|at| at <= during.start_wall_ns).unwrap_or(0);
        let until = times().filter(|at| *at <= during.end_wall_ns).count();
        let named = endpoint.families.iter();
        let families =
            named.filter(|family| family.name == metric.name && family.kind == metric.kind);
        let values = families.flat_map(|family| &family.series).filter_map(|series| {
            let Values::Number(column) = &series.values else { return None };
            column.iter(from..until.max(from)).map(|(_, value)| value).max_by(f64::total_cmp)
        });
        values.max_by(f64::total_cmp)
    };
    endpoints.iter().filter_map(queue_of).max_by(f64::total_cmp)
}
