use crate::metrics::fixture;
use crate::metrics::output::CanaryAnswer;
use base::units::Nanos;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, RequestRecord};

use super::*;
use crate::metrics::fixture::{
    START, content, dataset, measurer, record, registry, stream, usage, whole,
};
use crate::metrics::metric::{Distribution, Objective, RecordValues, Settings};
use crate::server_metrics::conservation::ClientCounts;

const REASONING: &str = r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hmm let me"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

fn settings() -> Settings {
    let objectives = vec![Objective { tag: tag::REQUEST_LATENCY, threshold: 65.0 }];
    Settings { objectives, ..Settings::default() }
}

fn accumulator() -> Accumulator {
    Accumulator::new(registry(EndpointType::CHAT, settings(), true))
}

/// Latency 70 ms; 25 input and 7 output tokens, 3 of which are reasoning.
fn first() -> RequestRecord {
    let reported = r#""prompt_tokens":30,"completion_tokens":8,"total_tokens":38,
        "prompt_cache_miss_tokens":14,"cache_creation_input_tokens":3,
        "prompt_audio_seconds":1.5,"toolUsePromptTokenCount":9,
        "prompt_tokens_details":{"cached_tokens":16,"audio_tokens":2},
        "completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":1,
            "accepted_prediction_tokens":5,"rejected_prediction_tokens":6}"#;
    let events = [
        (30, REASONING.to_owned()),
        (50, content("Hello")),
        (70, content(" wide world")),
        (70, content(" !")),
        (72, STOP.to_owned()),
        (75, usage(reported)),
    ];
    streamed(START, &events)
}

/// Latency 60 ms; 25 input and 3 output tokens. Starts 100 ms after the first.
fn second() -> RequestRecord {
    let reported = r#""prompt_tokens":25,"completion_tokens":3,"total_tokens":28,
        "prompt_tokens_details":{"cached_tokens":4}"#;
    let events = [
        (40, content("one two")),
        (60, content(" three")),
        (61, STOP.to_owned()),
        (61, usage(reported)),
    ];
    streamed(START + Nanos(100_000_000), &events)
}

/// Rejected; starts 20 ms before the first.
fn third() -> RequestRecord {
    let start = Nanos(START.0 - 20_000_000);
    let mut refused = record(start, whole(start, 5, "overloaded"));
    refused.status = Some(503);
    refused
}

fn streamed(start: Nanos, events: &[(u64, String)]) -> RequestRecord {
    let events: Vec<(u64, &str)> = events.iter().map(|(at, data)| (*at, data.as_str())).collect();
    record(start, stream(start, &events))
}

fn observations() -> Vec<Observation> {
    let registry = registry(EndpointType::CHAT, settings(), true);
    let measurer = measurer(EndpointType::CHAT, registry, dataset());
    [first(), second(), third()].map(|record| measurer.measure(record).observation).to_vec()
}

fn observed(observations: &[Observation]) -> Accumulator {
    let mut accumulator = accumulator();
    for observation in observations {
        accumulator.observe(observation);
    }
    accumulator
}

fn stats(results: &[MetricResult], tag: MetricTag) -> Option<Stats> {
    results.iter().find(|result| result.metric.tag == tag).map(|result| result.stats)
}

fn distribution_of(results: &[MetricResult], tag: MetricTag) -> Distribution {
    stats(results, tag).unwrap().distribution.unwrap()
}

#[test]
fn totals_are_those_of_finite_values_in_the_own_unit() {
    let mut kept = observed(&observations());
    let mut infinite = observations().remove(0);
    infinite.values = RecordValues::default();
    infinite.values.set(tag::REQUEST_LATENCY, Value::Scalar(f64::INFINITY));
    kept.observe(&infinite);
    let totals = kept.phase_totals();
    let stats_of = |tag| {
        let row = totals.rows.iter().find(|row| row.metric.tag == tag);
        row.map(|row| (row.count, row.sum, row.magnitude))
    };
    // 70 and 60 ms.
    assert_eq!(stats_of(tag::REQUEST_LATENCY), Some((Some(2), 130e6, 130e6)));
    assert_eq!(stats_of(tag::REQUEST_COUNT), Some((None, 3.0, 3.0)));
    assert_eq!(stats_of(tag::ERROR_ISL), Some((Some(1), 25.0, 25.0)));
    // Neither metrics that no request has nor metrics that are computed from others.
    assert_eq!((stats_of(tag::IMAGE_LATENCY), stats_of(tag::TOTAL_ISL)), (None, None));
    assert_eq!(totals.failures, 1);
    assert!(accumulator().phase_totals().rows.is_empty());
}

