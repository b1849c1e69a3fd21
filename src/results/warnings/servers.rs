//! Warnings about servers: those that pause, those that are slower than others, and what they report of
//! themselves.

use std::sync::Arc;

use base::redact::{ShownUrl, printable};
use client::server_family::Quantity;
use measure::metrics::breakdown::slowest_url;
use measure::metrics::silence::Silence;
use measure::metrics::tag;
use measure::server_metrics::conservation::Comparison;
use measure::server_metrics::report::{Edges, EndpointInfo, ServerMetricsReport};

use super::{Found, Level, WarningKind, first};
use crate::run::RunReport;
use crate::tables::format::count;

/// Error of times that servers report, some of which round them to whole milliseconds.
const ROUNDING_MS: f64 = 1.0;

pub(super) const KINDS: &[WarningKind] = &[
    WarningKind {
        name: "server-silent",
        title: "Server Was Silent",
        level: Level::Doubtful,
        find: |report, _| Some(was_silent(report.silences.first()?, report.silences.len())),
        example: |_| {
            was_silent(&Silence { start_seconds: 6.0, duration_seconds: 1.5, streams: 8 }, 1)
        },
    },
    WarningKind {
        name: "server-slower",
        title: "One Server Is Slower",
        level: Level::Doubtful,
        find: |report, _| {
            let (url, mean, fastest) = slowest_url(&report.breakdowns.by_url)?;
            Some(is_slower(url, mean, fastest))
        },
        example: |_| is_slower("http://localhost:8001", 480.0, 240.0),
    },
    WarningKind {
        name: "server-times-exceed",
        title: "Server Times Exceed the Latency",
        level: Level::Doubtful,
        find: |report, _| excess_ms(report).map(times_exceed),
        example: |_| times_exceed(2.5),
    },
    WarningKind {
        name: "server-counts-differ",
        title: "Server and Client Counts Differ",
        level: Level::Bad,
        find: |report, _| {
            let differ = report.conservation().iter().filter(|one| !one.agrees);
            let differ: Vec<Comparison> = differ.cloned().collect();
            (!differ.is_empty()).then(|| counts_differ(&differ))
        },
        example: |_| {
            counts_differ(&[Comparison {
                quantity: Quantity::Requests,
                metric: Arc::from("vllm:request_success"),
                server: 201.0,
                client: 200.0,
                agrees: false,
            }])
        },
    },
    WarningKind {
        name: "server-metrics-incomplete",
        title: "Server Metrics Incomplete",
        level: Level::Doubtful,
        find: |report, _| {
            let doubts = doubts(&report.server_metrics.as_ref()?.report);
            (!doubts.is_empty()).then(|| metrics_incomplete(&doubts))
        },
        example: |_| {
            metrics_incomplete(&[
                "http://localhost:8000/metrics: 2 of 20 scrapes failed; statistics cover \
                                  the others."
                    .to_owned(),
            ])
        },
    },
];

fn was_silent(longest: &Silence, times: usize) -> Found {
    let others = match times {
        0 | 1 => String::new(),
        times => format!(" It is the longest of {times} such times."),
    };
    let silent = longest.to_string();
    Found::new(
        silent.clone(),
        [format!(
            "While responses were being streamed, there was {silent}: the whole server paused, or what is \
             between it and the client.{others} The latencies of the requests of that time contain it."
        )],
        [
            "Look for long prefills, garbage collection, swapping or a restart in the server at that time; \
          `silences` of profile_export_aiperf.json has all such times.",
        ],
    )
}

/// The server at `url`, and the fastest one, with their mean request latencies in milliseconds.
fn is_slower(url: &str, mean: f64, fastest: f64) -> Found {
    let url = printable(url);
    Found::new(
        format!("{url} took {mean:.1} ms a request, the fastest server {fastest:.1} ms"),
        [format!(
            "The mean request latency of {url} is {mean:.1} ms, that of the fastest server {fastest:.1} \
             ms. Statistics of all requests are those of a mixture of both."
        )],
        ["Compare the servers by `by_url` of profile_export_aiperf.json."],
    )
}

/// Returns by how much the stages that a server reports add up to more than the latency, if it is more than
/// the client's times may be wrong, in milliseconds.
fn excess_ms(report: &RunReport) -> Option<f64> {
    let rest = report.results.iter().find(|one| one.metric.tag == tag::SERVER_UNATTRIBUTED_TIME)?;
    let health = report.outcome.client_health.as_ref();
    let error = health.and_then(|health| health.arrival_error_ms.as_ref());
    // The server may have the request before the client knows that it was sent.
    let sending = report.results.iter().find(|one| one.metric.tag == tag::HTTP_REQ_SENDING);
    let sending_ms = sending.and_then(|one| one.stats.distribution).map_or(0.0, |one| one.max);
    let bound_ms = error.map_or(0.0, |error| error.max) + sending_ms + ROUNDING_MS;
    Some(-rest.stats.distribution?.min).filter(|by_ms| *by_ms > bound_ms)
}

