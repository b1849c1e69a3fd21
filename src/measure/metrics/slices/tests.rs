use crate::metrics::fixture;
use base::column::Store;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, RequestError};
use proptest::prelude::*;

use super::*;
use crate::metrics::metric::{MetricKind, Observation, RecordValues, Settings, Stats, Value};
use crate::metrics::tag::{self, MetricTag, TagMap};

const MS: u64 = 1_000_000;
/// Wall time of the start of the phase.
const ORIGIN: u64 = 1_795_226_094_000_000_123;

fn registry() -> Arc<Registry> {
    Arc::new(Registry::new(Settings::default(), EndpointType::CHAT.traits(), true).unwrap())
}

/// A request that was sent `start` ms after the origin, takes `latency` ms and generates `tokens`
/// tokens; with 0 tokens it fails.
fn request(start: u64, latency: u64, tokens: u32) -> Observation {
    let mut values = RecordValues::default();
    let nanos = (latency * MS) as f64;
    let mut error = None;
    if tokens > 0 {
        values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(nanos / 2.0));
        values.set(tag::INTER_CHUNK_LATENCY, Value::List(vec![nanos / 4.0, nanos / 4.0]));
        values.set(tag::REQUEST_LATENCY, Value::Scalar(nanos));
        values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(tokens.into()));
    } else {
        values.set(tag::ERROR_ISL, Value::Scalar(9.0));
        error = Some(RequestError::new(ErrorKind::Http5xx, "Busy", format!("at {start}")));
    }
    Observation {
        start_wall_ns: ORIGIN + start * MS,
        end_wall_ns: ORIGIN + (start + latency) * MS,
        requested_output_tokens: start.is_multiple_of(2).then_some(5),
        error,
        values,
        ..fixture::observation()
    }
}

fn observed(requests: &[Observation]) -> Accumulator {
    let mut accumulator = Accumulator::new(registry()).sliced();
    for request in requests {
        accumulator.observe(request);
    }
    accumulator
}

/// Returns the slices of 100 ms of a phase of `length` ms.
fn slices(accumulator: &Accumulator, length: u64) -> Vec<(Slice, TagMap<Stats>)> {
    let window = ORIGIN..ORIGIN + length * MS;
    let slices = accumulator.slices(&window, Nanos(100 * MS)).unwrap().unwrap();
    let by_tag = |results: Vec<MetricResult>| {
        results.into_iter().map(|result| (result.metric.tag, result.stats)).collect()
    };
    slices.iter().map(|(slice, results)| (slice, by_tag(results))).collect()
}

#[test]
fn the_last_slice_is_cut_by_the_end() {
    let bounds = |window, duration| {
        let slices = cut(&window, Nanos(duration)).unwrap();
        slices.iter().map(|s| (s.start_ns, s.end_ns, s.is_complete)).collect::<Vec<_>>()
    };
    assert_eq!(bounds(5..25, 10), [(5, 15, true), (15, 25, true)]);
    assert_eq!(bounds(5..26, 10), [(5, 15, true), (15, 25, true), (25, 26, false)]);
    assert_eq!(bounds(5..6, 10), [(5, 6, false)]);
    assert_eq!(bounds(5..5, 10), []);
    assert_eq!(cut(&(0..MAX_SLICES), Nanos(1)).unwrap().len(), 100_000);
    let error = cut(&(0..MAX_SLICES + 1), Nanos(1)).unwrap_err();
    assert!(error.to_string().contains("--slice-duration"), "{error}");
    assert!(cut(&(0..1), Nanos::ZERO).is_err());
}

