//! The spans that have arrived, by trace, until a record claims them.
//!
//! Spans arrive before the record of their request exists, and so do those of strangers. Which are
//! ours is told by arithmetic: the ID of a request's span follows from its trace ID, so that a span
//! whose parent has that ID belongs to a request of a run. A trace without such a span waits for one
//! in a smaller place, where strangers displace only each other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use uuid::Uuid;

use base::units::Nanos;
use client::record::{OriginalSpan, TraceContext};

use super::report::Counts;
use super::wire::{self, Source, SpanPlace};

/// Maximum number of bytes of spans whose trace is ours.
const MAX_OWN: usize = 64 << 20;

/// Maximum number of bytes of spans of other traces.
const MAX_OTHER: usize = 16 << 20;

/// Maximum size of a span in bytes.
pub(super) const MAX_SPAN: usize = 256 << 10;

/// Maximum number of spans of a trace.
const MAX_SPANS: usize = 64;

/// Maximum number of children of the request's span, for which there is room in a full trace.
const MAX_CHILDREN: usize = 8;

/// Number of claimed traces that are remembered, to recognise spans that arrive too late.
const REMEMBERED: usize = 1 << 16;

/// Maximum number of services that are told apart.
const MAX_SERVICES: usize = 16;

/// Bytes that a span takes up besides its own.
const OVERHEAD: usize = size_of::<Received>() + 64;

/// Attributes with the client's ID of the request.
const REQUEST_IDS: &[&str] = &["x_request_id", "gen_ai.request.id"];

/// Attributes with the server's own ID of the request or of its response: of the conventions, of
/// Dynamo and of SGLang.
const RESPONSE_IDS: &[&str] = &["gen_ai.response.id", "gen_ai.request.id", "request_id", "rid"];

/// How long a record waits after the first child of its request has arrived, unless all services
/// have sent their spans. Processes export on their own schedules, by default every five seconds.
const GRACE: Nanos = Nanos(5_500_000_000);

/// How long it takes until the services of the servers are known, from the first span on.
const LEARNING: Nanos = Nanos(6_000_000_000);

/// How long a record waits for more spans after those of all services have begun to arrive.
const SETTLING: Nanos = Nanos(250_000_000);

type TraceId = [u8; 16];

/// What the spans of a request are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) request: Uuid,
    /// The server's ID of the response, from [`Table::response`].
    pub(super) response: Option<ResponseKey>,
    /// When the request ended: a worker for prefill may send its spans long before.
    pub(super) end: Nanos,
}

/// The hash of a server's ID of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ResponseKey(u64);

/// The spans that have arrived.
#[derive(Debug, Default)]
pub(super) struct Table {
    traces: HashMap<TraceId, Trace>,
    /// Traces of ours and others, by when they became it; claimed ones may still be in them.
    own: Ring,
    other: Ring,
    /// Traces with other IDs than their requests, by the ID of the request.
    aliases: HashMap<TraceId, TraceId>,
    /// The same, by the servers' IDs of their responses.
    responses: HashMap<ResponseKey, TraceId>,
    claimed: HashSet<TraceId>,
    claimed_order: VecDeque<TraceId>,
    /// Hashes of the services of our traces.
    services: Vec<u64>,
    hasher: RandomState,
    /// When the first span of ours arrived.
    first_own: Option<Nanos>,
    counts: Counts,
}

/// Traces in order, and the bytes of their spans.
#[derive(Debug, Default)]
struct Ring {
    order: VecDeque<TraceId>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Trace {
    spans: Vec<Received>,
    bytes: usize,
    is_own: bool,
    /// When the first child of the request's span arrived.
    child_at: Option<Nanos>,
    /// When the last span arrived.
    last_at: Nanos,
    /// The request with this trace, if its ID is another one.
    request: Option<TraceId>,
    /// The server's ID of its response, unless the trace is that of the request.
    response: Option<ResponseKey>,
    /// When the first span with that ID arrived.
    response_at: Option<Nanos>,
}

#[derive(Debug)]
struct Received {
    id: [u8; 8],
    /// Hash of its service.
    service: u64,
    original: OriginalSpan,
}

impl Table {
    /// Adds an encoded span, which arrived at `now`; `wall_ns` is the same as wall time. Returns
    /// false for a span that is not valid.
    pub(super) fn add(&mut self, source: &Source, span: &[u8], now: Nanos, wall_ns: u64) -> bool {
        self.counts.spans_received += 1;
        let Ok(place) = wire::place(span) else {
            self.counts.malformed += 1;
            return false;
        };
        if span.len() + source.resource.len() + source.scope.len() > MAX_SPAN {
            self.counts.dropped += 1;
        } else if self.claimed.contains(&place.trace) {
            self.counts.late += 1;
        } else {
            self.keep(source, span, place, (now, wall_ns));
        }
        true
    }

