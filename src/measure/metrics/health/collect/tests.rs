use base::units::Nanos;
use client::endpoint::{ContentPiece, ParsedResponse};
use client::record::{Arrival, RequestError, RequestRecord, ResponseBody, SseEvent};

use super::*;
use crate::metrics::MetricTag;
use crate::metrics::fixture::{self, START};
use crate::metrics::health::{Bound, MetricBounds, Reason};
use crate::metrics::metric::{Observation, RecordValues, Value};
use crate::metrics::tag;

const MS: u64 = 1_000_000;

/// A request that was due at the start, issued after `issued` and sent after `sent` microseconds.
fn due(issued: u64, sent: u64) -> RequestRecord {
    let mut record = fixture::record(START, ResponseBody::default());
    record.due = Some(START);
    record.issued = START + Nanos(issued * 1_000);
    record.start = START + Nanos(sent * 1_000);
    record
}

/// A stream of events with these lags and uncertainties in microseconds, with kernel timestamps if
/// `stamped`.
fn events(lags: &[(u32, u32)], stamped: bool) -> RequestRecord {
    let event = |(number, (lag, uncertainty)): (usize, &(u32, u32))| SseEvent {
        arrival: Arrival {
            at: START + Nanos(number as u64 * MS),
            read_lag: lag * 1_000,
            uncertainty: uncertainty * 1_000,
        },
        start: 0,
        end: 0,
    };
    let events = lags.iter().enumerate().map(event).collect();
    let mut record = fixture::record(START, ResponseBody { events, ..ResponseBody::default() });
    record.trace.socket_reads = 10;
    record.trace.kernel_stamps = if stamped { 10 } else { 0 };
    record
}

/// The values of a request of 11 tokens, in milliseconds.
fn values(of: &[(MetricTag, f64)]) -> RecordValues {
    let mut values = RecordValues::default();
    for (tag, millis) in of {
        values.set(*tag, Value::Scalar(millis * 1e6));
    }
    values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(11.0));
    values
}

fn streaming(ttft: f64, itl: f64) -> RecordValues {
    values(&[
        (tag::REQUEST_LATENCY, ttft + 10.0 * itl),
        (tag::TIME_TO_FIRST_TOKEN, ttft),
        (tag::INTER_TOKEN_LATENCY, itl),
    ])
}

/// A successful request, all of whose events are content.
fn measured(record: &RequestRecord, values: &RecordValues) -> MeasuredRecord {
    let piece =
        |event: &SseEvent| ContentPiece { arrival: event.arrival, is_output: true, choice: 0 };
    let content = record.body.events.iter().map(piece).collect();
    let observation =
        Observation { phase: record.phase, values: values.clone(), ..fixture::observation() };
    let response = ParsedResponse { content, ..ParsedResponse::default() };
    MeasuredRecord { record: record.clone(), response, observation, is_text: true, agent: None }
}

fn shares(workers: &[f64]) -> CpuShares {
    CpuShares { workers: workers.to_vec(), ..CpuShares::default() }
}

/// Returns the health for `records`, each with these `values`, in an idle program.
fn health_of(records: &[RequestRecord], load: &LoadReport, values: &RecordValues) -> ClientHealth {
    let records: Vec<_> = records.iter().map(|record| measured(record, values)).collect();
    health_with(&records, load, false)
}

fn health_with(records: &[MeasuredRecord], load: &LoadReport, knows_waits: bool) -> ClientHealth {
    let mut health = Health { errors: ArrivalErrors { knows_waits }, ..Health::default() };
    for record in records {
        health.observe(record);
    }
    health.report(load, &QueueStats::default(), &shares(&[0.3]))
}

fn verdict_of(records: &[RequestRecord], values: &RecordValues) -> Option<Verdict> {
    health_of(records, &LoadReport::default(), values).verdict
}