#[test]
fn every_aggregate_and_derived_result_of_three_requests() {
    let results = observed(&observations()).results();
    let expected = [
        (tag::TOTAL_OUTPUT_TOKENS, 7.0),
        (tag::TOTAL_OSL, 10.0),
        (tag::TOTAL_ISL, 50.0),
        // From the third's start to the second's end: 20 + 100 + 60 ms.
        (tag::OUTPUT_TOKEN_THROUGHPUT, 10.0 / 0.18),
        (tag::TOTAL_TOKEN_THROUGHPUT, 60.0 / 0.18),
        (tag::TOTAL_REASONING_TOKENS, 3.0),
        (tag::TOTAL_USAGE_PROMPT_TOKENS, 55.0),
        (tag::TOTAL_USAGE_PROMPT_CACHE_READ_TOKENS, 20.0),
        (tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT, 2000.0 / 55.0),
        (tag::TOTAL_USAGE_PROMPT_CACHE_WRITE_TOKENS, 3.0),
        (tag::TOTAL_USAGE_PROMPT_CACHE_MISS_TOKENS, 14.0),
        (tag::TOTAL_USAGE_PROMPT_AUDIO_TOKENS, 2.0),
        (tag::TOTAL_USAGE_TOOL_USE_PROMPT_TOKENS, 9.0),
        (tag::TOTAL_USAGE_PROMPT_AUDIO_SECONDS, 1.5),
        (tag::TOTAL_USAGE_COMPLETION_TOKENS, 11.0),
        (tag::TOTAL_USAGE_REASONING_TOKENS, 4.0),
        (tag::TOTAL_USAGE_COMPLETION_AUDIO_TOKENS, 1.0),
        (tag::TOTAL_USAGE_ACCEPTED_PREDICTION_TOKENS, 5.0),
        (tag::TOTAL_USAGE_REJECTED_PREDICTION_TOKENS, 6.0),
        (tag::TOTAL_USAGE_TOTAL_TOKENS, 66.0),
        // The first prompt: 30 tokens reported, 25 counted.
        (tag::USAGE_DISCREPANCY_COUNT, 1.0),
        (tag::OSL_MISMATCH_COUNT, 2.0),
        (tag::BUFFERED_RESPONSE_COUNT, 0.0),
        (tag::GOOD_REQUEST_COUNT, 1.0),
        (tag::GOOD_REQUEST_FRACTION, 1.0 / 3.0),
        (tag::GOODPUT, 1.0 / 0.18),
        (tag::TOTAL_ERROR_ISL, 25.0),
        (tag::REQUEST_COUNT, 2.0),
        (tag::ERROR_REQUEST_COUNT, 1.0),
        (tag::BENCHMARK_DURATION, 0.18),
        (tag::REQUEST_THROUGHPUT, 2.0 / 0.18),
        (tag::INPUT_TOKEN_THROUGHPUT, 50.0 / 0.18),
        (tag::COMPLETED_REQUEST_COUNT, 3.0),
        (tag::REQUEST_ERROR_RATE, 100.0 / 3.0),
        (tag::CONTEXT_OVERFLOW_COUNT, 0.0),
    ];
    let is_single = |result: &&MetricResult| {
        result.stats.distribution.is_none() && result.stats.instant.is_none()
    };
    let singles: Vec<_> = results.iter().filter(is_single).collect();
    assert_eq!(singles.len(), expected.len());
    for (tag, expected) in expected {
        let got = stats(&results, tag).unwrap_or_else(|| panic!("{tag} is missing")).avg;
        assert!((got - expected).abs() <= 1e-9 * expected, "{tag}: {got}");
    }
}

