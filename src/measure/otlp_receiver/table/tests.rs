use std::collections::BTreeSet;
use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use super::super::fixture::{self, attribute, child, encoded, recorded, sent_by};
use super::*;

const SECOND: Nanos = Nanos(1_000_000_000);

/// Adds spans of a service at a time in seconds.
fn add(table: &mut Table, service: &str, spans: Vec<Span>, seconds: f64) {
    let at = Nanos::from_seconds(seconds);
    let body = encoded(vec![sent_by(service, spans)]);
    let read = wire::each_span(&body, &mut |source, span| {
        table.add(source, span, at, at.0);
    });
    assert_eq!(read, Ok(()));
}

fn request(number: u128) -> Uuid {
    Uuid::from_u128(number << 64 | 0x8000_0000_0000_0000 | number)
}

/// Returns a span of a trace whose parent is not the request's span.
fn inner(trace: Uuid, id: u64) -> Span {
    Span { parent_span_id: vec![9; 8], ..child(trace, id) }
}

/// Returns the key of a request whose response does not have an ID.
fn key(request: Uuid) -> Key {
    Key { request, response: None, end: Nanos::ZERO }
}

#[test]
fn spans_are_claimed_once_with_those_that_came_before() {
    let mut table = Table::default();
    let (one, other) = (request(1), request(2));
    // The worker's span comes before that of the front end, under which it is.
    add(&mut table, "worker", vec![inner(one, 1)], 0.0);
    add(&mut table, "front", vec![child(one, 2), child(other, 3)], 1.0);
    assert_eq!(table.claim(key(one)).len(), 2);
    assert_eq!(table.claim(key(one)).len(), 0);
    assert_eq!(table.claim(key(request(3))).len(), 0);
    assert_eq!(table.claim(key(other)).len(), 1);
    add(&mut table, "worker", vec![inner(other, 4)], 2.0);
    let counts = table.counts();
    assert_eq!((counts.spans_received, counts.joined, counts.late), (4, 3, 1));
    assert_eq!(table.bytes(), 0);
}

#[test]
fn spans_that_come_again_are_kept_once() {
    let mut table = Table::default();
    for _ in 0..3 {
        add(&mut table, "vllm", vec![child(request(1), 1)], 0.0);
    }
    assert_eq!(table.counts().duplicates, 2);
    assert_eq!(table.claim(key(request(1))).len(), 1);
}

#[test]
fn the_delay_is_from_the_end_of_a_span_of_ours_to_its_arrival() {
    let mut table = Table::default();
    let ended = |seconds: u64, span| Span { end_time_unix_nano: seconds * SECOND.0, ..span };
    add(&mut table, "vllm", vec![ended(7, child(request(1), 1))], 10.0);
    add(&mut table, "other", vec![ended(1, inner(request(2), 1))], 10.0);
    assert_eq!(table.counts().longest_delay, Nanos::from_seconds(3.0));
}

/// Returns when the spans of a request are complete, in tenths of a second.
fn complete_at(table: &Table, request: Uuid, from: u64) -> u64 {
    let is_complete = |tenth: &u64| table.is_complete(key(request), Nanos(tenth * SECOND.0 / 10));
    (from..1_000).find(is_complete).unwrap()
}

#[test]
fn a_record_waits_for_all_services_that_are_known() {
    let mut table = Table::default();
    add(&mut table, "front", vec![child(request(1), 1)], 0.0);
    // Which services there are is not known yet: 5.5 s.
    assert_eq!(complete_at(&table, request(1), 0), 55);
    add(&mut table, "worker", vec![inner(request(1), 2)], 4.0);
    assert_eq!(complete_at(&table, request(1), 0), 55);
    table.claim(key(request(1)));

    add(&mut table, "front", vec![child(request(2), 1)], 10.0);
    // The worker's spans do not come: 5.5 s after those of the front end.
    assert_eq!(complete_at(&table, request(2), 100), 155);
    // They do: after 0.25 s, in case that there are more.
    add(&mut table, "worker", vec![inner(request(2), 2)], 11.0);
    assert_eq!(complete_at(&table, request(2), 100), 113);

    // The worker's come first.
    add(&mut table, "worker", vec![inner(request(3), 1)], 20.0);
    add(&mut table, "front", vec![child(request(3), 2)], 24.0);
    assert_eq!(complete_at(&table, request(3), 200), 243);

    // A proxy in between does not export its span.
    add(&mut table, "worker", vec![inner(request(4), 1)], 30.0);
    assert_eq!(complete_at(&table, request(4), 300), 355);
    assert!(!table.is_complete(key(request(5)), Nanos::from_seconds(1e6)));
}

