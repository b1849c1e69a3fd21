use std::sync::Arc;

use crate::metrics::fixture;
use base::statistics::percentile;
use base::units::Nanos;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, RequestError};
use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::metrics::MetricTag;
use crate::metrics::metric::{MetricKind, MetricResult, RecordValues, Settings, Value};
use crate::metrics::{Accumulator, Registry};

const MS: u64 = 1_000_000;

impl Timeline {
    /// Returns the values of `curve` in `window` with their durations; `None` if no request
    /// contributes to it.
    fn follow(&self, curve: Curve, gaps: Gaps<'_>, window: Range<u64>) -> Option<Durations> {
        let mut found = None;
        let mut say = |durations| found = Some(durations);
        let store = Store::default();
        let requests = self.sorted(curve.begin(), &window, &store);
        follow(curve, &requests, gaps, &[window], &store, &mut say).then_some(found)?
    }
}

/// A request that starts and ends the given numbers of milliseconds after a common origin, with
/// content events at `content`.
#[derive(Debug, Clone)]
struct Sketch {
    start: u64,
    content: Vec<u64>,
    end: u64,
    input: u32,
    output: u32,
}

impl Sketch {
    fn observation(&self) -> Observation {
        let nanos = |millis: u64| (millis * MS) as f64;
        let mut values = RecordValues::default();
        let mut error = Some(RequestError::new(ErrorKind::Other, "Refused", "by the test"));
        if let (Some(first), Some(last)) = (self.content.first(), self.content.last()) {
            error = None;
            values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(nanos(first - self.start)));
            values.set(tag::REQUEST_LATENCY, Value::Scalar(nanos(last - self.start)));
            values.set(tag::INPUT_SEQUENCE_LENGTH, Value::Scalar(self.input.into()));
            values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(self.output.into()));
            let gaps: Vec<f64> =
                self.content.windows(2).map(|two| nanos(two[1] - two[0])).collect();
            if !gaps.is_empty() {
                values.set(tag::INTER_CHUNK_LATENCY, Value::List(gaps));
            }
        }
        Observation {
            start_wall_ns: 1_795_226_094_000_000_123 + self.start * MS,
            end_wall_ns: 1_795_226_094_000_000_123 + self.end * MS,
            error,
            values,
            ..fixture::observation()
        }
    }
}

/// Two requests that overlap, and one that is rejected while no other is in flight.
///
/// ```text
/// ms      0    10   20   30   40   50   60   70   80   90  100
/// first   |-- prefill --|  4 tokens |  4  | end
/// second       |-- prefill --|    2 tokens    | end
/// third                                              |refused|
/// ```
fn three() -> [Sketch; 3] {
    [
        Sketch { start: 0, content: vec![20, 40, 50], end: 60, input: 10, output: 9 },
        Sketch { start: 10, content: vec![30, 60], end: 70, input: 20, output: 3 },
        Sketch { start: 90, content: vec![], end: 100, input: 99, output: 99 },
    ]
}

fn column(values: Vec<f64>) -> Column<f64> {
    Column::from_values(Store::default(), values)
}

fn accumulator() -> Accumulator {
    let chat = EndpointType::CHAT.traits();
    let registry = Registry::new(Settings::default(), chat, true).unwrap();
    Accumulator::new(Arc::new(registry)).sliced()
}

fn observed(sketches: &[Sketch]) -> Accumulator {
    let mut accumulator = accumulator();
    for sketch in sketches {
        accumulator.observe(&sketch.observation());
    }
    accumulator
}

fn over_time(results: &[MetricResult]) -> Vec<(MetricTag, Stats)> {
    let is_over_time =
        |result: &&MetricResult| matches!(result.metric.kind, MetricKind::OverTime(..));
    results.iter().filter(is_over_time).map(|result| (result.metric.tag, result.stats)).collect()
}

fn assert_near(got: f64, expected: f64, tolerance: f64, what: &str) {
    let off = (got - expected).abs();
    assert!(off <= tolerance * expected.abs().max(1e-9), "{what}: {got}, expected {expected}");
}