#[test]
fn record_metrics_have_distributions_in_display_units() {
    let results = observed(&observations()).results();
    let latency = distribution_of(&results, tag::REQUEST_LATENCY);
    assert_eq!((latency.count, latency.sum), (2, 130.0));
    assert_eq!((latency.min, latency.max, latency.std), (60.0, 70.0, 5.0));
    assert_eq!((latency.p1, latency.p50, latency.p90, latency.p99), (60.1, 65.0, 69.0, 69.9));
    assert_eq!(stats(&results, tag::REQUEST_LATENCY).unwrap().avg, 65.0);
    // 20, 20 and 0 in the first request, 20 in the second.
    let gaps = distribution_of(&results, tag::INTER_CHUNK_LATENCY);
    assert_eq!((gaps.count, gaps.sum, gaps.min, gaps.p25), (4, 60.0, 0.0, 15.0));
    assert_eq!(distribution_of(&results, tag::REASONING_TOKEN_COUNT).count, 1);
    assert_eq!(distribution_of(&results, tag::ERROR_ISL).sum, 25.0);
}

#[test]
fn results_are_in_catalogue_order_without_internal_ones() {
    let results = observed(&observations()).results();
    let places: Vec<usize> = results
        .iter()
        .map(|result| {
            let has_same_tag = |row: &&crate::metrics::Metric| row.tag == result.metric.tag;
            Registry::catalogue().iter().position(has_same_tag).unwrap()
        })
        .collect();
    assert!(places.is_sorted());
    assert!(stats(&results, tag::REQUESTED_OSL).is_none());
}

#[test]
fn nothing_observed_has_no_results() {
    // Except for the fraction, which is 0 by definition if nothing was attempted.
    let results = accumulator().results();
    assert_eq!(results.len(), 1);
    assert_eq!(stats(&results, tag::GOOD_REQUEST_FRACTION).unwrap().avg, 0.0);
    assert!(accumulator().errors().is_empty());
}

#[test]
fn a_run_of_failures_says_so() {
    let results = observed(&observations()[2..]).results();
    let value = |tag| stats(&results, tag).map(|stats| stats.avg);
    assert_eq!(value(tag::REQUEST_COUNT), Some(0.0));
    assert_eq!(value(tag::ERROR_REQUEST_COUNT), Some(1.0));
    assert_eq!(value(tag::GOOD_REQUEST_FRACTION), Some(0.0));
    // It failed after 5 ms.
    assert_eq!(value(tag::BENCHMARK_DURATION), Some(0.005));
    assert_eq!(value(tag::REQUEST_THROUGHPUT), Some(0.0));
    assert_eq!(value(tag::GOODPUT), Some(0.0));
    assert_eq!(value(tag::TOTAL_ISL), None);
}

#[test]
fn a_run_without_failures_has_no_error_metrics() {
    let results = observed(&observations()[..2]).results();
    for absent in [tag::ERROR_REQUEST_COUNT, tag::ERROR_ISL, tag::TOTAL_ERROR_ISL] {
        assert!(stats(&results, absent).is_none(), "{absent}");
    }
}

#[test]
fn failures_are_counted_by_kind_and_message() {
    let mut accumulator = accumulator();
    let failed = |message: &str| Observation {
        start_wall_ns: 1,
        end_wall_ns: 1,
        error: Some(RequestError::new(ErrorKind::Other, "ConnectionRefused", message)),
        ..fixture::observation()
    };
    for message in ["b", "a", "c", "c"] {
        accumulator.observe(&failed(message));
    }
    let errors: Vec<_> =
        accumulator.errors().into_iter().map(|(error, count)| (error.message, count)).collect();
    assert_eq!(errors, [("c".to_owned(), 2), ("a".to_owned(), 1), ("b".to_owned(), 1)]);
}

fn succeeded(
    start_wall_ns: u64,
    requested: Option<u64>,
    values: &[(MetricTag, f64)],
) -> Observation {
    let mut record_values = RecordValues::default();
    for (tag, value) in values {
        record_values.set(*tag, Value::Scalar(*value));
    }
    Observation {
        start_wall_ns,
        end_wall_ns: start_wall_ns,
        requested_output_tokens: requested,
        values: record_values,
        ..fixture::observation()
    }
}

#[test]
fn a_duration_is_exact_to_the_nanosecond() {
    // At this epoch time, an f64 is a multiple of 256.
    let epoch = 1_795_226_094_208_988_166;
    let accumulator = observed(&[
        succeeded(epoch + 1, None, &[(tag::REQUEST_LATENCY, 5.0)]),
        succeeded(epoch + 3, None, &[(tag::REQUEST_LATENCY, 8.0)]),
    ]);
    let results = accumulator.results();
    assert_eq!(stats(&results, tag::BENCHMARK_DURATION).unwrap().avg, 10.0 / 1e9);
}