#[test]
fn other_ids_of_the_request_lead_to_the_trace() {
    // The trace has another ID, since a proxy does not pass on `traceparent`.
    for (name, value) in [
        ("x_request_id", request(1).to_string()),
        ("gen_ai.request.id", format!("chatcmpl-{}", request(1))),
        ("gen_ai.request.id", format!("cmpl-{}-0", request(1))),
    ] {
        let mut table = Table::default();
        let mut span = inner(request(50), 1);
        span.attributes = vec![attribute("a", &json!(1)), attribute(name, &value.clone().into())];
        add(&mut table, "vllm", vec![span, inner(request(50), 2)], 1.0);
        assert_eq!(complete_at(&table, request(1), 0), 65, "{value}");
        assert_eq!(table.claim(key(request(1))).len(), 2, "{value}");
    }
    let mut table = Table::default();
    let mut span = inner(request(50), 1);
    span.attributes = vec![attribute("gen_ai.request.id", &"resp_abc_0".into())];
    add(&mut table, "vllm", vec![span], 1.0);
    assert_eq!(table.claim(key(request(1))).len(), 0);
    assert_eq!(table.counts().foreign, 1);
}

#[test]
fn a_hundred_thousand_hostile_spans_change_only_counts() {
    let mut table = Table::default();
    add(&mut table, "worker", vec![inner(request(1), 1)], 0.0);
    add(&mut table, "front", vec![child(request(1), 2)], 0.0);
    let strange = |number: u64| {
        let trace = Uuid::from_u128(u128::from(number) << 32 | 7);
        let mut span = inner(trace, number);
        match number % 5 {
            // Huge, but not too large to be kept.
            0 => span.attributes = vec![attribute("a", &"x".repeat(2_000).into())],
            1 => span.trace_id.truncate(3),
            2 => span.span_id.clear(),
            // Always the same.
            3 => span.trace_id = vec![3; 16],
            // An ID of a request, but not of one of this run.
            _ => span.attributes = vec![attribute("x_request_id", &trace.to_string().into())],
        }
        span
    };
    for batch in 1..=100 {
        let spans = (batch * 1_000..(batch + 1) * 1_000).map(strange).collect();
        add(&mut table, "stranger", spans, 1.0);
    }
    // Too large, and deep.
    let mut huge = inner(request(99), 1);
    huge.name = "x".repeat(MAX_SPAN);
    add(&mut table, "stranger", vec![huge], 1.0);
    let deep: Vec<u8> = (0..1_000).fold(Vec::new(), |within, _| {
        let mut around = Vec::new();
        otlp::append(5, &[&within], &mut around);
        around
    });
    let source = Source { resource: Arc::default(), scope: Arc::default() };
    assert!(!table.add(&source, &deep, SECOND, SECOND.0));

    assert!(table.bytes() <= MAX_OWN + MAX_OTHER + MAX_SPAN, "{}", table.bytes());
    let counts = table.counts();
    assert_eq!(counts.spans_received, 100_004);
    // Of five spans each, two do not have a valid ID.
    assert_eq!(counts.malformed, 40_001);
    // A trace has at most 64 of the spans, which all others displace a few times.
    assert!((19_000..20_000).contains(&counts.dropped), "{}", counts.dropped);
    assert_eq!(table.claim(key(request(1))).len(), 2);
    let Counts { joined, malformed, dropped, foreign, duplicates, late, .. } = table.counts();
    assert_eq!((joined, duplicates, late), (2, 0, 0));
    assert_eq!(joined + malformed + dropped + foreign, counts.spans_received);
}