#[test]
fn every_curve_of_three_requests() {
    // Values and their durations out of 100 ms, computed by hand.
    let expected: [(MetricTag, &[(f64, f64)]); 14] = [
        (tag::EFFECTIVE_CONCURRENCY, &[(0.0, 20.0), (1.0, 30.0), (2.0, 50.0)]),
        // 8 tokens in two gaps: 4 in 20 ms, 4 in 10 ms; 2 tokens in 30 ms.
        (
            tag::EFFECTIVE_DECODE_THROUGHPUT,
            &[
                (0.0, 60.0),
                (200.0, 10.0),
                (200.0 / 3.0, 10.0),
                (200.0 + 200.0 / 3.0, 10.0),
                (400.0 + 200.0 / 3.0, 10.0),
            ],
        ),
        // 10 tokens in 20 ms, 20 tokens in 20 ms.
        (
            tag::EFFECTIVE_PREFILL_THROUGHPUT,
            &[(500.0, 10.0), (1500.0, 10.0), (1000.0, 10.0), (0.0, 70.0)],
        ),
        (tag::EFFECTIVE_DECODE_CONCURRENCY, &[(0.0, 50.0), (1.0, 20.0), (2.0, 30.0)]),
        (tag::EFFECTIVE_PREFILL_CONCURRENCY, &[(0.0, 70.0), (1.0, 20.0), (2.0, 10.0)]),
        // While decoding, 8 tokens in 40 ms and 2 in 40 ms.
        (
            tag::EFFECTIVE_TOTAL_THROUGHPUT,
            &[
                (500.0, 10.0),
                (1500.0, 10.0),
                (1200.0, 10.0),
                (250.0, 30.0),
                (50.0, 10.0),
                (0.0, 30.0),
            ],
        ),
        (
            tag::EFFECTIVE_DECODE_THROUGHPUT_PER_USER,
            &[
                (200.0, 10.0),
                (400.0 / 3.0, 10.0),
                (700.0 / 3.0, 10.0),
                (100.0 / 3.0, 10.0),
                (0.0, 60.0),
            ],
        ),
        (
            tag::EFFECTIVE_PREFILL_THROUGHPUT_PER_USER,
            &[(500.0, 10.0), (750.0, 10.0), (1000.0, 10.0), (0.0, 70.0)],
        ),
        // 10, 30, 31, 32, then 4 more at 40 and 50 ms; at 60 ms the second request has all its
        // tokens.
        (
            tag::TOKENS_IN_FLIGHT,
            &[
                (10.0, 10.0),
                (30.0, 10.0),
                (31.0, 10.0),
                (32.0, 10.0),
                (36.0, 10.0),
                (40.0, 10.0),
                (23.0, 10.0),
                (0.0, 30.0),
            ],
        ),
        (
            tag::ACTIVE_DECODE_THROUGHPUT,
            &[
                (0.0, 10.0),
                (200.0, 10.0),
                (200.0 / 3.0, 10.0),
                (200.0 + 200.0 / 3.0, 10.0),
                (400.0 + 200.0 / 3.0, 10.0),
            ],
        ),
        (tag::ACTIVE_PREFILL_THROUGHPUT, &[(500.0, 10.0), (1500.0, 10.0), (1000.0, 10.0)]),
        (
            tag::ACTIVE_DECODE_THROUGHPUT_PER_USER,
            &[
                (200.0, 10.0),
                (400.0 / 3.0, 10.0),
                (700.0 / 3.0, 10.0),
                (100.0 / 3.0, 10.0),
                (0.0, 10.0),
            ],
        ),
        (tag::ACTIVE_PREFILL_THROUGHPUT_PER_USER, &[(500.0, 10.0), (750.0, 10.0), (1000.0, 10.0)]),
        // The rejected one is in flight too, but without tokens.
        (
            tag::ACTIVE_TOTAL_THROUGHPUT,
            &[
                (500.0, 10.0),
                (1500.0, 10.0),
                (1200.0, 10.0),
                (250.0, 30.0),
                (50.0, 10.0),
                (0.0, 10.0),
            ],
        ),
    ];
    let results = observed(&three()).results();
    let results = over_time(&results);
    assert_eq!(results.len(), expected.len());
    for ((tag, stats), (expected_tag, values)) in results.iter().zip(expected) {
        assert_eq!(*tag, expected_tag);
        assert_stats(tag.name(), stats, values);
    }
}

