use super::*;
use crate::dataset::{Conversation, Dataset, Media, MediaContent, MediaKinds, Turn};
use crate::endpoint::EndpointType;
use crate::metrics::fixture::{
    START, content, dataset, measure_chat, measurer, record, registry, stream, usage, whole,
};
use crate::metrics::metric::{MetricTag, Objective, Settings, Value};
use crate::record::{ErrorKind, ResponseBody};
use crate::units::Nanos;

const REASONING: &str = r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hmm let me"}}]}"#;
const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

const OPENAI_USAGE: &str = r#""prompt_tokens":30,"completion_tokens":8,"total_tokens":38,
    "prompt_tokens_details":{"cached_tokens":16,"audio_tokens":2},
    "completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":1,
        "accepted_prediction_tokens":5,"rejected_prediction_tokens":6}"#;

/// Three words of reasoning at 30 ms, then four of the answer: one at 50 ms, two
/// and one at 70 ms.
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
    let objectives =
        pairs.iter().map(|(tag, threshold)| Objective { tag, threshold: *threshold }).collect();
    Settings { objectives, ..Settings::default() }
}

/// Values in display units, lists first to last.
fn shown(measured: &MeasuredRecord) -> Vec<(MetricTag, Vec<f64>)> {
    measured
        .observation
        .values
        .iter()
        .map(|(tag, value)| {
            let metric = Registry::find(tag).unwrap();
            let values = match value {
                Value::Scalar(value) => vec![metric.to_display(*value)],
                Value::List(values) => values.iter().map(|v| metric.to_display(*v)).collect(),
            };
            (tag, values)
        })
        .collect()
}

/// Holds that `measured` has exactly these values, in any order.
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

#[test]
fn every_value_of_a_streamed_request() {
    let settings =
        objectives(&[("time_to_first_token", 30.0), ("e2e_output_token_throughput", 99.0)]);
    let measured = measure_chat(settings, answer(OPENAI_USAGE));
    assert_eq!(measured.observation.error, None);
    assert_values(
        &measured,
        &[
            ("time_to_first_token", &[30.0]),
            ("time_to_second_token", &[20.0]),
            ("time_to_first_output_token", &[50.0]),
            ("request_latency", &[70.0]),
            ("decode_duration", &[40.0]),
            // 40 ms over 6 tokens after the first.
            ("inter_token_latency", &[20.0 / 3.0]),
            ("inter_chunk_latency", &[20.0, 20.0, 0.0]),
            ("output_token_throughput_per_user", &[150.0]),
            ("prefill_throughput_per_user", &[2500.0 / 3.0]),
            ("e2e_output_token_throughput", &[100.0]),
            ("output_token_count", &[4.0]),
            ("reasoning_token_count", &[3.0]),
            ("output_sequence_length", &[7.0]),
            // 5 of context, 10 and 6 of the turns, 4 of the answer between them.
            ("input_sequence_length", &[25.0]),
            ("usage_prompt_tokens", &[30.0]),
            ("usage_completion_tokens", &[8.0]),
            ("usage_total_tokens", &[38.0]),
            ("usage_reasoning_tokens", &[4.0]),
            ("usage_prompt_cache_read_tokens", &[16.0]),
            ("usage_prompt_audio_tokens", &[2.0]),
            ("usage_completion_audio_tokens", &[1.0]),
            ("usage_accepted_prediction_tokens", &[5.0]),
            ("usage_rejected_prediction_tokens", &[6.0]),
            ("usage_prompt_tokens_diff_pct", &[20.0]),
            ("usage_completion_tokens_diff_pct", &[100.0 / 7.0]),
            ("usage_reasoning_tokens_diff_pct", &[100.0 / 3.0]),
            ("osl_mismatch_diff_pct", &[-30.0]),
            ("good_request_count", &[1.0]),
            // In a closed loop, issued and sent at once.
            ("effective_latency", &[70.0]),
            ("credit_to_start_latency", &[0.0]),
        ],
    );
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
            "request_latency",
            "effective_latency",
            "credit_to_start_latency",
            "credit_drop_latency",
            "replay_send_schedule_offset",
        ];
        tags.map(|tag| measured.observation.values.scalar(tag).map(|nanos| nanos / 1e6))
    };
    assert_eq!(
        measured(Some(millis_before(40))),
        [Some(70.0), Some(110.0), Some(40.0), Some(15.0), Some(40.0)]
    );
    // Nothing was due: the wait is for the connection alone.
    assert_eq!(measured(None), [Some(70.0), Some(85.0), Some(15.0), Some(15.0), None]);
}

