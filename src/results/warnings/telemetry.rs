//! Warnings about telemetry: what did not reach the collector, and what did not come from the servers.

use std::fmt::Write as _;

use base::redact::printable;
use measure::otlp_receiver::ReceiverReport;
use telemetry::{ScrapesReport, TelemetryReport, TracesReport};

use super::{Found, Level, WarningKind, first, share};
use crate::run::RunReport;
use crate::tables::format::count;

/// Advice on exports that were not delivered.
const UNDELIVERED: [&str; 2] = [
    "See the collector's log, and its responses in logs/aiperf.log.",
    "If exports timed out, raise AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS.",
];

pub(super) const KINDS: &[WarningKind] = &[
    WarningKind {
        name: "collector-not-reached",
        title: "Collector Not Reached",
        level: Level::Bad,
        find: |report, _| {
            let (telemetry, endpoint) = exported(report)?;
            is_unreached(telemetry).then(|| not_reached(endpoint, telemetry.exports_failed))
        },
        example: |_| not_reached(EXAMPLE, 5),
    },
    WarningKind {
        name: "telemetry-incomplete",
        title: "Telemetry Incomplete",
        level: Level::Doubtful,
        find: |report, _| {
            let (telemetry, endpoint) = exported(report)?;
            let is_lost = !telemetry.delivered_final || telemetry.rejected_data_points > 0;
            (is_lost && !is_unreached(telemetry)).then(|| incomplete(endpoint, telemetry))
        },
        example: |_| {
            let (exports_failed, rejected_data_points) = (1, 12);
            incomplete(
                EXAMPLE,
                &TelemetryReport { exports_failed, rejected_data_points, ..Default::default() },
            )
        },
    },
    WarningKind {
        name: "server-samples-incomplete",
        title: "Server Samples Incomplete",
        level: Level::Doubtful,
        find: |report, _| {
            let (telemetry, endpoint) = exported(report)?;
            let scrapes = telemetry.scrapes.as_ref().filter(|_| !is_unreached(telemetry))?;
            let is_lost = scrapes.scrapes_dropped > 0
                || scrapes.points_rejected > 0
                || !scrapes.delivered_final;
            is_lost.then(|| samples_incomplete(endpoint, scrapes))
        },
        example: |_| {
            let (scrapes_forwarded, scrapes_dropped) = (97, 3);
            samples_incomplete(
                EXAMPLE,
                &ScrapesReport { scrapes_forwarded, scrapes_dropped, ..Default::default() },
            )
        },
    },
    WarningKind {
        name: "traces-incomplete",
        title: "Traces Incomplete",
        level: Level::Doubtful,
        find: |report, _| {
            let telemetry = report.outcome.telemetry.as_ref()?;
            let traces = telemetry.traces.as_ref()?;
            let is_told = telemetry.endpoint.is_some() && is_unreached(telemetry);
            let is_lost = traces.lost > 0 || traces.rejected > 0;
            (is_lost && !is_told).then(|| traces_incomplete(traces))
        },
        example: |_| {
            traces_incomplete(&TracesReport { sampled: 40, lost: 10, ..TracesReport::default() })
        },
    },
    WarningKind {
        name: "server-spans-missing",
        title: "Server Spans Missing",
        level: Level::Doubtful,
        find: |report, _| {
            let receiver = report.outcome.telemetry.as_ref()?.receiver.as_ref()?;
            are_missing(receiver).then(|| spans_missing(receiver))
        },
        example: |_| {
            let (sampled_requests, unjoined_requests) = (100, 100);
            spans_missing(&ReceiverReport {
                sampled_requests,
                unjoined_requests,
                ..ReceiverReport::default()
            })
        },
    },
    WarningKind {
        name: "telemetry-disagrees",
        title: "Telemetry Does Not Agree",
        level: Level::Bad,
        find: |report, _| {
            let telemetry = report.outcome.telemetry.as_ref()?;
            let differs = !telemetry.reconciled && !telemetry.discrepancies.is_empty();
            differs.then(|| disagrees(&telemetry.discrepancies))
        },
        example: |_| disagrees(&["aiperf.request_latency: count".to_owned()]),
    },
];

/// Share of the requests with spans below which a warning is printed.
const JOINED_SHARE: f64 = 0.99;

/// The collector of the examples.
const EXAMPLE: &str = "http://localhost:4317";

/// Returns the export of metrics and its collector, if there was one.
fn exported(report: &RunReport) -> Option<(&TelemetryReport, &str)> {
    let telemetry = report.outcome.telemetry.as_ref()?;
    Some((telemetry, telemetry.endpoint.as_deref()?))
}

/// Returns whether no export of metrics reached the collector.
const fn is_unreached(telemetry: &TelemetryReport) -> bool {
    telemetry.exports_ok == 0 && telemetry.exports_failed > 0
}

/// `received`, or that it did not.
const fn received(has: bool) -> &'static str {
    if has { "received" } else { "did not receive" }
}