/// Asserts that `stats` are those of `values` with their durations, computed from the definitions.
fn assert_stats(tag: &str, stats: &Stats, values: &[(f64, f64)]) {
    let mut values = values.to_vec();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = values.iter().map(|(_, time)| time).sum();
    let mean = values.iter().map(|(value, time)| value * time).sum::<f64>() / total;
    let squares = values.iter().map(|(value, time)| (value - mean).powi(2) * time);
    let deviation = (squares.sum::<f64>() / total).sqrt();
    let percentile = |percent: f64| {
        let mut passed = 0.0;
        let reached = values.iter().find(|(_, time)| {
            passed += time;
            passed >= total * percent / 100.0
        });
        reached.unwrap().0
    };
    let got = stats.distribution.unwrap();
    for (what, got, expected) in [
        ("avg", stats.avg, mean),
        ("std", got.std, deviation),
        ("min", got.min, values[0].0),
        ("max", got.max, values.last().unwrap().0),
        ("p50", got.p50, percentile(50.0)),
        ("p90", got.p90, percentile(90.0)),
        ("p95", got.p95, percentile(95.0)),
        ("p99", got.p99, percentile(99.0)),
    ] {
        assert_near(got, expected, 1e-12, &format!("{tag} {what}"));
    }
    assert_eq!(got.count, 0);
    assert!(got.sum.is_nan() && got.p25.is_nan());
}

#[test]
fn a_slice_has_what_went_on_in_it() {
    let accumulator = observed(&three());
    let start = three()[0].observation().start_wall_ns;
    let slice = |window: Range<u64>| {
        let window = start + window.start * MS..start + window.end * MS;
        let slices = accumulator.slices(&window, Nanos(window.end - window.start));
        let (_, results) = slices.unwrap().unwrap().iter().next().unwrap();
        over_time(&results)
    };
    let busy = slice(25..45);
    assert_eq!(busy.len(), over_time(&accumulator.results()).len());
    let busy_share = |tag| busy.iter().find(|(have, _)| *have == tag).unwrap().1;
    assert_stats("concurrency", &busy_share(tag::EFFECTIVE_CONCURRENCY), &[(2.0, 20.0)]);
    let tokens = [(31.0, 5.0), (32.0, 10.0), (36.0, 5.0)];
    assert_stats(tag::TOKENS_IN_FLIGHT.name(), &busy_share(tag::TOKENS_IN_FLIGHT), &tokens);
    let prefill = [(1000.0, 5.0), (0.0, 15.0)];
    assert_stats("prefill", &busy_share(tag::EFFECTIVE_PREFILL_THROUGHPUT), &prefill);
    assert_stats("active prefill", &busy_share(tag::ACTIVE_PREFILL_THROUGHPUT), &prefill[..1]);
    assert!(slice(75..80).is_empty());
}

#[test]
fn what_no_request_has_is_absent() {
    assert!(over_time(&accumulator().results()).is_empty());
    let refused = observed(&three()[2..]).results();
    let tags: Vec<_> = over_time(&refused).into_iter().map(|(tag, _)| tag).collect();
    assert_eq!(tags, [tag::EFFECTIVE_CONCURRENCY]);
    let chat = EndpointType::CHAT.traits();
    let plain = Registry::new(Settings::default(), chat, false).unwrap();
    let rows = plain.rows().iter().filter(|row| matches!(row.kind, MetricKind::OverTime(..)));
    assert_eq!(rows.map(|row| row.tag).collect::<Vec<_>>(), [tag::EFFECTIVE_CONCURRENCY]);
}

#[test]
fn a_request_without_length_does_not_have_a_time() {
    let none = Sketch { start: 5, content: vec![], end: 5, input: 0, output: 0 };
    assert!(over_time(&observed(&[none]).results()).is_empty());
}

#[test]
fn output_in_one_piece_has_no_rate_and_comes_whole() {
    let one = Sketch { start: 0, content: vec![30], end: 40, input: 10, output: 6 };
    let results = observed(&[one]).results();
    let results = over_time(&results);
    assert!(!results.iter().any(|(tag, _)| *tag == tag::EFFECTIVE_DECODE_THROUGHPUT));
    let stats_of = |tag| results.iter().find(|(have, _)| *have == tag).unwrap().1;
    assert_stats(
        tag::TOKENS_IN_FLIGHT.name(),
        &stats_of(tag::TOKENS_IN_FLIGHT),
        &[(10.0, 30.0), (16.0, 10.0)],
    );
    // 5 tokens in 10 ms, after 10 in 30 ms.
    let total = [(1000.0 / 3.0, 30.0), (500.0, 10.0)];
    assert_stats(
        tag::EFFECTIVE_TOTAL_THROUGHPUT.name(),
        &stats_of(tag::EFFECTIVE_TOTAL_THROUGHPUT),
        &total,
    );
}

