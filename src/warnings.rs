//! Warnings about a result, with advice.

mod advice;
mod counts;
mod examples;
mod found;
mod responses;
mod servers;
mod tokens;

use self::counts::CountDifference;
use self::responses::Groups;
use self::servers::{Silent, Slower};
use super::format::count;
use super::server_spans;
use crate::metrics::health::LoadHealth;
use crate::metrics::prefix_cache::Excess;
use crate::otlp_receiver::ReceiverReport;
use crate::redact::printable;
use crate::server_family::Quantity;
use crate::server_metrics::conservation::Comparison;
use crate::telemetry::{ScrapesReport, TracesReport};

pub(crate) use advice::Given;
pub(crate) use examples::by_example;

/// Maximum number of findings of one kind that are listed.
const MAX_DISCREPANCIES: usize = 5;

/// A warning about a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Warning {
    /// No request succeeded.
    NothingSucceeded {
        /// Number of failed requests.
        failed: u64,
    },
    /// The server requires credentials, or rejects the ones sent.
    NotAuthorized {
        /// Number of requests rejected with 401 or 403.
        requests: u64,
        /// Total number of requests.
        of: u64,
        /// Whether requests had credentials.
        had_key: bool,
    },
    /// Many requests timed out.
    TimedOut {
        /// Number of requests without a response in time.
        requests: u64,
        /// Total number of requests.
        of: u64,
    },
    /// The run ended before it was complete.
    Incomplete { reason: String },
    /// Connections to a server failed for some time.
    ConnectionsFailed {
        /// Number of sends that were delayed because of it.
        held_back: u64,
    },
    /// Requests waited for a connection, since no more were allowed.
    ConnectionsLimited {
        /// Mean wait of all requests, in milliseconds.
        mean_ms: f64,
        /// Longest wait, in milliseconds.
        longest_ms: f64,
    },
    /// The configured concurrency was never reached.
    ConcurrencyNotReached {
        /// Configured concurrency.
        requested: u64,
        /// Highest concurrency reached.
        reached: u64,
    },
    /// Requests were sent at a lower rate than configured.
    RateNotReached {
        /// Configured requests per second.
        requested: f64,
        /// Requests per second that were sent.
        reached: f64,
    },
    /// The latencies depend on how long the run was, because of the load.
    DependsOnLength {
        /// The health of the load.
        load: LoadHealth,
    },
    /// The server had prompts of the run in its prefix cache before.
    CacheNotCold {
        /// What it found, and what the prompts explain.
        excess: Excess,
    },
    /// Requests of a file or of the hub were sent again.
    PromptsRepeat {
        /// Number of requests that had been sent before.
        repeated: u64,
        /// Number of all requests.
        of: u64,
        /// Share of the prompt tokens that the server read from its cache, in percent, if it is known.
        cached_percent: Option<f64>,
    },
    /// Turns were sent although an earlier turn had failed.
    IncompleteHistory {
        /// Number of requests that lack an earlier response of their session.
        requests: u64,
        /// Number of requests that ended.
        of: u64,
    },
    /// Server and client count tokens differently.
    UsageDiscrepancy {
        /// Number of requests in which the counts differ.
        requests: u64,
        /// Number of successful requests.
        of: u64,
        /// Tolerated difference, in percent.
        threshold_percent: f64,
        /// How the mean counts differ.
        differences: Vec<CountDifference>,
    },
    /// Streaming was requested, but responses came all at once.
    NotStreamed {
        /// Number of requests whose response came all at once.
        requests: u64,
        /// Number of successful requests.
        of: u64,
    },
    /// Nothing arrived for some time, although several responses were being streamed.
    ServerSilent(Silent),
    /// One of several servers is slower than the others.
    ServerSlower(Slower),
    /// Content events arrived in groups.
    EventsTogether {
        /// How they did.
        groups: Groups,
    },
    /// Responses say their content or their counts in an unusual way.
    UnusualResponses {
        /// What is unusual, and the number of requests: names of [`note`](crate::endpoint::note).
        notes: Vec<(String, u64)>,
        /// Number of successful requests.
        of: u64,
    },
    /// The server's token counts are to be used, but it does not report them.
    UsageMissing {
        /// Number of requests without usage.
        requests: u64,
        /// Number of successful requests.
        of: u64,
    },
    /// Outputs do not have the requested length.
    OutputLengthMismatch {
        /// Number of requests whose output length differs from the requested one.
        requests: u64,
        /// Number of successful requests.
        of: u64,
        /// Mean difference over all requests, in percent.
        average_percent: Option<f64>,
        /// Tolerated difference, in percent.
        threshold_percent: f64,
        /// Maximum tolerated difference, in tokens.
        threshold_tokens: f64,
        /// Whether the server ended nearly all outputs at their limit.
        at_limit: bool,
    },
    /// Events with content have several tokens, so that the first one may have.
    BundledTokens {
        /// Mean number of tokens of an event with content.
        tokens: f64,
        /// How much lower inter-token latency then is, in percent.
        percent: f64,
    },
    /// No export reached the collector.
    CollectorNotReached {
        /// The collector's URL.
        endpoint: String,
        /// Number of failed exports.
        failed: u64,
    },
    /// The collector did not receive all results.
    TelemetryLost {
        /// The collector's URL.
        endpoint: String,
        /// Number of failed exports.
        failed: u64,
        /// Number of data points that the collector rejected.
        rejected: u64,
        /// Whether the collector received the final values.
        delivered_final: bool,
    },
    /// The collector did not receive all server metrics.
    ServerSamplesLost {
        /// The collector's URL.
        endpoint: String,
        /// Delivery of the scrapes.
        scrapes: ScrapesReport,
    },
    /// The collector did not receive all traces.
    TracesLost {
        /// Delivery of the traces.
        traces: TracesReport,
    },
    /// The spans of the servers did not arrive for all requests.
    ServerSpansMissing {
        /// What was received and joined.
        receiver: ReceiverReport,
    },
    /// Exported telemetry differs from the files.
    NotReconciled { discrepancies: Vec<String> },
    /// The times that the server reports of a request add up to more than the client measured.
    ServerTimesExceed {
        /// How much more, at most, in milliseconds.
        by_ms: f64,
    },
    /// The server's counts differ from the client's.
    ServerCountsDiffer {
        /// The counts that differ.
        comparisons: Vec<Comparison>,
    },
    /// Some server metrics are incomplete or inexact.
    ServerMetricsDoubtful {
        /// The problems, each with its endpoint.
        doubts: Vec<String>,
    },
}