#[test]
fn a_run_of_failures_ends_with_the_last_one() {
    let failed = |start_wall_ns, end_wall_ns| Observation {
        end_wall_ns,
        error: Some(RequestError::new(ErrorKind::Other, "ConnectionRefused", "refused")),
        ..succeeded(start_wall_ns, None, &[])
    };
    let developer = Settings { developer_mode: true, ..settings() };
    let developer = registry(EndpointType::CHAT, developer, true);
    let at = |observations: &[Observation]| {
        let mut accumulator = Accumulator::new(Arc::clone(&developer));
        for one in observations {
            accumulator.observe(one);
        }
        let results = accumulator.results();
        let end = stats(&results, tag::MAX_RESPONSE_TIMESTAMP).and_then(|stats| stats.instant);
        let rate = stats(&results, tag::REQUEST_THROUGHPUT).map(|stats| stats.avg);
        (end, stats(&results, tag::BENCHMARK_DURATION).map(|stats| stats.avg), rate)
    };
    let start = 1_795_226_094_000_000_000;
    let failures = [failed(start, start + 40), failed(start + 10, start + 30)];
    assert_eq!(at(&failures), (Some(start + 40), Some(40.0 / 1e9), Some(0.0)));
    // A response decides, even if a failure ended later.
    let response = succeeded(start + 2, None, &[(tag::REQUEST_LATENCY, 8.0)]);
    let mixed = [failures[0].clone(), response, failures[1].clone()];
    assert_eq!(at(&mixed), (Some(start + 10), Some(10.0 / 1e9), Some(1e8)));
}

#[test]
fn a_length_may_miss_by_five_percent_or_fifty_tokens() {
    let mismatches = |requested, generated| {
        let observation =
            succeeded(1, Some(requested), &[(tag::OUTPUT_SEQUENCE_LENGTH, generated)]);
        let results = observed(&[observation]).results();
        stats(&results, tag::OSL_MISMATCH_COUNT).map(|stats| stats.avg)
    };
    assert_eq!(mismatches(100, 95.0), Some(0.0));
    assert_eq!(mismatches(100, 94.0), Some(1.0));
    assert_eq!(mismatches(100, 106.0), Some(1.0));
    assert_eq!(mismatches(2000, 1950.0), Some(0.0));
    assert_eq!(mismatches(2000, 1949.0), Some(1.0));
    assert_eq!(mismatches(0, 5.0), None);
}

#[test]
fn a_discrepancy_is_more_than_the_threshold() {
    let discrepancies = |values: &[(MetricTag, f64)]| {
        let results = observed(&[succeeded(1, None, values)]).results();
        stats(&results, tag::USAGE_DISCREPANCY_COUNT).map(|stats| stats.avg)
    };
    assert_eq!(discrepancies(&[]), None);
    assert_eq!(discrepancies(&[(tag::USAGE_PROMPT_TOKENS_DIFF_PCT, 10.0)]), Some(0.0));
    assert_eq!(
        discrepancies(&[
            (tag::USAGE_PROMPT_TOKENS_DIFF_PCT, 0.0),
            (tag::USAGE_REASONING_TOKENS_DIFF_PCT, 10.5)
        ]),
        Some(1.0)
    );
}

#[test]
fn values_of_metrics_that_do_not_apply_are_passed_over() {
    let observation = succeeded(
        1,
        None,
        &[
            (tag::USAGE_TOTAL_TOKENS, 3.0),
            (tag::AUDIO_DURATION, 1.0),
            (tag::REQUEST_LATENCY, 2e6),
            (tag::TIME_TO_FIRST_TOKEN, 1e6),
        ],
    );
    let results = observed(&[observation]).results();
    assert_eq!(stats(&results, tag::USAGE_TOTAL_TOKENS).unwrap().avg, 3.0);
    assert_eq!(stats(&results, tag::REQUEST_LATENCY).unwrap().avg, 2.0);
    assert_eq!(stats(&results, tag::TIME_TO_FIRST_TOKEN).unwrap().avg, 1.0);
}

