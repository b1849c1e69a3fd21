use opentelemetry_proto::tonic::trace::v1::Span;
use uuid::Uuid;

use client::record::{HttpTrace, RequestError, ResponseBody, TurnId};
use client::schedule::PhaseKind;

use super::super::fixture::{attribute, child, encoded, sent_by};
use super::*;

const WAIT: Nanos = Nanos(10_000_000_000);

fn seconds(seconds: f64) -> Nanos {
    Nanos::from_seconds(seconds)
}

fn request(number: u128) -> Uuid {
    Uuid::from_u128(number << 64 | 0x00ff_ffff_ffff_ffff)
}

fn record(request_id: Uuid, end: Nanos) -> RequestRecord {
    RequestRecord {
        grown: None,
        turn: TurnId::default(),
        phase: PhaseKind::Profiling,
        phase_index: 0,
        worker: 0,
        request_id,
        correlation_id: request_id,
        trace_id: request_id,
        ancestry: None,
        lane: None,
        held_by: None,
        tenant: None,
        model: "m".into(),
        url: "http://127.0.0.1/".into(),
        payload: bytes::Bytes::new(),
        earlier_answers: Vec::new(),
        due: None,
        due_while_asleep: false,
        free_from: Nanos::ZERO,
        issued: Nanos::ZERO,
        start: Nanos::ZERO,
        sent: Some(Nanos::ZERO),
        ack: None,
        end,
        status: Some(200),
        body: ResponseBody::default(),
        trace: HttpTrace::default(),
        retry_count: 0,
        cancelled_at: None,
        error: None,
        server_spans: Vec::new(),
    }
}

fn all() -> SpanJoin {
    SpanJoin::new(TraceShare::of_percent(100.0), WAIT)
}

fn add(join: &SpanJoin, spans: Vec<Span>) {
    let body = encoded(vec![sent_by("vllm", spans)]);
    let (invalid, read) =
        join.add(|sink| wire::each_span(&body, &mut |source, span| sink(source, Some(span))));
    assert_eq!((invalid, read), (0, Ok(())));
}

fn ids(records: &[RequestRecord]) -> Vec<Uuid> {
    records.iter().map(|record| record.request_id).collect()
}

