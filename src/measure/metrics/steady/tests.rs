use crate::metrics::fixture;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, RequestError};
use std::sync::Arc;

use super::*;
use crate::metrics::Registry;
use crate::metrics::metric::{Observation, RecordValues, Settings, Value};

const MS: u64 = 1_000_000;
/// Wall time of the start of the phase.
const ORIGIN: u64 = 1_795_226_094_000_000_123;

/// A request that starts `start` ms after the origin, takes `latency` ms and generates `tokens`
/// tokens, with gaps of a quarter and a half of its latency; with 0 tokens it fails.
fn request(start: u64, latency: u64, tokens: u32) -> Observation {
    let mut values = RecordValues::default();
    let nanos = (latency * MS) as f64;
    let mut error = None;
    if tokens > 0 {
        values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(nanos / 4.0));
        values.set(tag::INTER_CHUNK_LATENCY, Value::List(vec![nanos / 4.0, nanos / 2.0]));
        values.set(tag::REQUEST_LATENCY, Value::Scalar(nanos));
        values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(tokens.into()));
    } else {
        error = Some(RequestError::new(ErrorKind::Http5xx, "Busy", "503"));
    }
    Observation {
        start_wall_ns: ORIGIN + start * MS,
        end_wall_ns: ORIGIN + (start + latency) * MS,
        error,
        values,
        ..fixture::observation()
    }
}

fn observed(fraction: f64, requests: &[(u64, u64, u32)]) -> Accumulator {
    let settings = Settings { steady_state_fraction: fraction, ..Settings::default() };
    let registry = Registry::new(settings, EndpointType::CHAT.traits(), true).unwrap();
    let mut accumulator = Accumulator::new(Arc::new(registry));
    for (start, latency, tokens) in requests {
        accumulator.observe(&request(*start, *latency, *tokens));
    }
    accumulator
}

/// Returns the bounds of the steady state in ms after the origin.
fn bounds(found: &SteadyState) -> (u64, u64) {
    ((found.start_ns - ORIGIN) / MS, (found.end_ns - ORIGIN) / MS)
}

fn stats(found: &SteadyState, tag: MetricTag) -> Option<(f64, Option<u64>)> {
    let result = found.results.iter().find(|result| result.metric.tag == tag)?;
    Some((result.stats.avg, result.stats.distribution.map(|values| values.count)))
}

/// ```text
/// ms       0    50   100  150  200  250  300
/// a        |------- 4 -------|
/// b             |-- 6 --|
/// c                     |-- 8 --|
/// d                          |---- fails ---|
/// plateau       |---------------|
/// steady                |-------|
/// ```
const CLOSED: &[(u64, u64, u32)] = &[(0, 180, 4), (50, 80, 6), (130, 80, 8), (180, 120, 0)];

#[test]
fn a_closed_loop_is_steady_a_latency_after_it_reached_its_concurrency() {
    let accumulator = observed(0.95, CLOSED);
    let found = accumulator.steady_state(Some(HeldLoad::Concurrency(2)), ORIGIN).unwrap();
    // 93 ms after 50 are more than half of the plateau.
    assert_eq!(bounds(&found), (130, 210));
    // c and d started in it.
    assert_eq!((found.request_count, found.request_share), (2, 0.5));
    assert_eq!(stats(&found, tag::REQUEST_LATENCY), Some((80.0, Some(1))));
    assert_eq!(stats(&found, tag::INTER_CHUNK_LATENCY), Some((30.0, Some(2))));
    assert_eq!(stats(&found, tag::OUTPUT_SEQUENCE_LENGTH), Some((8.0, Some(1))));
    // 50 of the 180 ms of a lie in it, all 80 of c, and 30 of the 120 of d, which fails.
    let is = |tag, expected: f64| {
        let (value, count) = stats(&found, tag).unwrap();
        assert!((value - expected).abs() < 1e-9 && count.is_none(), "{tag}: {value}");
    };
    is(tag::REQUEST_COUNT, 50.0 / 180.0 + 1.0);
    is(tag::REQUEST_THROUGHPUT, (50.0 / 180.0 + 1.0) / 0.08);
    is(tag::OUTPUT_TOKEN_THROUGHPUT, (4.0 * 50.0 / 180.0 + 8.0) / 0.08);
    is(tag::ERROR_REQUEST_COUNT, 0.25);
    let adjusted = stats(&found, tag::ADJ_REQUEST_LATENCY);
    assert_eq!(adjusted, Some((f64::INFINITY, Some(2))));
    // Two in flight all the time, and nothing of the other requests' times.
    assert_eq!(stats(&found, tag::EFFECTIVE_CONCURRENCY), Some((2.0, Some(0))));
    assert_eq!(stats(&found, tag::BENCHMARK_DURATION), None);
    assert_eq!(stats(&found, tag::MIN_REQUEST_TIMESTAMP), None);
    // 1.5278 requests in 80 ms, of 100 ms on average.
    let residual = found.littles_law_residual_percent.unwrap();
    let expected = 100.0 * ((50.0 / 180.0 + 1.25) * 100.0 / 80.0 / 2.0 - 1.0);
    assert!((residual - expected).abs() < 1e-9, "{residual}");
}

