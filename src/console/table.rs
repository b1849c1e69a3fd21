//! Tables of statistics and of errors.

use super::format::{count, number};
use super::layout::{Cell, Column, Table, numbers};
use super::style::Style;
use crate::metrics::metric::{Distribution, MetricResult, Stats};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::{ConsoleGroup, Metric, MetricFlags, ValueType};
use crate::redact::printable;
use crate::run::{ClientTables, ErrorCount, RunReport};

/// Headers longer than this have their unit on a separate line.
const LONGEST_ONE_LINE_HEADER: usize = 30;
/// Maximum length of an error message in the table, in characters.
const LONGEST_MESSAGE: usize = 300;

/// The statistics, and the order in which a narrow terminal does without them.
const STATISTICS: [(&str, u8); 7] =
    [("avg", 0), ("min", 2), ("max", 4), ("p99", 0), ("p90", 3), ("p50", 0), ("std", 1)];

/// The console groups that have tables, in display order, and the suffix of their titles.
const GROUPS: [(ConsoleGroup, Option<&str>); 11] = [
    (ConsoleGroup::Effective, Some("Effective")),
    (ConsoleGroup::Active, Some("Active")),
    (ConsoleGroup::Usage, Some("Usage")),
    (ConsoleGroup::Cache, Some("Cache")),
    (ConsoleGroup::Prediction, Some("Prediction")),
    (ConsoleGroup::Audio, Some("Audio")),
    (ConsoleGroup::Reasoning, Some("Reasoning")),
    (ConsoleGroup::Server, Some("Server")),
    (ConsoleGroup::Default, None),
    (ConsoleGroup::SpecDecode, Some("Speculative Decoding")),
    (ConsoleGroup::Sessions, Some("Sessions")),
];

/// The metric for the wait in the client before a request is sent.
const WAIT: MetricTag = tag::CREDIT_TO_START_LATENCY;

/// The metrics measured from the time that requests were due.
const FROM_DUE: [MetricTag; 3] = [WAIT, tag::EFFECTIVE_TIME_TO_FIRST_TOKEN, tag::EFFECTIVE_LATENCY];

/// Minimum wait for which the metrics measured from the due time are shown.
pub(super) const TELLING_WAIT_MS: f64 = 1.0;

/// A table of metrics and their statistics.
#[derive(Debug)]
pub(crate) struct SummaryTable<'a> {
    title: String,
    rows: Vec<&'a MetricResult>,
}

impl<'a> SummaryTable<'a> {
    /// The tables of `report` that have rows: one for each console group if `tables` has all, then
    /// HTTP timing if requested.
    #[must_use]
    pub(crate) fn shown(report: &'a RunReport, tables: ClientTables) -> Vec<Self> {
        let developer_mode = report.run.settings.developer_mode;
        let heading = report.run.endpoint.metrics_title;
        let of = |title: String, is_in: &dyn Fn(&Metric) -> bool| {
            let mut rows: Vec<_> =
                report.results.iter().filter(|result| is_in(result.metric)).collect();
            rows.sort_by_key(|result| result.metric.order.unwrap_or(u32::MAX));
            Self { title, rows }
        };
        let trace = report.run.tables.trace_timing.then(|| {
            of("aiperf | HTTP Trace Timing".to_owned(), &|metric| {
                metric.flags.contains(MetricFlags::HTTP_TRACE_ONLY)
                    && metric.order.is_some()
                    && metric.is_exported(developer_mode)
            })
        });
        let requests_waited = requests_waited(report);
        let is_shown = |metric: &Metric| {
            metric.is_on_console(developer_mode)
                && (requests_waited || !FROM_DUE.contains(&metric.tag))
        };
        let groups = if tables == ClientTables::All { GROUPS.as_slice() } else { &[] };
        let groups = groups.iter().map(|(group, suffix)| {
            let title = match suffix {
                Some(suffix) => format!("aiperf | {heading}: {suffix}"),
                None => format!("aiperf | {heading}"),
            };
            of(title, &|metric| metric.group == *group && is_shown(metric))
        });
        groups.chain(trace).filter(|table| !table.rows.is_empty()).collect()
    }

    /// Renders the table with its title above it.
    #[must_use]
    pub(crate) fn render(&self, style: Style) -> String {
        of_statistics(&self.title).rows(self.rows.iter().map(|result| row(result))).render(style)
    }
}

/// Whether a request waited in the client. Otherwise latencies from the due time are the same
/// as those from sending.
fn requests_waited(report: &RunReport) -> bool {
    let waits = report.results.iter().find(|result| result.metric.tag == WAIT);
    let longest = waits.and_then(|result| result.stats.distribution).map(|waits| waits.max);
    longest.is_some_and(|millis| millis >= TELLING_WAIT_MS)
}

/// Creates a table of metrics with their statistics.
pub(super) fn of_statistics(title: &str) -> Table {
    Table::new(title, [Column::label("Metric")].into_iter().chain(numbers(&STATISTICS)))
}

fn row(result: &MetricResult) -> [Cell; 8] {
    let Stats { avg, distribution, .. } = result.stats;
    let of = |field: fn(&Distribution) -> f64| number(distribution.as_ref().map(field)).into();
    [
        label(result.metric),
        whole(result).map_or_else(|| number(Some(avg)), count).into(),
        of(|d| d.min),
        of(|d| d.max),
        of(|d| d.p99),
        of(|d| d.p90),
        of(|d| d.p50),
        of(|d| d.std),
    ]
}

/// Returns the value of a metric that counts.
fn whole(result: &MetricResult) -> Option<u64> {
    let Stats { avg, distribution, .. } = result.stats;
    let counts = result.metric.value_type == ValueType::Int && distribution.is_none();
    (counts && avg >= 0.0 && avg.fract() == 0.0).then_some(avg as u64)
}

/// Returns the title of a metric with its unit.
pub(super) fn label(metric: &Metric) -> Cell {
    let separator = if metric.header.len() > LONGEST_ONE_LINE_HEADER { '\n' } else { ' ' };
    Cell::or(
        format!("{}{separator}({})", metric.header, metric.display_unit),
        format!("{} ({})", metric.short_header, metric.display_unit),
    )
}

/// Renders the table of errors.
pub(super) fn errors<'a>(errors: impl Iterator<Item = &'a ErrorCount>, style: Style) -> String {
    let rows = errors.map(|error| {
        let details = &error.error_details;
        let message = printable(&details.message);
        let shown: String = message.chars().take(LONGEST_MESSAGE).collect();
        let ellipsis = if shown.len() < message.len() { "…" } else { "" };
        [
            details.code.map_or_else(|| "N/A".to_owned(), |code| code.to_string()),
            printable(&details.name),
            format!("{shown}{ellipsis}"),
            count(error.count),
        ]
    });
    let columns = [
        Column::number("Code").spare(1),
        Column::label("Type"),
        Column::text("Message"),
        Column::number("Count"),
    ];
    Table::new("aiperf | Error Summary", columns).rows(rows).render(style)
}