#[test]
fn the_id_of_a_response_is_found_in_its_head() {
    let found = |text: &str| response_id(text.as_bytes()).map(str::to_owned);
    assert_eq!(found(r#"{"id":"chatcmpl-1","object":"x"}"#).as_deref(), Some("chatcmpl-1"));
    let event = "data: {\"type\":\"response.created\",\"response\": {\"id\" : \"resp_2\"}}\n\n";
    assert_eq!(found(event).as_deref(), Some("resp_2"));
    for none in ["", "{}", r#"{"id":7}"#, r#"{"id":""}"#, r#"{"id":"cut"#, r#"{"idx":"a"}"#] {
        assert_eq!(found(none), None, "{none}");
    }
    let far = format!("{}{}", " ".repeat(HEAD), r#"{"id":"a"}"#);
    assert_eq!(found(&far), None);
}

/// A server that does not take over the trace of the request: its spans have a trace of their own.
#[test]
fn spans_are_joined_by_the_id_of_the_response() {
    let cases = [
        ("gen_ai.response.id", "chatcmpl-a1", r#"{"id":"chatcmpl-a1"}"#),
        ("gen_ai.request.id", "cmpl-b2-0", r#"{"id":"cmpl-b2"}"#),
        ("gen_ai.request.id", "resp_c3_0", r#"{"id":"resp_c3"}"#),
        (
            "request_id",
            "f3a10ed4-eb80-44a5-8005-32cc697bf831",
            r#"{"id":"chatcmpl-f3a10ed4-eb80-44a5-8005-32cc697bf831"}"#,
        ),
        ("rid", "0123abcd", r#"{"id":"0123abcd"}"#),
    ];
    for (at, (name, id, body)) in cases.into_iter().enumerate() {
        let join = all();
        let now = Clock::now();
        let mut held = record(request(1), now);
        held.body.bytes = body.as_bytes().to_vec();
        assert!(join.hold(held, 10).is_none());
        let mut other = record(request(2), now);
        other.body.bytes = br#"{"id":"chatcmpl-other"}"#.to_vec();
        assert!(join.hold(other, 10).is_none());
        let foreign = request(70 + at as u128);
        let attributes = vec![attribute(name, &id.into())];
        let span = Span { parent_span_id: Vec::new(), attributes, ..child(foreign, 1) };
        // Another span of the same trace, which does not have an ID, comes first.
        let inner = Span { parent_span_id: vec![0, 0, 0, 0, 0, 0, 0, 1], ..child(foreign, 2) };
        add(&join, vec![inner, span]);
        let ready = join.ready_at(now + seconds(9.0));
        assert_eq!(ids(&ready), [request(1)], "{name}");
        assert_eq!(ready[0].server_spans.len(), 2, "{name}");
        assert!(ready[0].server_spans.iter().all(|span| !span.is_child_of_request));
        let released = join.release_all();
        assert_eq!((released.len(), released[0].server_spans.len()), (1, 0), "{name}");
    }
}

/// A worker for prefill sends its spans long before the request ends, and the front end after it.
#[test]
fn a_record_waits_for_spans_that_come_after_its_end() {
    let join = all();
    let now = Clock::now();
    let id = "f3a10ed4-eb80-44a5-8005-32cc697bf831";
    let early = Span {
        parent_span_id: vec![0, 0, 0, 0, 0, 0, 0, 9],
        attributes: vec![attribute("request_id", &id.into())],
        ..child(request(1), 2)
    };
    add(&join, vec![early]);
    let end = now + seconds(60.0);
    let mut held = record(request(1), end);
    held.body.bytes = format!(r#"{{"id":"chatcmpl-{id}"}}"#).into_bytes();
    assert!(join.hold(held, 10).is_none());
    assert_eq!(join.ready_at(end + seconds(5.4)), []);
    assert_eq!(ids(&join.ready_at(end + seconds(5.6))), [request(1)]);
}

#[test]
fn records_wait_for_spans_and_no_longer_than_the_bound() {
    let join = all();
    let now = Clock::now();
    assert!(join.hold(record(request(1), now), 10).is_none());
    assert!(join.hold(record(request(2), now), 10).is_none());
    assert_eq!(join.ready_at(now + seconds(0.2)), []);
    let mut late = child(request(1), 2);
    late.start_time_unix_nano = 3_000;
    add(&join, vec![late, child(request(1), 1)]);
    // Complete 5.5 s after their arrival, which was a moment ago.
    let ready = join.ready_at(now + seconds(9.0));
    assert_eq!(ids(&ready), [request(1)]);
    let starts: Vec<_> = ready[0].server_spans.iter().map(|span| span.start_ns).collect();
    assert_eq!(starts, [1_000, 3_000]);
    assert_eq!(join.waiting(), 1);
    assert_eq!(join.ready_at(now + seconds(9.9)), []);
    let ready = join.ready_at(now + seconds(10.1));
    assert_eq!(ids(&ready), [request(2)]);
    assert_eq!(ready[0].server_spans, []);
    let report = join.report(([127, 0, 0, 1], 4317).into());
    assert_eq!(report.address, "127.0.0.1:4317");
    let requests = (report.sampled_requests, report.joined_requests, report.unjoined_requests);
    assert_eq!(requests, (2, 1, 1));
    assert_eq!((report.released_early, report.spans_joined), (0, 2));
    assert_eq!(report.joined_share(), Some(0.5));
}

#[test]
fn only_successful_sampled_requests_wait() {
    let join = SpanJoin::new(TraceShare::of_percent(50.0), WAIT);
    let now = Clock::now();
    // The last 56 bits decide: half of them are above the threshold.
    let unsampled = Uuid::from_u128(1 << 64);
    assert!(join.hold(record(unsampled, now), 10).is_some());
    let error = RequestError::cancelled("x");
    let cancelled = RequestRecord { error: Some(error), ..record(request(1), now) };
    assert!(join.hold(cancelled, 10).is_some());
    let refused = RequestRecord { status: Some(404), ..record(request(1), now) };
    assert!(join.hold(refused, 10).is_some());
    assert!(join.hold(record(request(1), now), 10).is_none());
    assert_eq!(join.waiting(), 1);
}

#[test]
fn too_many_records_let_the_oldest_go() {
    let join = SpanJoin { max_bytes: 25, ..all() };
    let now = Clock::now();
    for number in 1..=4 {
        assert!(join.hold(record(request(number), now), 10).is_none());
    }
    add(&join, vec![child(request(2), 1)]);
    let ready = join.ready_at(now + seconds(0.2));
    assert_eq!(ids(&ready), [request(1), request(2)]);
    assert_eq!(ready[1].server_spans.len(), 1);
    assert_eq!(join.waiting(), 2);
    assert_eq!(ids(&join.release_all()), [request(3), request(4)]);
    let report = join.report(([127, 0, 0, 1], 1).into());
    assert_eq!((report.released_early, report.joined_requests), (4, 1));
    assert_eq!(join.state.lock().bytes, 0);
}