#[test]
fn increments_of_counts_and_sums() {
    let registry = registry(EndpointType::CHAT, settings(), true);
    let observations = observations();
    let values_at = |at: usize| {
        let mut increments: Vec<_> = registry.aggregates(&observations[at]).collect();
        increments.sort_unstable_by_key(|(tag, _)| tag.name());
        increments
    };
    assert_eq!(
        values_at(0),
        [
            (tag::BUFFERED_RESPONSE_COUNT, 0.0),
            (tag::GOOD_REQUEST_COUNT, 0.0),
            (tag::OSL_MISMATCH_COUNT, 1.0),
            (tag::REQUEST_COUNT, 1.0),
            (tag::USAGE_DISCREPANCY_COUNT, 1.0),
        ]
    );
    assert_eq!(values_at(1)[1], (tag::GOOD_REQUEST_COUNT, 1.0));
    assert_eq!(
        values_at(2),
        [
            (tag::CONTEXT_OVERFLOW_COUNT, 0.0),
            (tag::ERROR_REQUEST_COUNT, 1.0),
            (tag::GOOD_REQUEST_COUNT, 0.0),
            (tag::REQUEST_COUNT, 0.0),
        ]
    );
}

#[test]
fn endless_kinds_of_errors_are_kept_apart_up_to_a_limit() {
    let mut accumulator = accumulator();
    for number in (0..900).chain(500..1500) {
        let error = RequestError::new(ErrorKind::Other, "Lost", format!("request {number}"));
        accumulator.count_error(&error, 1);
    }
    let errors = accumulator.errors();
    assert_eq!(errors.len(), 1001);
    assert_eq!((errors[0].0.name.as_str(), errors[0].1), ("OtherErrors", 500));
    assert_eq!(errors.iter().map(|(_, count)| count).sum::<u64>(), 1900);
}

/// Requests of a replay that were sent the given numbers of milliseconds after they were due.
fn replayed(waits: &[u64], fixed_schedule: bool) -> Vec<MetricResult> {
    let settings = Settings { fixed_schedule, ..Settings::default() };
    let registry = registry(EndpointType::CHAT, settings, true);
    let measurer = measurer(EndpointType::CHAT, Arc::clone(&registry), dataset());
    let mut accumulator = Accumulator::new(registry);
    for wait in waits {
        let mut request = second();
        request.due = Some(Nanos(request.start.0 - wait * 1_000_000));
        accumulator.observe(&measurer.measure(request).observation);
    }
    accumulator.results()
}

#[test]
fn a_scenario_only_counts_requests_beyond_the_context() {
    let results_with = |skips_context_overflows| {
        let settings = Settings { skips_context_overflows, ..Settings::default() };
        let registry = registry(EndpointType::CHAT, settings, true);
        let measurer = measurer(EndpointType::CHAT, Arc::clone(&registry), dataset());
        let mut accumulator = Accumulator::new(registry);
        let start = third().start;
        let text = "the maximum context length is 4096 tokens";
        let mut beyond = record(start, whole(start, 5, text));
        beyond.status = Some(400);
        for request in [first(), second(), beyond] {
            accumulator.observe(&measurer.measure(request).observation);
        }
        let results = accumulator.results();
        let tags = [
            tag::REQUEST_COUNT,
            tag::ERROR_REQUEST_COUNT,
            tag::COMPLETED_REQUEST_COUNT,
            tag::CONTEXT_OVERFLOW_COUNT,
            tag::SKIPPED_CONTEXT_OVERFLOW_COUNT,
        ];
        (tags.map(|tag| stats(&results, tag).map(|stats| stats.avg)), accumulator.spans().len())
    };
    assert_eq!(results_with(false), ([Some(2.0), Some(1.0), Some(3.0), Some(1.0), None], 3));
    assert_eq!(results_with(true), ([Some(2.0), None, Some(2.0), Some(1.0), Some(1.0)], 2));
}