impl Warning {
    /// The warning's title.
    #[must_use]
    pub(crate) const fn title(&self) -> &'static str {
        match self {
            Self::NothingSucceeded { .. } => "No Request Succeeded",
            Self::NotAuthorized { .. } => "Not Authorized",
            Self::TimedOut { .. } => "Requests Timed Out",
            Self::Incomplete { .. } => "Incomplete Run",
            Self::ConnectionsFailed { .. } => "Connections Failed",
            Self::ConnectionsLimited { .. } => "Connection Limit Reached",
            Self::ConcurrencyNotReached { .. } => "Concurrency Not Reached",
            Self::RateNotReached { .. } => "Request Rate Not Reached",
            Self::DependsOnLength { .. } => "Latencies Depend on the Length of the Run",
            Self::CacheNotCold { .. } => "Prefix Cache Was Not Cold",
            Self::PromptsRepeat { .. } => "Prompts Repeat",
            Self::IncompleteHistory { .. } => "Incomplete History",
            Self::UsageDiscrepancy { .. } => "Token Count Discrepancy",
            Self::NotStreamed { .. } => "Responses Not Streamed",
            Self::ServerSilent(_) => "Server Was Silent",
            Self::ServerSlower(_) => "One Server Is Slower",
            Self::EventsTogether { .. } => "Events Arrive in Groups",
            Self::UnusualResponses { .. } => "Unusual Responses",
            Self::UsageMissing { .. } => "Usage Missing",
            Self::OutputLengthMismatch { .. } => "Output Sequence Length Mismatch",
            Self::BundledTokens { .. } => "Several Tokens per Event",
            Self::CollectorNotReached { .. } => "Collector Not Reached",
            Self::TelemetryLost { .. } => "Telemetry Incomplete",
            Self::ServerSamplesLost { .. } => "Server Samples Incomplete",
            Self::TracesLost { .. } => "Traces Incomplete",
            Self::ServerSpansMissing { .. } => "Server Spans Missing",
            Self::NotReconciled { .. } => "Telemetry Does Not Agree",
            Self::ServerTimesExceed { .. } => "Server Times Exceed the Latency",
            Self::ServerCountsDiffer { .. } => "Server and Client Counts Differ",
            Self::ServerMetricsDoubtful { .. } => "Server Metrics Incomplete",
        }
    }

    /// Its name for `aiperf explain`.
    #[must_use]
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::NothingSucceeded { .. } => "nothing-succeeded",
            Self::NotAuthorized { .. } => "not-authorized",
            Self::TimedOut { .. } => "requests-timed-out",
            Self::Incomplete { .. } => "incomplete-run",
            Self::ConnectionsFailed { .. } => "connections-failed",
            Self::ConnectionsLimited { .. } => "connection-limit-reached",
            Self::ConcurrencyNotReached { .. } => "concurrency-not-reached",
            Self::RateNotReached { .. } => "rate-not-reached",
            Self::DependsOnLength { .. } => "depends-on-length",
            Self::CacheNotCold { .. } => "cache-not-cold",
            Self::PromptsRepeat { .. } => "prompts-repeat",
            Self::IncompleteHistory { .. } => "incomplete-history",
            Self::UsageDiscrepancy { .. } => "token-count-discrepancy",
            Self::NotStreamed { .. } => "not-streamed",
            Self::ServerSilent(_) => "server-silent",
            Self::ServerSlower(_) => "server-slower",
            Self::EventsTogether { .. } => "events-together",
            Self::UnusualResponses { .. } => "unusual-responses",
            Self::UsageMissing { .. } => "usage-missing",
            Self::OutputLengthMismatch { .. } => "osl-mismatch",
            Self::BundledTokens { .. } => "bundled-tokens",
            Self::CollectorNotReached { .. } => "collector-not-reached",
            Self::TelemetryLost { .. } => "telemetry-incomplete",
            Self::ServerSamplesLost { .. } => "server-samples-incomplete",
            Self::TracesLost { .. } => "traces-incomplete",
            Self::ServerSpansMissing { .. } => "server-spans-missing",
            Self::NotReconciled { .. } => "telemetry-disagrees",
            Self::ServerTimesExceed { .. } => "server-times-exceed",
            Self::ServerCountsDiffer { .. } => "server-counts-differ",
            Self::ServerMetricsDoubtful { .. } => "server-metrics-incomplete",
        }
    }

    /// What it found, in a few words.
    #[must_use]
    pub(crate) fn summary(&self) -> String {
        let several = |all: usize, one: &str, more: &str| match all {
            1 => format!("1 {one}"),
            all => format!("{all} {more}"),
        };
        match self {
            Self::NothingSucceeded { failed } => format!("all {} requests failed", count(*failed)),
            Self::NotAuthorized { requests, of, .. } => {
                format!("the server rejected {} as not authorized", share(*requests, *of))
            }
            Self::TimedOut { requests, of } => timed_out(*requests, *of),
            Self::Incomplete { reason } => printable(reason).trim_end_matches('.').to_owned(),
            Self::ConnectionsFailed { held_back } => {
                format!("connections failed; {} sends were each delayed", count(*held_back))
            }
            Self::ConnectionsLimited { longest_ms, .. } => {
                format!("requests waited up to {longest_ms:.1} ms for a connection")
            }
            Self::ConcurrencyNotReached { requested, reached } => {
                format!("at most {} of {} in flight", count(*reached), count(*requested))
            }
            Self::RateNotReached { requested, reached } => {
                format!("{reached:.2} of {requested:.2} requests/s were sent")
            }
            Self::DependsOnLength { load } => {
                format!("a longer run would have other latencies; load {}", load.verdict.words())
            }
            Self::CacheNotCold { excess } => {
                let [cached, expected] =
                    [excess.cached, excess.expected].map(|ratio| 100.0 * ratio);
                format!(
                    "{cached:.1}% of the prompt tokens were cached, but prompts repeat {expected:.1}%"
                )
            }
            Self::PromptsRepeat { repeated, of, cached_percent } => {
                let cached =
                    cached_percent.map(|it| format!("; {it:.1}% of the prompt tokens were cached"));
                format!("{} were sent before{}", share(*repeated, *of), cached.unwrap_or_default())
            }
            Self::IncompleteHistory { requests, of } => {
                format!("{} lack an earlier response", share(*requests, *of))
            }
            Self::UsageDiscrepancy { requests, of, threshold_percent, .. } => {
                format!("in {} counts differ by over {threshold_percent}%", share(*requests, *of))
            }
            Self::NotStreamed { requests, of } if requests == of => {
                format!("each of {} responses came all at once", count(*requests))
            }
            Self::NotStreamed { requests, of } => {
                format!("the responses of {} came all at once", share(*requests, *of))
            }
            Self::ServerSilent(silent) => silent.summary(),
            Self::ServerSlower(slower) => slower.summary(),
            Self::EventsTogether { groups } => groups.summary(),
            Self::UnusualResponses { notes, .. } => {
                notes.first().map(|(note, _)| responses::about_note(note)).unwrap_or_default()
            }
            Self::UsageMissing { requests, of } => {
                format!("{} had no token counts in the response", share(*requests, *of))
            }
            Self::OutputLengthMismatch { requests, of, .. } => {
                format!("{} have an output of another length", share(*requests, *of))
            }
            Self::BundledTokens { tokens, percent } => {
                format!("{tokens:.1} tokens per event; ITL up to {percent:.1}% too low")
            }
            Self::CollectorNotReached { failed, .. } => {
                format!("no export reached the collector, {} failed", count(*failed))
            }
            Self::TelemetryLost { failed, rejected, .. } => format!(
                "{} exports failed, {} data points were rejected",
                count(*failed),
                count(*rejected)
            ),
            Self::ServerSamplesLost { scrapes, .. } => {
                format!("{} scrapes did not reach the collector", count(scrapes.scrapes_dropped))
            }
            Self::TracesLost { traces } => format!(
                "traces of {} requests did not reach the collector, {} spans were rejected",
                count(traces.lost),
                count(traces.rejected)
            ),
            Self::ServerSpansMissing { receiver } => {
                server_spans::findings(receiver).into_iter().next().unwrap_or_default()
            }
            Self::NotReconciled { discrepancies } => format!(
                "the exported telemetry differs from the files in {}",
                several(discrepancies.len(), "value", "values")
            ),
            Self::ServerTimesExceed { by_ms } => {
                format!("the server's times add up to {by_ms:.3} ms more than the client's")
            }
            Self::ServerCountsDiffer { comparisons } => {
                let first = comparisons.first().map(difference).unwrap_or_default();
                first.trim().to_owned()
            }
            Self::ServerMetricsDoubtful { doubts } => match doubts.as_slice() {
                [only] => printable(only).trim_end_matches('.').to_owned(),
                all => format!("{} doubts about scrapes and series", all.len()),
            },
        }
    }

    /// The findings, one sentence each.
    #[must_use]
    pub(crate) fn findings(&self) -> Vec<String> {
        match self {
            Self::NothingSucceeded { failed } => {
                vec![format!(
                    "All {} requests failed, so there are no latencies to report.",
                    count(*failed)
                )]
            }
            Self::NotAuthorized { requests, of, .. } => {
                vec![format!(
                    "The server rejected {} with status 401 or 403.",
                    share(*requests, *of)
                )]
            }
            Self::TimedOut { requests, of } => vec![timed_out(*requests, *of) + "."],
            Self::Incomplete { reason } => vec![
                printable(reason),
                "The statistics cover only the requests that completed.".to_owned(),
            ],
            Self::ConnectionsFailed { .. } | Self::ConnectionsLimited { .. } => {
                self.connection_findings()
            }
            Self::ConcurrencyNotReached { .. }
            | Self::RateNotReached { .. }
            | Self::DependsOnLength { .. } => vec![self.load_finding()],
            Self::IncompleteHistory { requests, of } => vec![format!(
                "{} were sent without an earlier response of their session, since that turn had \
                 failed or was cancelled; their prompts are shorter than intended.",
                share(*requests, *of)
            )],
            Self::UsageDiscrepancy { requests, of, threshold_percent, differences } => {
                counts::findings(*requests, *of, *threshold_percent, differences)
            }
            Self::NotStreamed { requests, of } => responses::not_streamed_findings(*requests, *of),
            Self::ServerSilent(silent) => silent.findings(),
            Self::ServerSlower(slower) => slower.findings(),
            Self::EventsTogether { groups } => groups.findings(),
            Self::UnusualResponses { notes, of } => responses::unusual_findings(notes, *of),
            Self::UsageMissing { requests, of } => vec![format!(
                "{} had no token counts (`usage`) in the response, which --use-server-token-count \
                 relies on; their input and output lengths and inter-token latency are missing.",
                share(*requests, *of)
            )],
            Self::CacheNotCold { .. } => self.cache_findings(),
            Self::PromptsRepeat { repeated, of, cached_percent } => {
                responses::repeated_findings(*repeated, *of, *cached_percent)
            }
            Self::OutputLengthMismatch { .. } => self.length_findings(),
            Self::BundledTokens { tokens, percent } => tokens::bundled_findings(*tokens, *percent),
            Self::CollectorNotReached { endpoint, failed } => vec![format!(
                "No export reached {}: {} failed. The files are complete.",
                printable(endpoint),
                count(*failed)
            )],
            Self::TelemetryLost { endpoint, failed, rejected, delivered_final } => {
                let last = if *delivered_final { "received" } else { "did not receive" };
                vec![format!(
                    "{} {last} the final values; {} exports failed and {} data points were \
                     rejected. The files are complete.",
                    printable(endpoint),
                    count(*failed),
                    count(*rejected)
                )]
            }
            Self::ServerSamplesLost { endpoint, scrapes } => {
                let last = if scrapes.delivered_final { "received" } else { "did not receive" };
                vec![format!(
                    "{} {last} the servers' final metrics; {} of {} scrapes were not delivered, \
                     and {} data points were rejected. The files are complete.",
                    printable(endpoint),
                    count(scrapes.scrapes_dropped),
                    count(scrapes.scrapes_dropped + scrapes.scrapes_forwarded),
                    count(scrapes.points_rejected)
                )]
            }
            Self::TracesLost { traces } => vec![format!(
                "The traces of {} of {} sampled requests were not delivered to the collector, and \
                 it rejected {} spans. The files have every record.",
                count(traces.lost),
                count(traces.sampled),
                count(traces.rejected)
            )],
            Self::ServerSpansMissing { receiver } => server_spans::findings(receiver),
            Self::NotReconciled { discrepancies } => not_reconciled(discrepancies),
            Self::ServerTimesExceed { by_ms } => vec![format!(
                "The times of stages that the server reports of a request add up to as much as \
                 {by_ms:.3} ms more than the client measured."
            )],
            Self::ServerCountsDiffer { comparisons } => {
                let what = "Counts over the whole run, including the warmup:".to_owned();
                [what].into_iter().chain(comparisons.iter().map(difference)).collect()
            }
            Self::ServerMetricsDoubtful { doubts } => first(doubts, ""),
        }
    }

    /// The finding about the load.
    fn load_finding(&self) -> String {
        match self {
            Self::ConcurrencyNotReached { requested, reached } => {
                let [requested, reached] = [requested, reached].map(|most| count(*most));
                format!("The concurrency was set to {requested}, but never exceeded {reached}.")
            }
            Self::RateNotReached { requested, reached } => format!(
                "The request rate was set to {requested:.2} per second, but {reached:.2} were sent."
            ),
            Self::DependsOnLength { load } => {
                format!("Load: {load}. A longer or shorter run would have other latencies.")
            }
            _ => String::new(),
        }
    }

    /// The findings about connections.
    fn connection_findings(&self) -> Vec<String> {
        match self {
            Self::ConnectionsFailed { held_back } => vec![format!(
                "Connections failed repeatedly, and {} sends were each delayed by up to a second, \
                 so the load was lower than configured.",
                count(*held_back)
            )],
            Self::ConnectionsLimited { mean_ms, longest_ms } => vec![format!(
                "All connections that the client may open were in use, so requests waited for one \
                 ({mean_ms:.1} ms on average, {longest_ms:.1} ms at most). Latencies include this \
                 wait (http_req_blocked)."
            )],
            _ => Vec::new(),
        }
    }

    /// The findings about the prefix cache.
    fn cache_findings(&self) -> Vec<String> {
        let Self::CacheNotCold { excess } = self else { return Vec::new() };
        let Excess { cached, expected, expected_most } = *excess;
        let percent = |ratio: f64| format!("{:.1}%", 100.0 * ratio);
        vec![
            format!(
                "The server read {} of the prompt tokens from its prefix cache. The prompts of this run \
                 repeat {} of each other, so that a cache that started empty would have found at most \
                 {}.",
                percent(cached),
                percent(expected),
                percent(expected_most)
            ),
            "It had prompts in its cache before the run, such as those of an earlier run with the same \
             seed. The times to first token are shorter than those of a server that starts without them."
                .to_owned(),
        ]
    }

    /// Returns findings and advice, one line each.
    pub(super) fn text(&self, given: &Given) -> Vec<String> {
        let mut lines = self.findings();
        lines.push(String::new());
        lines.push("What to do:".to_owned());
        lines.extend(self.advice(given).into_iter().map(|advice| format!("  - {advice}")));
        lines
    }
}

/// Returns the first items of `all`, indented, and how many more there are.
fn first(all: &[String], indent: &str) -> Vec<String> {
    let named = all.iter().take(MAX_DISCREPANCIES);
    let mut lines: Vec<_> = named.map(|one| format!("{indent}{}", printable(one))).collect();
    if let more @ 1.. = all.len().saturating_sub(MAX_DISCREPANCIES) {
        lines.push(format!("{indent}and {more} more"));
    }
    lines
}

fn not_reconciled(discrepancies: &[String]) -> Vec<String> {
    let what = "The exported telemetry differs from the files:".to_owned();
    [what].into_iter().chain(first(discrepancies, "  ")).collect()
}

fn timed_out(requests: u64, of: u64) -> String {
    format!("{} had no response within --request-timeout-seconds", share(requests, of))
}

/// Formats a share of requests as `36 of 40 requests (90.0%)`.
pub(super) fn share(requests: u64, of: u64) -> String {
    let percent = if of == 0 { 0.0 } else { 100.0 * requests as f64 / of as f64 };
    format!("{} of {} requests ({percent:.1}%)", count(requests), count(of))
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
