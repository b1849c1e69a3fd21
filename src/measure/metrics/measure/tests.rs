use base::units::Nanos;
use client::endpoint::EndpointType;
use client::record::{ErrorKind, ResponseBody};
use dataset::{Conversation, Dataset, Media, MediaContent, MediaKinds, Turn};

use super::*;
use crate::metrics::fixture::{
    START, content, dataset, measurer, record, registry, stream, usage, whole,
};
use crate::metrics::metric::{Objective, Settings, Value};
use crate::metrics::tag::{self, MetricTag};

const REASONING: &str = r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hmm let me"}}]}"#;
const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

const OPENAI_USAGE: &str = r#""prompt_tokens":30,"completion_tokens":8,"total_tokens":38,
    "prompt_tokens_details":{"cached_tokens":16,"audio_tokens":2},
    "completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":1,
        "accepted_prediction_tokens":5,"rejected_prediction_tokens":6}"#;

/// Three words of reasoning at 30 ms, then four of output: one at 50 ms, two and one at 70 ms.
fn answer(usage_members: &str) -> ResponseBody {
    stream(
        START,
        &[
            (20, ROLE),
            (30, REASONING),
            (50, &content("Hello")),
            (70, &content(" wide world")),
            (70, &content(" !")),
            (72, STOP),
            (75, &usage(usage_members)),
            (76, "[DONE]"),
        ],
    )
}

fn objectives(pairs: &[(MetricTag, f64)]) -> Settings {
    let objectives = pairs
        .iter()
        .map(|(tag, threshold)| Objective { tag: *tag, threshold: *threshold })
        .collect();
    Settings { objectives, ..Settings::default() }
}

/// Returns values in display units, with lists in order.
fn shown(measured: &MeasuredRecord) -> Vec<(MetricTag, Vec<f64>)> {
    measured
        .observation
        .values
        .iter()
        .map(|(tag, value)| {
            let metric = Registry::row(tag).unwrap();
            let values = match value {
                Value::Scalar(value) => vec![metric.to_display(*value)],
                Value::List(values) => values.iter().map(|v| metric.to_display(*v)).collect(),
            };
            (tag, values)
        })
        .collect()
}

/// Asserts that `measured` has exactly these values, in any order.
fn assert_values(measured: &MeasuredRecord, expected: &[(MetricTag, &[f64])]) {
    let shown = shown(measured);
    for (tag, expected) in expected {
        let Some((_, values)) = shown.iter().find(|(have, _)| have == tag) else {
            panic!("{tag} is missing")
        };
        assert_eq!(values.len(), expected.len(), "{tag}");
        for (value, expected) in values.iter().zip(*expected) {
            assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{tag}: {value}");
        }
    }
    let surplus: Vec<_> =
        shown.iter().filter(|(tag, _)| !expected.iter().any(|(have, _)| have == tag)).collect();
    assert!(surplus.is_empty(), "{surplus:?}");
}

/// A streamed chat request of the second turn.
fn measure_chat(settings: Settings, body: ResponseBody) -> MeasuredRecord {
    let registry = registry(EndpointType::CHAT, settings, true);
    measurer(EndpointType::CHAT, registry, dataset()).measure(record(START, body))
}

