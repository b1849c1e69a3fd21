//! Breakdown of the time of an HTTP request, with k6's names.

use std::ops::Add;

use base::units::{Nanos, Unit};
use client::record::HttpTrace;

use crate::metrics::ConsoleGroup::None as Separate;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag, RecordValues};
use crate::metrics::tag;
use crate::metrics::tag::MetricTag;

pub(super) const ABOUT: &str = "Breakdown of the time of an HTTP request, with the names that k6 \
                                and HAR use. The six phases blocked, dns_lookup, connecting, \
                                sending, waiting and receiving do not overlap and add up to \
                                http_req_total to the nanosecond. A phase that did not occur is 0. \
                                Records of failed requests have the phases that were completed, \
                                with http_req_receiving and http_req_duration up to the failure; \
                                they are excluded from statistics. `--show-trace-timing` prints a \
                                table of these metrics; `--export-http-trace` adds the timestamps \
                                to the records.";

pub(super) static ROWS: &[Metric] = &[
    phase(tag::HTTP_REQ_BLOCKED, "HTTP Blocked", 2000, |facts, _| {
        reached(facts, HttpTrace::was_unblocked, HttpTrace::blocked)
    })
    .short("Blocked")
    .says(
        "Time waiting for a connection.",
        "connection_pool_wait_end − connection_pool_wait_start; 0 without a wait. High values \
         mean that `AIPERF_HTTP_CONNECTION_LIMIT` is reached.",
    ),
    phase(tag::HTTP_REQ_DNS_LOOKUP, "HTTP DNS Lookup", 2010, |facts, _| {
        reached(facts, HttpTrace::had_addresses, HttpTrace::dns_lookup)
    })
    .short("DNS")
    .says(
        "Time to resolve the host name.",
        "dns_lookup_end − dns_lookup_start; 0 if it was cached or the connection was reused.",
    ),
    phase(tag::HTTP_REQ_CONNECTING, "HTTP Connecting", 2020, |facts, _| {
        reached(facts, HttpTrace::had_connection, HttpTrace::connecting)
    })
    .short("Connecting")
    .says(
        "Time to open the connection: TCP, and a proxy's tunnel and TLS if used.",
        "tcp_connect_end − tcp_connect_start; 0 if the connection was reused.",
    ),
    phase(tag::HTTP_REQ_TLS_HANDSHAKING, "HTTP TLS Handshaking", 2025, |facts, _| {
        reached(facts, HttpTrace::had_connection, HttpTrace::tls_handshaking)
    })
    .short("TLS")
    .says(
        "Time of the TLS handshake, which is part of http_req_connecting.",
        "tls_handshake_end − tls_handshake_start; 0 without TLS or if the connection was \
         reused.",
    ),
    phase(tag::HTTP_REQ_SENDING, "HTTP Sending", 2030, |facts, _| {
        nanos(facts.record.trace.sending())
    })
    .short("Sending")
    .says(
        "Time to send the whole request over an established connection.",
        "request_send_end − request_send_start. Ends early if the response begins earlier.",
    ),
    phase(tag::HTTP_REQ_WAITING, "HTTP Waiting (TTFB)", 2040, |facts, _| {
        nanos(facts.record.trace.waiting())
    })
    .short("TTFB")
    .says(
        "Time from the request's last byte to the first byte of the response body.",
        "response_receive_start − request_send_end. Absent without a body.",
    ),
    phase(tag::HTTP_REQ_RECEIVING, "HTTP Receiving", 2050, |facts, _| {
        nanos(facts.record.trace.receiving())
    })
    .short("Receiving")
    .says(
        "Time from the first to the last byte of the response body.",
        "response_receive_end − response_receive_start; 0 if a single read returned it all. Absent \
         without a body.",
    ),
    traced(
        tag::HTTP_REQ_CONNECTION_REUSED,
        "HTTP Connection Reused",
        Unit::Ratio,
        2060,
        |facts, _| {
            let trace = &facts.record.trace;
            trace.had_connection().then(|| f64::from(u8::from(trace.reused.is_some())))
        },
    )
    .short("Conn Reused")
    .says(
        "Whether the request was sent over a reused connection: 1 or 0.",
        "1 if connection_reused is set, otherwise 0.",
    ),
    traced(tag::HTTP_REQ_DATA_SENT, "HTTP Data Sent", Unit::Bytes, 2070, |facts, _| {
        Some(sent(facts)?.request_bytes as f64)
    })
    .short("Sent")
    .shown_in(Unit::Kilobytes)
    .says("Bytes of HTTP sent: headers, framing and body, without TLS.", "request_bytes_total."),
    exported(tag::HTTP_REQ_CHUNKS_SENT, "HTTP Chunks Sent", Unit::Count, |facts, _| {
        Some(sent(facts)?.request_chunks as f64)
    })
    .short("Chunks Sent")
    .says("Writes to the connection.", "request_chunks_count."),
    traced(tag::HTTP_REQ_DATA_RECEIVED, "HTTP Data Received", Unit::Bytes, 2090, |facts, _| {
        Some(sent(facts)?.response_bytes as f64)
    })
    .short("Received")
    .shown_in(Unit::Kilobytes)
    .says(
        "Bytes of HTTP received: headers, framing and body, without TLS.",
        "response_bytes_total.",
    ),
    exported(tag::HTTP_REQ_CHUNKS_RECEIVED, "HTTP Chunks Received", Unit::Count, |facts, _| {
        Some(sent(facts)?.response_chunks as f64)
    })
    .short("Chunks Recv")
    .says("Reads from the connection that returned data.", "response_chunks_count."),
    phase(tag::HTTP_REQ_CONNECTION_OVERHEAD, "HTTP Connection Overhead", 2110, |facts, _| {
        reached(facts, HttpTrace::had_connection, |trace| Some(overhead(trace)))
    })
    .short("Conn Overhead")
    .requires(&[tag::HTTP_REQ_BLOCKED, tag::HTTP_REQ_CONNECTING, tag::HTTP_REQ_DNS_LOOKUP])
    .says(
        "Time until an established connection was available.",
        "http_req_blocked + http_req_dns_lookup + http_req_connecting.",
    ),
    phase(tag::HTTP_REQ_DURATION, "HTTP Duration (excl. conn)", 2120, |facts, _| {
        nanos(facts.record.trace.duration())
    })
    .short("Dur (excl)")
    .says(
        "Time of the request and response over an established connection.",
        "response_receive_end − request_send_start. Absent without a body.",
    ),
    phase(tag::HTTP_REQ_TOTAL, "HTTP Total Time", 2130, |facts, _| {
        nanos(sent(facts).and_then(total))
    })
    .short("Total")
    .requires(&[
        tag::HTTP_REQ_BLOCKED,
        tag::HTTP_REQ_CONNECTING,
        tag::HTTP_REQ_DNS_LOOKUP,
        tag::HTTP_REQ_RECEIVING,
        tag::HTTP_REQ_SENDING,
        tag::HTTP_REQ_WAITING,
    ])
    .says(
        "Total time of the HTTP request: the sum of its six phases.",
        "http_req_blocked + http_req_dns_lookup + http_req_connecting + http_req_sending + \
         http_req_waiting + http_req_receiving. Absent without a body.",
    ),
];

