//! Compared with the library that the Collector and Prometheus use for translation; its results
//! were written by `tests/golden/prometheus-names/main.go`.

use super::{prometheus_label, prometheus_name};
use crate::semconv::InstrumentKind::{self, Counter, Gauge, Histogram, UpDownCounter};

const SAID: &str = include_str!("../../../../tests/golden/prometheus-names/names.jsonl");

#[test]
fn names_are_those_of_the_library_that_translates() {
    let mut names = 0;
    for line in SAID.lines() {
        let case: Vec<String> = serde_json::from_str(line).unwrap();
        let case: Vec<&str> = case.iter().map(String::as_str).collect();
        match case[..] {
            ["label", name, label] => assert_eq!(prometheus_label(name), label),
            [kind, name, unit, expected] => {
                let kinds = [Histogram, Counter, UpDownCounter, Gauge];
                let kind = kinds.into_iter().find(|have| have.as_str() == kind).unwrap();
                assert_eq!(prometheus_name(name, unit, kind), expected, "{line}");
                names += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(names > 500);
}

/// As the text of the specification defines it.
#[test]
fn units_and_kinds_make_suffixes() {
    let cases: [(&str, &str, InstrumentKind, &str); 9] = [
        ("aiperf.request_latency", "s", Histogram, "aiperf_request_latency_seconds"),
        ("aiperf.request_count", "{request}", Counter, "aiperf_request_count_total"),
        ("aiperf.goodput", "{request}/s", Gauge, "aiperf_goodput_per_second"),
        ("aiperf.client.queue.size", "By", Gauge, "aiperf_client_queue_size_bytes"),
        ("aiperf.client.rate.ratio", "1", Gauge, "aiperf_client_rate_ratio"),
        ("aiperf.timing.requests.sent", "1", Counter, "aiperf_timing_requests_sent_total"),
        ("a.turns_total", "1", Counter, "a_turns_total"),
        ("a.in_flight", "1", UpDownCounter, "a_in_flight"),
        ("vllm:prompt_tokens_total", "", Counter, "vllm:prompt_tokens_total"),
    ];
    for (name, unit, kind, expected) in cases {
        assert_eq!(prometheus_name(name, unit, kind), expected);
    }
    assert_eq!(prometheus_name("..", "", Gauge), "");
    assert_eq!(prometheus_label(""), "");
}
