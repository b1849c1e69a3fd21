use crate::endpoint::EndpointType;
use crate::metrics::fixture::{START, content, dataset, measurer, record, registry, stream};
use crate::metrics::metric::{MetricTag, Settings};
use crate::metrics::{Metric, Registry};
use crate::record::{ErrorKind, HttpTrace, RequestError};
use crate::units::Nanos;

const TAGS: [MetricTag; 15] = [
    "http_req_blocked",
    "http_req_dns_lookup",
    "http_req_connecting",
    "http_req_tls_handshaking",
    "http_req_sending",
    "http_req_waiting",
    "http_req_receiving",
    "http_req_connection_reused",
    "http_req_data_sent",
    "http_req_chunks_sent",
    "http_req_data_received",
    "http_req_chunks_received",
    "http_req_connection_overhead",
    "http_req_duration",
    "http_req_total",
];

/// `n` nanoseconds after an instant that no float can bear to the nanosecond.
#[expect(clippy::unnecessary_wraps, reason = "a trace's instants may be absent")]
const fn at(n: u64) -> Option<Nanos> {
    Some(Nanos((1 << 60) + n))
}

/// A first request on a connection with TLS, after a wait in the queue.
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

/// The values of a chat request with this trace, in the metrics' own units.
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
        ("http_req_blocked", 1_000_003.0),
        ("http_req_dns_lookup", 2_500_011.0),
        ("http_req_connecting", 5_500_050.0),
        ("http_req_tls_handshaking", 5_000_007.0),
        ("http_req_sending", 11_345.0),
        ("http_req_waiting", 10_987_656.0),
        ("http_req_receiving", 30_000_007.0),
        ("http_req_connection_reused", 0.0),
        ("http_req_data_sent", 3_072.0),
        ("http_req_chunks_sent", 2.0),
        ("http_req_data_received", 1_537.0),
        ("http_req_chunks_received", 9.0),
        // 1 000 003 + 2 500 011 + 5 500 050
        ("http_req_connection_overhead", 9_000_064.0),
        // 50 000 008 − 9 001 000
        ("http_req_duration", 40_999_008.0),
        // 9 000 064 + 11 345 + 10 987 656 + 30 000 007
        ("http_req_total", 49_999_072.0),
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
        ("http_req_blocked", 0.0),
        ("http_req_dns_lookup", 0.0),
        ("http_req_connecting", 0.0),
        ("http_req_tls_handshaking", 0.0),
        ("http_req_sending", 20.0),
        ("http_req_waiting", 40.0),
        // One read held the whole body.
        ("http_req_receiving", 0.0),
        ("http_req_connection_reused", 1.0),
        ("http_req_connection_overhead", 0.0),
        ("http_req_duration", 60.0),
        ("http_req_total", 60.0),
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
        ("http_req_sending", 4_000.0),
        ("http_req_waiting", 0.0),
        ("http_req_receiving", 40_995_008.0),
        ("http_req_duration", 40_999_008.0),
        // 9 000 064 + 40 999 008
        ("http_req_total", 49_999_072.0),
    ] {
        assert!(values.contains(&(tag, value)), "{tag} in {values:?}");
    }
}

#[test]
fn failed_requests_and_those_without_a_trace_have_no_value() {
    let cut = RequestError::new(ErrorKind::Other, "IncompleteResponse", "cut");
    assert_eq!(values(first(), Some(cut)), []);
    assert_eq!(values(HttpTrace::default(), None), []);
}

#[test]
fn the_rows_are_in_no_main_table_and_fit_their_instruments() {
    let rows = super::ROWS;
    assert_eq!(rows.iter().map(|row| row.tag).collect::<Vec<_>>(), TAGS);
    let orders: Vec<_> = rows.iter().map(|row| row.order.unwrap()).collect();
    assert!(orders.is_sorted(), "{orders:?}");
    assert_eq!((orders[0], orders[14]), (2000, 2130));
    assert!(rows.iter().all(|row| !row.is_on_console(true)));
    let spec = |tag: &str| Registry::find(tag).and_then(Metric::instrument).unwrap().spec;
    let sending = spec("http_req_sending");
    assert_eq!(sending.unit, "s");
    // Nothing at all, then from a microsecond on.
    assert_eq!(sending.boundaries[..3], [0.0, 1e-6, 2e-6]);
    assert!(*sending.boundaries.last().unwrap() >= 600.0);
    assert_eq!(spec("http_req_data_sent").unit, "By");
    assert_eq!(spec("http_req_connection_reused").boundaries, [0.0, 1.0]);
}