#[test]
fn every_value_of_a_streamed_request() {
    let settings =
        objectives(&[(tag::TIME_TO_FIRST_TOKEN, 30.0), (tag::E2E_OUTPUT_TOKEN_THROUGHPUT, 99.0)]);
    let measured = measure_chat(settings, answer(OPENAI_USAGE));
    assert_eq!(measured.observation.error, None);
    assert_values(
        &measured,
        &[
            (tag::TIME_TO_FIRST_TOKEN, &[30.0]),
            (tag::TIME_TO_SECOND_TOKEN, &[20.0]),
            (tag::TIME_TO_FIRST_OUTPUT_TOKEN, &[50.0]),
            (tag::REQUEST_LATENCY, &[70.0]),
            // The finish reason is 2 ms after the last text.
            (tag::END_TOKEN_TIME, &[2.0]),
            (tag::DECODE_DURATION, &[40.0]),
            // 40 ms over 6 tokens after the first.
            (tag::INTER_TOKEN_LATENCY, &[20.0 / 3.0]),
            // The stream ends 46 ms after the first content: 6 tokens in 0.046 s.
            (tag::FULL_DECODE_DURATION, &[46.0]),
            (tag::FULL_RESPONSE_INTER_TOKEN_LATENCY, &[46.0 / 6.0]),
            (tag::FULL_RESPONSE_OUTPUT_TOKEN_THROUGHPUT_PER_USER, &[6000.0 / 46.0]),
            (tag::INTER_CHUNK_LATENCY, &[20.0, 20.0, 0.0]),
            (tag::CHUNK_COUNT, &[4.0]),
            (tag::COALESCED_CHUNK_COUNT, &[1.0]),
            (tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, &[150.0]),
            (tag::PREFILL_THROUGHPUT_PER_USER, &[2500.0 / 3.0]),
            (tag::E2E_OUTPUT_TOKEN_THROUGHPUT, &[100.0]),
            (tag::OUTPUT_TOKEN_COUNT, &[4.0]),
            (tag::REASONING_TOKEN_COUNT, &[3.0]),
            (tag::OUTPUT_SEQUENCE_LENGTH, &[7.0]),
            // 5 of context, 10 and 6 of the turns, 4 of the response between them.
            (tag::INPUT_SEQUENCE_LENGTH, &[25.0]),
            (tag::USAGE_PROMPT_TOKENS, &[30.0]),
            (tag::USAGE_COMPLETION_TOKENS, &[8.0]),
            (tag::USAGE_TOTAL_TOKENS, &[38.0]),
            (tag::USAGE_REASONING_TOKENS, &[4.0]),
            (tag::USAGE_PROMPT_CACHE_READ_TOKENS, &[16.0]),
            (tag::USAGE_PROMPT_AUDIO_TOKENS, &[2.0]),
            (tag::USAGE_COMPLETION_AUDIO_TOKENS, &[1.0]),
            (tag::USAGE_ACCEPTED_PREDICTION_TOKENS, &[5.0]),
            (tag::USAGE_REJECTED_PREDICTION_TOKENS, &[6.0]),
            (tag::USAGE_PROMPT_TOKENS_DIFF_PCT, &[20.0]),
            (tag::USAGE_COMPLETION_TOKENS_DIFF_PCT, &[100.0 / 7.0]),
            (tag::USAGE_REASONING_TOKENS_DIFF_PCT, &[100.0 / 3.0]),
            (tag::OSL_MISMATCH_DIFF_PCT, &[-30.0]),
            (tag::GOOD_REQUEST_COUNT, &[1.0]),
            // In a closed loop, issued and sent at the same time.
            (tag::EFFECTIVE_TIME_TO_FIRST_TOKEN, &[30.0]),
            (tag::EFFECTIVE_LATENCY, &[70.0]),
            (tag::CREDIT_TO_START_LATENCY, &[0.0]),
        ],
    );
}

#[test]
fn the_whole_response_ends_with_the_stream() {
    // 4 tokens from 100 to 400 ms, and the end of the stream at 460 ms.
    let body = stream(START, &[(100, &content("a b")), (400, &content(" c d")), (460, "[DONE]")]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar(tag::INTER_TOKEN_LATENCY), Some(100e6));
    assert_eq!(values.scalar(tag::FULL_DECODE_DURATION), Some(360e6));
    assert_eq!(values.scalar(tag::FULL_RESPONSE_INTER_TOKEN_LATENCY), Some(120e6));
    let per_user = values.scalar(tag::FULL_RESPONSE_OUTPUT_TOKEN_THROUGHPUT_PER_USER);
    assert!((per_user.unwrap() - 1.0 / 0.12).abs() < 1e-9);
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    let millis_before = |millis: u64| Nanos(START.0 - millis * 1_000_000);
    let measured = |due: Option<Nanos>| {
        let settings =
            Settings { developer_mode: true, fixed_schedule: true, ..Settings::default() };
        let mut request = record(START, answer(""));
        (request.due, request.issued) = (due, millis_before(15));
        let registry = registry(EndpointType::CHAT, settings, true);
        let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(request);
        let tags = [
            tag::REQUEST_LATENCY,
            tag::EFFECTIVE_TIME_TO_FIRST_TOKEN,
            tag::EFFECTIVE_LATENCY,
            tag::CREDIT_TO_START_LATENCY,
            tag::CREDIT_DROP_LATENCY,
            tag::REPLAY_SEND_SCHEDULE_OFFSET,
        ];
        tags.map(|tag| measured.observation.values.scalar(tag).map(|nanos| nanos / 1e6))
    };
    assert_eq!(
        measured(Some(millis_before(40))),
        [Some(70.0), Some(70.0), Some(110.0), Some(40.0), Some(15.0), Some(40.0)]
    );
    // Nothing was due: it waited only for the connection.
    assert_eq!(measured(None), [Some(70.0), Some(45.0), Some(85.0), Some(15.0), Some(15.0), None]);
}