    /// Counts a span that cannot be read.
    pub(super) fn add_malformed(&mut self) {
        self.counts.spans_received += 1;
        self.counts.malformed += 1;
    }

    /// Counts a request that cannot be read, or is too large.
    pub(super) fn add_malformed_request(&mut self) {
        self.counts.malformed_requests += 1;
    }

    /// Counts a request with metrics or logs.
    pub(super) fn add_other_signal(&mut self) {
        self.counts.other_signals += 1;
    }

    fn keep(
        &mut self,
        source: &Source,
        span: &[u8],
        place: SpanPlace,
        (now, wall_ns): (Nanos, u64),
    ) {
        let context = TraceContext::from_request_id(Uuid::from_bytes(place.trace));
        let is_child = place.parent == context.span_id;
        let trace = self.traces.entry(place.trace).or_default();
        if trace.spans.iter().any(|other| other.id == place.span) {
            self.counts.duplicates += 1;
            return;
        }
        let room = if is_child { MAX_SPANS + MAX_CHILDREN } else { MAX_SPANS };
        if trace.spans.len() >= room {
            self.counts.dropped += 1;
            return;
        }
        let is_new = trace.spans.is_empty();
        // Other IDs matter only where the trace is not that of the request.
        let request = (!is_child && !trace.is_own).then(|| request_id(span)).flatten();
        let request = request.filter(|request| *request != place.trace);
        let is_of_other = !is_child && self.traces.get(&place.trace).is_none_or(|it| !it.is_own);
        let response = is_of_other.then(|| self.response_of(span)).flatten();
        let trace = self.traces.entry(place.trace).or_default();
        let becomes_own = !trace.is_own && is_child;
        let service = self.hasher.hash_one(wire::service(&source.resource));
        let bytes = span.len() + source.resource.len() + source.scope.len() + OVERHEAD;
        let Source { resource, scope } = source.clone();
        let original = OriginalSpan { resource, scope, span: span.into() };
        trace.spans.push(Received { id: place.span, service, original });
        trace.last_at = now;
        if is_child || request.is_some() {
            trace.child_at.get_or_insert(now);
        }
        if trace.response.is_none() && response.is_some() {
            trace.response = response;
            trace.response_at = Some(now);
            self.responses.extend(response.map(|response| (response, place.trace)));
        }
        let before = trace.bytes;
        trace.bytes += bytes;
        if request.is_some() && trace.request.is_none() {
            trace.request = request;
            self.aliases.extend(request.map(|request| (request, place.trace)));
        }
        if is_child || request.is_some() {
            self.first_own.get_or_insert(now);
        }
        if becomes_own {
            trace.is_own = true;
            if !is_new {
                self.other.bytes -= before;
            }
            self.own.bytes += trace.bytes;
            self.own.order.push_back(place.trace);
        } else if trace.is_own {
            self.own.bytes += bytes;
        } else {
            self.other.bytes += bytes;
            if is_new {
                self.other.order.push_back(place.trace);
            }
        }
        if trace.is_own {
            for received in &trace.spans {
                let services = &mut self.services;
                if services.len() < MAX_SERVICES && !services.contains(&received.service) {
                    services.push(received.service);
                }
            }
            let delay = Nanos(wall_ns.saturating_sub(place.end_ns));
            self.counts.longest_delay = self.counts.longest_delay.max(delay);
        }
        self.make_room();
    }

    /// Drops the oldest traces of a ring that is too large.
    fn make_room(&mut self) {
        while self.other.bytes > MAX_OTHER
            && let Some(oldest) = self.other.order.pop_front()
        {
            if self.traces.get(&oldest).is_some_and(|trace| !trace.is_own) {
                self.counts.foreign += self.remove(oldest).len() as u64;
            }
        }
        while self.own.bytes > MAX_OWN
            && let Some(oldest) = self.own.order.pop_front()
        {
            self.counts.dropped += self.remove(oldest).len() as u64;
        }
        // What was claimed stays in the rings; each is cleaned when half of it is needless.
        let traces = &self.traces;
        for (ring, is_own) in [(&mut self.own, true), (&mut self.other, false)] {
            if ring.order.len() > 2 * traces.len() + 1024 {
                ring.order.retain(|id| traces.get(id).is_some_and(|trace| trace.is_own == is_own));
            }
        }
    }

