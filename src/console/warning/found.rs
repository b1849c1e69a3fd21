//! What is unusual in the results of a run.

use super::servers::{Silent, Slower};
use super::{Warning, counts, responses, tokens};
use crate::console::{server_metrics, server_spans};
use crate::metrics::tag::{self, MetricTag};
use crate::record::ErrorKind;
use crate::run::{ErrorCount, RunReport};
use crate::telemetry::{ScrapesReport, TracesReport};

/// Shortfall of the request rate that is attributed to chance, in percent.
const RATE_SLACK_PERCENT: f64 = 5.0;
/// Deviation of a random arrival process that is attributed to chance, in standard deviations.
const RATE_SLACK_DEVIATIONS: f64 = 3.0;
/// The least share of requests that time out to warn of it.
const MANY_TIMEOUTS: f64 = 0.1;
/// Error of times that servers report, some of which round them to whole milliseconds.
const SERVER_ROUNDING_MS: f64 = 1.0;

impl Warning {
    /// Returns all warnings about `report`, the most serious first.
    #[must_use]
    pub(crate) fn of(report: &RunReport) -> Vec<Self> {
        let mut warnings: Vec<Self> = [
            incomplete(report),
            nothing_succeeded(report),
            not_authorized(report),
            timed_out(report),
            connections_failed(report),
            connections_limited(report),
            concurrency_not_reached(report),
            rate_not_reached(report),
            depends_on_length(report),
            cache_not_cold(report),
            responses::prompts_repeat(report),
            incomplete_history(report),
            responses::not_streamed(report),
            Silent::of(report).map(Warning::ServerSilent),
            Slower::of(report).map(Warning::ServerSlower),
            responses::events_together(report),
            responses::unusual(report),
            usage_missing(report),
            counts::usage_discrepancy(report),
            tokens::output_length_mismatch(report),
            tokens::bundled(report),
        ]
        .into_iter()
        .flatten()
        .collect();
        warnings.extend(server_times_exceed(report));
        warnings.extend(server_counts_differ(report));
        warnings.extend(server_metrics_doubtful(report));
        warnings.extend(telemetry(report));
        warnings
    }
}

/// A count from the results; 0 if absent.
pub(super) fn counted(report: &RunReport, tag: MetricTag) -> u64 {
    report.average(tag).map_or(0, |value| value.round() as u64)
}

fn connections_failed(report: &RunReport) -> Option<Warning> {
    let held_back = report.outcome.load.sends_held_back;
    (held_back > 0).then_some(Warning::ConnectionsFailed { held_back })
}

fn connections_limited(report: &RunReport) -> Option<Warning> {
    let waits = report.results.iter().find(|one| one.metric.tag == tag::HTTP_REQ_BLOCKED)?;
    let longest_ms = waits.stats.distribution?.max;
    let mean_ms = waits.stats.avg;
    (longest_ms > 0.0).then_some(Warning::ConnectionsLimited { mean_ms, longest_ms })
}

fn usage_missing(report: &RunReport) -> Option<Warning> {
    let settings = &report.run.settings;
    if !settings.use_server_token_count || !report.run.endpoint.produces_tokens {
        return None;
    }
    let of = counted(report, tag::REQUEST_COUNT);
    let lengths = report.results.iter().find(|one| one.metric.tag == tag::OUTPUT_SEQUENCE_LENGTH);
    let counted = lengths.and_then(|one| one.stats.distribution).map_or(0, |spread| spread.count);
    let requests = of.saturating_sub(counted);
    (requests > 0).then_some(Warning::UsageMissing { requests, of })
}

/// Stages that add up to more than the latency, by more than the client's times may be wrong.
fn server_times_exceed(report: &RunReport) -> Option<Warning> {
    let rest = report.results.iter().find(|one| one.metric.tag == tag::SERVER_UNATTRIBUTED_TIME)?;
    let health = report.outcome.client_health.as_ref();
    let error = health.and_then(|health| health.arrival_error_ms.as_ref());
    // The server may have the request before the client knows that it was sent.
    let sending = report.results.iter().find(|one| one.metric.tag == tag::HTTP_REQ_SENDING);
    let sending_ms = sending.and_then(|one| one.stats.distribution).map_or(0.0, |one| one.max);
    let bound_ms = error.map_or(0.0, |error| error.max) + sending_ms + SERVER_ROUNDING_MS;
    let by_ms = -rest.stats.distribution?.min;
    (by_ms > bound_ms).then_some(Warning::ServerTimesExceed { by_ms })
}