#[test]
fn usage_of_other_vendors() {
    let usage_values = |members: &str| -> Vec<(MetricTag, f64)> {
        let measured = measure_chat(Settings::default(), answer(members));
        let is_usage =
            |tag: MetricTag| tag.name().starts_with("usage_") && !tag.name().ends_with("_pct");
        shown(&measured)
            .into_iter()
            .filter(|(tag, _)| is_usage(*tag))
            .map(|(tag, values)| (tag, values[0]))
            .collect()
    };
    let anthropic = r#""input_tokens":30,"output_tokens":8,"cache_read_input_tokens":16,
        "cache_creation_input_tokens":4"#;
    assert_eq!(
        usage_values(anthropic),
        [
            // 30 tokens that the cache was not involved in, and those of the cache.
            (tag::USAGE_PROMPT_TOKENS, 50.0),
            (tag::USAGE_PROMPT_CACHE_READ_TOKENS, 16.0),
            (tag::USAGE_PROMPT_CACHE_WRITE_TOKENS, 4.0),
            (tag::USAGE_COMPLETION_TOKENS, 8.0),
        ]
    );
    let deepseek = r#""prompt_tokens":30,"completion_tokens":8,"total_tokens":38,
        "prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10"#;
    assert_eq!(
        usage_values(deepseek),
        [
            (tag::USAGE_PROMPT_TOKENS, 30.0),
            (tag::USAGE_PROMPT_CACHE_READ_TOKENS, 20.0),
            (tag::USAGE_PROMPT_CACHE_MISS_TOKENS, 10.0),
            (tag::USAGE_COMPLETION_TOKENS, 8.0),
            (tag::USAGE_TOTAL_TOKENS, 38.0),
        ]
    );
    let mistral = r#""prompt_tokens":30,"prompt_audio_seconds":12.5"#;
    assert_eq!(
        usage_values(mistral),
        [(tag::USAGE_PROMPT_TOKENS, 30.0), (tag::USAGE_PROMPT_AUDIO_SECONDS, 12.5)]
    );
    let gemini = r#""promptTokenCount":30,"candidatesTokenCount":5,"thoughtsTokenCount":3,
        "totalTokenCount":38,"toolUsePromptTokenCount":7"#;
    assert_eq!(
        usage_values(gemini),
        [
            (tag::USAGE_PROMPT_TOKENS, 30.0),
            (tag::USAGE_TOOL_USE_PROMPT_TOKENS, 7.0),
            (tag::USAGE_COMPLETION_TOKENS, 8.0),
            (tag::USAGE_REASONING_TOKENS, 3.0),
            (tag::USAGE_TOTAL_TOKENS, 38.0),
        ]
    );
}

#[test]
fn the_servers_counts_when_asked_for() {
    let settings = Settings { use_server_token_count: true, ..Settings::default() };
    let values = measure_chat(settings.clone(), answer(OPENAI_USAGE)).observation.values;
    assert_eq!(values.scalar(tag::INPUT_SEQUENCE_LENGTH), Some(30.0));
    assert_eq!(values.scalar(tag::OUTPUT_TOKEN_COUNT), Some(4.0));
    assert_eq!(values.scalar(tag::REASONING_TOKEN_COUNT), Some(4.0));
    assert_eq!(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(8.0));
    assert_eq!(values.scalar(tag::USAGE_PROMPT_TOKENS_DIFF_PCT), None);
    let values = measure_chat(settings, answer("")).observation.values;
    assert_eq!(values.scalar(tag::INPUT_SEQUENCE_LENGTH), None);
    assert_eq!(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), None);
    assert_eq!(values.scalar(tag::INTER_TOKEN_LATENCY), None);
    assert_eq!(values.scalar(tag::TIME_TO_FIRST_TOKEN), Some(30e6));
}