#[test]
fn slip_is_exact() {
    let records: Vec<_> = (1..=101).map(|n| due(0, n * 1_000)).collect();
    let slip = health_of(&records, &LoadReport::default(), &RecordValues::default())
        .schedule_slip_ms
        .unwrap();
    // 1 to 101 ms: percentile p of 101 values is the value of rank p + 1.
    let expected =
        TimeStatistics { count: 101, avg: 51.0, p50: 51.0, p90: 91.0, p99: 100.0, max: 101.0 };
    assert_eq!(slip, expected);
}

#[test]
fn slip_of_a_worker_that_slept_is_told_apart() {
    let asleep = |sent| RequestRecord { due_while_asleep: true, ..due(0, sent) };
    let late = due(0, 40_000);
    let records = [asleep(50), asleep(70), late.clone(), late.clone(), late];
    let health = health_of(&records, &LoadReport::default(), &streaming(100.0, 10.0));
    assert_eq!(health.schedule_slip_ms.unwrap().count, 5);
    let idle = health.schedule_slip_idle_ms.unwrap();
    assert_eq!((idle.count, idle.p50, idle.max), (2, 0.06, 0.07));
    let loaded = health.schedule_slip_loaded_ms.unwrap();
    assert_eq!((loaded.count, loaded.max), (3, 40.0));
    assert!(!health.reasons[0].advice.contains("woken"), "{}", health.reasons[0].advice);
    let records = [asleep(40_000), asleep(40_000), due(0, 50)];
    let health = health_of(&records, &LoadReport::default(), &streaming(100.0, 10.0));
    assert!(health.reasons[0].advice.contains("woken late"), "{}", health.reasons[0].advice);
}

#[test]
fn a_closed_loop_has_no_slip_and_no_rate() {
    let records = [fixture::record(START, ResponseBody::default())];
    let health = health_of(&records, &LoadReport::default(), &streaming(200.0, 10.0));
    assert_eq!((health.schedule_slip_ms, health.rate_ratio), (None, None));
    assert_eq!((health.verdict, health.reasons.len()), (Some(Verdict::Valid), 0));
    assert_eq!(health.retries, Some(0));
}

#[test]
fn lateness_is_held_against_the_first_token() {
    let late = |ms: u64, ttft| verdict_of(&[due(0, ms * 1_000)], &streaming(ttft, 1.0));
    assert_eq!(late(19, 200.0), Some(Verdict::Valid));
    assert_eq!(late(21, 200.0), Some(Verdict::Suspect));
    assert_eq!(late(66, 200.0), Some(Verdict::Suspect));
    assert_eq!(late(67, 200.0), Some(Verdict::Invalid));
    // Long responses excuse at most 100 ms, and never a second.
    assert_eq!(late(99, 20_000.0), Some(Verdict::Valid));
    assert_eq!(late(101, 20_000.0), Some(Verdict::Suspect));
    assert_eq!(late(1_001, 20_000.0), Some(Verdict::Invalid));
}

#[test]
fn half_a_millisecond_is_never_late() {
    let late = |us| verdict_of(&[due(0, us)], &streaming(0.1, 0.01));
    assert_eq!(late(499), Some(Verdict::Valid));
    assert_eq!(late(501), Some(Verdict::Suspect));
    assert_eq!(late(1_700), Some(Verdict::Invalid));
}

#[test]
fn without_times_only_the_fixed_limits_apply() {
    let late = |us| verdict_of(&[due(0, us)], &RecordValues::default());
    assert_eq!((late(90_000), late(110_000)), (Some(Verdict::Valid), Some(Verdict::Suspect)));
}

#[test]
fn without_a_success_there_is_no_verdict() {
    assert_eq!(verdict_of(&[], &RecordValues::default()), None);
    let mut failed = measured(&due(0, 110_000), &RecordValues::default());
    failed.observation.error = Some(RequestError::cancelled("the run ended"));
    let health = health_with(&[failed], &LoadReport::default(), true);
    assert_eq!((health.verdict, health.error_bounds_ms), (None, None));
    assert_eq!(health.schedule_slip_ms.unwrap().count, 1);
}

