//! Tables of statistics and of errors.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table,
    TableStyle,
};

use super::format::{bounded, count, number};
use super::panel;
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

const COLUMNS: [&str; 8] = ["Metric", "avg", "min", "max", "p99", "p90", "p50", "std"];

/// Borders: heavy lines around the header, light ones around the rows.
const LINES: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('┏', '━', '┳', '┓'))
    .header_lines(ContentLineStyle::new('┃', '┃', '┃'))
    .header_separator(LineStyle::new('┡', '━', '╇', '┩'))
    .content_lines(ContentLineStyle::new('│', '│', '│'))
    .bottom_border(LineStyle::new('└', '─', '┴', '┘'));

/// The console groups that have tables, in display order, and the suffix of their titles.
const GROUPS: [(ConsoleGroup, Option<&str>); 10] = [
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
];

/// The metric for the wait in the client before a request is sent.
const WAIT: MetricTag = tag::CREDIT_TO_START_LATENCY;

/// The metrics measured from the time that requests were due.
const FROM_DUE: [MetricTag; 2] = [WAIT, tag::EFFECTIVE_LATENCY];

/// Minimum wait for which the metrics measured from the due time are shown.
const TELLING_WAIT_MS: f64 = 1.0;

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
        let rows = self.rows.iter().map(|result| row(result));
        figures(&self.title, COLUMNS, rows, style)
    }
}

/// Whether a request waited in the client. Otherwise latencies from the due time are the same
/// as those from sending.
fn requests_waited(report: &RunReport) -> bool {
    let waits = report.results.iter().find(|result| result.metric.tag == WAIT);
    let longest = waits.and_then(|result| result.stats.distribution).map(|waits| waits.max);
    longest.is_some_and(|millis| millis >= TELLING_WAIT_MS)
}

fn row(result: &MetricResult) -> [String; 8] {
    let Stats { avg, distribution, .. } = result.stats;
    let of = |field: fn(&Distribution) -> f64| number(distribution.as_ref().map(field));
    [
        label(result.metric),
        whole(result).map_or_else(|| number(Some(avg)), count),
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

pub(super) fn label(metric: &Metric) -> String {
    let separator = if metric.header.len() > LONGEST_ONE_LINE_HEADER { '\n' } else { ' ' };
    format!("{}{separator}({})", metric.header, metric.display_unit)
}

/// Renders the table of errors.
pub(super) fn errors(errors: &[ErrorCount], style: Style) -> String {
    let rows = errors.iter().map(|error| {
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
    let header = ["Code", "Type", "Message", "Count"];
    lined("aiperf | Error Summary", header, rows, style, |column| match column {
        2 => CellAlignment::Left,
        _ => CellAlignment::Right,
    })
}

/// Renders a table of right-aligned numbers with a title centred above it; without borders if words
/// of its first column would have to be broken otherwise.
#[must_use]
pub(crate) fn figures<R: IntoIterator<Item = String>>(
    title: &str,
    header: impl IntoIterator<Item: Into<String>>,
    rows: impl Iterator<Item = R>,
    style: Style,
) -> String {
    let title = &*bounded(title);
    let all_bounded = |row: &mut dyn Iterator<Item = String>| -> Vec<String> {
        row.map(|text| bounded(&text).into_owned()).collect()
    };
    let header = all_bounded(&mut header.into_iter().map(Into::into));
    let rows: Vec<Vec<String>> = rows.map(|row| all_bounded(&mut row.into_iter())).collect();
    let mut widths = narrowest(&header, &rows);
    let width = usize::from(style.width);
    let borders = 3 * header.len() + 1;
    let whole_heads = header.iter().map(|head| length(head)).skip(1);
    let lined_rest = widths.iter().skip(1).zip(whole_heads).map(|(width, head)| head.max(*width));
    if widths.first().unwrap_or(&0) + lined_rest.sum::<usize>() + borders <= width {
        return lined(title, header, rows.into_iter(), style, |_| CellAlignment::Right);
    }
    let rest: usize = widths.iter().skip(1).map(|width| width + 1).sum();
    if let Some(first) = widths.first_mut() {
        let longest = rows.iter().filter_map(|row| row.first()).map(|text| length(text)).max();
        *first = longest.unwrap_or(0).min(width.saturating_sub(rest)).max(*first);
    }
    let words = |text: &String| text.split(' ').map(str::to_owned).collect();
    let mut lines = unlined(&header.iter().map(words).collect::<Vec<_>>(), &widths, true);
    for row in &rows {
        let cells = row.iter().enumerate().map(|(at, text)| match at {
            0 => panel::wrapped(text, widths[0]),
            _ => vec![text.clone()],
        });
        lines.extend(unlined(&cells.collect::<Vec<_>>(), &widths, false));
    }
    let indent = (widths[0] + rest).saturating_sub(length(title)) / 2;
    format!("{:indent$}{}\n{}\n", "", style.bold(title), lines.join("\n"))
}

/// Returns the least widths of the columns: those of their longest cells and of the longest words in
/// their heads. In the first column, cells may be broken between words too.
pub(super) fn narrowest(header: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let longest_word = |text: &str| text.split(' ').map(length).max().unwrap_or(0);
    let width = |(at, head): (usize, &String)| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let cells = cells.map(|text| if at == 0 { longest_word(text) } else { length(text) });
        cells.chain([longest_word(head)]).max().unwrap_or(0)
    };
    header.iter().enumerate().map(width).collect()
}

/// The length of a text in characters.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the lines of a row, each of whose cells may have several, with columns of these widths;
/// short cells end `at_bottom`, or else begin at the top.
fn unlined(cells: &[Vec<String>], widths: &[usize], at_bottom: bool) -> Vec<String> {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let texts = cells.iter().zip(widths).map(|(cell, width)| {
            let above = if at_bottom { height - cell.len() } else { 0 };
            let text = number.checked_sub(above).and_then(|at| cell.get(at));
            format!("{:>width$}", text.map_or("", String::as_str))
        });
        texts.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// Renders a table with a title centred above it.
pub(super) fn lined<R: IntoIterator<Item = String>>(
    title: &str,
    header: impl IntoIterator<Item: Into<String>>,
    rows: impl Iterator<Item = R>,
    style: Style,
    alignment: impl Fn(usize) -> CellAlignment,
) -> String {
    let title = &*bounded(title);
    let cell = |(at, text): (usize, String)| Cell::new(bounded(&text)).set_alignment(alignment(at));
    let mut table = Table::new();
    table
        .load_style(LINES)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width)
        .set_header(header.into_iter().map(Into::into).enumerate().map(cell));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(cell));
    }
    // Numbers are never broken: what is too long is a label or a message.
    for (at, column) in table.column_iter_mut().enumerate() {
        if alignment(at) == CellAlignment::Right && at > 0 {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let body = table.trim_fmt();
    let width = body.lines().next().map_or(0, |line| line.chars().count());
    let indent = width.saturating_sub(title.chars().count()) / 2;
    format!("{:indent$}{}\n{body}\n", "", style.bold(title))
}