#[test]
fn one_piece_has_no_gaps() {
    let body = stream(START, &[(40, &content("three words here")), (41, STOP), (42, "[DONE]")]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar(tag::TIME_TO_FIRST_TOKEN), Some(40e6));
    assert_eq!(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(3.0));
    for tag in
        [tag::TIME_TO_SECOND_TOKEN, tag::INTER_TOKEN_LATENCY, tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER]
    {
        assert_eq!(values.scalar(tag), None, "{tag}");
    }
    assert_eq!(values.get(tag::INTER_CHUNK_LATENCY), None);
}

#[test]
fn one_token_in_two_pieces_has_no_inter_token_latency() {
    let body = stream(START, &[(40, &content("lon")), (60, &content("ely")), (61, STOP)]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(1.0));
    assert_eq!(values.scalar(tag::TIME_TO_SECOND_TOKEN), Some(20e6));
    assert_eq!(values.scalar(tag::INTER_TOKEN_LATENCY), None);
}

#[test]
fn reasoning_alone_is_not_a_first_output() {
    let body = stream(START, &[(30, REASONING), (35, STOP), (36, "[DONE]")]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar(tag::TIME_TO_FIRST_OUTPUT_TOKEN), None);
    assert_eq!(values.scalar(tag::OUTPUT_TOKEN_COUNT), None);
    assert_eq!(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(3.0));
}

#[test]
fn a_response_that_is_not_streamed_ends_once() {
    let registry = registry(EndpointType::CHAT, Settings::default(), false);
    let body = whole(
        START,
        90,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"nine lives"},
            "finish_reason":"stop"}]}"#,
    );
    let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(record(START, body));
    assert_values(
        &measured,
        &[
            (tag::REQUEST_LATENCY, &[90.0]),
            (tag::OUTPUT_TOKEN_COUNT, &[2.0]),
            (tag::OUTPUT_SEQUENCE_LENGTH, &[2.0]),
            (tag::INPUT_SEQUENCE_LENGTH, &[25.0]),
            (tag::E2E_OUTPUT_TOKEN_THROUGHPUT, &[2.0 / 0.09]),
            (tag::OSL_MISMATCH_DIFF_PCT, &[-80.0]),
            (tag::EFFECTIVE_LATENCY, &[90.0]),
            (tag::CREDIT_TO_START_LATENCY, &[0.0]),
        ],
    );
}

