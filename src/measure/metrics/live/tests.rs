use base::statistics::Percent;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, RequestError};

use super::*;
use crate::metrics::metric::{RecordValues, Settings, Value};
use crate::metrics::{Accumulator, fixture};

/// Wall time of the first second.
const START: u64 = 1_000 * SECOND;
const MS: u64 = 1_000_000;

fn registry() -> Arc<Registry> {
    fixture::registry(EndpointType::CHAT, Settings::default(), true)
}

/// A request that started after `start` and ended after `end` milliseconds.
fn request(start: u64, end: u64) -> Observation {
    let mut values = RecordValues::default();
    let latency = (end - start) * MS;
    for (tag, value) in [
        (tag::REQUEST_LATENCY, latency as f64),
        (tag::TIME_TO_FIRST_TOKEN, latency as f64 / 4.0),
        (tag::INTER_TOKEN_LATENCY, latency as f64 / 100.0),
        (tag::OUTPUT_SEQUENCE_LENGTH, 5.0),
    ] {
        values.set(tag, Value::Scalar(value));
    }
    Observation {
        start_wall_ns: START + start * MS,
        end_wall_ns: START + end * MS,
        values,
        ..fixture::observation()
    }
}

fn failed(end: u64, code: u16, message: &str) -> Observation {
    let error = RequestError::new(ErrorKind::Http5xx, "Service Unavailable", message);
    let error = Some(RequestError { code: Some(code), ..error });
    Observation { error, ..request(end.saturating_sub(10), end) }
}

fn rate(statistics: &LiveStatistics, tag: MetricTag) -> &LiveRate {
    statistics.rates.iter().find(|rate| rate.metric.tag == tag).unwrap()
}

#[test]
fn the_whole_phase_agrees_with_the_exact_results() {
    let live = Live::new(registry());
    let mut exact = Accumulator::new(registry());
    for number in 0..3_000_u64 {
        let start = number * 7;
        // Latencies from 11 ms to 41 s, in no order.
        let latency = 11 + (number * number * 17) % 41_000;
        let observation = match number % 10 {
            3 => failed(start + 10, 503, "full"),
            _ => request(start, start + latency),
        };
        live.observe(0, &observation);
        exact.observe(&observation);
    }
    let found = live.statistics(0, u64::MAX, true);
    let results = exact.results();
    let result = |tag| results.iter().find(|result| result.metric.tag == tag).unwrap();
    assert_eq!(found.succeeded as f64, result(tag::REQUEST_COUNT).stats.avg);
    assert_eq!(found.failed as f64, result(tag::ERROR_REQUEST_COUNT).stats.avg);
    for rate in &found.rates {
        let expected = result(rate.metric.tag).stats.avg;
        assert!((rate.whole.unwrap() / expected - 1.0).abs() < 1e-9, "{}", rate.metric.tag);
    }
    assert_eq!(found.times.len(), 3);
    for time in &found.times {
        let exact = result(time.metric.tag).stats.distribution.unwrap();
        let found = time.whole.unwrap();
        let pairs = [(found.p50, exact.p50), (found.p90, exact.p90), (found.p99, exact.p99)];
        for (found, exact) in pairs {
            // A little room for rounding to nanoseconds.
            assert!(found >= exact * 0.999_999 && found <= exact * 1.008, "{found} for {exact}");
        }
    }
}