#[test]
fn a_few_late_requests_do_not_delay_the_load() {
    // Of 40 requests, 4 or 5 left 90 ms late, and of 400 4 or 5; the others were on time.
    let late = |of: usize, late: usize, ms: u64| {
        let sent = |number| due(0, if number < late { ms * 1_000 } else { 0 });
        let records: Vec<_> = (0..of).map(sent).collect();
        health_of(&records, &LoadReport::default(), &streaming(100.0, 10.0))
    };
    assert_eq!(late(40, 4, 90).verdict, Some(Verdict::Valid));
    assert_eq!(late(40, 19, 90).verdict, Some(Verdict::Valid));
    assert_eq!(late(40, 21, 90).verdict, Some(Verdict::Invalid));
    // Beyond 100 ms it matters how many there are.
    assert_eq!(late(40, 3, 110).verdict, Some(Verdict::Valid));
    let health = late(40, 5, 110);
    assert_eq!(health.verdict, Some(Verdict::Suspect));
    assert_eq!(health.reasons[0].finding, "requests left 110 ms late at p90");
    assert_eq!(late(400, 3, 110).verdict, Some(Verdict::Valid));
    assert_eq!(late(400, 5, 1_100).reasons[0].finding, "requests left 1100 ms late at p99");
}

#[test]
fn waiting_for_a_slot_or_an_answer_is_not_the_clients_fault() {
    let free = START + Nanos(400 * MS);
    let held_up = RequestRecord { free_from: free, ..due(400_000, 400_100) };
    let results = streaming(200.0, 10.0);
    let load = LoadReport {
        requested_rate: Some(10.0),
        reached_rate: Some(5.0),
        requested_concurrency: Some(8),
        reached_concurrency: 8,
        ..LoadReport::default()
    };
    let health = health_of(&[held_up], &load, &results);
    assert_eq!(health.verdict, Some(Verdict::Valid));
    // It is reported nevertheless.
    assert_eq!(health.schedule_slip_ms.unwrap().p99, 400.1);
    assert_eq!((health.rate_ratio, health.concurrency_ratio), (Some(0.5), Some(1.0)));
    // A request that was late although nothing delayed it, or late since then, counts.
    let verdict = |record| health_of(&[record], &load, &results).verdict;
    assert_eq!(verdict(due(400_000, 400_100)), Some(Verdict::Invalid));
    let later = RequestRecord { free_from: free, ..due(400_000, 800_000) };
    assert_eq!(verdict(later), Some(Verdict::Invalid));
    // A slot that was free before the request was due is not an excuse.
    let early = RequestRecord { free_from: START, ..due(0, 100_000) };
    assert_eq!(verdict(early), Some(Verdict::Invalid));
}

#[test]
fn the_making_of_a_connection_is_the_servers_time() {
    // Handed over 100 µs after it was due; the server took 300 ms for the connection.
    let mut record = due(10, 100);
    record.trace.dns_start = Some(record.start);
    record.trace.connect_start = Some(record.start + Nanos(MS));
    record.trace.connect_end = Some(record.start + Nanos(300 * MS));
    record.sent = record.trace.connect_end;
    let health = health_of(&[record], &LoadReport::default(), &streaming(200.0, 10.0));
    assert_eq!(health.verdict, Some(Verdict::Valid));
    assert_eq!(health.schedule_slip_ms.unwrap().max, 0.1);
}

/// The bounds of requests of a known client with these times to the first token and errors, in
/// milliseconds.
fn first_token(times: &[(f64, u64)]) -> MetricBounds {
    let request = |&(ttft, error): &(f64, u64)| {
        let record = events(&[(0, error as u32 * 1_000)], true);
        measured(&record, &values(&[(tag::TIME_TO_FIRST_TOKEN, ttft)]))
    };
    let records: Vec<_> = times.iter().map(request).collect();
    let health = health_with(&records, &LoadReport::default(), true);
    health.error_bounds_ms.unwrap().time_to_first_token.unwrap()
}

