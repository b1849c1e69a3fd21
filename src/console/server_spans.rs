//! Whether the spans of the servers arrived.

use std::fmt::Write as _;

use super::format::count;
use super::warning::share;
use crate::otlp_receiver::ReceiverReport;
use crate::run::RunReport;

/// Share of the requests with spans below which a warning is printed.
const JOINED_SHARE: f64 = 0.99;

/// Says for how many requests the servers have sent spans, if these were received.
pub(super) fn line(report: &RunReport) -> Option<String> {
    let receiver = report.outcome.telemetry.as_ref()?.receiver.as_ref()?;
    Some(format!(
        "  server spans at {}: {} of {} requests joined, at most {:.1} s after their end",
        receiver.address,
        count(receiver.joined_requests),
        count(receiver.sampled_requests),
        receiver.longest_delay_seconds,
    ))
}

/// Returns whether too many requests lack spans.
pub(super) fn are_missing(receiver: &ReceiverReport) -> bool {
    receiver.joined_share().is_some_and(|share| share < JOINED_SHARE)
}

/// The findings about missing spans: how many, and the counts that reveal why.
pub(super) fn findings(receiver: &ReceiverReport) -> Vec<String> {
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
pub(super) const fn advice(receiver: &ReceiverReport) -> &'static [&'static str] {
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