#[test]
fn usage_of_other_vendors() {
    let usage_values = |members: &str| -> Vec<(MetricTag, f64)> {
        let measured = measure_chat(Settings::default(), answer(members));
        let is_usage = |tag: &str| tag.starts_with("usage_") && !tag.ends_with("_pct");
        shown(&measured)
            .into_iter()
            .filter(|(tag, _)| is_usage(tag))
            .map(|(tag, values)| (tag, values[0]))
            .collect()
    };
    let anthropic = r#""input_tokens":30,"output_tokens":8,"cache_read_input_tokens":16,
        "cache_creation_input_tokens":4"#;
    assert_eq!(
        usage_values(anthropic),
        [
            ("usage_prompt_tokens", 30.0),
            ("usage_prompt_cache_read_tokens", 16.0),
            ("usage_prompt_cache_write_tokens", 4.0),
            ("usage_completion_tokens", 8.0),
        ]
    );
    let deepseek = r#""prompt_tokens":30,"completion_tokens":8,"total_tokens":38,
        "prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10"#;
    assert_eq!(
        usage_values(deepseek),
        [
            ("usage_prompt_tokens", 30.0),
            ("usage_prompt_cache_read_tokens", 20.0),
            ("usage_prompt_cache_miss_tokens", 10.0),
            ("usage_completion_tokens", 8.0),
            ("usage_total_tokens", 38.0),
        ]
    );
    let mistral = r#""prompt_tokens":30,"prompt_audio_seconds":12.5"#;
    assert_eq!(
        usage_values(mistral),
        [("usage_prompt_tokens", 30.0), ("usage_prompt_audio_seconds", 12.5)]
    );
    let gemini = r#""promptTokenCount":30,"candidatesTokenCount":5,"thoughtsTokenCount":3,
        "totalTokenCount":38,"toolUsePromptTokenCount":7"#;
    assert_eq!(
        usage_values(gemini),
        [
            ("usage_prompt_tokens", 30.0),
            ("usage_tool_use_prompt_tokens", 7.0),
            ("usage_completion_tokens", 8.0),
            ("usage_reasoning_tokens", 3.0),
            ("usage_total_tokens", 38.0),
        ]
    );
}

#[test]
fn the_servers_counts_when_asked_for() {
    let settings = Settings { use_server_token_count: true, ..Settings::default() };
    let values = measure_chat(settings.clone(), answer(OPENAI_USAGE)).observation.values;
    assert_eq!(values.scalar("input_sequence_length"), Some(30.0));
    assert_eq!(values.scalar("output_token_count"), Some(4.0));
    assert_eq!(values.scalar("reasoning_token_count"), Some(4.0));
    assert_eq!(values.scalar("output_sequence_length"), Some(8.0));
    assert_eq!(values.scalar("usage_prompt_tokens_diff_pct"), None);
    let values = measure_chat(settings, answer("")).observation.values;
    assert_eq!(values.scalar("input_sequence_length"), None);
    assert_eq!(values.scalar("output_sequence_length"), None);
    assert_eq!(values.scalar("inter_token_latency"), None);
    assert_eq!(values.scalar("time_to_first_token"), Some(30e6));
}

#[test]
fn one_piece_has_no_gaps() {
    let body = stream(START, &[(40, &content("three words here")), (41, STOP), (42, "[DONE]")]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar("time_to_first_token"), Some(40e6));
    assert_eq!(values.scalar("output_sequence_length"), Some(3.0));
    for tag in ["time_to_second_token", "inter_token_latency", "output_token_throughput_per_user"] {
        assert_eq!(values.scalar(tag), None, "{tag}");
    }
    assert_eq!(values.get("inter_chunk_latency"), None);
}

#[test]
fn one_token_in_two_pieces_has_no_inter_token_latency() {
    let body = stream(START, &[(40, &content("lon")), (60, &content("ely")), (61, STOP)]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar("output_sequence_length"), Some(1.0));
    assert_eq!(values.scalar("time_to_second_token"), Some(20e6));
    assert_eq!(values.scalar("inter_token_latency"), None);
}

