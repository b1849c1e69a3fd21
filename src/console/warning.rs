//! What makes a result doubtful, and what to do about it.

use super::{count, printable};
use crate::artifacts::RunReport;
use crate::server_metrics::conservation::{Comparison, Quantity};
use crate::telemetry::{ScrapesReport, TracesReport};

/// Shortfall of the request rate that is put down to chance, in percent.
const RATE_SLACK_PERCENT: f64 = 5.0;
/// Standard deviations of a random arrival process that are put down to chance.
const RATE_SLACK_DEVIATIONS: f64 = 3.0;
/// Discrepancies of telemetry that are named.
const MOST_DISCREPANCIES: usize = 5;

/// A reason to doubt a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// No request succeeded.
    NothingSucceeded {
        /// Requests that failed.
        failed: u64,
    },
    /// The run did not do all that was asked for.
    Incomplete {
        /// Why.
        reason: String,
    },
    /// The server was never under the concurrency asked for.
    ConcurrencyNotReached {
        /// Requests at once asked for.
        requested: u64,
        /// Most that there were.
        reached: u64,
    },
    /// Requests were sent more slowly than asked for.
    RateNotReached {
        /// Requests per second asked for.
        requested: f64,
        /// Requests per second sent.
        reached: f64,
    },
    /// Server and client count tokens differently.
    UsageDiscrepancy {
        /// Requests in which they do.
        requests: u64,
        /// Requests that succeeded.
        of: u64,
        /// The difference that is tolerated, in percent.
        threshold_percent: f64,
    },
    /// Answers are not as long as asked for.
    OutputLengthMismatch {
        /// Requests in which they are not.
        requests: u64,
        /// Requests that succeeded.
        of: u64,
        /// Mean difference over all requests, in percent.
        average_percent: Option<f64>,
        /// The difference that is tolerated, in percent.
        threshold_percent: f64,
        /// The difference that is tolerated at most, in tokens.
        threshold_tokens: f64,
    },
    /// The collector took nothing.
    CollectorNotReached {
        /// Where it should be.
        endpoint: String,
        /// Exports that failed.
        failed: u64,
    },
    /// The collector lacks part of the results.
    TelemetryLost {
        /// Where it is.
        endpoint: String,
        /// Exports that failed.
        failed: u64,
        /// Data points that it refused.
        rejected: u64,
        /// Whether it has the final values.
        delivered_final: bool,
    },
    /// The collector lacks part of what the servers exposed.
    ServerSamplesLost {
        /// Where it is.
        endpoint: String,
        /// What became of it.
        scrapes: ScrapesReport,
    },
    /// The collector lacks some of the traces.
    TracesLost {
        /// What became of them.
        traces: TracesReport,
    },
    /// Telemetry and files differ.
    NotReconciled {
        /// In what.
        discrepancies: Vec<String>,
    },
    /// The server counted something else than the client.
    ServerCountsDiffer {
        /// The counts that differ.
        comparisons: Vec<Comparison>,
    },
}

impl Warning {
    /// Every reason to doubt `report`, the gravest first.
    #[must_use]
    pub fn of(report: &RunReport) -> Vec<Self> {
        let mut warnings: Vec<Self> = [
            nothing_succeeded(report),
            incomplete(report),
            concurrency_not_reached(report),
            rate_not_reached(report),
            usage_discrepancy(report),
            output_length_mismatch(report),
        ]
        .into_iter()
        .flatten()
        .collect();
        warnings.extend(server_counts_differ(report));
        warnings.extend(telemetry(report));
        warnings
    }

