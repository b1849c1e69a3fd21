//! Tables of the most important server metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::redact::printable;
use client::server_family::Statistic;
use measure::server_metrics::report::{SeriesReport, ServerMetricsReport};
use measure::server_metrics::watch::{self, WatchedMetric};

use super::layout::{Column, Table};
use super::style::Style;
use crate::tables::format::four_digits;

/// Maximum number of series of a metric that have a row; the others are only counted.
const MAX_SERIES: usize = 6;
/// Maximum length of the text of labels, in characters.
const LONGEST_LABELS: usize = 60;

/// Renders a table for each known server, or a line that there is none.
pub(super) fn render(report: Option<&ServerMetricsReport>, style: Style) -> String {
    let Some(report) = report else { return "Server metrics: none collected.\n\n".to_owned() };
    let mut text = String::new();
    for (family, metrics) in watch::families(report) {
        let rows: Vec<_> = metrics.iter().flat_map(rows).collect();
        text.push_str(&table(&format!("aiperf | Server Metrics: {}", family.title), rows, style));
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str(
            "Server metrics: no table, since no known server was found; the files have all \
             metrics.\n\n",
        );
    }
    text
}

/// Renders the table, without the series column if no metric has several series.
fn table(title: &str, rows: Vec<[String; 6]>, style: Style) -> String {
    let columns = [
        Column::name("Metric"),
        Column::text("Series"),
        Column::text("Statistic").spare(2),
        Column::number("Value"),
        Column::text("Unit").spare(3),
        Column::text("Meaning").spare(1),
    ];
    let has_series = rows.iter().any(|[_, series, ..]| !series.is_empty());
    let is_shown = |at: &usize| has_series || *at != 1;
    let shown = |cells: [String; 6]| {
        let cells = cells.into_iter().enumerate().filter(move |(at, _)| is_shown(at));
        cells.map(|(_, cell)| cell)
    };
    let columns = columns.into_iter().enumerate().filter(|(at, _)| is_shown(at));
    let columns = columns.map(|(_, column)| column);
    Table::new(title, columns).rows(rows.into_iter().map(shown)).render(style)
}

fn rows(shown: &WatchedMetric<'_>) -> Vec<[String; 6]> {
    let statistic = shown.watched.statistic;
    let unit = shown.watched.shown_unit().or(shown.metric.unit.as_deref());
    let unit = unit_of(statistic, unit);
    let line = |series: String, value: String, is_first: bool| {
        let once = |text: &str| if is_first { printable(text) } else { String::new() };
        let name = once(&shown.metric.name);
        [name, series, once(statistic.name()), value, once(&unit), once(shown.watched.meaning)]
    };
    let values = shown.values();
    let Some((one, _)) = values.first() else {
        return vec![line(String::new(), "N/A".to_owned(), true)];
    };
    let telling = telling_labels(&values);
    let is_one_endpoint = values.iter().all(|(series, _)| series.endpoint_url == one.endpoint_url);
    let first = values.iter().take(MAX_SERIES).enumerate();
    let mut rows: Vec<_> = first
        .map(|(at, (series, value))| {
            let value = shown.watched.shown(*value);
            line(name(series, &telling, !is_one_endpoint), marked(series, value), at == 0)
        })
        .collect();
    if let more @ 1.. = values.len().saturating_sub(MAX_SERIES) {
        rows.push(line(format!("{more} more, lower"), String::new(), false));
    }
    rows
}

/// The labels that distinguish the series: those that differ between series.
fn telling_labels<'a>(values: &[(&'a SeriesReport, f64)]) -> BTreeSet<&'a str> {
    let Some(((first, _), rest)) = values.split_first() else { return BTreeSet::new() };
    let is_common = |label: &&(Arc<str>, Arc<str>)| {
        rest.iter().all(|(series, _)| series.labels.contains(label))
    };
    let common: BTreeSet<&str> =
        first.labels.iter().filter(is_common).map(|(name, _)| &**name).collect();
    let names = values.iter().flat_map(|(series, _)| series.labels.iter());
    names.map(|(name, _)| &**name).filter(|name| !common.contains(name)).collect()
}

/// Formats the distinguishing labels as `endpoint, a=x, b=y`.
fn name(series: &SeriesReport, telling: &BTreeSet<&str>, with_endpoint: bool) -> String {
    let endpoint = with_endpoint.then(|| host(&series.endpoint_url).to_owned());
    let labels = series
        .labels
        .iter()
        // In Prometheus an empty label is the same as no label.
        .filter(|(name, value)| telling.contains(&**name) && !value.is_empty())
        .map(|(name, value)| format!("{name}={value}"));
    let text = printable(&endpoint.into_iter().chain(labels).collect::<Vec<_>>().join(", "));
    if text.chars().count() <= LONGEST_LABELS {
        return text;
    }
    text.chars().take(LONGEST_LABELS - 1).chain(['…']).collect()
}

/// The value, followed by its flags in brackets.
fn marked(series: &SeriesReport, value: f64) -> String {
    let flags = series.stats.flags();
    let figure = figure(value);
    if flags.is_empty() { figure } else { format!("{figure} ({})", flags.join(", ")) }
}

/// Host and port of a URL; the path is usually the same for all endpoints.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.strip_suffix("/metrics").unwrap_or(rest)
}

fn unit_of(statistic: Statistic, unit: Option<&str>) -> String {
    match (statistic, unit) {
        (Statistic::Rate, unit) => format!("{}/s", unit.unwrap_or_default()),
        (_, unit) => unit.unwrap_or_default().to_owned(),
    }
}

/// Formats a number with up to four significant digits and thousands separators.
fn figure(value: f64) -> String {
    let text = four_digits(value);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
