use base::units::Nanos;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, HttpTrace, RequestError};

use crate::metrics::fixture::{START, content, dataset, measurer, record, registry, stream};
use crate::metrics::metric::Settings;
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::{Metric, Registry};

const TAGS: [MetricTag; 15] = [
    tag::HTTP_REQ_BLOCKED,
    tag::HTTP_REQ_DNS_LOOKUP,
    tag::HTTP_REQ_CONNECTING,
    tag::HTTP_REQ_TLS_HANDSHAKING,
    tag::HTTP_REQ_SENDING,
    tag::HTTP_REQ_WAITING,
    tag::HTTP_REQ_RECEIVING,
    tag::HTTP_REQ_CONNECTION_REUSED,
    tag::HTTP_REQ_DATA_SENT,
    tag::HTTP_REQ_CHUNKS_SENT,
    tag::HTTP_REQ_DATA_RECEIVED,
    tag::HTTP_REQ_CHUNKS_RECEIVED,
    tag::HTTP_REQ_CONNECTION_OVERHEAD,
    tag::HTTP_REQ_DURATION,
    tag::HTTP_REQ_TOTAL,
];

/// `n` nanoseconds after an instant that no float can represent exactly.
#[expect(clippy::unnecessary_wraps, reason = "a trace's instants may be absent")]
const fn at(n: u64) -> Option<Nanos> {
    Some(Nanos((1 << 60) + n))
}

/// The first request on a connection with TLS, after a wait in the queue.
fn first() -> HttpTrace {
    HttpTrace {
        pool_wait_start: at(0),
        pool_wait_end: at(1_000_003),
        dns_start: at(1_000_010),
        dns_end: at(3_500_021),
        dns_cache_miss: at(1_000_010),
        connect_start: at(3_500_100),
        tls_start: at(4_000_000),
        tls_end: at(9_000_007),
        connect_end: at(9_000_150),
        send_start: at(9_001_000),
        headers_sent: at(9_001_500),
        send_end: at(9_012_345),
        headers_received: at(20_000_000),
        receive_start: at(20_000_001),
        receive_end: at(50_000_008),
        request_chunks: 2,
        request_bytes: 3_072,
        response_chunks: 9,
        response_bytes: 1_537,
        ..HttpTrace::default()
    }
}

/// Returns the values of a chat request with this trace, in the metrics' own units.
fn values(trace: HttpTrace, error: Option<RequestError>) -> Vec<(MetricTag, f64)> {
    let mut record = record(START, stream(START, &[(20, &content("hi")), (21, "[DONE]")]));
    (record.trace, record.error) = (trace, error);
    let registry = registry(EndpointType::CHAT, Settings::default(), true);
    let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(record);
    let value = |tag| Some((tag, measured.observation.values.scalar(tag)?));
    TAGS.into_iter().filter_map(value).collect()
}

#[test]
fn each_phase_has_its_time_and_they_add_up() {
    let expected = [
        (tag::HTTP_REQ_BLOCKED, 1_000_003.0),
        (tag::HTTP_REQ_DNS_LOOKUP, 2_500_011.0),
        (tag::HTTP_REQ_CONNECTING, 5_500_050.0),
        (tag::HTTP_REQ_TLS_HANDSHAKING, 5_000_007.0),
        (tag::HTTP_REQ_SENDING, 11_345.0),
        (tag::HTTP_REQ_WAITING, 10_987_656.0),
        (tag::HTTP_REQ_RECEIVING, 30_000_007.0),
        (tag::HTTP_REQ_CONNECTION_REUSED, 0.0),
        (tag::HTTP_REQ_DATA_SENT, 3_072.0),
        (tag::HTTP_REQ_CHUNKS_SENT, 2.0),
        (tag::HTTP_REQ_DATA_RECEIVED, 1_537.0),
        (tag::HTTP_REQ_CHUNKS_RECEIVED, 9.0),
        // 1 000 003 + 2 500 011 + 5 500 050
        (tag::HTTP_REQ_CONNECTION_OVERHEAD, 9_000_064.0),
        // 50 000 008 − 9 001 000
        (tag::HTTP_REQ_DURATION, 40_999_008.0),
        // 9 000 064 + 11 345 + 10 987 656 + 30 000 007
        (tag::HTTP_REQ_TOTAL, 49_999_072.0),
    ];
    assert_eq!(values(first(), None), expected);
}