fn depends_on_length(report: &RunReport) -> Option<Warning> {
    let load = report.outcome.load_health.filter(|load| load.verdict.is_of_length())?;
    Some(Warning::DependsOnLength { load })
}

fn incomplete_history(report: &RunReport) -> Option<Warning> {
    let requests = counted(report, tag::INCOMPLETE_HISTORY_COUNT);
    let of = counted(report, tag::COMPLETED_REQUEST_COUNT);
    (requests > 0).then_some(Warning::IncompleteHistory { requests, of })
}

fn nothing_succeeded(report: &RunReport) -> Option<Warning> {
    let failed = report.failed();
    (failed > 0 && counted(report, tag::REQUEST_COUNT) == 0)
        .then_some(Warning::NothingSucceeded { failed })
}

fn not_authorized(report: &RunReport) -> Option<Warning> {
    let is_refusal = |error: &&ErrorCount| matches!(error.error_details.code, Some(401 | 403));
    let requests = report.errors.iter().filter(is_refusal).map(|error| error.count).sum();
    let of = report.ended();
    let had_key = report.run.setup.has_credentials;
    (requests > 0).then_some(Warning::NotAuthorized { requests, of, had_key })
}

fn timed_out(report: &RunReport) -> Option<Warning> {
    let is_timeout = |error: &&ErrorCount| error.error_details.kind == ErrorKind::Timeout;
    let requests = report.errors.iter().filter(is_timeout).map(|error| error.count).sum();
    let of = report.ended();
    let is_notable = requests as f64 >= MANY_TIMEOUTS * of.max(1) as f64;
    is_notable.then_some(Warning::TimedOut { requests, of })
}

fn incomplete(report: &RunReport) -> Option<Warning> {
    let reason = match &report.outcome.incomplete_reason {
        Some(reason) => reason.clone(),
        None if report.outcome.was_cancelled => "The run was cancelled.".to_owned(),
        None => return None,
    };
    Some(Warning::Incomplete { reason })
}

/// Only for a closed loop: with a rate, the concurrency is only a limit.
fn concurrency_not_reached(report: &RunReport) -> Option<Warning> {
    let is_closed_loop = report.outcome.load.requested_rate.is_none();
    let requested = report.outcome.load.requested_concurrency.filter(|_| is_closed_loop)?;
    let reached = report.outcome.load.reached_concurrency;
    (reached < requested).then_some(Warning::ConcurrencyNotReached { requested, reached })
}

/// Arrivals are random: the rate of `n` requests deviates by `1/√n`.
fn rate_not_reached(report: &RunReport) -> Option<Warning> {
    let (requested, reached) =
        (report.outcome.load.requested_rate?, report.outcome.load.reached_rate?);
    let by_chance = RATE_SLACK_DEVIATIONS / (report.ended().max(1) as f64).sqrt();
    let slack = by_chance.max(RATE_SLACK_PERCENT / 100.0);
    (reached < requested * (1.0 - slack)).then_some(Warning::RateNotReached { requested, reached })
}

fn cache_not_cold(report: &RunReport) -> Option<Warning> {
    let excess = report.outcome.prefix_cache.as_ref()?.excess()?;
    Some(Warning::CacheNotCold { excess })
}

fn server_counts_differ(report: &RunReport) -> Option<Warning> {
    let comparisons: Vec<_> =
        report.conservation().iter().filter(|one| !one.agrees).cloned().collect();
    (!comparisons.is_empty()).then_some(Warning::ServerCountsDiffer { comparisons })
}

fn server_metrics_doubtful(report: &RunReport) -> Option<Warning> {
    let doubts = server_metrics::doubts(&report.server_metrics.as_ref()?.report);
    (!doubts.is_empty()).then_some(Warning::ServerMetricsDoubtful { doubts })
}

fn telemetry(report: &RunReport) -> Vec<Warning> {
    let Some(telemetry) = &report.outcome.telemetry else { return Vec::new() };
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
    if let Some(receiver) = telemetry.receiver.as_ref().filter(|it| server_spans::are_missing(it)) {
        warnings.push(Warning::ServerSpansMissing { receiver: receiver.clone() });
    }
    if !telemetry.reconciled && !telemetry.discrepancies.is_empty() {
        let discrepancies = telemetry.discrepancies.clone();
        warnings.push(Warning::NotReconciled { discrepancies });
    }
    warnings
}