#[test]
fn one_user_with_requests_of_the_same_length_has_the_rates_of_the_phase() {
    let requests: Vec<_> = (0..5).map(|at| (at * 100, 100, 4)).collect();
    let accumulator = observed(1.0, &requests);
    let found = accumulator.steady_state(Some(HeldLoad::Concurrency(1)), ORIGIN).unwrap();
    assert_eq!(bounds(&found), (100, 500));
    assert_eq!(found.littles_law_residual_percent, Some(0.0));
    let whole = accumulator.results();
    for tag in [tag::REQUEST_THROUGHPUT, tag::OUTPUT_TOKEN_THROUGHPUT, tag::REQUEST_LATENCY] {
        let whole = whole.iter().find(|result| result.metric.tag == tag).unwrap();
        assert_eq!(stats(&found, tag).unwrap().0, whole.stats.avg, "{tag}");
    }
    // The only request of each user is all that there is.
    let single = observed(1.0, &[(0, 100, 4)]);
    let found = single.steady_state(Some(HeldLoad::Concurrency(1)), ORIGIN).unwrap();
    assert_eq!((bounds(&found), found.request_count), ((0, 100), 1));
}

/// A request that is cancelled after `latency` ms, when `tokens` tokens had arrived.
fn cancelled(start: u64, latency: u64, tokens: u32) -> Observation {
    let mut request = request(start, latency, 0);
    request.error = Some(RequestError::cancelled("the run"));
    request.values.set(tag::ERROR_ISL, Value::Scalar(100.0));
    if tokens > 0 {
        request.values.set(tag::ERROR_OSL, Value::Scalar(tokens.into()));
    }
    request
}