#[test]
fn what_did_not_happen_took_no_time() {
    let reused = HttpTrace {
        reused: at(5),
        send_start: at(10),
        send_end: at(30),
        receive_start: at(70),
        receive_end: at(70),
        ..HttpTrace::default()
    };
    let values = values(reused, None);
    let expected: [(MetricTag, f64); 11] = [
        (tag::HTTP_REQ_BLOCKED, 0.0),
        (tag::HTTP_REQ_DNS_LOOKUP, 0.0),
        (tag::HTTP_REQ_CONNECTING, 0.0),
        (tag::HTTP_REQ_TLS_HANDSHAKING, 0.0),
        (tag::HTTP_REQ_SENDING, 20.0),
        (tag::HTTP_REQ_WAITING, 40.0),
        // A single read returned the whole body.
        (tag::HTTP_REQ_RECEIVING, 0.0),
        (tag::HTTP_REQ_CONNECTION_REUSED, 1.0),
        (tag::HTTP_REQ_CONNECTION_OVERHEAD, 0.0),
        (tag::HTTP_REQ_DURATION, 60.0),
        (tag::HTTP_REQ_TOTAL, 60.0),
    ];
    for (tag, value) in expected {
        assert!(values.contains(&(tag, value)), "{tag} in {values:?}");
    }
}

#[test]
fn an_answer_that_begins_while_the_request_is_sent_ends_the_sending() {
    let trace = HttpTrace { receive_start: at(9_005_000), ..first() };
    let values = values(trace, None);
    for (tag, value) in [
        (tag::HTTP_REQ_SENDING, 4_000.0),
        (tag::HTTP_REQ_WAITING, 0.0),
        (tag::HTTP_REQ_RECEIVING, 40_995_008.0),
        (tag::HTTP_REQ_DURATION, 40_999_008.0),
        // 9 000 064 + 40 999 008
        (tag::HTTP_REQ_TOTAL, 49_999_072.0),
    ] {
        assert!(values.contains(&(tag, value)), "{tag} in {values:?}");
    }
}

#[test]
fn failed_requests_have_the_phases_that_they_passed() {
    let cut = || Some(RequestError::new(ErrorKind::Other, "IncompleteResponse", "cut"));
    assert_eq!(values(HttpTrace::default(), None), []);
    assert_eq!(values(HttpTrace::default(), cut()), []);
    let whole = first();
    assert_eq!(values(whole.clone(), cut()), values(whole.clone(), None));
    let blocked = HttpTrace {
        pool_wait_start: whole.pool_wait_start,
        pool_wait_end: whole.pool_wait_end,
        ..HttpTrace::default()
    };
    assert_eq!(values(blocked.clone(), cut()), [(tag::HTTP_REQ_BLOCKED, 1_000_003.0)]);
    // The lookup succeeded, and the connection was refused.
    let refused = HttpTrace {
        dns_start: whole.dns_start,
        dns_end: whole.dns_end,
        connect_start: whole.connect_start,
        ..blocked
    };
    assert_eq!(
        values(refused, cut()),
        [(tag::HTTP_REQ_BLOCKED, 1_000_003.0), (tag::HTTP_REQ_DNS_LOOKUP, 2_500_011.0)]
    );
    // Sent without a response: it lasted until it was cancelled.
    let given_up = HttpTrace {
        headers_received: None,
        receive_start: None,
        response_chunks: 0,
        response_bytes: 0,
        ..whole
    };
    let silent = values(given_up, cut());
    let has = |tag: MetricTag| silent.iter().any(|(have, _)| *have == tag);
    assert!(has(tag::HTTP_REQ_SENDING) && has(tag::HTTP_REQ_DURATION), "{silent:?}");
    assert!(
        !has(tag::HTTP_REQ_WAITING) && !has(tag::HTTP_REQ_RECEIVING) && !has(tag::HTTP_REQ_TOTAL)
    );
}

#[test]
fn the_rows_are_in_no_main_table_and_fit_their_instruments() {
    let rows = super::ROWS;
    assert_eq!(rows.iter().map(|row| row.tag).collect::<Vec<_>>(), TAGS);
    let orders: Vec<_> = rows.iter().filter_map(|row| row.order).collect();
    assert!(orders.is_sorted(), "{orders:?}");
    // All except the two metrics of chunks are in the table of HTTP timing.
    assert_eq!((orders.len(), orders[0], orders[12]), (rows.len() - 2, 2000, 2130));
    assert!(rows.iter().all(|row| !row.is_on_console(true)));
    let spec = |tag: MetricTag| Registry::row(tag).and_then(Metric::instrument).unwrap().spec;
    let sending = spec(tag::HTTP_REQ_SENDING);
    assert_eq!(sending.unit, "s");
    // Zero, or at least a microsecond.
    assert_eq!(sending.boundaries[..3], [0.0, 1e-6, 2e-6]);
    assert!(*sending.boundaries.last().unwrap() >= 600.0);
    assert_eq!(spec(tag::HTTP_REQ_DATA_SENT).unit, "By");
    assert_eq!(spec(tag::HTTP_REQ_CONNECTION_REUSED).boundaries, [0.0, 1.0]);
}
