//! Responses of real servers, and of others as their documents describe them. The expected times are
//! read off the files by hand, in milliseconds.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::endpoint::fixture::{endpoint, stream, whole};
use crate::endpoint::{EndpointType, ParsedResponse};
use crate::record::ResponseBody;
use crate::server_family::{CachedTokens, Drafted, ServerTiming, Stages};

/// Returns the response in the capture `name`.
fn captured(name: &str) -> ParsedResponse {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let text = fs::read_to_string(root.join(format!("{name}.txt"))).unwrap();
    let text = text.replace("\r\n", "\n");
    let response = &text[text.find("HTTP/1.1 ").unwrap()..];
    let (head, body) = response.split_once("\n\n").unwrap();
    let body = body.split("\n<<<").next().unwrap();
    let body = if head.contains("text/event-stream") {
        let events = body.split("\n\n").map(str::trim).filter(|event| !event.is_empty());
        stream(&events.collect::<Vec<_>>())
    } else {
        whole(body.trim().as_bytes())
    };
    let kind = name.rsplit('/').next().unwrap().split('_').next().unwrap();
    parse(kind, &body)
}

fn parse(kind: &str, body: &ResponseBody) -> ParsedResponse {
    let kind = match kind {
        "completions" => EndpointType::COMPLETIONS,
        "responses" => EndpointType::RESPONSES,
        "messages" => EndpointType::MESSAGES,
        "raw" => EndpointType::RAW,
        _ => EndpointType::CHAT,
    };
    endpoint(kind).parse(body)
}

/// Returns what the response says, which must be valid.
fn timing(response: ParsedResponse) -> Option<ServerTiming> {
    assert_eq!(response.error, None);
    response.server.map(|server| *server)
}

#[expect(clippy::unnecessary_wraps, reason = "times are optional")]
fn nanos(milliseconds: f64) -> Option<f64> {
    Some(milliseconds * 1e6)
}

/// Asserts that both have the same times, apart from rounding.
#[track_caller]
fn assert_same(found: &[Option<f64>], expected: &[Option<f64>]) {
    let is_same = |(found, expected): (&Option<f64>, &Option<f64>)| match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1.0,
        (found, expected) => found == expected,
    };
    assert!(found.iter().zip(expected).all(is_same), "{found:?} is not {expected:?}");
}

#[test]
fn vllm_reports_queue_prefill_and_decode_in_four_forms() {
    for (name, queue, prefill, decode) in [
        ("chat_nonstream", 0.042_704_000_4, 7.207_450_999_9, 12.263_198_999_8),
        ("chat_stream_usage", 0.017_366_000_07, 3.794_004_000_16, 10.134_601_000_57),
        ("completions_nonstream", 0.009_224_000_7, 3.518_452_999_7, 8.838_466_000_3),
        ("completions_stream", 0.009_944_999_9, 1.643_042_999_6, 9.447_385_999_9),
        ("responses_nonstream", 0.016_513_999_98, 3.154_379_999_6, 8.356_456),
        ("responses_stream", 0.010_015, 1.411_296_999_3, 21.984_314_000_3),
    ] {
        let found = timing(captured(&format!("server-timing/vllm/{name}"))).unwrap();
        let expected = Stages {
            queue: nanos(queue),
            prefill: nanos(prefill),
            decode: nanos(decode),
            ..Stages::default()
        };
        assert_eq!(found.family, "vllm", "{name}");
        assert_same(&found.stages.all(), &expected.all());
        assert_same(&[found.first_token, found.whole], &[None, None]);
        assert_eq!(found.worker, None);
    }
}

#[test]
fn vllm_reports_nothing_of_several_sequences_or_without_usage() {
    for name in ["chat_n2", "chat_stream_no_usage", "messages_stream"] {
        assert_eq!(timing(captured(&format!("server-timing/vllm/{name}"))), None, "{name}");
    }
}

