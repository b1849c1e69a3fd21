//! An example of each warning, for those who ask what it means.

use std::sync::Arc;

use super::counts::{Cause, CountDifference, Side};
use super::responses::Groups;
use super::servers::{Silent, Slower};
use super::{Given, Warning};
use crate::metrics::health::{LoadHealth, LoadVerdict};
use crate::metrics::prefix_cache::Excess;
use crate::otlp_receiver::ReceiverReport;
use crate::server_family::Quantity;
use crate::server_metrics::conservation::Comparison;
use crate::telemetry::{ScrapesReport, TracesReport};

/// A warning as it is explained, with the numbers of an example and the advice for a run with few
/// settings.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) findings: Vec<String>,
    pub(crate) advice: Vec<String>,
}

/// Returns all warnings.
#[must_use]
pub(crate) fn by_example() -> Vec<Explained> {
    let explained = |warning: Warning| Explained {
        name: warning.name(),
        title: warning.title(),
        findings: warning.findings(),
        advice: warning.advice(&Given::default()),
    };
    Warning::examples().into_iter().map(explained).collect()
}

fn comparison() -> Comparison {
    Comparison {
        quantity: Quantity::Requests,
        metric: Arc::from("vllm:request_success"),
        server: 201.0,
        client: 200.0,
        agrees: false,
    }
}

impl Warning {
    /// Returns an example of each warning, the most serious first.
    #[must_use]
    fn examples() -> Vec<Self> {
        let endpoint = || "http://localhost:4317".to_owned();
        let (server, client, cause) = (584.0, 550.0, Some(Cause::Template));
        let difference = CountDifference { side: Side::Input, server, client, cause };
        vec![
            Self::Incomplete { reason: "The run was cancelled.".to_owned() },
            Self::NothingSucceeded { failed: 100 },
            Self::NotAuthorized { requests: 100, of: 100, had_key: false },
            Self::TimedOut { requests: 12, of: 100 },
            Self::ConnectionsFailed { held_back: 20 },
            Self::ConnectionsLimited { mean_ms: 80.0, longest_ms: 250.0 },
            Self::ConcurrencyNotReached { requested: 64, reached: 40 },
            Self::RateNotReached { requested: 20.0, reached: 15.0 },
            Self::DependsOnLength {
                load: LoadHealth {
                    verdict: LoadVerdict::Saturated,
                    offered_rate: 20.0,
                    served_rate: 15.0,
                    queue_slope: None,
                    latency_drift_percent: None,
                    since_seconds: None,
                    needed_seconds: None,
                    needed_requests: None,
                    failures: None,
                },
            },
            Self::CacheNotCold {
                excess: Excess { cached: 0.96, expected: 0.0, expected_most: 0.04 },
            },
            Self::PromptsRepeat { repeated: 900, of: 1000, cached_percent: Some(88.0) },
            Self::IncompleteHistory { requests: 3, of: 100 },
            Self::NotStreamed { requests: 100, of: 100 },
            Self::ServerSilent(Silent::example()),
            Self::ServerSlower(Slower::example()),
            Self::EventsTogether {
                groups: Groups {
                    percent: 93.75,
                    size: 16.0,
                    every_ms: 160.0,
                    wait_ms: 150.0,
                    itl_percent: 23.8,
                },
            },
            Self::UnusualResponses { notes: vec![("usage_decreased".to_owned(), 100)], of: 100 },
            Self::UsageMissing { requests: 100, of: 100 },
            Self::UsageDiscrepancy {
                requests: 25,
                of: 100,
                threshold_percent: 10.0,
                differences: vec![difference],
            },
            Self::OutputLengthMismatch {
                requests: 25,
                of: 100,
                average_percent: Some(-12.5),
                threshold_percent: 5.0,
                threshold_tokens: 50.0,
                at_limit: false,
            },
            Self::BundledTokens { tokens: 4.0, percent: 2.4 },
            Self::ServerTimesExceed { by_ms: 2.5 },
            Self::ServerCountsDiffer { comparisons: vec![comparison()] },
            Self::ServerMetricsDoubtful {
                doubts: vec![
                    "http://localhost:8000/metrics: 2 of 20 scrapes failed; statistics cover the \
                     others."
                        .to_owned(),
                ],
            },
            Self::CollectorNotReached { endpoint: endpoint(), failed: 5 },
            Self::TelemetryLost {
                endpoint: endpoint(),
                failed: 1,
                rejected: 12,
                delivered_final: false,
            },
            Self::ServerSamplesLost {
                endpoint: endpoint(),
                scrapes: ScrapesReport {
                    scrapes_forwarded: 97,
                    scrapes_dropped: 3,
                    ..ScrapesReport::default()
                },
            },
            Self::TracesLost {
                traces: TracesReport { sampled: 40, lost: 10, ..TracesReport::default() },
            },
            Self::ServerSpansMissing {
                receiver: ReceiverReport {
                    sampled_requests: 100,
                    unjoined_requests: 100,
                    ..ReceiverReport::default()
                },
            },
            Self::NotReconciled { discrepancies: vec!["aiperf.request_latency: count".to_owned()] },
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The source has one line of `title` for each warning.
    #[test]
    fn each_warning_has_one_example_with_a_name_a_finding_and_advice() {
        let all = Warning::examples();
        let source = include_str!("../warning.rs");
        let (_, titles) = source.split_once("const fn title").unwrap();
        let (titles, _) = titles.split_once("\n    }\n").unwrap();
        assert_eq!(all.len(), titles.matches("Self::").count());
        let names: BTreeSet<&str> = all.iter().map(Warning::name).collect();
        let titles: BTreeSet<&str> = all.iter().map(Warning::title).collect();
        assert_eq!((names.len(), titles.len()), (all.len(), all.len()));
        for warning in &all {
            assert!(!warning.findings().is_empty() && !warning.summary().is_empty());
            assert!(!warning.advice(&Given::default()).is_empty(), "{warning:?}");
        }
    }
}