#[test]
fn results_so_far_agree_with_the_exact_ones() {
    let often: Percent = "99.9".parse().unwrap();
    let settings = Settings { percentiles: vec![often], ..Settings::default() };
    let registry = fixture::registry(EndpointType::CHAT, settings, true);
    let live = Live::new(Arc::clone(&registry));
    let mut exact = Accumulator::new(registry);
    for number in 0..3_000_u64 {
        let start = number * 7;
        let mut observation = match number % 10 {
            3 => failed(start + 10, 503, "full"),
            _ => request(start, start + 11 + (number * number * 17) % 41_000),
        };
        let gaps = (1..4).map(|gap| (gap * number * MS) as f64).collect();
        observation.values.set(tag::INTER_CHUNK_LATENCY, Value::List(gaps));
        live.observe(0, &observation);
        exact.observe(&observation);
    }
    let found = live.results(0);
    let is_over_time = |result: &&MetricResult| {
        !matches!(result.metric.kind, MetricKind::OverTime(..) | MetricKind::WithFailures(_))
    };
    let exact = exact.results();
    let exact: Vec<_> = exact.iter().filter(is_over_time).collect();
    let tags = |results: &mut dyn Iterator<Item = MetricTag>| results.collect::<Vec<_>>();
    assert_eq!(
        tags(&mut found.iter().map(|result| result.metric.tag)),
        tags(&mut exact.iter().map(|result| result.metric.tag))
    );
    let is_close = |a: f64, b: f64, relative: f64| (a - b).abs() <= relative * b.abs() + 1e-6;
    for (found, exact) in found.iter().zip(exact) {
        let tag = found.metric.tag;
        assert_eq!(found.stats.instant, exact.stats.instant, "{tag}");
        assert!(is_close(found.stats.avg, exact.stats.avg, 1e-9), "{tag}");
        let (Some(found), Some(exact)) = (found.stats.distribution, exact.stats.distribution)
        else {
            assert_eq!(found.stats.distribution, exact.stats.distribution, "{tag}");
            continue;
        };
        assert_eq!((found.count, found.min, found.max), (exact.count, exact.min, exact.max));
        assert!(is_close(found.sum, exact.sum, 1e-9) && is_close(found.std, exact.std, 1e-9));
        for (found, exact) in [(found.p1, exact.p1), (found.p50, exact.p50), (found.p99, exact.p99)]
        {
            assert!(is_close(found, exact, 0.008), "{tag}: {found} for {exact}");
        }
        let (found, exact) = (found.percentile(often).unwrap(), exact.percentile(often).unwrap());
        assert!(is_close(found, exact, 0.008), "{tag}: {found} for {exact}");
    }
    assert!(live.results(1).is_empty());
}

#[test]
fn requests_that_are_left_out_are_only_counted() {
    let settings = Settings { skips_context_overflows: true, ..Settings::default() };
    let live = Live::new(fixture::registry(EndpointType::CHAT, settings, true));
    live.observe(0, &request(0, 100));
    live.observe(0, &failed(200, 503, "full"));
    live.observe(0, &failed(9_000, 400, "the maximum context length is 10 tokens"));
    let now = live.statistics(0, START + 10 * SECOND, false);
    assert_eq!((now.succeeded, now.failed, now.errors.len()), (1, 1, 1));
    let results = live.results(0);
    let average = |tag| results.iter().find(|it| it.metric.tag == tag).map(|it| it.stats.avg);
    assert_eq!(average(tag::ERROR_REQUEST_COUNT), Some(1.0));
    assert_eq!(average(tag::SKIPPED_CONTEXT_OVERFLOW_COUNT), Some(1.0));
    assert_eq!(average(tag::REQUEST_LATENCY), Some(100.0));
}

#[test]
fn recent_numbers_cover_ten_seconds() {
    let live = Live::new(registry());
    // Two requests a second for 30 s; in the last ten seconds they are slower.
    for half in 0..60 {
        let latency = if half < 40 { 100 } else { 300 };
        live.observe(0, &request(half * 500, half * 500 + latency));
    }
    let found = live.statistics(0, START + 30 * SECOND - 1, false);
    let time = found.times.last().unwrap();
    assert!((time.recent.unwrap().p50 / 300.0 - 1.0).abs() < 0.009);
    assert!((time.whole.unwrap().p50 / 100.0 - 1.0).abs() < 0.009);
    let requests = rate(&found, tag::REQUEST_THROUGHPUT);
    assert!((requests.recent.unwrap() - 2.0).abs() < 0.01);
    assert_eq!(requests.by_second, vec![2.0; 29]);
    assert_eq!(rate(&found, tag::OUTPUT_TOKEN_THROUGHPUT).by_second, vec![10.0; 29]);
    assert_eq!(time.by_second.len(), 29);
    assert!(time.by_second.iter().all(Option::is_some));
}