fn times_exceed(by_ms: f64) -> Found {
    Found::new(
        format!("the server's times add up to {by_ms:.3} ms more than the client's"),
        [format!(
            "The times of stages that the server reports of a request add up to as much as {by_ms:.3} ms \
             more than the client measured."
        )],
        [
            "See server_unattributed_time of each request in profile_export.jsonl; do not rely on the \
          server's times of requests where it is negative.",
        ],
    )
}

fn counts_differ(comparisons: &[Comparison]) -> Found {
    let what = "Counts over the whole run, including the warmup:".to_owned();
    let summary = comparisons.first().map(difference).unwrap_or_default();
    Found::new(
        summary.trim(),
        [what].into_iter().chain(comparisons.iter().map(difference)),
        counts_advice(comparisons).iter().copied(),
    )
}

/// Formats a difference as `  201 requests (server), 200 (client): 1 more (vllm:request_success)`.
fn difference(comparison: &Comparison) -> String {
    let what = match comparison.quantity {
        Quantity::Requests => "successful requests",
        Quantity::PromptTokens => "prompt tokens",
        Quantity::CompletionTokens => "completion tokens",
    };
    let whole = |number: f64| count(number.abs().round() as u64);
    let more = comparison.server - comparison.client;
    format!(
        "  {} {what} (server), {} (client): {} {} ({})",
        whole(comparison.server),
        whole(comparison.client),
        whole(more),
        if more > 0.0 { "more" } else { "fewer" },
        printable(&comparison.metric)
    )
}

/// Advice on differing counts. Differing requests indicate other traffic or servers that are
/// not scraped; differing tokens alone indicate another way of counting.
fn counts_advice(comparisons: &[Comparison]) -> &'static [&'static str] {
    let requests = comparisons.iter().find(|one| one.quantity == Quantity::Requests);
    match requests.map(|one| one.server > one.client) {
        Some(true) => &[
            "Other clients used the server, or two of the scraped URLs are the same server. With \
             other clients the latencies are not those of this run's load alone; run again without \
             them.",
        ],
        Some(false) => &[
            "If several servers are behind the URL, list the metrics URL of each with \
             --server-metrics.",
            "If the server updates its counters late, raise \
             AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD.",
            "If scrapes failed near the end, see failed_fetches in server_metrics_export.json.",
        ],
        None => &[
            "The requests agree or are not counted, so tokens may be counted differently; check \
             whether a proxy or gateway rewrites prompts or usage.",
            "If other clients used the server, run again without them.",
            "If several servers are behind the URL, list the metrics URL of each with \
             --server-metrics.",
        ],
    }
}

/// The problems that make statistics doubtful, by endpoint.
fn doubts(report: &ServerMetricsReport) -> Vec<String> {
    let endpoint = |(url, info): &(ShownUrl, EndpointInfo)| {
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
    report.summary.endpoint_info.iter().flat_map(endpoint).collect()
}

fn metrics_incomplete(doubts: &[String]) -> Found {
    let summary = match doubts {
        [only] => printable(only).trim_end_matches('.').to_owned(),
        all => format!("{} doubts about scrapes and series", all.len()),
    };
    Found::new(
        summary,
        first(doubts, ""),
        [
            "See failed_fetches and the flags of each series in server_metrics_export.json.",
            "If scrapes failed because the endpoint is slow, raise --server-metrics-timeout.",
        ],
    )
}

#[cfg(test)]
mod tests {
    use client::server_family::SeriesKind as MetricKind;
    use measure::server_metrics::report::{
        CounterStats, MetricReport, Resets, SeriesReport, Stats,
    };

    use super::*;

    #[test]
    fn what_makes_server_metrics_doubtful_has_its_numbers() {
        let url = "http://a:8000/metrics";
        let resets = Some(Resets { reset_count: 1, total_with_resets: 9.0 });
        let stats = Stats::Counter(CounterStats { rate: 2.5, resets, ..CounterStats::default() });
        let series = SeriesReport { endpoint_url: url.into(), labels: [].into(), stats };
        let metric = MetricReport {
            name: Arc::from("vllm:generation_tokens"),
            kind: MetricKind::Counter,
            description: Arc::from(""),
            unit: Some(Arc::from("tokens")),
            series: vec![series],
        };
        let edges = Edges { has_exact_start: false, has_exact_end: true, ..Edges::default() };
        let info = EndpointInfo {
            total_fetches: 1200,
            failed_fetches: 34,
            profiling: Some(edges),
            ..EndpointInfo::default()
        };
        let mut report =
            ServerMetricsReport { metrics: vec![metric], ..ServerMetricsReport::default() };
        report.summary.endpoint_info = vec![(url.into(), info)];
        assert_eq!(
            doubts(&report),
            [
                "http://a:8000/metrics: 34 of 1,234 scrapes failed; statistics cover the others.",
                "http://a:8000/metrics: no scrape at the start of the measurement; totals may be too high \
                 or too low (inexact_start).",
                "http://a:8000/metrics: one series reset to 0; total_with_resets has the full total \
                 (reset).",
            ]
        );
    }
}