#[test]
fn strangers_displace_only_each_other() {
    let mut table = Table::default();
    add(&mut table, "front", vec![child(request(1), 1)], 0.0);
    let long = |number: u128| {
        let mut span = inner(request(number), 1);
        span.name = "x".repeat(100_000);
        vec![span]
    };
    // 40 MB, where 16 MiB are kept.
    (2..402).for_each(|number| add(&mut table, "stranger", long(number), 0.0));
    assert!(table.bytes() <= MAX_OTHER + 200_000, "{}", table.bytes());
    assert_eq!(table.claim(key(request(2))).len(), 0);
    assert_eq!(table.claim(key(request(401))).len(), 1);
    assert_eq!(table.claim(key(request(1))).len(), 1);
}

#[test]
fn a_full_trace_has_room_for_the_child_of_the_request() {
    let mut table = Table::default();
    let spans = (1..=100).map(|id| inner(request(1), id)).collect();
    add(&mut table, "sglang", spans, 0.0);
    add(&mut table, "sglang", vec![child(request(1), 200)], 0.0);
    assert_eq!(table.counts().dropped, 36);
    assert_eq!(table.claim(key(request(1))).len(), 65);
}

#[test]
fn memory_does_not_grow_with_the_number_of_requests() {
    let mut table = Table::default();
    for number in 1..200_000 {
        let span = child(request(number), 1).encode_to_vec();
        let source = Source { resource: Arc::default(), scope: Arc::default() };
        assert!(table.add(&source, &span, SECOND, SECOND.0));
        assert_eq!(table.claim(key(request(number))).len(), 1);
    }
    assert_eq!((table.bytes(), table.traces.len(), table.aliases.len()), (0, 0, 0));
    assert_eq!((table.claimed.len(), table.claimed_order.len()), (REMEMBERED, REMEMBERED));
    assert!(table.own.order.len() <= 1_025, "{}", table.own.order.len());
}

/// The spans of twenty requests of aiperf that a real vLLM has sent.
#[test]
fn spans_of_vllm_are_children_of_our_requests() {
    let mut table = Table::default();
    let spans = recorded("vllm_c16.jsonl");
    let requests: BTreeSet<Uuid> =
        spans.iter().map(|(_, span)| Uuid::from_slice(&span.trace_id).unwrap()).collect();
    assert_eq!(requests.len(), 20);
    add(
        &mut table,
        "vllm",
        recorded("vllm_startup.jsonl").into_iter().map(|it| it.1).collect(),
        0.0,
    );
    add(&mut table, "vllm", spans.into_iter().map(|(_, span)| span).collect(), 0.0);
    for request in requests {
        assert!(table.is_complete(key(request), GRACE));
        let claimed = table.claim(key(request));
        let parent = TraceContext::from_request_id(request).span_id;
        let span = wire::decode(claimed[0].clone(), parent).unwrap();
        assert!(span.is_child_of_request && span.name == "llm_request");
        let id = span.attributes["gen_ai.request.id"].as_str().unwrap();
        assert_eq!(id, format!("chatcmpl-{request}"));
    }
    // The server's start.
    assert_eq!((table.counts().joined, table.counts().foreign), (20, 12));
}

/// The spans of one request that a real Dynamo with separate workers has sent, from three processes.
#[test]
fn spans_of_dynamos_workers_are_in_the_requests_trace() {
    let mut table = Table::default();
    let trace = Uuid::from_slice(&fixture::id("0af7651916cd43dd8448eb211c803101")).unwrap();
    let spans = recorded("dynamo_disagg.jsonl");
    assert_eq!(spans.len(), 15);
    for (service, span) in spans {
        add(&mut table, &service, vec![span], 0.0);
    }
    let claimed = table.claim(key(trace));
    let request = fixture::id("b7ad6b7169203331").try_into().unwrap();
    let spans: Vec<_> =
        claimed.into_iter().map(|span| wire::decode(span, request).unwrap()).collect();
    let of_request: Vec<_> = spans.iter().filter(|span| span.is_child_of_request).collect();
    let [front] = of_request[..] else { panic!("{of_request:?}") };
    assert_eq!((&*front.service, &*front.name), ("frontend", "http-request"));
    assert_eq!(front.attributes["ttft_ms"], "135.79");
    let services: BTreeSet<_> = spans.iter().map(|span| &*span.service).collect();
    assert_eq!(services, BTreeSet::from(["decode", "frontend", "prefill"]));
}