#[test]
fn vllm_reports_drafts() {
    let found = timing(captured("server-timing/vllm/chat_stream_speculative")).unwrap();
    let expected = Drafted { steps: Some(1), tokens: Some(4), accepted: Some(1) };
    assert_eq!(found.speculation, Some(expected));
    assert_same(&[found.stages.prefill], &[nanos(2.203_720_001_5)]);
}

#[test]
fn dynamo_reports_queue_and_prefill_together() {
    for (name, wait, prefill, first, total) in [
        ("chat_nonstream_timing", 0.874_335, 23.064_246, 23.938_581, 68.583_247),
        ("chat_stream_timing", 0.520_607, 17.721_569, 18.242_176, 46.935_135),
        ("completions_stream_timing", 0.324_905, 17.343_505, 17.668_410, 34.962_190),
        ("responses_nonstream_timing", 0.620_622, 18.711_727, 19.332_349, 36.271_750),
    ] {
        let found = timing(captured(&format!("server-timing/dynamo/{name}"))).unwrap();
        let expected = Stages {
            front_end: nanos(wait),
            queue_and_prefill: nanos(prefill),
            decode: nanos(total - first),
            ..Stages::default()
        };
        assert_same(&found.stages.all(), &expected.all());
        assert_same(&[found.first_token, found.whole], &[nanos(first), nanos(total)]);
        assert_eq!(found.worker.as_deref(), Some("17397385925670209331"), "{name}");
    }
}

/// The transfer is not in any part of what Dynamo reports, though it is in the total.
#[test]
fn dynamo_with_separate_workers_does_not_report_the_first_token() {
    let found = timing(captured("server-timing/dynamo/disagg_chat_stream")).unwrap();
    let expected = Stages {
        front_end: nanos(0.896_479),
        queue_and_prefill: nanos(19.090_793),
        kv_transfer_and_decode: nanos(159.848_139 - 19.987_272),
        ..Stages::default()
    };
    assert_same(&found.stages.all(), &expected.all());
    assert_same(&[found.first_token, found.whole], &[None, nanos(159.848_139)]);
    assert_eq!(found.worker.as_deref(), Some("1815520342517928533"));
}

/// The client saw the first token after 96 ms, 11 of which had passed when the server got the request.
#[test]
fn dynamo_estimates_the_transfer_without_bootstrap() {
    let path = "tests/golden/server-timing/dynamo/timed_disagg_roundrobin_nobootstrap.jsonl";
    let lines =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap();
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let body = json!({
        "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}],
        "nvext": {"timing": line["timing"]},
    });
    let found = timing(parse("chat", &whole(body.to_string().as_bytes()))).unwrap();
    let expected = Stages {
        front_end: nanos(1.865_615),
        queue_and_prefill: nanos(18.668_443),
        kv_transfer: nanos(63.918_423),
        decode: nanos(113.480_970 - 20.534_058 - 63.918_423),
        ..Stages::default()
    };
    assert_same(&found.stages.all(), &expected.all());
    assert_same(&[found.first_token], &[nanos(20.534_058 + 63.918_423)]);
    let sent = line["request_sent_unix_ms"].as_f64().unwrap();
    let received = line["timing"]["request_received_ms"].as_f64().unwrap();
    let client = line["client_ms"][0][0].as_f64().unwrap();
    let server = found.first_token.unwrap() / 1e6;
    assert!((client - (received - sent) - server).abs() < 2.0, "{client} {server}");
}

#[test]
fn llama_cpp_reports_prefill_and_decode() {
    for (name, prefill, decode) in
        [("chat_stream", 1.943, 5.042), ("responses_stream", 2.028, 2.32)]
    {
        let found = timing(captured(&format!("llamacpp/http/{name}"))).unwrap();
        let expected =
            Stages { prefill: nanos(prefill), decode: nanos(decode), ..Stages::default() };
        assert_eq!(found.family, "llama.cpp");
        assert_same(&found.stages.all(), &expected.all());
    }
}

/// Returns what a chat response that is not streamed says, with `members` beside its choice.
fn beside(members: &str) -> ServerTiming {
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"stop"}}],{members}}}"#
    );
    timing(parse("chat", &whole(body.as_bytes()))).unwrap()
}