#[test]
fn requests_without_an_end_count_with_what_arrived() {
    // A token each 25 ms: requests of four, of which each second is cancelled after half of its time.
    let mut accumulator = observed(1.0, &[]);
    for at in 0..5 {
        let mut whole = request(at * 150, 100, 4);
        whole.values.set(tag::INPUT_SEQUENCE_LENGTH, Value::Scalar(100.0));
        accumulator.observe(&whole);
        accumulator.observe(&cancelled(at * 150 + 100, 50, 2));
    }
    let load = Some(HeldLoad::Concurrency(1));
    let found = accumulator.steady_state(load, ORIGIN).unwrap();
    let is = |found: &SteadyState, tag, expected: f64| {
        let (value, _) = stats(found, tag).unwrap();
        assert!((value - expected).abs() < 1e-9 * expected, "{tag}: {value}");
    };
    // 75 ms are the mean latency, so that a quarter of the first request lies in it.
    assert_eq!(bounds(&found), (75, 750));
    is(&found, tag::OUTPUT_TOKEN_THROUGHPUT, 40.0);
    is(&found, tag::TOTAL_ISL, 925.0);
    is(&found, tag::REQUEST_COUNT, 4.25);
    // Statistics of requests are those of requests that ended.
    assert_eq!(stats(&found, tag::OUTPUT_SEQUENCE_LENGTH), Some((4.0, Some(4))));

    // In an open loop, the window ends with the last start: at 400 ms, when half of what arrived of the
    // request that is cancelled at 600 ms had.
    let mut accumulator = observed(1.0, &[(0, 200, 8), (400, 200, 8)]);
    accumulator.observe(&cancelled(200, 400, 16));
    // The server had not begun its response.
    accumulator.observe(&cancelled(200, 200, 0));
    let load = Some(HeldLoad::Arrivals { ramp_ns: Nanos::ZERO });
    let found = accumulator.steady_state(load, ORIGIN).unwrap();
    let seconds = found.duration().as_seconds();
    let (from, until) = bounds(&found);
    assert_eq!(until, 400);
    let first = 8.0 * (200 - from.min(200)) as f64 / 200.0;
    is(&found, tag::TOTAL_OSL, first + 8.0);
    is(&found, tag::OUTPUT_TOKEN_THROUGHPUT, (first + 8.0) / seconds);
    // Of the whole phase, what does not end is not counted, as in AIPerf.
    let whole = accumulator.results();
    let total = whole.iter().find(|result| result.metric.tag == tag::TOTAL_OSL).unwrap();
    assert_eq!(total.stats.avg, 16.0);
}

#[test]
fn moments_between_requests_do_not_end_it_but_a_low_mean_does() {
    // One user who waits 10 ms after each request of 90 ms: 90.9% of the time from start to end.
    let requests: Vec<_> = (0..10).map(|at| (at * 100, 90, 1)).collect();
    let load = Some(HeldLoad::Concurrency(1));
    let found = observed(0.9, &requests).steady_state(load, ORIGIN).unwrap();
    assert_eq!((bounds(&found), found.request_count), ((90, 990), 9));
    let Err(Unsteady::NotHeld { mean, .. }) = observed(0.91, &requests).steady_state(load, ORIGIN)
    else {
        panic!()
    };
    assert_eq!(mean, 900.0 / 990.0);
}

#[test]
fn a_share_of_the_concurrency_is_not_raised_by_rounding() {
    // 0.55 · 100 is 55.00000000000001.
    let requests = vec![(0, 100, 1); 55];
    let load = Some(HeldLoad::Concurrency(100));
    let found = observed(0.55, &requests).steady_state(load, ORIGIN).unwrap();
    assert_eq!((bounds(&found), found.request_count), ((0, 100), 55));
    assert!(observed(0.56, &requests).steady_state(load, ORIGIN).is_err());
}

#[test]
fn an_open_loop_is_steady_from_the_end_of_the_ramp_until_the_last_request() {
    let accumulator = observed(0.95, &[(10, 50, 1), (100, 30, 2), (140, 60, 4), (190, 90, 8)]);
    let load = |ramp: u64| Some(HeldLoad::Arrivals { ramp_ns: Nanos(ramp * MS) });
    let found = accumulator.steady_state(load(120), ORIGIN).unwrap();
    assert_eq!((bounds(&found), found.request_count), ((120, 190), 2));
    assert_eq!(stats(&found, tag::REQUEST_LATENCY), Some((75.0, Some(2))));
    // A third of the second request and five sixths of the third one.
    let (rate, _) = stats(&found, tag::REQUEST_THROUGHPUT).unwrap();
    assert!((rate - (1.0 / 3.0 + 5.0 / 6.0) / 0.07).abs() < 1e-9, "{rate}");
    // Without a ramp it begins with the first request.
    assert_eq!(bounds(&accumulator.steady_state(load(0), ORIGIN).unwrap()), (10, 190));
    let none = |ramp| accumulator.steady_state(load(ramp), ORIGIN).unwrap_err().to_string();
    assert_eq!(
        none(131),
        "no request ended in the last 0.05 s in which requests were sent, when as many as usual \
         were in flight"
    );
    assert_eq!(none(190), "fewer than two requests were sent after the ramp of 0.19 s");
    let exact = Unsteady::NoneSent(Nanos(190_123_456)).to_string();
    assert_eq!(exact, "fewer than two requests were sent after the ramp of 0.19 s");
}

