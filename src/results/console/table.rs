//! Tables of statistics and of errors.

use base::redact::printable;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{ConsoleGroup, Metric, MetricFlags};

use super::layout::{self, Column};
use super::style::Style;
use crate::run::{ClientTables, ErrorCount, RunReport};
use crate::tables::format::count;
use crate::tables::{Table, of_metrics};

/// Maximum length of an error message in the table, in characters.
const LONGEST_MESSAGE: usize = 300;

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

/// Returns the tables of `report` that have rows: one for each console group if all were `asked` for,
/// then HTTP timing if requested.
pub(super) fn of_groups(report: &RunReport, asked: ClientTables) -> impl Iterator<Item = Table> {
    let developer_mode = report.run.settings.developer_mode;
    let heading = report.run.endpoint.metrics_title;
    let table = |title: String, is_in: &dyn Fn(&Metric) -> bool| {
        let mut rows: Vec<_> =
            report.results.iter().filter(|result| is_in(result.metric)).collect();
        rows.sort_by_key(|result| result.metric.order.unwrap_or(u32::MAX));
        of_metrics(title, rows.into_iter())
    };
    let trace = report.run.tables.trace_timing.then(|| {
        table("HTTP Trace Timing".to_owned(), &|metric| {
            metric.flags.contains(MetricFlags::HTTP_TRACE_ONLY)
                && metric.order.is_some()
                && metric.is_exported(developer_mode)
        })
    });
    let requests_waited = requests_waited(report);
    let is_shown = |metric: &Metric| {
        metric.is_on_console(developer_mode) && (requests_waited || !FROM_DUE.contains(&metric.tag))
    };
    let groups = if asked == ClientTables::All { GROUPS.as_slice() } else { &[] };
    let groups = groups.iter().map(|(group, suffix)| {
        let title = match suffix {
            Some(suffix) => format!("{heading}: {suffix}"),
            None => heading.to_owned(),
        };
        table(title, &|metric| metric.group == *group && is_shown(metric))
    });
    let all: Vec<Table> = groups.chain(trace).filter(|table| !table.rows.is_empty()).collect();
    all.into_iter()
}

/// Whether a request waited in the client. Otherwise latencies from the due time are the same
/// as those from sending.
fn requests_waited(report: &RunReport) -> bool {
    let waits = report.results.iter().find(|result| result.metric.tag == WAIT);
    let longest = waits.and_then(|result| result.stats.distribution).map(|waits| waits.max);
    longest.is_some_and(|millis| millis >= TELLING_WAIT_MS)
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
    layout::Table::new("aiperf | Error Summary", columns).rows(rows).render(style)
}