    /// A few words that name it.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        match self {
            Self::NothingSucceeded { .. } => "No Request Succeeded",
            Self::Incomplete { .. } => "Incomplete Run",
            Self::ConcurrencyNotReached { .. } => "Concurrency Not Reached",
            Self::RateNotReached { .. } => "Request Rate Not Reached",
            Self::UsageDiscrepancy { .. } => "Token Count Discrepancy",
            Self::OutputLengthMismatch { .. } => "Output Sequence Length Mismatch",
            Self::CollectorNotReached { .. } => "Collector Not Reached",
            Self::TelemetryLost { .. } => "Telemetry Incomplete",
            Self::ServerSamplesLost { .. } => "Server Samples Incomplete",
            Self::TracesLost { .. } => "Traces Incomplete",
            Self::NotReconciled { .. } => "Telemetry Does Not Agree",
            Self::ServerCountsDiffer { .. } => "Server and Client Counts Differ",
        }
    }

    /// What was found, sentence by sentence.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        match self {
            Self::NothingSucceeded { failed } => {
                vec![format!(
                    "All {} requests failed: there are no latencies to report.",
                    count(*failed)
                )]
            }
            Self::Incomplete { reason } => vec![
                printable(reason),
                "The statistics are of the requests that finished.".to_owned(),
            ],
            Self::ConcurrencyNotReached { requested, reached } => vec![format!(
                "{} requests at once were asked for; there were never more than {}.",
                count(*requested),
                count(*reached)
            )],
            Self::RateNotReached { requested, reached } => vec![format!(
                "{requested:.2} requests per second were asked for; {reached:.2} were sent."
            )],
            Self::UsageDiscrepancy { requests, of, threshold_percent } => vec![format!(
                "In {} the server's token counts (`usage`) and the client's differ by more than \
                 {threshold_percent}%.",
                share(*requests, *of)
            )],
            Self::OutputLengthMismatch {
                requests,
                of,
                average_percent,
                threshold_percent,
                threshold_tokens,
            } => {
                let mut findings = vec![
                    format!(
                        "In {} the output is shorter or longer than asked for by more than the \
                         threshold.",
                        share(*requests, *of)
                    ),
                    format!(
                        "Threshold (tokens): min(requested x {threshold_percent}%, \
                         {threshold_tokens})"
                    ),
                ];
                findings.extend(
                    average_percent.map(|average| format!("Average mismatch: {average:.1}%")),
                );
                findings
            }
            Self::CollectorNotReached { endpoint, failed } => vec![format!(
                "No export reached {}: {} failed. The files are complete.",
                printable(endpoint),
                count(*failed)
            )],
            Self::TelemetryLost { endpoint, failed, rejected, delivered_final } => {
                let last = if *delivered_final { "has" } else { "lacks" };
                vec![format!(
                    "{} {last} the final values; {} exports failed and {} data points were \
                     rejected. The files are complete.",
                    printable(endpoint),
                    count(*failed),
                    count(*rejected)
                )]
            }
            Self::ServerSamplesLost { endpoint, scrapes } => {
                let last = if scrapes.delivered_final { "has" } else { "lacks" };
                vec![format!(
                    "{} {last} the servers' last metrics; {} of {} scrapes did not reach it, and \
                     it rejected {} data points. The files are complete.",
                    printable(endpoint),
                    count(scrapes.scrapes_dropped),
                    count(scrapes.scrapes_dropped + scrapes.scrapes_forwarded),
                    count(scrapes.points_rejected)
                )]
            }
            Self::TracesLost { traces } => vec![format!(
                "The traces of {} of {} sampled requests did not reach the collector, and it \
                 rejected {} spans. The files have every record.",
                count(traces.lost),
                count(traces.sampled),
                count(traces.rejected)
            )],
            Self::NotReconciled { discrepancies } => {
                let mut findings =
                    vec!["What was exported differs from what the files say:".to_owned()];
                let named = discrepancies.iter().take(MOST_DISCREPANCIES);
                findings.extend(named.map(|discrepancy| format!("  {}", printable(discrepancy))));
                if discrepancies.len() > MOST_DISCREPANCIES {
                    findings
                        .push(format!("  and {} more", discrepancies.len() - MOST_DISCREPANCIES));
                }
                findings
            }
            Self::ServerCountsDiffer { comparisons } => {
                let mut findings =
                    vec!["Over the whole run, warmup included, the server counted:".to_owned()];
                findings.extend(comparisons.iter().map(difference));
                findings
            }
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let advice: &[&str] = match self {
            Self::NothingSucceeded { .. } => &[
                "Read the messages in the error summary.",
                "Try one request by hand, and check --url, --endpoint-type and --model.",
            ],
            Self::Incomplete { .. } => {
                &["Let the run end by itself, or give it fewer requests or less time."]
            }
            Self::ConcurrencyNotReached { .. } => &[
                "Give the run at least as many requests as --concurrency, better ten times as many.",
                "If requests waited for connections, raise the limit of open files (ulimit -n).",
                "If this machine was busy, run the client on one of its own.",
            ],
            Self::RateNotReached { .. } => &[
                "Raise or drop --concurrency: it holds requests back when responses are slow.",
                "If this machine was busy, run the client on one of its own.",
            ],
            Self::UsageDiscrepancy { .. } => &[
                "See usage_*_diff_pct of each request in profile_export.jsonl.",
                "Make --tokenizer the tokenizer of the model that is served.",
                "Or go by the server's counts: --use-server-token-count.",
                "Special tokens and the chat template count for the server only; to tolerate more, \
                 set AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD.",
            ],
            Self::OutputLengthMismatch { .. } => &[
                "Models stop where they see fit. --extra-inputs ignore_eos:true generates up to \
                 the length asked for (vLLM, TensorRT-LLM, SGLang).",
                "--extra-inputs min_tokens:<N> sets a least length (vLLM, TensorRT-LLM).",
                "If the tokenizer may be another one: --use-server-token-count.",
                "See osl_mismatch_diff_pct of each request in profile_export.jsonl.",
                "To tolerate more, set AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD or \
                 AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD.",
            ],
            Self::CollectorNotReached { .. } => &[
                "Check --otel-url, and that the collector listens there for OTLP.",
                "gRPC is usually on port 4317, HTTP on 4318.",
            ],
            Self::TelemetryLost { .. }
            | Self::ServerSamplesLost { .. }
            | Self::TracesLost { .. } => &[
                "See the collector's log, and logs/aiperf.log for what it answered.",
                "If exports timed out, raise AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS.",
            ],
            Self::NotReconciled { .. } => {
                &["Trust the files, which hold every value, and report the difference as a bug."]
            }
            Self::ServerCountsDiffer { comparisons } => server_counts_advice(comparisons),
        };
        advice.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Findings and advice, line by line.
    pub(super) fn text(&self) -> Vec<String> {
        let mut lines = self.findings();
        lines.push(String::new());
        lines.push("What to do:".to_owned());
        lines.extend(self.advice().into_iter().map(|advice| format!("  - {advice}")));
        lines
    }
}