#[test]
fn others_report_as_their_documents_say() {
    let stages = |queue: f64, prefill, decode| Stages {
        queue: nanos(queue),
        prefill: nanos(prefill),
        decode: nanos(decode),
        ..Stages::default()
    };
    let seconds = r#""queue_time":0.08,"prompt_time":0.03,"completion_time":0.5"#;
    for (members, family) in [
        (format!(r#""time_info":{{{seconds}}}"#), "cerebras"),
        (format!(r#""x_groq":{{"id":"r","usage":{{{seconds}}}}}"#), "groq"),
        (format!(r#""usage":{{"prompt_tokens":1,{seconds}}}"#), "groq"),
    ] {
        let found = beside(&members);
        assert_eq!(found.family, family);
        assert_same(&found.stages.all(), &stages(80.0, 30.0, 500.0).all());
    }
    let found = beside(
        r#""stats":{"time_in_queue_in_ms":80,"generation_time_in_ms":500,
            "response_tokens":{"time_to_first_token_in_ms":30.0}}"#,
    );
    let expected = Stages { decode: None, ..stages(80.0, 30.0, 0.0) };
    assert_same(&found.stages.all(), &expected.all());
    let found = beside(
        r#""perf_metrics":{"server-time-to-first-token":0.11,"server-processing-time":0.61,
            "tokenizer-queue-duration":0.001,"tokenizer-duration":0.002,
            "prefill-queue-duration":0.08,"prefill-duration":0.03,
            "generation-queue-duration":0.1,"generation-duration":0.4,"backend-host":"h1"}"#,
    );
    let expected = Stages { front_end: nanos(3.0), ..stages(80.0, 30.0, 500.0) };
    assert_same(&found.stages.all(), &expected.all());
    assert_same(&[found.first_token, found.whole], &[nanos(110.0), nanos(610.0)]);
    assert_eq!(found.worker.as_deref(), Some("h1"));
}

#[test]
fn sglang_reports_in_a_choice() {
    let body = json!({"choices": [{
        "message": {"content": "a"},
        "finish_reason": "stop",
        "meta_info": {
            "id": "x", "e2e_latency": 0.7, "first_token_latency": 0.2, "queue_time": 0.08,
            "forward_entry_time": 1_795_535_143.1, "prefill_finished_time": 1_795_535_143.13,
            "dp_rank": 3, "spec_verify_ct": 10, "spec_num_proposed_drafts": 40,
            "spec_num_correct_drafts": 12,
        },
    }]});
    let found = timing(parse("chat", &whole(body.to_string().as_bytes()))).unwrap();
    assert_same(&[found.stages.queue, found.stages.decode], &[nanos(80.0), nanos(500.0)]);
    // Seconds of the wall clock have a resolution of a quarter of a microsecond.
    assert!((found.stages.prefill.unwrap() - 30e6).abs() < 1e3, "{:?}", found.stages.prefill);
    assert_same(&[found.first_token, found.whole], &[nanos(200.0), nanos(700.0)]);
    assert_eq!(found.worker.as_deref(), Some("dp 3"));
    let expected = Drafted { steps: Some(10), tokens: Some(40), accepted: Some(12) };
    assert_eq!(found.speculation, Some(expected));
}

#[test]
fn sglang_reports_where_cached_tokens_came_from() {
    let details = r#""cached_tokens_details":{"device":64,"host":32,"storage":16,"storage_backend":"mooncake"}"#;
    let expected = CachedTokens {
        device: Some(64),
        host: Some(32),
        storage: Some(16),
        ..CachedTokens::default()
    };
    // A chunk of its own, without choices.
    let events = [
        r#"data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#.to_owned(),
        format!(r#"data: {{"choices":[],"sglext":{{{details}}}}}"#),
        "data: [DONE]".to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let found = timing(parse("chat", &stream(&events))).unwrap();
    assert_eq!((found.cached, found.has_times()), (expected, false));
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"a"}},"meta_info":{{"e2e_latency":0.7,{details}}}}}]}}"#
    );
    let found = timing(parse("chat", &whole(body.as_bytes()))).unwrap();
    assert_eq!((found.cached, found.whole), (expected, nanos(700.0)));
}