#[test]
fn a_replay_says_how_well_it_kept_its_schedule() {
    let results = replayed(&[700, 100, 200], true);
    let value = |tag| stats(&results, tag).map(|stats| stats.avg);
    // For 100, 200 and 700: positions 1, 1.8 and 1.98.
    assert_eq!(value(tag::REPLAY_SCHED_LAG_P50), Some(200.0));
    assert_eq!(value(tag::REPLAY_SCHED_LAG_P90), Some(600.0));
    assert_eq!(value(tag::REPLAY_SCHED_LAG_P99), Some(690.0));
    assert_eq!(value(tag::REPLAY_SCHED_DEGRADED), Some(1.0));
    assert!(stats(&results, tag::REPLAY_SCHED_LAG_P99).unwrap().distribution.is_none());
    assert_eq!(distribution_of(&results, tag::CREDIT_TO_START_LATENCY).sum, 1000.0);
    // Each took 60 ms after it was sent.
    assert_eq!(distribution_of(&results, tag::EFFECTIVE_LATENCY).max, 760.0);

    let kept = replayed(&[500, 500], true);
    assert_eq!(stats(&kept, tag::REPLAY_SCHED_LAG_P99).unwrap().avg, 500.0);
    assert_eq!(stats(&kept, tag::REPLAY_SCHED_DEGRADED).unwrap().avg, 0.0);
    let other = replayed(&[700], false);
    for absent in [tag::REPLAY_SCHED_LAG_P50, tag::REPLAY_SCHED_DEGRADED] {
        assert!(stats(&other, absent).is_none(), "{absent}");
    }
    assert!(stats(&replayed(&[], true), tag::REPLAY_SCHED_DEGRADED).is_none());
}

#[test]
fn values_in_a_file_have_the_results_of_values_in_memory() {
    const MS: u64 = 1_000_000;
    let directory = tempfile::tempdir().unwrap();
    let registry = registry(EndpointType::CHAT, settings(), true);
    let store = Store::spilling_to(directory.path().to_owned(), 0);
    let mut in_file = Accumulator::keeping_in(store, Arc::clone(&registry)).sliced();
    let mut in_memory = Accumulator::new(registry).sliced();
    let templates = observations();
    // Several blocks of each column, in no order of time.
    for at in 0..9_000_u64 {
        let mut observation = templates[at as usize % 3].clone();
        let latency = observation.end_wall_ns - observation.start_wall_ns;
        observation.start_wall_ns += (at * 7_919 % 9_001) * MS;
        observation.end_wall_ns = observation.start_wall_ns + latency;
        let more = Value::Scalar((latency + at % 511 * 1_000) as f64);
        observation.values.set(tag::REQUEST_LATENCY, more);
        in_file.observe(&observation);
        in_memory.observe(&observation);
    }
    let shown = |results: Vec<MetricResult>| {
        let line = |result: MetricResult| format!("{} {:?}", result.metric.tag, result.stats);
        results.into_iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(shown(in_file.results()), shown(in_memory.results()));
    let start = in_memory.timeline().window().start;
    let window = start + 1_000 * MS..=start + 5_000 * MS;
    assert_eq!(shown(in_file.results_in(&window)), shown(in_memory.results_in(&window)));
    let slices = |of: &Accumulator| {
        let window = of.timeline().window();
        let slices = of.slices(&window, Nanos(1_500 * MS)).unwrap().unwrap();
        slices.iter().map(|(_, results)| shown(results)).collect::<Vec<_>>()
    };
    assert_eq!(slices(&in_file), slices(&in_memory));
    assert_eq!(slices(&in_file).len(), 7);
    assert_eq!(format!("{:?}", in_file.errors()), format!("{:?}", in_memory.errors()));
}

#[test]
fn canaries_that_are_left_out_are_counted_for_comparisons_with_the_server() {
    let counts = |canaries: &[usize], measures_canaries| {
        let settings = Settings { measures_canaries, ..Settings::default() };
        let mut kept = Accumulator::new(registry(EndpointType::CHAT, settings, true));
        for (at, mut observation) in observations().into_iter().enumerate() {
            let canary = canaries.contains(&at).then(CanaryAnswer::default);
            observation.output.canary = canary;
            kept.observe(&observation);
        }
        let count = |tag| stats(&kept.results(), tag).map(|stats| stats.avg);
        let measured = [tag::REQUEST_COUNT, tag::ERROR_REQUEST_COUNT].map(count);
        (measured, ClientCounts::in_phases([&kept, &accumulator()]))
    };
    let all = ClientCounts {
        succeeded: 2,
        failed: 1,
        cancelled: 0,
        prompt_tokens: Some(55),
        completion_tokens: Some(11),
        choices: 1,
    };
    assert_eq!(counts(&[], false), ([Some(2.0), Some(1.0)], all));
    assert_eq!(counts(&[0, 2], true), ([Some(2.0), Some(1.0)], all));
    let (measured, counted) = counts(&[0, 2], false);
    assert_eq!((measured[0], counted), (Some(1.0), all));
    assert!(measured[1].is_none_or(|failed| failed == 0.0), "{measured:?}");
}