#[test]
fn a_statistic_is_as_uncertain_as_the_values_that_it_consists_of() {
    let found = first_token(&[(10.0, 0), (20.0, 0), (30.0, 5), (40.0, 0), (50.0, 20)]);
    // At their earliest: 10, 20, 25, 40, 30.
    assert_eq!(found.count, 5);
    assert_eq!((found.p50.value, found.p50.below, found.p50.above), (30.0, 5.0, 0.0));
    let p99 = found.p99;
    assert!((p99.value - 49.6).abs() < 1e-9 && (p99.below - 10.0).abs() < 1e-9, "{p99:?}");
    assert_eq!((p99.sample_above, p99.requests_needed), (None, Some(368)));
    assert_eq!((found.p50.sample_below, found.p50.requests_needed), (None, Some(6)));
    // The smallest and the largest of six enclose the median in 31 of 32 samples.
    let times: Vec<(f64, u64)> = (1..=6).map(|n| (10.0 * f64::from(n), 0)).collect();
    let p50 = first_token(&times).p50;
    assert_eq!((p50.sample_below, p50.sample_above), (Some(25.0), Some(25.0)));
    assert_eq!((p50.requests_needed, p50.late), (None, None));
}

#[test]
fn the_time_between_tokens_is_as_uncertain_as_its_ends() {
    let record = events(&[(0, 2_000), (0, 30_000), (0, 5_000)], true);
    let health =
        health_with(&[measured(&record, &streaming(100.0, 10.0))], &LoadReport::default(), true);
    let bounds = health.error_bounds_ms.unwrap();
    let off = |bounds: Option<MetricBounds>| {
        let Bound { below, above, .. } = bounds.unwrap().p50;
        [below, above].map(|ms| (ms * 1e6).round() / 1e6)
    };
    // There are ten times between 11 tokens.
    assert_eq!(off(bounds.inter_token_latency), [0.5, 0.2]);
    assert_eq!(off(bounds.time_to_first_token), [2.0, 0.0]);
    assert_eq!(off(bounds.request_latency), [5.0, 0.0]);
}

#[test]
fn what_the_client_took_to_send_is_not_the_servers_time() {
    let mut record = due(0, 3_000);
    let at = |us: u64| Some(record.start + Nanos(us * 1_000));
    let [ready, connected, sent] = [at(100), at(5_000), at(7_000)];
    record.trace.pool_wait_end = ready;
    record.trace.send_start = sent;
    let below = |record: &RequestRecord| {
        let health =
            health_of(std::slice::from_ref(record), &LoadReport::default(), &streaming(70.0, 1.0));
        let bounds = health.error_bounds_ms.unwrap();
        let first_token = bounds.time_to_first_token.unwrap();
        assert_eq!(bounds.inter_token_latency.unwrap().p50.late, None);
        assert_eq!(first_token.p50.late, Some(3.0));
        (first_token.p50.below * 1e6).round() / 1e6
    };
    assert_eq!(below(&record), 6.9);
    // The connection is the server's time.
    record.trace.connect_end = connected;
    assert_eq!(below(&record), 2.0);
    // So are earlier attempts.
    record.trace.connect_end = None;
    record.trace.pool_wait_end = None;
    record.retry_count = 1;
    record.trace.reused = connected;
    assert_eq!(below(&record), 2.0);
}

/// A request that the client sent `delay` microseconds after it could have.
fn delayed(delay: u64) -> RequestRecord {
    let mut record = events(&[(0, 0), (0, 0)], true);
    record.trace.send_start = Some(record.start + Nanos(delay * 1_000));
    record
}

/// The verdict on these requests, and the first reason.
fn judged(records: &[MeasuredRecord]) -> (Verdict, Option<String>) {
    let health = health_with(records, &LoadReport::default(), true);
    (health.verdict.unwrap(), health.reasons.first().map(|reason| reason.finding.clone()))
}