#[test]
fn reasoning_alone_is_no_first_output() {
    let body = stream(START, &[(30, REASONING), (35, STOP), (36, "[DONE]")]);
    let values = measure_chat(Settings::default(), body).observation.values;
    assert_eq!(values.scalar("time_to_first_output_token"), None);
    assert_eq!(values.scalar("output_token_count"), None);
    assert_eq!(values.scalar("output_sequence_length"), Some(3.0));
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
            ("request_latency", &[90.0]),
            ("output_token_count", &[2.0]),
            ("output_sequence_length", &[2.0]),
            ("input_sequence_length", &[25.0]),
            ("e2e_output_token_throughput", &[2.0 / 0.09]),
            ("osl_mismatch_diff_pct", &[-80.0]),
            ("effective_latency", &[90.0]),
            ("credit_to_start_latency", &[0.0]),
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
            ("request_latency", &[12.0]),
            // The context and the turn's own text: earlier turns are not repeated.
            ("input_sequence_length", &[11.0]),
            ("usage_prompt_tokens", &[11.0]),
            ("usage_prompt_tokens_diff_pct", &[0.0]),
            ("effective_latency", &[12.0]),
            ("credit_to_start_latency", &[0.0]),
        ],
    );
}

#[test]
fn a_failed_request_has_its_input_alone() {
    let settings = objectives(&[("request_latency", 1e9)]);
    let registry = registry(EndpointType::CHAT, settings, true);
    let mut refused = record(START, whole(START, 5, r#"{"error": "boom"}"#));
    refused.status = Some(500);
    let measured =
        measurer(EndpointType::CHAT, registry.clone(), dataset()).measure(refused.clone());
    assert_values(&measured, &[("error_isl", &[25.0])]);
    let error = measured.observation.error.unwrap();
    assert_eq!((error.code, error.kind), (Some(500), ErrorKind::Http5xx));

    let mut cancelled = record(START, answer(OPENAI_USAGE));
    cancelled.error = Some(RequestError::new(ErrorKind::Cancelled, "Cancelled", "by the run"));
    let measured = measurer(EndpointType::CHAT, registry, dataset()).measure(cancelled);
    assert_values(&measured, &[("error_isl", &[25.0])]);
    assert_eq!(measured.observation.error.unwrap().kind, ErrorKind::Cancelled);
    assert_eq!(measured.response.output_text, "Hello wide world !");
}

#[test]
fn an_error_inside_a_good_status_is_a_failure() {
    let body = stream(START, &[(30, &content("Hello")), (40, r#"{"error":{"message":"gone"}}"#)]);
    let measured = measure_chat(Settings::default(), body);
    assert_eq!(measured.observation.error.as_ref().unwrap().message, "gone");
    assert_values(&measured, &[("error_isl", &[25.0])]);
}

#[test]
fn a_bound_is_met_up_to_its_edge_and_a_missing_metric_fails() {
    let good = |pairs: &[(MetricTag, f64)]| {
        let values = measure_chat(objectives(pairs), answer("")).observation.values;
        values.scalar("good_request_count")
    };
    assert_eq!(good(&[("request_latency", 70.0)]), Some(1.0));
    assert_eq!(good(&[("request_latency", 69.999_999)]), None);
    assert_eq!(good(&[("output_sequence_length", 7.0)]), Some(1.0));
    assert_eq!(good(&[("output_sequence_length", 7.5)]), None);
    assert_eq!(good(&[("request_latency", 70.0), ("usage_prompt_tokens", 1.0)]), None);
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
    assert_eq!(values.scalar("input_sequence_length"), None);
    assert_eq!(values.scalar("output_sequence_length"), Some(7.0));

    let mut elsewhere = record(START, answer(""));
    elsewhere.turn.conversation = 7;
    let observation =
        measurer(EndpointType::CHAT, registry, dataset()).measure(elsewhere).observation;
    assert_eq!(observation.values.scalar("input_sequence_length"), None);
    assert_eq!(observation.requested_output_tokens, None);
}

#[test]
fn internal_metrics_are_for_developers() {
    let requested = |developer_mode| {
        let settings = Settings { developer_mode, ..Settings::default() };
        measure_chat(settings, answer("")).observation.values.scalar("requested_osl")
    };
    assert_eq!(requested(false), None);
    assert_eq!(requested(true), Some(10.0));
}

#[test]
fn the_observation_starts_in_wall_time() {
    let clock = Clock::start();
    let registry = registry(EndpointType::CHAT, Settings::default(), true);
    let start = clock.from_wall_ns(1_800_000_000_123_456_789);
    let mut measurer = measurer(EndpointType::CHAT, registry, dataset());
    measurer.clock = clock;
    let observation =
        measurer.measure(record(start, stream(start, &[(1, &content("word"))]))).observation;
    assert_eq!(observation.start_wall_ns, 1_800_000_000_123_456_789);
    assert_eq!(observation.requested_output_tokens, Some(10));
}

#[test]
fn tool_calls_and_refusals_are_tokens_and_the_first_output() {
    let call = |function: &str| {
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"function":{{{function}}}}}]}}}}]}}"#)
    };
    let events = [
        (20, ROLE.to_owned()),
        (30, REASONING.to_owned()),
        // A call without a name or arguments yet says nothing.
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
        Some(Registry::find(tag).unwrap().to_display(value))
    };
    assert_eq!(value("time_to_first_token"), Some(30.0));
    assert_eq!(value("time_to_first_output_token"), Some(50.0));
    assert_eq!(value("request_latency"), Some(70.0));
    // look, up, {, one, }, I, cannot.
    assert_eq!(value("output_token_count"), Some(7.0));
    assert_eq!(value("output_sequence_length"), Some(10.0));
}

