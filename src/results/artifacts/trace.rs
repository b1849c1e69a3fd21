//! `trace_data` of a record: instants in wall time and durations, both in nanoseconds, absent if
//! the event did not occur.

use std::net::IpAddr;

use serde::Serialize;

use base::units::Nanos;
use client::record::ArrivalClock;
use measure::metrics::fields::Row;

use super::jsonl::Headers;

/// The timing of one exchange.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_field_names, reason = "the names in the file")]
pub(super) struct Trace<'a> {
    /// Always `hyper`, which stands for the meaning of the other fields.
    trace_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_send_start_ns: Option<u64>,
    /// Headers of the request, with secrets redacted.
    request_headers: Headers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_headers_sent_ns: Option<u64>,
    /// Time and size in bytes of each write.
    request_chunks: Vec<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_send_end_ns: Option<u64>,
    request_chunks_count: u64,
    request_bytes_total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_receive_start_ns: Option<u64>,
    /// Headers of the response, with secrets redacted.
    #[serde(skip_serializing_if = "Headers::is_empty")]
    response_headers: Headers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_headers_received_ns: Option<u64>,
    /// Time and size in bytes of each read.
    response_chunks: Vec<(u64, u64)>,
    response_chunks_count: u64,
    response_bytes_total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_receive_end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_timestamp_ns: Option<u64>,
    /// Source of the timestamps of reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_read_lag_ns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_uncertainty_ns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sending_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiving_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_lookup_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connecting_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_handshaking_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_pool_wait_start_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_pool_wait_end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_connect_start_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_connect_end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_handshake_start_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_handshake_end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_reused_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_lookup_start_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_lookup_end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_cache_hit_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_cache_miss_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_port: Option<u16>,
}

impl<'a> Trace<'a> {
    pub(super) fn new(row: &Row<'a>) -> Self {
        let record = &row.measured.record;
        let trace = &record.trace;
        let wall = |at: Option<Nanos>| at.map(|at| row.wall(at));
        let chunks =
            |log: &[(Nanos, u64)]| log.iter().map(|(at, size)| (row.wall(*at), *size)).collect();
        Self {
            trace_type: "hyper",
            request_send_start_ns: wall(trace.send_start),
            request_headers: Headers(&trace.request_headers),
            request_headers_sent_ns: wall(trace.headers_sent),
            request_chunks: chunks(&trace.request_chunk_log),
            request_send_end_ns: wall(trace.send_end),
            request_chunks_count: trace.request_chunks,
            request_bytes_total: trace.request_bytes,
            response_status_code: record.status,
            response_reason: trace.reason.as_deref(),
            response_receive_start_ns: wall(trace.receive_start),
            response_headers: Headers(&trace.response_headers),
            response_headers_received_ns: wall(trace.headers_received),
            response_chunks: chunks(&trace.response_chunk_log),
            response_chunks_count: trace.response_chunks,
            response_bytes_total: trace.response_bytes,
            response_receive_end_ns: wall(trace.receive_end),
            error_timestamp_ns: wall(trace.error_at),
            clock: trace.clock().map(ArrivalClock::as_str),
            max_read_lag_ns: record.body.max_read_lag(),
            max_uncertainty_ns: record.body.max_uncertainty(),
            sending_ns: trace.sending(),
            waiting_ns: trace.waiting(),
            receiving_ns: trace.receiving(),
            duration_ns: trace.duration(),
            blocked_ns: trace.blocked(),
            dns_lookup_ns: trace.dns_lookup(),
            connecting_ns: trace.connecting(),
            tls_handshaking_ns: trace.tls_handshaking(),
            connection_pool_wait_start_ns: wall(trace.pool_wait_start),
            connection_pool_wait_end_ns: wall(trace.pool_wait_end),
            tcp_connect_start_ns: wall(trace.connect_start),
            tcp_connect_end_ns: wall(trace.connect_end),
            tls_handshake_start_ns: wall(trace.tls_start),
            tls_handshake_end_ns: wall(trace.tls_end),
            connection_reused_ns: wall(trace.reused),
            dns_lookup_start_ns: wall(trace.dns_start),
            dns_lookup_end_ns: wall(trace.dns_end),
            dns_cache_hit_ns: wall(trace.dns_cache_hit),
            dns_cache_miss_ns: wall(trace.dns_cache_miss),
            local_ip: trace.local_addr.map(|addr| addr.ip()),
            local_port: trace.local_addr.map(|addr| addr.port()),
            remote_ip: trace.remote_addr.map(|addr| addr.ip()),
            remote_port: trace.remote_addr.map(|addr| addr.port()),
        }
    }
}