#[test]
fn the_verdict_is_that_of_the_worst_statistic() {
    let verdict =
        |ttft, itl, delay| judged(&vec![measured(&delayed(delay), &streaming(ttft, itl)); 400]);
    assert_eq!(verdict(100.0, 20.0, 4_900), (Verdict::Valid, None));
    let (suspect, finding) = verdict(100.0, 20.0, 5_100);
    assert_eq!(suspect, Verdict::Suspect);
    assert_eq!(
        finding.unwrap(),
        "the client was late to send or to read, so that the p99 of the time to first token, \
         100 ms, may be 5.10 ms (5%) lower"
    );
    assert_eq!(verdict(100.0, 20.0, 34_000).0, Verdict::Invalid);
    // Below 2 ms, errors of a tenth of a millisecond are those of the clocks.
    assert_eq!(verdict(1.0, 5.0, 90).0, Verdict::Valid);
    let (suspect, finding) = verdict(1.0, 5.0, 110);
    assert_eq!(suspect, Verdict::Suspect);
    assert!(finding.unwrap().ends_with("the time to first token, 1.00 ms, may be 0.110 ms lower"));
}

#[test]
fn an_error_of_a_gap_is_relative_to_the_gap() {
    let verdict = |ttft, itl, last: u32| {
        let record = events(&[(0, 0), (0, last)], true);
        judged(&vec![measured(&record, &streaming(ttft, itl)); 400])
    };
    // An error of 6 ms of the last token is a small part of the whole, but not of a short gap.
    assert_eq!(verdict(2_000.0, 20.0, 6_000).0, Verdict::Valid);
    let (suspect, finding) = verdict(2_000.0, 5.0, 6_000);
    assert_eq!(suspect, Verdict::Suspect);
    let finding = finding.unwrap();
    assert!(
        finding.contains("the p50 of the inter-token latency, 5.00 ms, may be 0."),
        "{finding}"
    );
}

#[test]
fn uncertain_arrivals_are_hardly_all_at_their_earliest() {
    // Each first token arrived in the 8 ms before the 100th.
    let record = events(&[(0, 8_000)], true);
    let records = vec![measured(&record, &values(&[(tag::TIME_TO_FIRST_TOKEN, 100.0)])); 400];
    let health = health_with(&records, &LoadReport::default(), true);
    assert_eq!(health.verdict, Some(Verdict::Valid));
    let bounds = health.error_bounds_ms.unwrap().time_to_first_token.unwrap();
    assert_eq!((bounds.avg.below, bounds.p50.below, bounds.p99.below), (8.0, 8.0, 8.0));
    // The k-th of 400 uniform values has a beta distribution with the parameters k and 401 - k. Of
    // the two that a percentile is interpolated between, the 0.025 quantiles are that far below;
    // the interval may be two 64ths wider. The mean: 8 / 2 + 1.96 * 8 / sqrt(12 * 400).
    let likely = |bound: Bound| bound.likely_below.unwrap();
    assert!((likely(bounds.avg) - 4.226).abs() < 1e-3, "{bounds:?}");
    assert!((4.390..4.391 + 0.25).contains(&likely(bounds.p50)), "{bounds:?}");
    assert!((0.202..0.203 + 0.25).contains(&likely(bounds.p99)), "{bounds:?}");
    assert_eq!(bounds.p50.likely_above, Some(0.0));
}

#[test]
fn the_last_content_likely_comes_as_soon_before_the_end_as_in_other_requests() {
    // The stream ends 0.05 ms after its last content, or so late that both are merged.
    let record = |is_merged: bool| {
        let mut record = events(&[(0, 0), (0, if is_merged { 30_000 } else { 0 }), (0, 0)], true);
        let gap = if is_merged { Nanos::ZERO } else { Nanos(MS / 20) };
        record.body.events[2].arrival.at = record.body.events[1].arrival.at + gap;
        let mut measured = measured(&record, &streaming(200.0, 10.0));
        measured.response.content.pop();
        measured
    };
    let mut records = vec![record(false); 150];
    records.extend(vec![record(true); 250]);
    let health = health_with(&records, &LoadReport::default(), true);
    let bounds = health.error_bounds_ms.unwrap();
    let shares = |bounds: MetricBounds| (bounds.p50.below, bounds.p50.likely_below.unwrap());
    let (certain, likely) = shares(bounds.request_latency.unwrap());
    assert_eq!(certain, 30.0);
    assert!(likely > 0.0 && likely <= 0.05, "{likely}");
    let (certain, likely) = shares(bounds.inter_token_latency.unwrap());
    assert_eq!(certain, 3.0);
    assert!(likely > 0.0 && likely <= 0.005, "{likely}");
    assert_eq!(health.verdict, Some(Verdict::Valid));
    // Without the others, nothing is known about the server.
    let health = health_with(&records[150..], &LoadReport::default(), true);
    assert_eq!(health.verdict, Some(Verdict::Suspect));
}