#[test]
fn embeddings_have_latency_and_input() {
    let registry = registry(EndpointType::EMBEDDINGS, Settings::default(), false);
    let body = whole(START, 12, r#"{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":11}}"#);
    let measured =
        measurer(EndpointType::EMBEDDINGS, registry, dataset()).measure(record(START, body));
    assert_values(
        &measured,
        &[
            (tag::REQUEST_LATENCY, &[12.0]),
            // The context and the turn's own text: earlier turns are not repeated.
            (tag::INPUT_SEQUENCE_LENGTH, &[11.0]),
            (tag::USAGE_PROMPT_TOKENS, &[11.0]),
            (tag::USAGE_PROMPT_TOKENS_DIFF_PCT, &[0.0]),
            (tag::EFFECTIVE_LATENCY, &[12.0]),
            (tag::CREDIT_TO_START_LATENCY, &[0.0]),
        ],
    );
}

#[test]
fn a_failed_request_has_its_input_and_what_arrived() {
    let settings = objectives(&[(tag::REQUEST_LATENCY, 1e9)]);
    let registry = registry(EndpointType::CHAT, settings, true);
    let mut refused = record(START, whole(START, 5, r#"{"error": "boom"}"#));
    refused.status = Some(500);
    let measured =
        measurer(EndpointType::CHAT, registry.clone(), dataset()).measure(refused.clone());
    assert_values(&measured, &[(tag::ERROR_ISL, &[25.0])]);
    let error = measured.observation.error.unwrap();
    assert_eq!((error.code, error.kind), (Some(500), ErrorKind::Http5xx));

    let mut cancelled = record(START, answer(OPENAI_USAGE));
    cancelled.error = Some(RequestError::new(ErrorKind::Cancelled, "Cancelled", "by the run"));
    let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(cancelled);
    // What had arrived: three words of reasoning, and "Hello wide world !".
    assert_values(&measured, &[(tag::ERROR_ISL, &[25.0]), (tag::ERROR_OSL, &[7.0])]);
    assert_eq!(measured.observation.error.unwrap().kind, ErrorKind::Cancelled);
    assert_eq!(measured.response.output_text, "Hello wide world !");
}

#[test]
fn an_error_inside_a_good_status_is_a_failure() {
    let body = stream(START, &[(30, &content("Hello")), (40, r#"{"error":{"message":"gone"}}"#)]);
    let measured = measure_chat(Settings::default(), body);
    assert_eq!(measured.observation.error.as_ref().unwrap().message, "gone");
    assert_values(&measured, &[(tag::ERROR_ISL, &[25.0]), (tag::ERROR_OSL, &[1.0])]);
}

#[test]
fn a_bound_is_met_up_to_its_edge_and_a_missing_metric_fails() {
    let good = |pairs: &[(MetricTag, f64)]| {
        let values = measure_chat(objectives(pairs), answer("")).observation.values;
        values.scalar(tag::GOOD_REQUEST_COUNT)
    };
    assert_eq!(good(&[(tag::REQUEST_LATENCY, 70.0)]), Some(1.0));
    assert_eq!(good(&[(tag::REQUEST_LATENCY, 69.999_999)]), None);
    assert_eq!(good(&[(tag::OUTPUT_SEQUENCE_LENGTH, 7.0)]), Some(1.0));
    assert_eq!(good(&[(tag::OUTPUT_SEQUENCE_LENGTH, 7.5)]), None);
    assert_eq!(good(&[(tag::REQUEST_LATENCY, 70.0), (tag::USAGE_PROMPT_TOKENS, 1.0)]), None);
}

#[test]
fn an_input_that_is_not_known_is_absent() {
    let mut unknown = (*dataset()).clone();
    unknown.conversations[0].turns[0].input_tokens = None;
    let registry = registry(EndpointType::CHAT, Settings::default(), true);
    let values = measurer(EndpointType::CHAT, registry.clone(), Arc::new(unknown))
        .measure(record(START, answer("")))
        .observation
        .values;
    assert_eq!(values.scalar(tag::INPUT_SEQUENCE_LENGTH), None);
    assert_eq!(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(7.0));

    let mut elsewhere = record(START, answer(""));
    elsewhere.turn.conversation = 7;
    let observation =
        measurer(EndpointType::CHAT, registry, dataset()).measure(elsewhere).observation;
    assert_eq!(observation.values.scalar(tag::INPUT_SEQUENCE_LENGTH), None);
    // The body specifies it.
    assert_eq!(observation.requested_output_tokens, Some(10));
}

#[test]
fn internal_metrics_are_for_developers() {
    let requested = |developer_mode| {
        let settings = Settings { developer_mode, ..Settings::default() };
        measure_chat(settings, answer("")).observation.values.scalar(tag::REQUESTED_OSL)
    };
    assert_eq!(requested(false), None);
    assert_eq!(requested(true), Some(10.0));
}

#[test]
fn the_observation_starts_in_wall_time() {
    let clock = Clock::start();
    let registry = registry(EndpointType::CHAT, Settings::default(), true);
    let start = clock.at_wall_ns(1_800_000_000_123_456_789);
    let mut measurer = measurer(EndpointType::CHAT, registry, dataset());
    measurer.clock = clock;
    let observation =
        measurer.measure(record(start, stream(start, &[(1, &content("word"))]))).observation;
    assert_eq!(observation.start_wall_ns, 1_800_000_000_123_456_789);
    assert_eq!(observation.requested_output_tokens, Some(10));
}

#[test]
fn a_panic_is_the_error_of_its_record() {
    let counter: Arc<CountTokens> = Arc::new(|text| {
        assert!(!text.contains("boom"), "no such token");
        text.split_whitespace().count() as u64
    });
    let chat = EndpointType::CHAT;
    let registry = registry(chat, Settings::default(), true);
    let mut measurer = measurer(chat, registry, dataset());
    measurer.counter = Some(counter);
    let answer = |text: &str| {
        let events = [(20, content(text)), (30, STOP.to_owned()), (40, "[DONE]".to_owned())];
        let events: Vec<(u64, &str)> = events.iter().map(|(at, e)| (*at, e.as_str())).collect();
        measurer.measure(record(START, stream(START, &events))).observation
    };
    let failed = answer("this is a boom");
    let error = failed.error.unwrap();
    assert_eq!((&*error.name, error.kind), ("ProcessorPanic", ErrorKind::Other));
    assert!(error.message.contains("no such token"), "{}", error.message);
    assert_eq!(failed.values.iter().count(), 0);
    // The next one is measured.
    let fine = answer("three fine words");
    assert_eq!(fine.error, None);
    assert_eq!(fine.values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(3.0));
}

#[test]
fn choices_are_counted_apart() {
    let choice = |index: u32, text: &str| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"{text}"}}}}]}}"#)
    };
    let events = [
        (20, choice(0, "one two")),
        (21, choice(1, "three")),
        (30, choice(0, " four")),
        (31, choice(1, " five")),
        (40, r#"{"choices":[{"index":0,"finish_reason":"stop"},{"index":1,"finish_reason":"stop"}]}"#.to_owned()),
        (41, "[DONE]".to_owned()),
    ];
    let events: Vec<(u64, &str)> = events.iter().map(|(at, e)| (*at, e.as_str())).collect();
    let measured = measure_chat(Settings::default(), stream(START, &events));
    assert_eq!(measured.response.output_text, "one two four\nthree five");
    // "fourthree" would be one word.
    assert_eq!(measured.observation.values.scalar(tag::OUTPUT_SEQUENCE_LENGTH), Some(5.0));
}