#[test]
fn dynamo_reports_the_share_of_cached_blocks() {
    // The recorded request hit 3 of 4 blocks.
    let found = timing(captured("server-timing/dynamo/disagg_chat_stream")).unwrap();
    assert_eq!(found.cached.hit_rate, Some(0.75));
    for (rate, expected) in [("1.5", None), ("-1", None), ("0", Some(0.0))] {
        let found =
            beside(&format!(r#""nvext":{{"timing":{{"ttft_ms":1,"kv_hit_rate":{rate}}}}}"#));
        assert_eq!(found.cached.hit_rate, expected, "{rate}");
    }
}

#[test]
fn tensorrt_llm_reports_after_the_end_of_a_stream() {
    let events = [
        r#"data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
        "data: [DONE]",
        "event: trtllm.perf_metrics\ndata: {\"Server-Timing\": \
         \"server_queue;dur=80, server_ttft;dur=110.5, server_e2e;dur=610.5\"}",
    ];
    let found = timing(parse("chat", &stream(&events))).unwrap();
    let expected = Stages {
        queue: nanos(80.0),
        prefill: nanos(30.5),
        decode: nanos(500.0),
        ..Stages::default()
    };
    assert_eq!(found.family, "tensorrt-llm");
    assert_same(&found.stages.all(), &expected.all());
    assert_same(&[found.first_token, found.whole], &[nanos(110.5), nanos(610.5)]);
}

#[test]
fn ollama_reports_beside_its_text() {
    let body = r#"{"model":"m","response":"a","done":true,"total_duration":700000000,
        "load_duration":10000000,"prompt_eval_duration":30000000,"eval_duration":500000000}"#;
    let found = timing(parse("raw", &whole(body.as_bytes()))).unwrap();
    let expected = Stages {
        front_end: nanos(10.0),
        prefill: nanos(30.0),
        decode: nanos(500.0),
        ..Stages::default()
    };
    assert_same(&found.stages.all(), &expected.all());
    assert_same(&[found.first_token, found.whole], &[nanos(200.0), nanos(700.0)]);
}

#[test]
fn what_is_not_a_time_is_unknown() {
    for member in [
        r#""metrics":null"#,
        r#""metrics":[1]"#,
        r#""metrics":{"queue_time_ms":"1","time_to_first_token_ms":-1,"generation_time_ms":1e400}"#,
        r#""nvext":{"timing":7,"worker_id":null}"#,
        r#""stats":"x","timings":true,"x_groq":{"usage":3}"#,
    ] {
        let body = format!(
            r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"stop"}}],{member}}}"#
        );
        let response = parse("chat", &whole(body.as_bytes()));
        assert_eq!(response.server, None, "{member}");
    }
    let deep = format!(r#""metrics":{}{}"#, "[".repeat(100), "]".repeat(100));
    let body = format!(r#"{{"choices":[{{"message":{{"content":"a"}}}}],{deep}}}"#);
    assert_eq!(parse("chat", &whole(body.as_bytes())).server, None);
}

/// Recorded with 16 requests in flight: the means that `vllm-timing`'s README gives of the bodies.
#[test]
fn two_hundred_bodies_have_the_means_of_their_record() {
    let path = "tests/golden/server-timing/vllm/joined_c16.jsonl";
    let lines =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap();
    let mut sums = [0.0; 3];
    let mut count = 0.0;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let stages = beside(&format!("\"metrics\":{}", line["body"])).stages;
        for (sum, stage) in sums.iter_mut().zip([stages.queue, stages.prefill, stages.decode]) {
            *sum += stage.unwrap() / 1e6;
        }
        count += 1.0;
    }
    assert_eq!(count, 200.0);
    let means = sums.map(|sum| format!("{:.2}", sum / count));
    assert_eq!(means, ["0.02", "5.27", "74.21"]);
}
