//! `trace_data` of a record: instants in wall time and durations, both in nanoseconds, absent if
//! the event did not occur.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::jsonl::Headers;
use crate::record::{ArrivalClock, HttpTrace, RequestRecord};
use crate::units::{Clock, Nanos};

/// The timing of one exchange.
pub(super) struct Trace<'a> {
    record: &'a RequestRecord,
    clock: &'a Clock,
}

impl<'a> Trace<'a> {
    pub(super) const fn new(record: &'a RequestRecord, clock: &'a Clock) -> Self {
        Self { record, clock }
    }

    fn sent<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let trace = &self.record.trace;
        self.instant(map, "request_send_start_ns", trace.send_start)?;
        map.serialize_entry("request_headers", &Headers(&trace.request_headers))?;
        self.instant(map, "request_headers_sent_ns", trace.headers_sent)?;
        self.chunks(map, "request_chunks", &trace.request_chunk_log)?;
        self.instant(map, "request_send_end_ns", trace.send_end)?;
        map.serialize_entry("request_chunks_count", &trace.request_chunks)?;
        map.serialize_entry("request_bytes_total", &trace.request_bytes)
    }

    fn received<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let trace = &self.record.trace;
        entry(map, "response_status_code", self.record.status)?;
        entry(map, "response_reason", trace.reason.as_deref())?;
        self.instant(map, "response_receive_start_ns", trace.receive_start)?;
        if !trace.response_headers.is_empty() {
            map.serialize_entry("response_headers", &Headers(&trace.response_headers))?;
        }
        self.instant(map, "response_headers_received_ns", trace.headers_received)?;
        self.chunks(map, "response_chunks", &trace.response_chunk_log)?;
        map.serialize_entry("response_chunks_count", &trace.response_chunks)?;
        map.serialize_entry("response_bytes_total", &trace.response_bytes)?;
        self.instant(map, "response_receive_end_ns", trace.receive_end)?;
        self.instant(map, "error_timestamp_ns", trace.error_at)?;
        entry(map, "clock", trace.clock().map(ArrivalClock::as_str))?;
        entry(map, "max_read_lag_ns", self.record.body.max_read_lag())?;
        entry(map, "max_uncertainty_ns", self.record.body.max_uncertainty())
    }

    fn connection<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let trace = &self.record.trace;
        self.instant(map, "connection_pool_wait_start_ns", trace.pool_wait_start)?;
        self.instant(map, "connection_pool_wait_end_ns", trace.pool_wait_end)?;
        self.instant(map, "tcp_connect_start_ns", trace.connect_start)?;
        self.instant(map, "tcp_connect_end_ns", trace.connect_end)?;
        self.instant(map, "tls_handshake_start_ns", trace.tls_start)?;
        self.instant(map, "tls_handshake_end_ns", trace.tls_end)?;
        self.instant(map, "connection_reused_ns", trace.reused)?;
        self.instant(map, "dns_lookup_start_ns", trace.dns_start)?;
        self.instant(map, "dns_lookup_end_ns", trace.dns_end)?;
        self.instant(map, "dns_cache_hit_ns", trace.dns_cache_hit)?;
        self.instant(map, "dns_cache_miss_ns", trace.dns_cache_miss)?;
        entry(map, "local_ip", trace.local_addr.map(|addr| addr.ip()))?;
        entry(map, "local_port", trace.local_addr.map(|addr| addr.port()))?;
        entry(map, "remote_ip", trace.remote_addr.map(|addr| addr.ip()))?;
        entry(map, "remote_port", trace.remote_addr.map(|addr| addr.port()))
    }

    fn instant<M: SerializeMap>(
        &self,
        map: &mut M,
        name: &'static str,
        at: Option<Nanos>,
    ) -> Result<(), M::Error> {
        entry(map, name, at.map(|at| self.clock.wall_ns(at)))
    }

    fn chunks<M: SerializeMap>(
        &self,
        map: &mut M,
        name: &'static str,
        log: &[(Nanos, u64)],
    ) -> Result<(), M::Error> {
        let chunks: Vec<_> =
            log.iter().map(|(at, size)| (self.clock.wall_ns(*at), *size)).collect();
        map.serialize_entry(name, &chunks)
    }
}

impl Serialize for Trace<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("trace_type", "hyper")?;
        self.sent(&mut map)?;
        self.received(&mut map)?;
        durations(&mut map, &self.record.trace)?;
        self.connection(&mut map)?;
        map.end()
    }
}

fn durations<M: SerializeMap>(map: &mut M, trace: &HttpTrace) -> Result<(), M::Error> {
    for (name, duration) in [
        ("sending_ns", trace.sending()),
        ("waiting_ns", trace.waiting()),
        ("receiving_ns", trace.receiving()),
        ("duration_ns", trace.duration()),
        ("blocked_ns", trace.blocked()),
        ("dns_lookup_ns", trace.dns_lookup()),
        ("connecting_ns", trace.connecting()),
        ("tls_handshaking_ns", trace.tls_handshaking()),
    ] {
        entry(map, name, duration)?;
    }
    Ok(())
}

/// Adds `value`, if there is one.
fn entry<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, &value),
        None => Ok(()),
    }
}