#[test]
fn seconds_without_a_response_are_empty() {
    let live = Live::new(registry());
    live.observe(0, &request(0, 500));
    live.observe(0, &request(0, 3_500));
    let found = live.statistics(0, START + 6 * SECOND, false);
    assert_eq!(rate(&found, tag::REQUEST_THROUGHPUT).by_second, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    let tails = &found.times.last().unwrap().by_second;
    assert_eq!(
        tails.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false, true, false, false]
    );
    let later = live.statistics(0, START + 3_600 * SECOND, false);
    assert_eq!(rate(&later, tag::REQUEST_THROUGHPUT).by_second, [0.0; HISTORY]);
    assert_eq!(rate(&later, tag::REQUEST_THROUGHPUT).recent, Some(0.0));
    assert_eq!((later.succeeded, later.times[0].recent), (2, None));
}

#[test]
fn memory_is_bounded_and_late_records_count() {
    let live = Live::new(registry());
    for second in 0..1_000 {
        live.observe(0, &request(second * 1_000, second * 1_000 + 10));
    }
    live.observe(0, &request(0, 20));
    live.observe(0, &request(0, 10_000_000));
    let phase = live.phase.lock();
    assert!(phase.seconds.totals.len() <= HISTORY);
    assert!(
        phase.seconds.totals.iter().filter(|second| !second.times.is_empty()).count() <= RECENT
    );
    drop(phase);
    assert_eq!(live.statistics(0, START, false).succeeded, 1_002);
}

#[test]
fn errors_are_counted_by_kind_with_their_last_message() {
    let live = Live::new(registry());
    for number in 0..5 {
        live.observe(0, &failed(100, 503, &format!("message {number}")));
    }
    live.observe(0, &failed(200, 500, "broken"));
    let found = live.statistics(0, START + SECOND, false);
    let errors: Vec<_> = found.errors.iter().map(|e| (e.code, e.count, &*e.message)).collect();
    assert_eq!(errors, [(Some(503), 5, "message 4"), (Some(500), 1, "broken")]);
    assert_eq!((found.succeeded, found.failed, found.failed_recently), (0, 6, 6));
    for code in 0..2 * MAX_ERRORS as u16 {
        live.observe(0, &failed(300, code, "many"));
    }
    let found = live.statistics(0, START + SECOND, false);
    assert_eq!(found.errors.len(), MAX_ERRORS + 1);
    assert_eq!(found.errors.iter().map(|error| error.count).sum::<u64>(), found.failed);
}

#[test]
fn a_phase_replaces_the_one_before_it() {
    let live = Live::new(registry());
    live.observe(0, &request(0, 10));
    live.observe(1, &request(20, 30));
    live.observe(1, &request(20, 40));
    // A record of the first phase that was processed late.
    live.observe(0, &request(0, 15));
    assert_eq!(live.statistics(1, START + SECOND, false).succeeded, 2);
    assert_eq!(live.statistics(0, START + SECOND, false).succeeded, 0);
    assert_eq!(live.statistics(2, START + SECOND, false).succeeded, 0);
}

#[test]
fn without_streaming_there_is_only_the_request_latency() {
    let live = Live::new(fixture::registry(EndpointType::CHAT, Settings::default(), false));
    live.observe(0, &request(0, 10));
    let found = live.statistics(0, START + SECOND, false);
    let tags: Vec<_> = found.times.iter().map(|time| time.metric.tag).collect();
    assert_eq!(tags, [tag::REQUEST_LATENCY]);
}

#[test]
fn a_copy_stays_as_it_is_and_shares_the_seconds_that_do_not_change() {
    let live = Live::new(registry());
    for end in [500, 1_500] {
        live.observe(0, &request(end - 100, end));
    }
    let copy = live.phase.lock().clone();
    live.observe(0, &request(1_700, 1_900));
    let current = live.phase.lock();
    assert_eq!((copy.whole.succeeded, current.whole.succeeded), (2, 3));
    let is_shared = |(copy, current)| Arc::ptr_eq(copy, current);
    let seconds = copy.seconds.totals.iter().zip(&current.seconds.totals);
    assert_eq!(seconds.map(is_shared).collect::<Vec<_>>(), [true, false]);
}