/// ```text
/// ms      0    50   100  150  200  250  300  350
/// first    |---- 8 tokens ----|
/// second        |refused|
/// third             |-- 2 tokens --|
/// ```
#[test]
fn a_request_is_of_the_slice_in_which_it_was_sent() {
    let all = [request(10, 180, 8), request(40, 30, 0), request(100, 120, 2)];
    let slices = slices(&observed(&all), 350);
    let bounds: Vec<_> =
        slices.iter().map(|(slice, _)| (slice.seconds(), slice.is_complete)).collect();
    assert_eq!(bounds, [(0.1, true), (0.1, true), (0.1, true), (0.05, false)]);
    let column = |tag: MetricTag| -> Vec<Option<f64>> {
        slices.iter().map(|(_, of)| of.get(tag).map(|stats| stats.avg)).collect()
    };
    let (some, none) = (Some, None);
    assert_eq!(column(tag::REQUEST_LATENCY), [some(180.0), some(120.0), none, none]);
    // Counts and sums are 0 in slices without requests.
    assert_eq!(column(tag::REQUEST_COUNT), [some(1.0), some(1.0), some(0.0), some(0.0)]);
    assert_eq!(column(tag::ERROR_REQUEST_COUNT), [some(1.0), some(0.0), some(0.0), some(0.0)]);
    assert_eq!(column(tag::TOTAL_OSL), [some(8.0), some(2.0), some(0.0), some(0.0)]);
    assert_eq!(column(tag::TOTAL_ISL), [none; 4], "the phase has none");
    assert_eq!(column(tag::TOTAL_ERROR_ISL), [some(9.0), some(0.0), some(0.0), some(0.0)]);
    // Rates are relative to the length of the slice, 0.1 s, not to the duration of its requests.
    assert_eq!(column(tag::REQUEST_THROUGHPUT), [some(10.0), some(10.0), some(0.0), some(0.0)]);
    assert_eq!(
        column(tag::OUTPUT_TOKEN_THROUGHPUT),
        [some(80.0), some(20.0), some(0.0), some(0.0)]
    );
    assert_eq!(column(tag::BENCHMARK_DURATION), [some(0.18), some(0.12), none, none]);
    // Curves of a slice include all requests in flight, whenever they were sent: 90 + 30 ms, 90 +
    // 100 ms, 20 ms, nothing.
    let concurrency = column(tag::EFFECTIVE_CONCURRENCY).into_iter().map(Option::unwrap);
    for (got, expected) in concurrency.zip([1.2, 1.9, 0.2, 0.0]) {
        assert!((got - expected).abs() < 1e-12, "{got} {expected}");
    }
}

#[test]
fn a_request_outside_of_the_phase_is_of_the_nearest_slice() {
    let mut early = request(0, 10, 1);
    early.start_wall_ns -= 7 * MS;
    let slices = slices(&observed(&[early, request(250, 10, 2), request(999, 10, 4)]), 250);
    let tokens: Vec<f64> =
        slices.iter().map(|(_, of)| of.get(tag::TOTAL_OSL).unwrap().avg).collect();
    assert_eq!(tokens, [1.0, 0.0, 6.0]);
}

#[test]
fn without_requests_slices_are_empty() {
    let empty = slices(&observed(&[]), 150);
    assert_eq!(empty.len(), 2);
    assert!(empty.iter().all(|(_, of)| !of.contains(tag::REQUEST_COUNT)));
    let whole = Accumulator::new(registry());
    assert!(whole.slices(&(0..10), Nanos(1)).unwrap().is_none(), "not asked for");
}

fn requests() -> impl Strategy<Value = Vec<Observation>> {
    let one = (0..1000_u64, 1..400_u64, 0..5_u32);
    let one = one.prop_map(|(start, latency, tokens)| request(start, latency, tokens));
    proptest::collection::vec(one, 1..60)
}

proptest! {
    #[test]
    fn a_log_gives_back_what_it_was_given(all in requests()) {
        let registry = registry();
        let mut log = Log::new(Store::default());
        for one in &all {
            log.push(one, &registry);
        }
        for (at, one) in all.iter().enumerate() {
            let back = log.observation(at as u32);
            prop_assert_eq!(format!("{back:?}"), format!("{one:?}"));
        }
    }

    #[test]
    fn slices_add_up_to_the_whole(all in requests(), length in 1..1500_u64) {
        let whole = observed(&all);
        let slices = slices(&whole, length);
        for result in whole.results() {
            let tag = result.metric.tag;
            let of: Vec<&Stats> = slices.iter().filter_map(|(_, of)| of.get(tag)).collect();
            let near = |sum: f64, all: f64| (sum - all).abs() <= 1e-9 * all.abs().max(1.0);
            if let MetricKind::Record(_) | MetricKind::RecordList(_) = result.metric.kind {
                let all = result.stats.distribution.unwrap();
                let parts = || of.iter().filter_map(|stats| stats.distribution);
                prop_assert_eq!(parts().map(|part| part.count).sum::<u64>(), all.count, "{}", tag);
                prop_assert!(near(parts().map(|part| part.sum).sum(), all.sum), "{tag}");
            } else if matches!(
                result.metric.kind,
                MetricKind::Count(_) | MetricKind::Tally(_) | MetricKind::SumOf(_)
            ) {
                prop_assert_eq!(of.len(), slices.len(), "{}", tag);
                let sum: f64 = of.iter().map(|stats| stats.avg).sum();
                prop_assert!(near(sum, result.stats.avg), "{tag}");
            }
        }
    }
}
