//! How many of the tokens that a server drafts with speculative decoding it accepts.

use std::collections::BTreeMap;

use super::report::ServerMetricsReport;
use crate::redact::ShownUrl;

/// The acceptance of drafts by one endpoint in the profiling phase.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Acceptance {
    pub(crate) endpoint_url: ShownUrl,
    /// Accepted tokens per drafted token.
    pub(crate) rate: Option<f64>,
    /// Mean tokens per step: the accepted ones, and the one that the model itself adds.
    pub(crate) length: Option<f64>,
    /// Share of the drafts whose token at each position, counted from 0, is accepted.
    pub(crate) by_position: Vec<(u64, f64)>,
}

/// Names of vLLM's counters, without `_total`. Their totals over all series of an endpoint are
/// those of all its engines and models.
const DRAFTS: &str = "vllm:spec_decode_num_drafts";
const DRAFTED: &str = "vllm:spec_decode_num_draft_tokens";
const ACCEPTED: &str = "vllm:spec_decode_num_accepted_tokens";
const ACCEPTED_AT: &str = "vllm:spec_decode_num_accepted_tokens_per_pos";
/// The label of a position in a draft.
const POSITION: &str = "position";

/// Names of SGLang's gauges.
const LENGTH: &str = "sglang:spec_accept_length";
const RATE: &str = "sglang:spec_accept_rate";

/// Returns the acceptance of each endpoint that drafted tokens in the profiling phase.
pub(crate) fn acceptance(report: &ServerMetricsReport) -> Vec<Acceptance> {
    let endpoints = report.summary.endpoints_successful.iter();
    endpoints
        .filter_map(|url| by_counters(report, url).or_else(|| by_gauges(report, url)))
        .collect()
}

fn by_counters(report: &ServerMetricsReport, url: &ShownUrl) -> Option<Acceptance> {
    let total = |name| values(report, url, name, "total").map(|(_, total)| total).sum::<f64>();
    let drafts = Some(total(DRAFTS)).filter(|drafts| *drafts > 0.0)?;
    let (drafted, accepted) = (total(DRAFTED), total(ACCEPTED));
    let mut by_position = BTreeMap::new();
    for (position, accepted) in values(report, url, ACCEPTED_AT, "total") {
        if let Some(position) = position {
            *by_position.entry(position).or_insert(0.0) += accepted / drafts;
        }
    }
    Some(Acceptance {
        endpoint_url: url.clone(),
        rate: (drafted > 0.0).then(|| accepted / drafted),
        length: Some(1.0 + accepted / drafts),
        by_position: by_position.into_iter().collect(),
    })
}

/// The means of the gauges, which are 0 while nothing is drafted.
fn by_gauges(report: &ServerMetricsReport, url: &ShownUrl) -> Option<Acceptance> {
    let mean = |name| {
        let values = values(report, url, name, "avg").map(|(_, mean)| mean);
        let values: Vec<f64> = values.filter(|mean| *mean > 0.0).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (rate, length) = (mean(RATE), mean(LENGTH));
    (rate.is_some() || length.is_some()).then(|| Acceptance {
        endpoint_url: url.clone(),
        rate,
        length,
        by_position: Vec::new(),
    })
}

/// Iterates over a statistic of the series of a metric of an endpoint, each with its position in a
/// draft if it has one.
fn values<'a>(
    report: &'a ServerMetricsReport,
    url: &'a ShownUrl,
    name: &'a str,
    statistic: &'a str,
) -> impl Iterator<Item = (Option<u64>, f64)> + 'a {
    let is_it = move |found: &str| found.strip_suffix("_total").unwrap_or(found) == name;
    let metrics = report.metrics.iter().filter(move |metric| is_it(&metric.name));
    let series = metrics.flat_map(|metric| &metric.series);
    series.filter(move |series| series.endpoint_url == *url).filter_map(move |series| {
        let position = series.labels.iter().find(|(label, _)| &**label == POSITION);
        let position = position.and_then(|(_, position)| position.parse().ok());
        Some((position, series.stats.named(statistic)?))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::server_metrics::report::{
        CounterStats, GaugeStats, MetricReport, SeriesReport, Stats, Summary,
    };
    use crate::server_metrics::snapshot::Kind;

    const URL: &str = "http://a/metrics";

    fn report(metrics: Vec<MetricReport>) -> ServerMetricsReport {
        let summary = Summary { endpoints_successful: vec![URL.into()], ..Summary::default() };
        ServerMetricsReport { summary, metrics, ..ServerMetricsReport::default() }
    }

    fn metric(name: &str, kind: Kind, series: Vec<(&str, Stats)>) -> MetricReport {
        let series = series.into_iter().map(|(position, stats)| SeriesReport {
            endpoint_url: URL.into(),
            labels: [(Arc::from(POSITION), Arc::from(position))].into(),
            stats,
        });
        MetricReport {
            name: name.into(),
            kind,
            description: "".into(),
            unit: None,
            series: series.collect(),
        }
    }

    fn counters(name: &str, totals: &[(&'static str, f64)]) -> MetricReport {
        let stats = |total| Stats::Counter(CounterStats { total, ..CounterStats::default() });
        let series = totals.iter().map(|(position, total)| (*position, stats(*total)));
        metric(name, Kind::Counter, series.collect())
    }

    /// 10 drafts of 3 tokens: 9, 6 and 3 accepted at the positions, 18 of 30 in all.
    #[test]
    fn vllms_counters_are_added_up() {
        let found = acceptance(&report(vec![
            counters("vllm:spec_decode_num_drafts", &[("", 4.0), ("", 6.0)]),
            counters("vllm:spec_decode_num_draft_tokens_total", &[("", 30.0)]),
            counters("vllm:spec_decode_num_accepted_tokens", &[("", 18.0)]),
            counters(
                "vllm:spec_decode_num_accepted_tokens_per_pos",
                &[("0", 9.0), ("1", 6.0), ("2", 1.0), ("2", 2.0), ("x", 5.0)],
            ),
        ]));
        let expected = Acceptance {
            endpoint_url: URL.into(),
            rate: Some(0.6),
            length: Some(2.8),
            by_position: vec![(0, 0.9), (1, 0.6), (2, 0.3)],
        };
        assert_eq!(found.len(), 1);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert_eq!((found[0].rate, found[0].length), (expected.rate, expected.length));
        let pairs = found[0].by_position.iter().zip(&expected.by_position);
        assert!(pairs.clone().all(|(a, b)| a.0 == b.0 && close(a.1, b.1)), "{found:?}");
        assert_eq!(found[0].by_position.len(), 3);
    }

    #[test]
    fn sglangs_gauges_are_averaged_and_nothing_is_nothing() {
        let gauge = |avg| Stats::Gauge(GaugeStats { avg, ..GaugeStats::default() });
        let found = acceptance(&report(vec![
            metric(
                "sglang:spec_accept_length",
                Kind::Gauge,
                vec![("", gauge(2.0)), ("", gauge(3.0))],
            ),
            metric(
                "sglang:spec_accept_rate",
                Kind::Gauge,
                vec![("", gauge(0.5)), ("", gauge(0.0))],
            ),
        ]));
        assert_eq!((found[0].length, found[0].rate), (Some(2.5), Some(0.5)));
        assert!(found[0].by_position.is_empty());
        assert!(acceptance(&report(Vec::new())).is_empty());
        let none = counters("vllm:spec_decode_num_drafts", &[("", 0.0)]);
        assert!(acceptance(&report(vec![none])).is_empty());
    }
}