fn not_reached(endpoint: &str, failed: u64) -> Found {
    let failed = count(failed);
    Found::new(
        format!("no export reached the collector, {failed} failed"),
        [format!(
            "No export reached {}: {failed} failed. The files are complete.",
            printable(endpoint)
        )],
        [
            "Check --otel-url, and that the collector accepts OTLP there.",
            "gRPC is usually on port 4317, HTTP on 4318.",
        ],
    )
}

fn incomplete(endpoint: &str, telemetry: &TelemetryReport) -> Found {
    let [failed, rejected] = [telemetry.exports_failed, telemetry.rejected_data_points].map(count);
    Found::new(
        format!("{failed} exports failed, {rejected} data points were rejected"),
        [format!(
            "{} {} the final values; {failed} exports failed and {rejected} data points were rejected. The \
             files are complete.",
            printable(endpoint),
            received(telemetry.delivered_final)
        )],
        UNDELIVERED,
    )
}

fn samples_incomplete(endpoint: &str, scrapes: &ScrapesReport) -> Found {
    let dropped = count(scrapes.scrapes_dropped);
    Found::new(
        format!("{dropped} scrapes did not reach the collector"),
        [format!(
            "{} {} the servers' final metrics; {dropped} of {} scrapes were not delivered, and {} data \
             points were rejected. The files are complete.",
            printable(endpoint),
            received(scrapes.delivered_final),
            count(scrapes.scrapes_dropped + scrapes.scrapes_forwarded),
            count(scrapes.points_rejected)
        )],
        UNDELIVERED,
    )
}

fn traces_incomplete(traces: &TracesReport) -> Found {
    let [lost, rejected] = [traces.lost, traces.rejected].map(count);
    Found::new(
        format!(
            "traces of {lost} requests did not reach the collector, {rejected} spans were rejected"
        ),
        [format!(
            "The traces of {lost} of {} sampled requests were not delivered to the collector, and it \
             rejected {rejected} spans. The files have every record.",
            count(traces.sampled)
        )],
        UNDELIVERED,
    )
}

fn spans_missing(receiver: &ReceiverReport) -> Found {
    let findings = span_findings(receiver);
    let summary = findings.first().cloned().unwrap_or_default();
    Found::new(summary, findings, span_advice(receiver).iter().copied())
}

fn disagrees(discrepancies: &[String]) -> Found {
    let values = if discrepancies.len() == 1 { "value" } else { "values" };
    let what = "The exported telemetry differs from the files:".to_owned();
    Found::new(
        format!(
            "the exported telemetry differs from the files in {} {values}",
            discrepancies.len()
        ),
        [what].into_iter().chain(first(discrepancies, "  ")),
        ["Rely on the files, which contain every value, and report the difference as a bug."],
    )
}

/// Returns whether too many requests lack spans.
fn are_missing(receiver: &ReceiverReport) -> bool {
    receiver.joined_share().is_some_and(|share| share < JOINED_SHARE)
}

/// The findings about missing spans: how many, and the counts that reveal why.
fn span_findings(receiver: &ReceiverReport) -> Vec<String> {
    let lack = format!(
        "No spans of the servers arrived for {}.",
        share(receiver.unjoined_requests, receiver.sampled_requests)
    );
    let counts = [
        (receiver.spans_foreign, "of them were of other traces"),
        (receiver.spans_late, "arrived too late"),
        (receiver.spans_dropped, "were too many or too large"),
        (receiver.spans_malformed, "were not valid"),
        (receiver.requests_malformed, "exports could not be read"),
        (receiver.released_early, "requests did not wait until the end"),
    ];
    let mut facts = format!("{} spans arrived in all", count(receiver.spans_received));
    for (number, what) in counts.into_iter().filter(|(number, _)| *number > 0) {
        // Writing to a string does not fail.
        let _ = write!(facts, ", {} {what}", count(number));
    }
    vec![lack, facts + "."]
}

/// What to do about missing spans, by what the counts reveal.
const fn span_advice(receiver: &ReceiverReport) -> &'static [&'static str] {
    if receiver.spans_received == 0 {
        &[
            "Start the server with this receiver as its OTLP endpoint, see telemetry.receiver in \
             the JSON summary; use a fixed port, such as --otel-receiver 4317.",
            "If the server started before the receiver, its exporter waits longer after each failed \
             attempt, up to minutes: start the server while the receiver is there, or run again.",
            "Check that the server sends spans at all, and that a proxy passes on traceparent.",
        ]
    } else if receiver.spans_late > 0 {
        &[
            "Raise --otel-receiver-wait.",
            "Let the server send sooner: OTEL_BSP_SCHEDULE_DELAY=500 in its environment.",
        ]
    } else if receiver.joined_requests == 0 {
        &["The spans have other trace IDs: check that a proxy in between passes on traceparent, \
             and that no other client uses the server."]
    } else {
        &[
            "Raise --otel-receiver-wait, or let the server send sooner: \
             OTEL_BSP_SCHEDULE_DELAY=500 in its environment.",
            "Check that all replicas send spans to this receiver, and that none drops them \
             (OTEL_BSP_MAX_QUEUE_SIZE).",
        ]
    }
}