#[test]
fn pieces_of_one_moment_come_with_the_next() {
    // 6 tokens after the first in the two gaps that are not empty.
    let burst = Sketch { start: 0, content: vec![10, 10, 20, 40], end: 40, input: 1, output: 7 };
    let results = observed(&[burst]).results();
    let results = over_time(&results);
    let stats_of = |tag| results.iter().find(|(have, _)| *have == tag).unwrap().1;
    let rates = [(0.0, 10.0), (300.0, 10.0), (150.0, 20.0)];
    assert_stats("decode", &stats_of(tag::EFFECTIVE_DECODE_THROUGHPUT), &rates);
    // 2 tokens with each of the three further events; the last level has zero duration.
    let tokens = [(1.0, 10.0), (4.0, 10.0), (6.0, 20.0)];
    assert_stats(tag::TOKENS_IN_FLIGHT.name(), &stats_of(tag::TOKENS_IN_FLIGHT), &tokens);
}

#[test]
fn a_change_costs_twelve_bytes() {
    assert_eq!(size_of::<Segment>(), 12);
    let mut timeline = Timeline::new(Store::default());
    let gaps = column(vec![1e6; 63 * 100]);
    for at in 0..100 {
        let mut observation = three()[0].observation();
        observation.start_wall_ns += at as u64;
        timeline.observe(&observation, &(at * 63..at * 63 + 63));
    }
    let gaps = Gaps::new(Some(&gaps), Unit::Nanoseconds);
    let window = timeline.window();
    let durations = timeline.follow(Curve::DecodeThroughput, gaps, window).unwrap();
    // At most one for each of 64 events, and one for the way to the end.
    assert!((70..66 * 100).contains(&durations.brief.len()));
}

#[test]
fn absurd_times_cost_neither_memory_nor_the_program() {
    let mut observation = three()[0].observation();
    observation.end_wall_ns = u64::MAX;
    let gaps = column(vec![f64::MAX, f64::INFINITY]);
    let gaps = Gaps::new(Some(&gaps), Unit::Milliseconds);
    let mut timeline = Timeline::new(Store::default());
    timeline.observe(&observation, &(0..2));
    observation.values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(f64::NAN));
    observation.values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(-5.0));
    observation.start_wall_ns = 0;
    timeline.observe(&observation, &(2..9));
    let window = timeline.window();
    for curve in [Curve::Concurrency, Curve::DecodeThroughput, Curve::TokensInFlight] {
        let durations = timeline.follow(curve, gaps, window.clone()).unwrap();
        assert!(durations.brief.len() + durations.long.len() < 20);
        assert!(durations.stats(Span::Whole).unwrap().avg.is_finite());
    }
}

#[test]
fn a_value_may_last_longer_than_four_seconds() {
    let long = Sketch { start: 0, content: vec![10_000], end: 20_000, input: 10, output: 1 };
    let brief = Sketch { start: 0, content: vec![1], end: 2, input: 10, output: 1 };
    let results = observed(&[long, brief]).results();
    let expected = [(2.0, 2.0), (1.0, 19_998.0)];
    assert_stats(tag::EFFECTIVE_CONCURRENCY.name(), &over_time(&results)[0].1, &expected);
}

