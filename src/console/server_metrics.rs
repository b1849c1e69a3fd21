//! Tables of the most important server metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use comfy_table::CellAlignment;

use super::{Style, count, four_digits, printable, table};
use crate::redact::ShownUrl;
use crate::server_metrics::report::{Edges, EndpointInfo, SeriesReport, ServerMetricsReport};
use crate::server_metrics::watch::{self, Found, Statistic};

/// Maximum number of series of a metric that have a row; the others are only counted.
const MAX_SERIES: usize = 6;
/// Maximum length of the text of labels, in characters.
const LONGEST_LABELS: usize = 60;

/// Renders a table for each known server, or a line that there is none.
pub(super) fn render(report: Option<&ServerMetricsReport>, style: Style) -> String {
    let Some(report) = report else { return "Server metrics: none collected.\n\n".to_owned() };
    let mut text = String::new();
    for (server, found) in watch::servers(report) {
        let rows: Vec<_> = found.iter().flat_map(rows).collect();
        text.push_str(&table(&format!("aiperf | Server Metrics: {}", server.name), rows, style));
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

/// The problems that make statistics doubtful, by endpoint.
pub(super) fn doubts(report: &ServerMetricsReport) -> Vec<String> {
    let of = |(url, info): &(ShownUrl, EndpointInfo)| {
        let mut doubts = Vec::new();
        let asked = info.total_fetches + info.failed_fetches;
        if info.failed_fetches > 0 {
            doubts.push(format!(
                "{url}: {} of {} scrapes failed; statistics cover the others.",
                count(info.failed_fetches),
                count(asked)
            ));
        }
        let edges = info.profiling.unwrap_or(Edges {
            has_exact_start: true,
            has_exact_end: true,
            ..Edges::default()
        });
        for (is_exact, edge, flag) in [
            (edges.has_exact_start, "start", "inexact_start"),
            (edges.has_exact_end, "end", "inexact_end"),
        ] {
            if !is_exact {
                doubts.push(format!(
                    "{url}: no scrape at the {edge} of the measurement; totals may be too high or \
                     too low ({flag})."
                ));
            }
        }
        for (flag, meaning) in [
            ("reset", "reset to 0; total_with_resets has the full total"),
            ("large_first_value", "appeared with a large value, which is excluded from rates"),
            (
                "late_increase",
                "increased after the measurement, maybe because of others' requests; late_increase \
                 has by how much",
            ),
        ] {
            let all = report.metrics.iter().flat_map(|metric| &metric.series);
            let flagged = all.filter(|series| series.endpoint_url == *url);
            match flagged.filter(|series| series.stats.flags().contains(&flag)).count() as u64 {
                0 => {}
                1 => doubts.push(format!("{url}: one series {meaning} ({flag}).")),
                several => {
                    doubts.push(format!("{url}: {} series {meaning} ({flag}).", count(several)));
                }
            }
        }
        doubts
    };
    report.summary.endpoint_info.iter().flat_map(of).collect()
}

/// Renders the table, without the series column if no metric has several series.
fn table(title: &str, rows: Vec<[String; 6]>, style: Style) -> String {
    const VALUE: usize = 3;
    let right_at = |value, column| {
        if column == value { CellAlignment::Right } else { CellAlignment::Left }
    };
    let header = ["Metric", "Series", "Statistic", "Value", "Unit", "Meaning"];
    if rows.iter().any(|[_, series, ..]| !series.is_empty()) {
        return table::lined(title, header, rows.into_iter(), style, |at| right_at(VALUE, at));
    }
    let rows = rows.into_iter().map(without_series);
    table::lined(title, without_series(header), rows, style, |at| right_at(VALUE - 1, at))
}

fn without_series<T>([metric, _, statistic, value, unit, meaning]: [T; 6]) -> [T; 5] {
    [metric, statistic, value, unit, meaning]
}

fn rows(found: &Found<'_>) -> Vec<[String; 6]> {
    let statistic = found.watched.statistic;
    let unit = unit(statistic, found.metric.unit.as_deref());
    let line = |series: String, value: String, is_first: bool| {
        let once = |text: &str| if is_first { printable(text) } else { String::new() };
        let name = once(&found.metric.name);
        [name, series, once(statistic.name()), value, once(&unit), once(found.watched.meaning)]
    };
    let values = found.values();
    let Some((first, _)) = values.first() else {
        return vec![line(String::new(), "N/A".to_owned(), true)];
    };
    let telling = telling_labels(&values);
    let is_one_endpoint =
        values.iter().all(|(series, _)| series.endpoint_url == first.endpoint_url);
    let shown = values.iter().take(MAX_SERIES).enumerate();
    let mut rows: Vec<_> = shown
        .map(|(at, (series, value))| {
            line(name(series, &telling, !is_one_endpoint), marked(series, *value), at == 0)
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

fn unit(statistic: Statistic, unit: Option<&str>) -> String {
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
mod tests {
    use super::*;
    use crate::server_metrics::report::{
        CounterStats, GaugeStats, HistogramStats, MetricReport, Resets, Stats,
    };
    use crate::server_metrics::snapshot::Kind;

    fn series(endpoint: &str, labels: &[(&str, &str)], stats: Stats) -> SeriesReport {
        let labels = labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value)));
        SeriesReport { endpoint_url: endpoint.into(), labels: labels.collect(), stats }
    }

    fn gauge(max: f64) -> Stats {
        Stats::Gauge(GaugeStats { max, ..GaugeStats::default() })
    }

    fn metric(name: &str, kind: Kind, unit: &str, series: Vec<SeriesReport>) -> MetricReport {
        MetricReport {
            name: Arc::from(name),
            kind,
            description: Arc::from(""),
            unit: Some(Arc::from(unit)),
            series,
        }
    }

    fn text(metrics: Vec<MetricReport>) -> String {
        let report = ServerMetricsReport { metrics, ..ServerMetricsReport::default() };
        render(Some(&report), Style::FILE)
    }

    /// The line that contains `part`.
    fn line<'a>(text: &'a str, part: &str) -> &'a str {
        text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} in\n{text}"))
    }

    const A: &str = "http://a:8000/metrics";

    #[test]
    fn numbers_have_four_significant_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.012_345_6, "0.01235"),
            (0.5, "0.5"),
            (12.345_6, "12.35"),
            (999.96, "1000"),
            (123_456.7, "123,457"),
            (-1234.5, "-1,234"),
            (1e-7, "1.000e-7"),
            (1e300, "1.000e300"),
            (f64::NAN, "N/A"),
        ];
        for (value, expected) in cases {
            assert_eq!(figure(value), expected, "{value}");
        }
    }

    #[test]
    fn series_are_told_apart_by_what_differs() {
        let labels = |engine| [("engine", engine), ("model_name", "tiny")];
        let of = |endpoint, engine, max| series(endpoint, &labels(engine), gauge(max));
        let text = text(vec![metric(
            "vllm:num_requests_waiting",
            Kind::Gauge,
            "requests",
            vec![of(A, "0", 2.0), of(A, "1", 7.0), of("http://b:8000/metrics", "0", 1.0)],
        )]);
        assert!(text.contains("aiperf | Server Metrics: vLLM"), "{text}");
        let first = line(&text, "vllm:num_requests_waiting");
        assert!(first.contains("a:8000, engine=1") && first.contains(" 7 │"), "{text}");
        assert!(first.contains("max") && first.contains("requests"), "{text}");
        assert!(line(&text, "b:8000, engine=0").contains(" 1 │"), "{text}");
        assert!(!text.contains("tiny"), "{text}");
    }

    #[test]
    fn a_single_series_needs_no_name_and_a_rate_is_per_second() {
        let stats = Stats::Counter(CounterStats { rate: 1234.5, ..CounterStats::default() });
        let of = vec![series(A, &[("model_name", "tiny")], stats)];
        let text = text(vec![metric("vllm:generation_tokens", Kind::Counter, "tokens", of)]);
        let row = line(&text, "vllm:generation_tokens");
        assert!(row.contains("1,234") && row.contains("tokens/s"), "{text}");
        assert!(!row.contains("tiny") && !row.contains("a:8000"), "{text}");
    }

    #[test]
    fn rows_are_bounded_and_the_rest_is_counted() {
        let many =
            (0..40).map(|at| series(A, &[("reason", &format!("r{at}"))], gauge(f64::from(at))));
        let name = "vllm:num_requests_waiting_by_reason";
        let text = text(vec![metric(name, Kind::Gauge, "requests", many.collect())]);
        assert!(text.contains("reason=r39") && text.contains("reason=r34"), "{text}");
        assert!(!text.contains("reason=r33") && text.contains("34 more, lower"), "{text}");
    }

    #[test]
    fn an_empty_histogram_has_no_value_and_nothing_steers_the_terminal() {
        let empty = Stats::Histogram(HistogramStats::default());
        let hostile = |value: &str| series(A, &[("reason", value)], gauge(1.0));
        let text = text(vec![
            metric(
                "vllm:time_to_first_token_seconds",
                Kind::Histogram,
                "s\x1b[2J",
                vec![series(A, &[], empty)],
            ),
            metric(
                "vllm:num_requests_waiting_by_reason",
                Kind::Gauge,
                "requests",
                vec![hostile("\x1b[31mred"), hostile(&"long".repeat(100))],
            ),
        ]);
        assert!(line(&text, "vllm:time_to_first_token_seconds").contains("N/A"), "{text}");
        assert!(!text.contains('\x1b') && text.contains('…'), "{text}");
    }

    #[test]
    fn a_column_of_series_is_there_where_a_metric_has_several() {
        let of = |names: &[&str]| {
            let several = names.iter().map(|name| series(A, &[("engine", name)], gauge(1.0)));
            let name = "vllm:num_requests_waiting";
            text(vec![metric(name, Kind::Gauge, "requests", several.collect())])
        };
        assert!(line(&of(&["0", "1"]), "Statistic").contains("Series"));
        assert!(!line(&of(&["0"]), "Statistic").contains("Series"));
    }

    #[test]
    fn labels_without_a_value_are_not_named() {
        let of = |error| series(A, &[("error", error), ("status", "x")], gauge(1.0));
        let several = vec![of(""), of("late")];
        let text = text(vec![metric("vllm:num_requests_waiting", Kind::Gauge, "", several)]);
        assert!(text.contains("error=late") && !text.contains("error= "), "{text}");
    }

    #[test]
    fn what_makes_numbers_doubtful_is_marked_and_said() {
        let anew = CounterStats {
            rate: 2.5,
            resets: Some(Resets { reset_count: 1, total_with_resets: 9.0 }),
            ..CounterStats::default()
        };
        let metrics = vec![metric(
            "vllm:generation_tokens",
            Kind::Counter,
            "tokens",
            vec![series(A, &[], Stats::Counter(anew))],
        )];
        assert!(line(&text(metrics.clone()), "generation").contains("2.5 (reset)"));
        let edges = Edges { has_exact_start: false, has_exact_end: true, ..Edges::default() };
        let info = EndpointInfo {
            total_fetches: 1200,
            failed_fetches: 34,
            profiling: Some(edges),
            ..EndpointInfo::default()
        };
        let mut report = ServerMetricsReport { metrics, ..ServerMetricsReport::default() };
        report.summary.endpoint_info = vec![(A.into(), info)];
        assert_eq!(
            doubts(&report),
            [
                "http://a:8000/metrics: 34 of 1,234 scrapes failed; statistics cover the others.",
                "http://a:8000/metrics: no scrape at the start of the measurement; \
                 totals may be too high or too low (inexact_start).",
                "http://a:8000/metrics: one series reset to 0; total_with_resets has the full \
                 total (reset).",
            ]
        );
    }

    #[test]
    fn without_a_table_a_line_says_so() {
        let unknown = text(vec![metric("up", Kind::Gauge, "", vec![series(A, &[], gauge(1.0))])]);
        assert!(unknown.starts_with("Server metrics: no table"), "{unknown}");
        assert!(render(None, Style::FILE).starts_with("Server metrics: none collected"));
    }
}