/// Returns a row for a time.
const fn phase(
    tag: MetricTag,
    header: &'static str,
    order: u32,
    compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
) -> Metric {
    traced(tag, header, Unit::Nanoseconds, order, compute).shown_in(Unit::Milliseconds)
}

/// Returns a row that is in the table of HTTP timing.
const fn traced(
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    order: u32,
    compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
) -> Metric {
    exported(tag, header, unit, compute).at(Separate, order)
}

/// Returns a row that is in no console table.
const fn exported(
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
) -> Metric {
    Metric::record(tag, header, unit, compute).flagged(Flag::HTTP_TRACE_ONLY).off_console()
}

/// Returns the trace of a request that was at least partly sent.
fn sent<'a>(facts: &Facts<'a>) -> Option<&'a HttpTrace> {
    Some(&facts.record.trace).filter(|trace| trace.send_start.is_some())
}

/// Returns the time of a phase that the request `passed`: 0 if it did not occur.
fn reached(
    facts: &Facts<'_>,
    passed: fn(&HttpTrace) -> bool,
    phase: fn(&HttpTrace) -> Option<Nanos>,
) -> Option<f64> {
    let trace = &facts.record.trace;
    nanos(passed(trace).then(|| phase(trace).unwrap_or_default()))
}

fn nanos(duration: Option<Nanos>) -> Option<f64> {
    duration.map(|duration| duration.0 as f64)
}

fn overhead(trace: &HttpTrace) -> Nanos {
    let phases = [trace.blocked(), trace.dns_lookup(), trace.connecting()];
    phases.into_iter().flatten().fold(Nanos::ZERO, Nanos::add)
}

fn total(trace: &HttpTrace) -> Option<Nanos> {
    Some(overhead(trace) + trace.sending()? + trace.waiting()? + trace.receiving()?)
}

#[cfg(test)]
mod tests;