#[test]
fn a_percentile_of_too_few_requests_is_judged_by_large_errors_only() {
    // One of the requests takes 200 ms, of which the client caused a part.
    let verdict = |count: usize, delay| {
        let mut records = vec![measured(&delayed(0), &streaming(100.0, 10.0)); count - count / 40];
        let slow = measured(&delayed(delay), &streaming(200.0, 10.0));
        records.extend(vec![slow; count / 40]);
        judged(&records).0
    };
    // The 99th percentile of 40 is 161 ms; it would be 124.4 or 100 ms.
    assert_eq!(verdict(40, 60_000), Verdict::Valid);
    assert_eq!(verdict(40, 150_000), Verdict::Suspect);
    // That of 400 is 200 ms.
    assert_eq!(verdict(400, 9_000), Verdict::Valid);
    assert_eq!(verdict(400, 60_000), Verdict::Suspect);
    assert_eq!(verdict(400, 80_000), Verdict::Invalid);
}

#[test]
fn the_kernels_stamps_make_read_lag_harmless() {
    let values = streaming(200.0, 10.0);
    let stamped = vec![events(&[(30_000, 0)], true); 400];
    assert_eq!(verdict_of(&stamped, &values), Some(Verdict::Valid));
    // If a tenth of the reads have none, they were as late as the others.
    let mut partly = stamped;
    for record in &mut partly {
        record.trace.kernel_stamps = 9;
    }
    let health = health_of(&partly, &LoadReport::default(), &values);
    assert_eq!(health.verdict, Some(Verdict::Suspect));
    let reads = Reads { total: 4_000, kernel_stamped: 3_600, kernel_share: 0.9 };
    assert_eq!(health.reads, Some(reads));
    assert_eq!(health.error_bounds_ms.unwrap().time_to_first_token.unwrap().p50.below, 30.0);
}

#[test]
fn what_comes_merged_by_a_prompt_read_was_merged_by_the_server() {
    let values = streaming(20.0, 10.0);
    // The end of a stream: three events in one write, 10 ms after the previous one.
    let prompt = events(&[(30, 10_000), (30, 10_000), (30, 0)], true);
    let health = health_of(&[prompt], &LoadReport::default(), &values);
    assert_eq!(health.verdict, Some(Verdict::Valid));
    assert_eq!(health.stamp_uncertainty_ms.unwrap().max, 10.0);
    assert_eq!(health.arrival_error_ms.unwrap().max, 0.0);
    // The same after the client was delayed.
    let late = events(&[(600, 10_000), (600, 10_000), (600, 0)], true);
    let health = health_of(std::slice::from_ref(&late), &LoadReport::default(), &values);
    assert_eq!(health.verdict, Some(Verdict::Suspect));
    let error = health.arrival_error_ms.unwrap();
    assert_eq!((error.count, error.p50, error.max), (3, 10.0, 10.0));
    // With the program's own timestamps, an event may have arrived at any time since the previous
    // one, which reveals nothing about the client.
    let unstamped = events(&[(0, 10_000), (0, 10_000)], false);
    let health = health_of(std::slice::from_ref(&unstamped), &LoadReport::default(), &values);
    assert_eq!((health.verdict, health.arrival_error_ms), (Some(Verdict::Valid), None));
    // If it is known how long the client waited for a core, the uncertainty is the client's.
    let known = |record| health_with(&[measured(record, &values)], &LoadReport::default(), true);
    assert_eq!(known(&unstamped).arrival_error_ms.unwrap().max, 10.0);
    assert_eq!(known(&unstamped).verdict, Some(Verdict::Suspect));
    let prompt = events(&[(600, 20), (600, 20), (600, 0)], true);
    assert_eq!(known(&prompt).verdict, Some(Verdict::Valid));
}