/// `36 of 40 requests (90.0%)`
fn share(requests: u64, of: u64) -> String {
    let percent = if of == 0 { 0.0 } else { 100.0 * requests as f64 / of as f64 };
    format!("{} of {} requests ({percent:.1}%)", count(requests), count(of))
}

/// A count among the results; 0 where it is absent.
fn counted(report: &RunReport, tag: &str) -> u64 {
    report.average(tag).map_or(0, |value| value.round() as u64)
}

fn nothing_succeeded(report: &RunReport) -> Option<Warning> {
    let failed = report.errors.iter().map(|error| error.count).sum();
    (failed > 0 && counted(report, "request_count") == 0)
        .then_some(Warning::NothingSucceeded { failed })
}

fn incomplete(report: &RunReport) -> Option<Warning> {
    let reason = match &report.incomplete_reason {
        Some(reason) => reason.clone(),
        None if report.was_cancelled => "The run was cancelled.".to_owned(),
        None => return None,
    };
    Some(Warning::Incomplete { reason })
}

/// Of a closed loop: with a rate, the concurrency is only a bound.
fn concurrency_not_reached(report: &RunReport) -> Option<Warning> {
    let is_closed_loop = report.load.requested_rate.is_none();
    let requested = report.load.requested_concurrency.filter(|_| is_closed_loop)?;
    let reached = report.load.reached_concurrency;
    (reached < requested).then_some(Warning::ConcurrencyNotReached { requested, reached })
}

/// Arrivals are random: with `n` requests their rate deviates by `1/√n`.
fn rate_not_reached(report: &RunReport) -> Option<Warning> {
    let (requested, reached) = (report.load.requested_rate?, report.load.reached_rate?);
    let failed: u64 = report.errors.iter().map(|error| error.count).sum();
    let requests = (counted(report, "request_count") + failed).max(1);
    let by_chance = RATE_SLACK_DEVIATIONS / (requests as f64).sqrt();
    let slack = by_chance.max(RATE_SLACK_PERCENT / 100.0);
    (reached < requested * (1.0 - slack)).then_some(Warning::RateNotReached { requested, reached })
}

fn usage_discrepancy(report: &RunReport) -> Option<Warning> {
    let requests = counted(report, "usage_discrepancy_count");
    (requests > 0).then(|| Warning::UsageDiscrepancy {
        requests,
        of: counted(report, "request_count"),
        threshold_percent: report.run.settings.usage_diff_threshold_percent,
    })
}