    /// Removes a trace and returns its spans.
    fn remove(&mut self, id: TraceId) -> Vec<Received> {
        let Some(trace) = self.traces.remove(&id) else { return Vec::new() };
        let ring = if trace.is_own { &mut self.own } else { &mut self.other };
        ring.bytes -= trace.bytes;
        if let Some(request) = trace.request
            && self.aliases.get(&request) == Some(&id)
        {
            self.aliases.remove(&request);
        }
        if let Some(response) = trace.response
            && self.responses.get(&response) == Some(&id)
        {
            self.responses.remove(&response);
        }
        trace.spans
    }

    /// Returns the key of a response with the ID `id`.
    pub(super) fn response(&self, id: &str) -> ResponseKey {
        ResponseKey(self.hasher.hash_one(own_id(id)))
    }

    /// Returns the key of the response that a span is about.
    fn response_of(&self, span: &[u8]) -> Option<ResponseKey> {
        wire::first_text(span, RESPONSE_IDS, |id| Some(self.response(id)))
    }

    /// Returns the ID of the trace of a request.
    fn trace_of(&self, key: Key) -> TraceId {
        let id = key.request.into_bytes();
        if self.traces.contains_key(&id) {
            return id;
        }
        let response = || self.responses.get(&key.response?);
        self.aliases.get(&id).or_else(response).copied().unwrap_or(id)
    }

    /// Returns whether the spans of a request have arrived, as far as can be known at `now`.
    pub(super) fn is_complete(&self, key: Key, now: Nanos) -> bool {
        let id = self.trace_of(key);
        let Some(trace) = self.traces.get(&id) else { return false };
        // In the trace of the request, a span below the client's is still to come.
        let by_response = trace.response_at.filter(|_| id != key.request.into_bytes());
        let first = trace.child_at.or(by_response);
        let has_learned = self.first_own.is_some_and(|first| now.since(first) >= LEARNING);
        let has = |service: &u64| trace.spans.iter().any(|span| span.service == *service);
        let has_settled = now.since(trace.last_at) >= SETTLING;
        first.is_some() && has_learned && has_settled && self.services.iter().all(has)
            // Without a child, one between the client and the server does not export its spans.
            || now.since(first.unwrap_or(trace.last_at).max(key.end)) >= GRACE
    }

    /// Removes the spans of a request.
    pub(super) fn claim(&mut self, key: Key) -> Vec<OriginalSpan> {
        let id = self.trace_of(key);
        let spans = self.remove(id);
        self.remember(id);
        self.counts.joined += spans.len() as u64;
        spans.into_iter().map(|span| span.original).collect()
    }

    fn remember(&mut self, id: TraceId) {
        if self.claimed.insert(id) {
            self.claimed_order.push_back(id);
        }
        if self.claimed_order.len() > REMEMBERED
            && let Some(oldest) = self.claimed_order.pop_front()
        {
            self.claimed.remove(&oldest);
        }
    }

    /// Returns what has been counted; spans that wait for a record are those of strangers.
    pub(super) fn counts(&self) -> Counts {
        let waiting: usize = self.traces.values().map(|trace| trace.spans.len()).sum();
        Counts { foreign: self.counts.foreign + waiting as u64, ..self.counts }
    }

    /// Returns the bytes of all spans.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.own.bytes + self.other.bytes
    }
}

/// Returns the client's ID of the request in the attributes of a span.
fn request_id(span: &[u8]) -> Option<TraceId> {
    wire::first_text(span, REQUEST_IDS, |text| {
        let id = own_id(text).get(..uuid::fmt::Hyphenated::LENGTH)?;
        Uuid::try_parse(id).ok().map(Uuid::into_bytes)
    })
}

/// Returns an ID without what servers add to it in one place and not in another: the kind of the
/// answer before it, and the number of the prompt after it, as in `cmpl-<ID>-0` and `resp_<ID>_0` of
/// vLLM.
fn own_id(text: &str) -> &str {
    let text = text.strip_prefix("chatcmpl-").or(text.strip_prefix("cmpl-")).unwrap_or(text);
    let is_number =
        |end: &str| (1..=3).contains(&end.len()) && end.bytes().all(|c| c.is_ascii_digit());
    let numbered = text.rsplit_once(['-', '_']).filter(|(_, end)| is_number(end));
    numbered.map_or(text, |(id, _)| id)
}

#[cfg(test)]
mod tests;
