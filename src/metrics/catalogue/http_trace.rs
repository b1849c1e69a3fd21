//! Where the time of an HTTP exchange went, in k6's names.

use std::ops::Add;

use crate::metrics::ConsoleGroup::None as Separate;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag, MetricTag, RecordValues};
use crate::record::HttpTrace;
use crate::units::{Nanos, Unit};

pub(super) const ABOUT: &str = "Where the time of an HTTP exchange went, in the names that k6 and \
    HAR use. The six phases blocked, dns_lookup, connecting, sending, waiting and receiving do not \
    overlap and add up to http_req_total to the nanosecond. What did not happen took 0. A table of \
    their own with `--show-trace-timing`; the instants are in the records with \
    `--export-http-trace`.";

pub(super) static ROWS: &[Metric] = &[
    phase("http_req_blocked", "HTTP Blocked", 2000, |facts, _| {
        before_sending(facts, HttpTrace::blocked)
    })
    .short("Blocked")
    .says(
        "Time in the queue for a connection.",
        "connection_pool_wait_end − connection_pool_wait_start; 0 without a wait. High values \
         mean that `AIPERF_HTTP_CONNECTION_LIMIT` is reached.",
    ),
    phase("http_req_dns_lookup", "HTTP DNS Lookup", 2010, |facts, _| {
        before_sending(facts, HttpTrace::dns_lookup)
    })
    .short("DNS")
    .says(
        "Time to resolve the host's name.",
        "dns_lookup_end − dns_lookup_start; 0 where the cache had it or the connection was reused.",
    ),
    phase("http_req_connecting", "HTTP Connecting", 2020, |facts, _| {
        before_sending(facts, HttpTrace::connecting)
    })
    .short("Connecting")
    .says(
        "Time to make the connection: TCP, with a proxy's tunnel and TLS where they are used.",
        "tcp_connect_end − tcp_connect_start; 0 where the connection was reused.",
    ),
    phase("http_req_tls_handshaking", "HTTP TLS Handshaking", 2025, |facts, _| {
        before_sending(facts, HttpTrace::tls_handshaking)
    })
    .short("TLS")
    .says(
        "Time of the TLS handshake: a part of http_req_connecting.",
        "tls_handshake_end − tls_handshake_start; 0 without TLS or where the connection was \
         reused.",
    ),
    phase("http_req_sending", "HTTP Sending", 2030, |facts, _| nanos(facts.record.trace.sending()))
        .short("Sending")
        .says(
            "Time to send the whole request to a connection that is ready.",
            "request_send_end − request_send_start. An answer that begins earlier ends it.",
        ),
    phase("http_req_waiting", "HTTP Waiting (TTFB)", 2040, |facts, _| {
        nanos(facts.record.trace.waiting())
    })
    .short("TTFB")
    .says(
        "Time from the request's last byte to the first byte of the response's body.",
        "response_receive_start − request_send_end. Absent without a body.",
    ),
    phase("http_req_receiving", "HTTP Receiving", 2050, |facts, _| {
        nanos(facts.record.trace.receiving())
    })
    .short("Receiving")
    .says(
        "Time from the first to the last byte of the response's body.",
        "response_receive_end − response_receive_start; 0 where one read held it all. Absent \
         without a body.",
    ),
    traced(
        "http_req_connection_reused",
        "HTTP Connection Reused",
        Unit::Ratio,
        2060,
        |facts, _| sent(facts).map(|trace| if trace.reused.is_some() { 1.0 } else { 0.0 }),
    )
    .short("Conn Reused")
    .says(
        "Whether the request went over a connection that had served another: 1 or 0.",
        "1 where connection_reused is set, else 0.",
    ),
    traced("http_req_data_sent", "HTTP Data Sent", Unit::Bytes, 2070, |facts, _| {
        Some(sent(facts)?.request_bytes as f64)
    })
    .short("Sent")
    .shown_in(Unit::Kilobytes)
    .says(
        "Bytes of HTTP sent: headers, framing and body, TLS not counted.",
        "request_bytes_total.",
    ),
    traced("http_req_chunks_sent", "HTTP Chunks Sent", Unit::Count, 2080, |facts, _| {
        Some(sent(facts)?.request_chunks as f64)
    })
    .short("Chunks Sent")
    .says("Writes to the connection.", "request_chunks_count."),
    traced("http_req_data_received", "HTTP Data Received", Unit::Bytes, 2090, |facts, _| {
        Some(sent(facts)?.response_bytes as f64)
    })
    .short("Received")
    .shown_in(Unit::Kilobytes)
    .says(
        "Bytes of HTTP received: headers, framing and body, TLS not counted.",
        "response_bytes_total.",
    ),
    traced("http_req_chunks_received", "HTTP Chunks Received", Unit::Count, 2100, |facts, _| {
        Some(sent(facts)?.response_chunks as f64)
    })
    .short("Chunks Recv")
    .says("Reads from the connection that brought bytes.", "response_chunks_count."),
    phase("http_req_connection_overhead", "HTTP Connection Overhead", 2110, |facts, _| {
        nanos(sent(facts).map(overhead))
    })
    .short("Conn Overhead")
    .requires(&["http_req_blocked", "http_req_connecting", "http_req_dns_lookup"])
    .says(
        "Time until there was a connection that is ready.",
        "http_req_blocked + http_req_dns_lookup + http_req_connecting.",
    ),
    phase("http_req_duration", "HTTP Duration (excl. conn)", 2120, |facts, _| {
        nanos(facts.record.trace.duration())
    })
    .short("Dur (excl)")
    .says(
        "Time of the exchange on a connection that is ready.",
        "response_receive_end − request_send_start. Absent without a body.",
    ),
    phase("http_req_total", "HTTP Total Time", 2130, |facts, _| nanos(sent(facts).and_then(total)))
        .short("Total")
        .requires(&[
            "http_req_blocked",
            "http_req_connecting",
            "http_req_dns_lookup",
            "http_req_receiving",
            "http_req_sending",
            "http_req_waiting",
        ])
        .says(
            "Time of the whole exchange: the sum of its six phases.",
            "http_req_blocked + http_req_dns_lookup + http_req_connecting + http_req_sending + \
         http_req_waiting + http_req_receiving. Absent without a body.",
        ),
];

/// A row with a time.
const fn phase(
    tag: MetricTag,
    header: &'static str,
    order: u32,
    compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
) -> Metric {
    traced(tag, header, Unit::Nanoseconds, order, compute).shown_in(Unit::Milliseconds)
}

/// A row in the table of HTTP timings.
const fn traced(
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    order: u32,
    compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
) -> Metric {
    Metric::record(tag, header, unit, compute).flagged(Flag::HTTP_TRACE_ONLY).at(Separate, order)
}

/// The trace of a request of which something was sent.
fn sent<'a>(facts: &Facts<'a>) -> Option<&'a HttpTrace> {
    Some(&facts.record.trace).filter(|trace| trace.send_start.is_some())
}

/// A phase before the sending: 0 where it did not happen.
fn before_sending(facts: &Facts<'_>, phase: fn(&HttpTrace) -> Option<Nanos>) -> Option<f64> {
    nanos(sent(facts).map(|trace| phase(trace).unwrap_or_default()))
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