fn medium(kind: MediaKinds, seconds: Option<f64>) -> Media {
    let content = MediaContent::Url("http://x/y".into());
    Media { kind, content, seconds }
}

/// What a request of the second of two turns is measured to, in display units.
fn of_media(
    endpoint: EndpointType,
    turns: [Vec<Media>; 2],
    body: ResponseBody,
) -> Vec<(&'static str, f64)> {
    let turns = turns.map(|media| Turn { media, texts: vec!["x".into()], ..Turn::default() });
    let conversation = Conversation { turns: turns.to_vec(), ..Conversation::default() };
    let dataset = Arc::new(Dataset { conversations: vec![conversation] });
    let registry = registry(endpoint, Settings::default(), false);
    let measured = measurer(endpoint, registry, dataset).measure(record(START, body));
    assert_eq!(measured.observation.error, None);
    let of_media = [
        "num_images",
        "image_throughput",
        "image_latency",
        "audio_duration",
        "rtfx",
        "video_inference_time",
        "video_peak_memory",
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
    // Three images in 250 ms: 12 a second, 83.33 ms each.
    let values = of_media(EndpointType::CHAT, turns(), whole(START, 250, ANSWER));
    let expected =
        [("num_images", 3.0), ("image_throughput", 12.0), ("image_latency", 250.0 / 3.0)];
    assert_eq!(values, expected);
    // An edit bears its own turn's alone: two in 500 ms.
    let edited = whole(START, 500, r#"{"data":[{"b64_json":"AAAA"}]}"#);
    let values = of_media(EndpointType::IMAGE_EDIT, turns(), edited);
    assert_eq!(values, [("num_images", 2.0), ("image_throughput", 4.0), ("image_latency", 250.0)]);
    assert_eq!(of_media(EndpointType::CHAT, [vec![], vec![]], whole(START, 1, ANSWER)), []);
}

#[test]
fn sound_is_dealt_with_faster_than_it_plays() {
    let sound = |seconds| medium(MediaKinds::AUDIO, seconds);
    // 10 s and 5 s in 500 ms.
    let turns = [vec![sound(Some(10.0))], vec![sound(Some(5.0))]];
    let values = of_media(EndpointType::CHAT, turns.clone(), whole(START, 500, ANSWER));
    assert_eq!(values, [("audio_duration", 15.0), ("rtfx", 30.0)]);
    let transcript = whole(START, 500, r#"{"text":"hello"}"#);
    let values = of_media(EndpointType::AUDIO_TRANSCRIPTION, turns, transcript);
    assert_eq!(values, [("audio_duration", 5.0), ("rtfx", 10.0)]);
    let unknown = [vec![], vec![sound(Some(5.0)), sound(None)]];
    assert_eq!(of_media(EndpointType::CHAT, unknown, whole(START, 500, ANSWER)), []);
}

#[test]
fn videos_took_what_the_server_says() {
    let job = r#"{"id":"v","status":"completed","inference_time_s":12.5,"peak_memory_mb":20480}"#;
    let values =
        of_media(EndpointType::VIDEO_GENERATION, [vec![], vec![]], whole(START, 13_000, job));
    assert_eq!(values, [("video_inference_time", 12_500.0), ("video_peak_memory", 20_480.0)]);
}