#[test]
fn the_length_asked_for_is_the_one_that_was_sent() {
    let chat = EndpointType::CHAT;
    let measurer = measurer(chat, registry(chat, Settings::default(), true), dataset());
    let asked = |body: &'static [u8]| {
        let mut sent = record(START, answer(OPENAI_USAGE));
        sent.payload = bytes::Bytes::from_static(body);
        let observation = measurer.measure(sent).observation;
        let difference = observation.values.scalar(tag::OSL_MISMATCH_DIFF_PCT);
        (observation.requested_output_tokens, difference)
    };
    // Seven arrived; the turn's own 10 are not requested if the body specifies otherwise.
    assert_eq!(asked(br#"{"max_tokens":14}"#), (Some(14), Some(-50.0)));
    assert_eq!(asked(br#"{"max_completion_tokens":5}"#), (Some(5), Some(40.0)));
    assert_eq!(asked(br#"{"input":{"config":{"max_new_tokens":7}}}"#), (Some(7), Some(0.0)));
    assert_eq!(asked(b"{}"), (None, None));
}

#[test]
fn tool_calls_and_refusals_are_tokens_and_the_first_output() {
    let call = |function: &str| {
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"function":{{{function}}}}}]}}}}]}}"#)
    };
    let events = [
        (20, ROLE.to_owned()),
        (30, REASONING.to_owned()),
        // A call without a name or arguments so far is empty.
        (40, call(r#""name":"","arguments":"""#)),
        (50, call(r#""name":"look up ""#)),
        (60, call(r#""arguments":"{ one }""#)),
        (70, r#"{"choices":[{"delta":{"refusal":" I cannot"}}]}"#.to_owned()),
        (80, STOP.to_owned()),
    ];
    let events: Vec<(u64, &str)> = events.iter().map(|(at, data)| (*at, data.as_str())).collect();
    let measured = measure_chat(Settings::default(), stream(START, &events));
    let value = |tag| {
        let value = measured.observation.values.scalar(tag)?;
        Some(Registry::row(tag).unwrap().to_display(value))
    };
    assert_eq!(value(tag::TIME_TO_FIRST_TOKEN), Some(30.0));
    assert_eq!(value(tag::TIME_TO_FIRST_OUTPUT_TOKEN), Some(50.0));
    assert_eq!(value(tag::REQUEST_LATENCY), Some(70.0));
    // look, up, {, one, }, I, cannot.
    assert_eq!(value(tag::OUTPUT_TOKEN_COUNT), Some(7.0));
    assert_eq!(value(tag::OUTPUT_SEQUENCE_LENGTH), Some(10.0));
    // `{ one }` is not JSON.
    assert_eq!(value(tag::TOOL_CALL_COUNT), Some(1.0));
    assert_eq!(value(tag::INVALID_TOOL_CALL_COUNT), Some(1.0));
}

fn medium(kind: MediaKinds, seconds: Option<f64>) -> Media {
    let content = MediaContent::Url("http://x/y".into());
    Media { kind, content, seconds, uuid: None }
}

/// Returns the measured values of a request for the second of two turns, in display units.
fn of_media(
    endpoint: EndpointType,
    turns: [Vec<Media>; 2],
    body: ResponseBody,
) -> Vec<(MetricTag, f64)> {
    let turns = turns.map(|media| Turn { media, texts: vec!["x".into()], ..Turn::default() });
    let conversation = Conversation { turns: turns.to_vec(), ..Conversation::default() };
    let dataset = Arc::new(Dataset::from_conversations(vec![conversation]));
    let registry = registry(endpoint, Settings::default(), false);
    let measured = measurer(endpoint, registry, dataset).measure(record(START, body));
    assert_eq!(measured.observation.error, None);
    let of_media = [
        tag::NUM_IMAGES,
        tag::IMAGE_THROUGHPUT,
        tag::IMAGE_LATENCY,
        tag::AUDIO_DURATION,
        tag::RTFX,
        tag::VIDEO_INFERENCE_TIME,
        tag::VIDEO_PEAK_MEMORY,
    ];
    let mut shown = shown(&measured);
    shown.retain(|(tag, _)| of_media.contains(tag));
    shown.into_iter().map(|(tag, values)| (tag, values[0])).collect()
}

const ANSWER: &str = r#"{"choices":[{"message":{"content":"a cat"},"finish_reason":"stop"}]}"#;

#[test]
fn images_are_those_of_all_turns_that_a_chat_repeats() {
    let image = || medium(MediaKinds::IMAGE, None);
    let turns = || [vec![image()], vec![image(), image()]];
    // Three images in 250 ms: 12 per second, 83.33 ms each.
    let values = of_media(EndpointType::CHAT, turns(), whole(START, 250, ANSWER));
    let expected =
        [(tag::NUM_IMAGES, 3.0), (tag::IMAGE_THROUGHPUT, 12.0), (tag::IMAGE_LATENCY, 250.0 / 3.0)];
    assert_eq!(values, expected);
    // An edit contains only the images of its own turn: two in 500 ms.
    let edited = whole(START, 500, r#"{"data":[{"b64_json":"AAAA"}]}"#);
    let values = of_media(EndpointType::IMAGE_EDIT, turns(), edited);
    assert_eq!(
        values,
        [(tag::NUM_IMAGES, 2.0), (tag::IMAGE_THROUGHPUT, 4.0), (tag::IMAGE_LATENCY, 250.0)]
    );
    assert_eq!(of_media(EndpointType::CHAT, [vec![], vec![]], whole(START, 1, ANSWER)), []);
}

#[test]
fn sound_is_dealt_with_faster_than_it_plays() {
    let sound = |seconds| medium(MediaKinds::AUDIO, seconds);
    // 10 s and 5 s in 500 ms.
    let turns = [vec![sound(Some(10.0))], vec![sound(Some(5.0))]];
    let values = of_media(EndpointType::CHAT, turns.clone(), whole(START, 500, ANSWER));
    assert_eq!(values, [(tag::AUDIO_DURATION, 15.0), (tag::RTFX, 30.0)]);
    let transcript = whole(START, 500, r#"{"text":"hello"}"#);
    let values = of_media(EndpointType::AUDIO_TRANSCRIPTION, turns, transcript);
    assert_eq!(values, [(tag::AUDIO_DURATION, 5.0), (tag::RTFX, 10.0)]);
    let unknown = [vec![], vec![sound(Some(5.0)), sound(None)]];
    assert_eq!(of_media(EndpointType::CHAT, unknown, whole(START, 500, ANSWER)), []);
}

#[test]
fn videos_took_what_the_server_says() {
    let job = r#"{"id":"v","status":"completed","inference_time_s":12.5,"peak_memory_mb":20480}"#;
    let values =
        of_media(EndpointType::VIDEO_GENERATION, [vec![], vec![]], whole(START, 13_000, job));
    assert_eq!(values, [(tag::VIDEO_INFERENCE_TIME, 12_500.0), (tag::VIDEO_PEAK_MEMORY, 20_480.0)]);
}

/// Two choices whose words arrive in turn: each has three, 20 ms apart, the first ones at 30 and 40 ms.
#[test]
fn times_between_tokens_are_those_of_each_choice() {
    let word = |index, text| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":" {text}"}}}}]}}"#)
    };
    let events = [
        (30, word(0, "a")),
        (40, word(1, "d")),
        (50, word(0, "b")),
        (60, word(1, "e")),
        (70, word(0, "c")),
        (80, word(1, "f")),
        (81, "[DONE]".to_owned()),
    ];
    let events: Vec<(u64, &str)> = events.iter().map(|(at, text)| (*at, &**text)).collect();
    let measured = measure_chat(Settings::default(), stream(START, &events));
    let shown = shown(&measured);
    for (tag, expected) in [
        (tag::TIME_TO_FIRST_TOKEN, &[35.0][..]),
        (tag::EFFECTIVE_TIME_TO_FIRST_TOKEN, &[35.0]),
        (tag::TIME_TO_SECOND_TOKEN, &[20.0]),
        (tag::INTER_CHUNK_LATENCY, &[20.0, 20.0, 20.0, 20.0]),
        // 40 ms of each choice, for the four words after the first ones.
        (tag::INTER_TOKEN_LATENCY, &[20.0]),
        (tag::OUTPUT_SEQUENCE_LENGTH, &[6.0]),
        (tag::REQUEST_LATENCY, &[80.0]),
        (tag::CHUNK_COUNT, &[6.0]),
        (tag::COALESCED_CHUNK_COUNT, &[0.0]),
    ] {
        let found = shown.iter().find(|(have, _)| *have == tag).map(|(_, values)| &**values);
        assert_eq!(found, Some(expected), "{tag}");
    }
}

/// Two words at 30 and 60 ms. vLLM computes the next token in 30 ms, too: if that is the end token, its
/// decode is 60 ms; if the limit is two tokens, 30 ms. Its other stages take 25 ms, which leaves 5 ms.
#[test]
fn the_end_token_is_not_missing_from_the_time_of_the_server() {
    let settings = || Settings { server_timing: true, ..Settings::default() };
    let time = |measured: &MeasuredRecord, tag| {
        let shown = shown(measured);
        shown.into_iter().find(|(have, _)| *have == tag).map(|(_, values)| values[0])
    };
    for (reason, at, decode, end_token) in [
        ("stop", 90, 60.0, Some(30.0)),
        ("length", 60, 30.0, None),
        ("tool_calls", 90, 60.0, Some(30.0)),
    ] {
        let stop = format!(
            r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}],"metrics":
                {{"queue_time_ms":5.0,"time_to_first_token_ms":20.0,"generation_time_ms":{decode}}}}}"#
        );
        let words = [content("one"), content(" two")];
        let events = [(30, &*words[0]), (60, &*words[1]), (at, &*stop), (95, "[DONE]")];
        let measured = measure_chat(settings(), stream(START, &events));
        assert_eq!(time(&measured, tag::REQUEST_LATENCY), Some(60.0), "{reason}");
        assert_eq!(time(&measured, tag::SERVER_DECODE_TIME), Some(decode), "{reason}");
        assert_eq!(time(&measured, tag::END_TOKEN_TIME), end_token, "{reason}");
        assert_eq!(time(&measured, tag::SERVER_UNATTRIBUTED_TIME), Some(5.0), "{reason}");
    }
}