fn output_length_mismatch(report: &RunReport) -> Option<Warning> {
    let requests = counted(report, "osl_mismatch_count");
    (requests > 0).then(|| Warning::OutputLengthMismatch {
        requests,
        of: counted(report, "request_count"),
        average_percent: report.average("osl_mismatch_diff_pct"),
        threshold_percent: report.run.settings.osl_mismatch_threshold_percent,
        threshold_tokens: report.run.settings.osl_mismatch_threshold_tokens,
    })
}

fn server_counts_differ(report: &RunReport) -> Option<Warning> {
    let comparisons: Vec<_> =
        report.conservation().iter().filter(|one| !one.agrees).cloned().collect();
    (!comparisons.is_empty()).then_some(Warning::ServerCountsDiffer { comparisons })
}

/// `  201 requests, the client 200: 1 more (vllm:request_success)`
fn difference(comparison: &Comparison) -> String {
    let what = match comparison.quantity {
        Quantity::Requests => "successful requests",
        Quantity::PromptTokens => "prompt tokens",
        Quantity::CompletionTokens => "completion tokens",
    };
    let whole = |number: f64| count(number.abs().round() as u64);
    let more = comparison.server - comparison.client;
    format!(
        "  {} {what}, the client {}: {} {} ({})",
        whole(comparison.server),
        whole(comparison.client),
        whole(more),
        if more > 0.0 { "more" } else { "fewer" },
        printable(&comparison.metric)
    )
}

/// Requests tell of other traffic and of unseen servers; tokens alone of how they are counted.
fn server_counts_advice(comparisons: &[Comparison]) -> &'static [&'static str] {
    let requests = comparisons.iter().find(|one| one.quantity == Quantity::Requests);
    match requests.map(|one| one.server > one.client) {
        Some(true) => {
            &["Somebody else used the server, or the URLs scraped show one server twice: then the \
             latencies are those of a load that is not this run's. Keep others off and run again."]
        }
        Some(false) => &[
            "If several servers are behind the URL, name the metrics of each: --server-metrics.",
            "If the server was slow to count, raise AIPERF_SERVER_METRICS_COLLECTION_FLUSH_PERIOD.",
            "If scrapes failed towards the end, see failed_fetches in server_metrics_export.json.",
        ],
        None => &[
            "The requests agree or are not counted, so the tokens may be counted in another way: \
             check whether a proxy or gateway rewrites prompts or usage.",
            "If others used the server, keep them off and run again.",
            "If several servers are behind the URL, name the metrics of each: --server-metrics.",
        ],
    }
}

fn telemetry(report: &RunReport) -> Vec<Warning> {
    let Some(telemetry) = &report.telemetry else { return Vec::new() };
    let mut warnings = Vec::new();
    if let Some(endpoint) = telemetry.endpoint.clone() {
        let failed = telemetry.exports_failed;
        let rejected = telemetry.rejected_data_points;
        let delivered_final = telemetry.delivered_final;
        if telemetry.exports_ok == 0 && failed > 0 {
            let endpoint = endpoint.clone();
            warnings.push(Warning::CollectorNotReached { endpoint, failed });
        } else if !delivered_final || rejected > 0 {
            let endpoint = endpoint.clone();
            warnings.push(Warning::TelemetryLost { endpoint, failed, rejected, delivered_final });
        }
        let is_reached = telemetry.exports_ok > 0 || failed == 0;
        let is_lost = |scrapes: &&ScrapesReport| {
            scrapes.scrapes_dropped > 0 || scrapes.points_rejected > 0 || !scrapes.delivered_final
        };
        if let Some(scrapes) = telemetry.scrapes.as_ref().filter(is_lost).filter(|_| is_reached) {
            warnings.push(Warning::ServerSamplesLost { endpoint, scrapes: scrapes.clone() });
        }
    }
    let is_told = warnings.iter().any(|have| matches!(have, Warning::CollectorNotReached { .. }));
    let is_lost = |traces: &&TracesReport| traces.lost > 0 || traces.rejected > 0;
    if let Some(traces) = telemetry.traces.as_ref().filter(is_lost).filter(|_| !is_told) {
        warnings.push(Warning::TracesLost { traces: traces.clone() });
    }
    if !telemetry.reconciled && !telemetry.discrepancies.is_empty() {
        let discrepancies = telemetry.discrepancies.clone();
        warnings.push(Warning::NotReconciled { discrepancies });
    }
    warnings
}
