//! `server_metrics_export.csv`: a table for each kind of series, for the profiling phase.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use client::server_family::SeriesKind;
use measure::server_metrics::report::{
    Buckets, CounterStats, GaugeStats, HistogramStats, MetricReport, SeriesReport,
    ServerMetricsReport, Stats,
};

use super::endpoint_ids::EndpointIds;
use super::members::{kind_name, whole};
use crate::artifacts::sections::{Sections, text};

const GAUGE: &[&str] =
    &["avg", "min", "max", "std", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"];
const COUNTER: &[&str] = &["total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std"];
const HISTOGRAM: &[&str] = &[
    "count",
    "count_rate",
    "sum",
    "sum_rate",
    "avg",
    "p1_estimate",
    "p5_estimate",
    "p10_estimate",
    "p25_estimate",
    "p50_estimate",
    "p75_estimate",
    "p90_estimate",
    "p95_estimate",
    "p99_estimate",
];

/// Columns before the statistics.
const BEFORE: &[&str] = &["Endpoint", "Type", "Metric", "Unit"];
/// Columns after the labels: those of histograms only, and of sections with a doubtful series.
const AFTER: [&str; 3] = ["Description", "buckets", "flags"];

/// Writes the sections that have rows, separated by an empty line.
pub(super) fn write(out: &mut dyn Write, report: &ServerMetricsReport) -> io::Result<()> {
    let ids = EndpointIds::from_urls(&report.summary.endpoints_successful);
    let mut sections = Sections::new(out);
    for (kind, statistics) in [
        (SeriesKind::Gauge, GAUGE),
        (SeriesKind::Counter, COUNTER),
        (SeriesKind::Histogram, HISTOGRAM),
        (SeriesKind::Unknown, GAUGE),
    ] {
        let section = Section::new(kind, statistics, &report.metrics);
        sections.write(section.header(), section.rows(&ids))?;
    }
    let header = ["Endpoint", "Metric", "Key", "Value", "Description"].map(str::to_owned);
    sections.write(header, info_rows(&report.metrics, &ids))
}

/// The series of one kind.
struct Section<'a> {
    kind: SeriesKind,
    statistics: &'static [&'static str],
    metrics: &'a [MetricReport],
    /// Labels and their columns, sorted by label.
    labels: BTreeMap<&'a str, String>,
    /// Whether any series is doubtful.
    has_flags: bool,
}

impl<'a> Section<'a> {
    fn new(
        kind: SeriesKind,
        statistics: &'static [&'static str],
        metrics: &'a [MetricReport],
    ) -> Self {
        let names: BTreeSet<&str> = series_of(metrics, kind)
            .flat_map(|(_, series)| series.labels.iter().map(|(name, _)| &**name))
            .collect();
        let fixed: BTreeSet<&str> =
            BEFORE.iter().chain(statistics).chain(&AFTER).copied().collect();
        let column = |name: &str| {
            let mut column = text(name);
            while fixed.contains(&*column) || (column != name && names.contains(&*column)) {
                column.insert_str(0, "label_");
            }
            column
        };
        let labels = names.iter().map(|name| (*name, column(name))).collect();
        let has_flags =
            series_of(metrics, kind).any(|(_, series)| !series.stats.flags().is_empty());
        Self { kind, statistics, metrics, labels, has_flags }
    }

    fn header(&self) -> impl Iterator<Item = String> {
        let fixed = BEFORE.iter().chain(self.statistics).map(ToString::to_string);
        let [description, buckets, flags] = AFTER;
        let buckets = (self.kind == SeriesKind::Histogram).then_some(buckets);
        let flags = self.has_flags.then_some(flags);
        let after = [Some(description), buckets, flags].into_iter().flatten().map(str::to_owned);
        fixed.chain(self.labels.values().cloned()).chain(after)
    }

    fn rows(&self, ids: &EndpointIds) -> impl Iterator<Item = Vec<String>> {
        series_of(self.metrics, self.kind).map(move |(metric, series)| {
            let mut row = vec![
                ids.of_url(&series.endpoint_url).to_string(),
                kind_name(metric.kind).to_owned(),
                metric.name.to_string(),
                metric.unit.as_deref().unwrap_or_default().to_owned(),
            ];
            statistics(&series.stats, &mut row);
            row.extend(self.labels.keys().map(|name| label(series, name).to_owned()));
            row.push(metric.description.to_string());
            if let Stats::Histogram(stats) = &series.stats {
                row.push(stats.buckets.as_ref().map(buckets).unwrap_or_default());
            }
            if self.has_flags {
                row.push(series.stats.flags().join(";"));
            }
            row
        })
    }
}

fn series_of(
    metrics: &[MetricReport],
    kind: SeriesKind,
) -> impl Iterator<Item = (&MetricReport, &SeriesReport)> {
    let metrics = metrics.iter().filter(move |metric| metric.kind == kind);
    metrics.flat_map(|metric| metric.series.iter().map(move |series| (metric, series)))
}

/// Returns the value of label `name`; empty if there is none.
fn label<'a>(series: &'a SeriesReport, name: &str) -> &'a str {
    let found = series.labels.binary_search_by(|(other, _)| (**other).cmp(name));
    found.map_or("", |at| &series.labels[at].1)
}

/// Returns one row for each label of each series.
fn info_rows(metrics: &[MetricReport], ids: &EndpointIds) -> impl Iterator<Item = Vec<String>> {
    series_of(metrics, SeriesKind::Info).flat_map(move |(metric, series)| {
        series.labels.iter().map(move |(key, value)| {
            [&ids.of_url(&series.endpoint_url), &metric.name, key, value, &metric.description]
                .map(ToString::to_string)
                .to_vec()
        })
    })
}

fn statistics(stats: &Stats, row: &mut Vec<String>) {
    match stats {
        Stats::Gauge(stats) => gauge(stats, row),
        Stats::Counter(stats) => counter(stats, row),
        Stats::Histogram(stats) => histogram(stats, row),
        // They do not have a section.
        Stats::Summary(_) => {}
    }
}

fn gauge(stats: &GaugeStats, row: &mut Vec<String>) {
    let GaugeStats { avg, min, max, std, percentiles, .. } = stats;
    row.extend([avg, min, max, std].into_iter().chain(percentiles).map(|value| number(*value)));
}

fn counter(stats: &CounterStats, row: &mut Vec<String>) {
    row.extend([stats.total, stats.rate].map(number));
    let rates = stats.slice_rates.map(|rates| [rates.avg, rates.min, rates.max, rates.std]);
    row.extend(rates.unwrap_or([f64::NAN; 4]).map(number));
}

/// Adds the cells of a histogram. Without observations there is only their count.
fn histogram(stats: &HistogramStats, row: &mut Vec<String>) {
    let HistogramStats { count, sum, count_rate, sum_rate, .. } = *stats;
    row.push(whole(count).to_string());
    if count > 0.0 {
        row.extend([count_rate, sum, sum_rate, sum / count].map(number));
        row.extend(stats.percentiles.unwrap_or([f64::NAN; 9]).map(number));
    } else {
        row.extend(HISTOGRAM[1..].iter().map(|_| String::new()));
    }
}

/// Formats `0.02=0;0.05=40;+Inf=40`.
fn buckets(buckets: &Buckets) -> String {
    let each: Vec<_> =
        buckets.iter().map(|(bound, count)| format!("{bound}={}", whole(*count))).collect();
    each.join(";")
}

/// Formats a number with four decimals; empty without a value.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.4}") } else { String::new() }
}