#[test]
fn the_bounds_so_far_are_almost_those_of_the_end() {
    let mut health = Health { errors: ArrivalErrors { knows_waits: true }, ..Health::default() };
    for ms in 1..=500 {
        let record = events(&[(0, ms * 40)], true);
        health.observe(&measured(&record, &values(&[(tag::TIME_TO_FIRST_TOKEN, f64::from(ms))])));
    }
    let end = health.report(&LoadReport::default(), &QueueStats::default(), &shares(&[0.3]));
    let so_far = health.so_far(&QueueStats::default());
    let verdict_of = |health: &ClientHealth| {
        let bounds = health.error_bounds_ms.unwrap().time_to_first_token.unwrap();
        [bounds.p50, bounds.p99].map(|bound| (bound.value, bound.below))
    };
    for ((value, below), (exact, exact_below)) in
        verdict_of(&so_far).into_iter().zip(verdict_of(&end))
    {
        assert!((value / exact - 1.0).abs() < 0.009, "{value} {exact}");
        assert!((below - exact_below).abs() < 0.009 * exact, "{below} {exact_below}");
    }
    assert_eq!((so_far.verdict, end.verdict), (Some(Verdict::Valid), Some(Verdict::Valid)));
}

#[test]
fn lags_are_per_event_and_absent_where_nothing_is_known() {
    let mut record = events(&[(50, 200), (50, 200), (100, 400)], true);
    // The first two arrived in one read.
    record.body.events[1].arrival = record.body.events[0].arrival;
    let health = health_of(&[record], &LoadReport::default(), &RecordValues::default());
    let lag = health.read_lag_ms.unwrap();
    assert_eq!((lag.count, lag.max), (3, 0.1));
    assert!((lag.avg - 0.2 / 3.0).abs() < 1e-12);
    assert!(lag.p50 >= 0.05 && lag.p50 < 0.05 * 1.008, "{lag:?}");
    assert_eq!(health.stamp_uncertainty_ms.unwrap().max, 0.4);
    // With the program's own timestamps, the lag of a read is unknown.
    let health =
        health_of(&[events(&[(0, 200)], false)], &LoadReport::default(), &RecordValues::default());
    assert_eq!(health.read_lag_ms, None);
    assert_eq!(health.stamp_uncertainty_ms.unwrap().count, 1);
    // Nor is anything known without a count of reads.
    let mut unknown = events(&[(1, 2)], true);
    unknown.trace.socket_reads = 0;
    let health = health_of(&[unknown], &LoadReport::default(), &RecordValues::default());
    assert_eq!((health.read_lag_ms, health.stamp_uncertainty_ms, health.reads), (None, None, None));
}

/// The reasons for a run without other problems, with this queue and these workers.
fn reasons(queue: QueueStats, workers: &[f64]) -> Vec<Reason> {
    let mut health = Health::default();
    let record = fixture::record(START, ResponseBody::default());
    for _ in 0..100 {
        health.observe(&measured(&record, &streaming(200.0, 10.0)));
    }
    health.report(&LoadReport::default(), &queue, &shares(workers)).reasons
}

#[test]
fn the_queue_weighs_on_the_verdict() {
    let verdict = |queue| {
        let reasons = reasons(queue, &[0.3]);
        (reasons[0].verdict, reasons[0].finding.clone())
    };
    let quiet = QueueStats { budget_bytes: 128_000_000, ..QueueStats::default() };
    assert_eq!(reasons(quiet, &[0.3]), []);
    let (grave, finding) = verdict(QueueStats { pauses: 10, ..quiet });
    assert_eq!(grave, Verdict::Suspect);
    assert_eq!(
        finding,
        "10 sends were delayed (10.0% of the requests) while records were waiting to be processed"
    );
    assert_eq!(verdict(QueueStats { pauses: 11, ..quiet }).0, Verdict::Invalid);
    let spilled = QueueStats { spilled_records: 7, spilled_bytes: 2_500_000, ..quiet };
    let (grave, finding) = verdict(spilled);
    assert_eq!(grave, Verdict::Suspect);
    assert!(finding.starts_with("7 records (2.5 MB) were spilled to a file"), "{finding}");
    let (grave, finding) = verdict(QueueStats { kept_over_budget: 1, ..quiet });
    assert_eq!(grave, Verdict::Suspect);
    assert!(finding.starts_with("1 record beyond the budget of 128 MB"), "{finding}");
    // The most serious one comes first.
    let all = QueueStats { lost: 3, ..spilled };
    let (grave, finding) = verdict(all);
    assert_eq!((grave, finding.as_str()), (Verdict::Invalid, "3 records were never measured"));
    assert_eq!(reasons(all, &[0.3]).len(), 2);
}