/// Lines of AIPerf 0.13, without members that are not needed, and its results for them; its
/// instants are floats with a precision of 256 ns.
#[test]
fn curves_and_adjusted_latencies_are_those_of_aiperf() {
    const LINES: &str = include_str!("../../../../tests/golden/aiperf-0.13/over_time.jsonl");
    const SUMMARY: &str =
        include_str!("../../../../tests/golden/aiperf-0.13/profile_export_aiperf.json");
    /// The phase as in its manifest.
    const PHASE: Range<u64> = 1_795_226_094_681_160_238..1_795_226_099_215_038_896;
    let mut timeline = Timeline::new(Store::default());
    let mut gaps = Vec::new();
    let mut latencies = Vec::new();
    let mut failures = 0;
    for line in LINES.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        let metadata = &line["metadata"];
        let mut values = RecordValues::default();
        let value = |tag: MetricTag| line["metrics"][tag.name()]["value"].clone();
        for (tag, factor) in [
            (tag::TIME_TO_FIRST_TOKEN, 1e6),
            (tag::INPUT_SEQUENCE_LENGTH, 1.0),
            (tag::OUTPUT_SEQUENCE_LENGTH, 1.0),
        ] {
            if let Some(value) = value(tag).as_f64() {
                values.set(tag, Value::Scalar(value * factor));
            }
        }
        latencies.extend(value(tag::REQUEST_LATENCY).as_f64());
        failures += u64::from(line.get("error").is_some());
        let before = gaps.len();
        let list = value(tag::INTER_CHUNK_LATENCY);
        gaps.extend(list.as_array().into_iter().flatten().filter_map(Json::as_f64));
        let observation = Observation {
            start_wall_ns: metadata["request_start_ns"].as_u64().unwrap(),
            end_wall_ns: metadata["request_end_ns"].as_u64().unwrap(),
            values,
            ..fixture::observation()
        };
        timeline.observe(&observation, &(before..gaps.len()));
    }
    let summary: Json = serde_json::from_str(SUMMARY).unwrap();
    let gaps = column(gaps);
    let mut compared = 0;
    for metric in Registry::catalogue() {
        let MetricKind::OverTime(curve, span) = metric.kind else { continue };
        let theirs = &summary[metric.tag.name()];
        let gaps = Gaps::new(Some(&gaps), Unit::Milliseconds);
        let stats = timeline.follow(curve, gaps, PHASE).unwrap().stats(span).unwrap();
        let ours = stats.distribution.unwrap();
        for (name, ours) in [
            ("avg", stats.avg),
            ("std", ours.std),
            ("min", ours.min),
            ("max", ours.max),
            ("p50", ours.p50),
            ("p90", ours.p90),
            ("p95", ours.p95),
            ("p99", ours.p99),
        ] {
            // Its rates and its numbers of users are rounded separately, so that for less than a
            // microsecond one user has the rate of two.
            if name == "max" && metric.tag.name().ends_with("decode_throughput_per_user") {
                assert!(theirs[name].as_f64().unwrap() > 1.4 * ours);
                continue;
            }
            let theirs = theirs[name].as_f64().unwrap();
            assert_near(ours, theirs, 2e-4, &format!("{} {name}", metric.tag));
            compared += 1;
        }
    }
    assert_eq!(compared, 14 * 8 - 2);
    let theirs = &summary["adj_request_latency"];
    let ours = percentile::with_failures(|| latencies.iter().copied(), failures, &[]).unwrap();
    assert_eq!(theirs["count"], ours.count);
    for (name, ours) in [
        ("min", ours.min),
        ("p1", ours.p1),
        ("p5", ours.p5),
        ("p10", ours.p10),
        ("p25", ours.p25),
        ("p50", ours.p50),
        ("p75", ours.p75),
        ("p90", ours.p90),
    ] {
        assert_eq!(theirs[name], ours, "{name}");
    }
    assert!(theirs.get("p95").is_none() && theirs.get("max").is_none());
    assert_eq!((ours.p95, ours.max), (f64::INFINITY, f64::INFINITY));
}

prop_compose! {
    fn sketch()(
        start in 0_u64..200,
        steps in prop::collection::vec(0_u64..30, 0..6),
        rest in 0_u64..20,
        input in 0_u32..50,
        output in 0_u32..40,
    ) -> Sketch {
        let mut at = start;
        let content: Vec<u64> = steps.iter().map(|step| { at += step; at }).collect();
        Sketch { start, content, end: at + rest, input, output }
    }
}

proptest! {
    #[test]
    fn two_windows_add_up_to_one(
        sketches in prop::collection::vec(sketch(), 1..20),
        cut in 0_u64..400,
    ) {
        let mut timeline = Timeline::new(Store::default());
        let mut gaps = Vec::new();
        for sketch in &sketches {
            let observation = sketch.observation();
            let before = gaps.len();
            if let Some(Value::List(list)) = observation.values.get(tag::INTER_CHUNK_LATENCY) {
                gaps.extend(list);
            }
            timeline.observe(&observation, &(before..gaps.len()));
        }
        let gaps = column(gaps);
        let window = timeline.window();
        let cut = (window.start + cut * MS).min(window.end);
        for curve in [Curve::Concurrency, Curve::DecodeThroughput, Curve::TokensInFlight] {
            let integral = |window: Range<u64>| {
                let nanos = (window.end - window.start) as f64;
                let gaps = Gaps::new(Some(&gaps), Unit::Nanoseconds);
                let durations = timeline.follow(curve, gaps, window)?;
                Some(durations.stats(Span::Whole).map_or(0.0, |stats| stats.avg) * nanos)
            };
            let Some(whole) = integral(window.clone()) else { continue };
            let part = |window| integral(window).unwrap_or(0.0);
            let parts = part(window.start..cut) + part(cut..window.end);
            prop_assert!((whole - parts).abs() <= 1e-6 * whole.max(1.0), "{whole} {parts}");
        }
    }
}