#[test]
fn an_open_loop_is_steady_when_the_queue_has_filled() {
    // 20 per second that take 2.45 s: 49 are in flight from the 49th on, for a tenth of the time.
    let requests: Vec<_> = (0..500).map(|at| (at * 50, 2450, 1)).collect();
    let load = Some(HeldLoad::Arrivals { ramp_ns: Nanos::ZERO });
    let found = observed(0.95, &requests).steady_state(load, ORIGIN).unwrap();
    assert_eq!(bounds(&found), (48 * 50, 499 * 50));
    let (rate, _) = stats(&found, tag::REQUEST_THROUGHPUT).unwrap();
    assert!((rate - 20.0).abs() < 1e-9, "{rate}");
    assert!(found.littles_law_residual_percent.unwrap().abs() < 1e-9);
    // Two in three are served: the queue grows as long as requests are sent.
    let requests: Vec<_> = (0..500).map(|at| (at * 50, 100 + at * 25, 1)).collect();
    let reason = observed(0.95, &requests).steady_state(load, ORIGIN).unwrap_err().to_string();
    assert_eq!(
        reason,
        "the requests in flight increased for more than 70% of the 24.95 s from the end of the \
         ramp until the last one was sent"
    );
}

#[test]
fn the_reason_is_given_if_there_is_none() {
    let reason = |load, requests: &[(u64, u64, u32)]| {
        observed(0.95, requests).steady_state(load, ORIGIN).unwrap_err().to_string()
    };
    assert_eq!(
        reason(Some(HeldLoad::Concurrency(3)), CLOSED),
        "at most 2 requests were in flight, less than 95% of the concurrency of 3"
    );
    let pause = [(0, 100, 1), (0, 100, 1), (300, 100, 1), (300, 100, 1)];
    assert_eq!(
        reason(Some(HeldLoad::Concurrency(2)), &pause),
        "on average 1.00 requests were in flight from the first to the last time at which 95% of \
         the concurrency of 2 were, less than that"
    );
    assert_eq!(reason(Some(HeldLoad::AllAtOnce), CLOSED), "all requests were sent at once");
    assert_eq!(reason(None, CLOSED), "the configured load is not known");
    for load in [HeldLoad::Concurrency(1), HeldLoad::Arrivals { ramp_ns: Nanos::ZERO }] {
        reason(Some(load), &[]);
        // A request without a duration is never in flight, and the only one does not have a window.
        reason(Some(load), &[(5, 0, 0)]);
    }
}

#[test]
fn the_rate_of_a_steady_state_has_an_interval() {
    let half_width = |requests: &[(u64, u64, u32)]| {
        let found = observed(1.0, requests);
        let load = Some(HeldLoad::Arrivals { ramp_ns: Nanos(0) });
        found.steady_state(load, ORIGIN).unwrap().request_throughput_half_width
    };
    // 20 requests/s exactly: nothing varies.
    let even: Vec<_> = (0..200).map(|at| (at * 50, 80, 4)).collect();
    assert!(half_width(&even).unwrap() < 0.01);
    // Independent gaps of 1 to 99 ms have a standard deviation of 28.6 ms. Of a sum of 199 of them it is
    // 403 ms in 9.95 s: 4.05%, so that 20 requests/s are exact to 1.97 * 0.81 = 1.6.
    let mut state = 1_u64;
    let uneven = (0..200).scan(0, |at, _| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *at += 1 + (state >> 33) % 99;
        Some((*at, 80, 4))
    });
    let half = half_width(&uneven.collect::<Vec<_>>()).unwrap();
    assert!((0.8..2.4).contains(&half), "{half}");
    // Two requests tell nothing.
    assert_eq!(half_width(&[(0, 100, 4), (100, 100, 4)]), None);
}