#[test]
fn a_saturated_worker_is_doubtful_and_the_advice_names_the_flag() {
    assert_eq!(reasons(QueueStats::default(), &[0.94, 0.2]), []);
    let found = reasons(QueueStats::default(), &[0.2, 0.98]);
    assert_eq!(found[0].verdict, Verdict::Suspect);
    assert!(found[0].finding.starts_with("the busiest worker used 98% of a core"));
    assert!(found[0].advice.contains("--workers-max"), "{}", found[0].advice);
}

#[test]
fn a_late_client_that_was_idle_is_told_to_look_elsewhere() {
    let health = health_of(&[due(0, 50_000)], &LoadReport::default(), &streaming(100.0, 10.0));
    let reason = &health.reasons[0];
    assert_eq!(
        reason.finding,
        "requests left 50.0 ms late at p50, 50% of the median time to first token (100 ms)"
    );
    assert!(reason.advice.contains("other programs delayed them"), "{}", reason.advice);
    assert!(!reason.advice.contains("--workers-max"), "{}", reason.advice);
}

#[test]
fn shares_of_the_processor_are_the_workers() {
    let cpu = Cpu::from_shares(&shares(&[0.5, 0.9, 0.1])).unwrap();
    assert_eq!((cpu.workers, cpu.worker_max, cpu.worker_mean), (3, 0.9, 0.5));
    assert!(cpu.cores >= 1);
    assert_eq!(Cpu::from_shares(&shares(&[])), None);
}

#[test]
fn what_records_do_not_say_is_kept_or_left_out() {
    let earlier = ClientHealth {
        verdict: Some(Verdict::Suspect),
        retries: Some(9),
        rate_ratio: Some(0.5),
        ..ClientHealth::default()
    };
    let observation =
        |error| Observation { error, ..measured(&due(0, 0), &RecordValues::default()).observation };
    // A failed request that left 1 ms late.
    let lines = |retries| {
        let mut health = Health::default();
        let failed = observation(Some(RequestError::cancelled("")));
        let line = Observation { start_wall_ns: 5 * MS, end_wall_ns: 9 * MS, ..failed };
        health.observe_line(&line, Some(4 * MS), retries, None);
        health
    };
    let recomputed = |earlier, lines: &Health| lines.recomputed(earlier, &LoadReport::default());
    let again = recomputed(Some(earlier.clone()), &lines(2)).unwrap();
    assert_eq!(again.schedule_slip_ms.unwrap().p99, 1.0);
    assert_eq!(
        (again.verdict, again.rate_ratio, again.retries),
        (earlier.verdict, Some(0.5), Some(2))
    );
    // Without an earlier report, neither a verdict nor retries that were not recorded.
    let again = recomputed(None, &lines(0)).unwrap();
    assert_eq!((again.verdict, again.queue, again.retries), (None, None, None));
    assert_eq!(recomputed(None, &Health::default()), None);
}

#[test]
fn json_reads_back_and_leaves_out_what_is_absent() {
    let health =
        health_of(&[events(&[(50, 200)], true)], &LoadReport::default(), &streaming(9.0, 1.0));
    let text = serde_json::to_string(&health).unwrap();
    assert_eq!(serde_json::from_str::<ClientHealth>(&text).unwrap(), health);
    assert!(!text.contains("schedule_slip_ms"), "{text}");
    assert!(text.starts_with(r#"{"verdict":"valid","reasons":[]"#), "{text}");
}
