use std::fs;

use serde_json::{Map, Value, json};

use super::*;
use crate::server_family::Object;

/// Reads recorded spans of servers from `tests/golden/server-spans`.
fn recorded(file: &str) -> Vec<(Value, ServerSpan)> {
    let path = format!("{}/../../tests/golden/server-spans/{file}", env!("CARGO_MANIFEST_DIR"));
    let id = |text: &Value| {
        let number = u64::from_str_radix(text.as_str().unwrap(), 16);
        number.unwrap_or(0).to_be_bytes()
    };
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let span = line.get("span").filter(|span| span.is_object()).unwrap_or(&line).clone();
            let found = ServerSpan {
                name: span["name"].as_str().unwrap().to_owned(),
                id: id(&span["span"]),
                parent: id(&span["parent"]),
                start_ns: span["start"].as_u64().unwrap(),
                end_ns: span["end"].as_u64().unwrap(),
                attributes: span["attributes"].as_object().unwrap().clone(),
                ..ServerSpan::default()
            };
            (line, found)
        })
        .collect()
}

fn read(spans: &[ServerSpan]) -> ServerTiming {
    let mut timing = ServerTiming::default();
    timing.spans(spans);
    timing
}

/// Returns a span that lasts from `from` to `to` milliseconds.
fn span(name: &str, (from, to): (u64, u64), attributes: &[(&str, Value)]) -> ServerSpan {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    ServerSpan {
        name: name.to_owned(),
        start_ns: from * 1_000_000,
        end_ns: to * 1_000_000,
        attributes: attributes.collect::<Map<_, _>>(),
        ..ServerSpan::default()
    }
}

fn near(found: Option<f64>, milliseconds: f64) -> bool {
    found.is_some_and(|nanos| (nanos - milliseconds * 1e6).abs() < 1.0)
}

/// The spans of a real vLLM: their stages are those that the bodies of the same requests have.
#[test]
fn spans_of_vllm_have_the_times_of_its_bodies() {
    let recorded = recorded("vllm_c16.jsonl");
    assert_eq!(recorded.len(), 20);
    for (line, span) in recorded {
        let timing = read(&[span]);
        let body = |name: &str| line["body"][name].as_f64().unwrap();
        assert_eq!((timing.family, timing.source), ("vllm", Source::Spans));
        assert!(near(timing.stages.queue, body("queue_time_ms")), "{timing:?}");
        assert!(near(timing.stages.prefill, body("time_to_first_token_ms")), "{timing:?}");
        assert!(near(timing.stages.decode, body("generation_time_ms")), "{timing:?}");
        // Arrival to the queue, and back: the client sees at least that much.
        let stages = [timing.stages.front_end, timing.stages.queue, timing.stages.prefill];
        let sum: f64 = stages.iter().map(|stage| stage.unwrap()).sum();
        assert!((sum - timing.first_token.unwrap()).abs() < 1.0, "{timing:?}");
        let client = line["client"]["time_to_first_token_ms"].as_f64().unwrap();
        assert!(timing.first_token.unwrap() < client * 1e6, "{timing:?}");
    }
}

#[test]
fn the_first_span_of_vllm_is_read_as_by_hand() {
    let timing = read(&[recorded("vllm_c16.jsonl").remove(0).1]);
    assert!(near(timing.first_token, 18.574_953_079));
    assert!(near(timing.whole, 103.053_092_957));
    // 18.574953 less 0.024657 and 6.536720.
    assert!(near(timing.stages.front_end, 12.013_576_079));
}

/// One request of a real Dynamo with separate workers, at whose client the first token came after
/// 126 ms or more, where the response reports 20.
#[test]
fn spans_of_dynamo_have_the_true_time_to_first_token() {
    let spans: Vec<_> = recorded("dynamo_disagg.jsonl").into_iter().map(|it| it.1).collect();
    let timing = read(&spans);
    assert_eq!(timing.family, "dynamo");
    assert!(near(timing.first_token, 135.79));
    assert_eq!(timing.worker.as_deref(), Some("1815520342517928533"));
    assert!(near(timing.whole, 165.660_677));
    assert!(near(timing.stages.decode, 29.870_677));
    // What is before the first token is not divided, since the workers overlap.
    assert_eq!(timing.stages.queue_and_prefill, None);
    let front_end = timing.stages.front_end.unwrap();
    assert!((0.0..10e6).contains(&front_end), "{front_end}");
}

/// The same request with the times in its response: 24.662172 ms until prefill has ended, and no estimate
/// of the transfer.
#[test]
fn spans_of_dynamo_divide_the_transfer_from_decode() {
    let nvext = json!({"timing": {
        "prefill_wait_time_ms": 3.853_083, "prefill_time_ms": 20.809_089, "ttft_ms": 24.662_172,
        "total_time_ms": 164.877_758, "kv_transfer_estimated_latency_ms": 0.0,
    }});
    let mut timing = ServerTiming::default();
    dynamo::timing(&Object::parse(&nvext.to_string()), &mut timing);
    assert!(near(timing.stages.kv_transfer_and_decode, 140.215_586), "{timing:?}");
    let spans: Vec<_> = recorded("dynamo_disagg.jsonl").into_iter().map(|it| it.1).collect();
    timing.spans(&spans);
    let Stages { front_end, queue_and_prefill, kv_transfer, decode, .. } = timing.stages;
    assert!(near(front_end, 3.853_083) && near(queue_and_prefill, 20.809_089));
    // 135.79 less 24.662172, and 165.660677 less 135.79.
    assert!(near(kv_transfer, 111.127_828) && near(decode, 29.870_677), "{timing:?}");
    assert_eq!(timing.stages.kv_transfer_and_decode, None);
    let sum: f64 = timing.stages.all().into_iter().flatten().sum();
    assert!(near(Some(sum), 165.660_677) && near(timing.whole, 165.660_677));
}

#[test]
fn dynamo_with_one_worker_has_queue_and_prefill_together() {
    let request =
        ServerSpan { id: [1; 8], ..span("http-request", (0, 50), &[("ttft_ms", json!("30.5"))]) };
    let route = ServerSpan { parent: [1; 8], ..span("router.route_request", (2, 49), &[]) };
    let timing = read(&[request.clone(), route.clone()]);
    assert!(near(timing.stages.front_end, 2.0));
    assert!(near(timing.stages.queue_and_prefill, 28.5));
    assert!(near(timing.stages.decode, 19.5));

    // The stages of the response stay.
    let stages = Stages { queue_and_prefill: Some(20e6), ..Stages::default() };
    let mut timing = ServerTiming { family: "dynamo", stages, ..ServerTiming::default() };
    timing.spans(&[request, route]);
    assert_eq!(timing.stages, stages);
    assert!(near(timing.first_token, 30.5) && near(timing.whole, 50.0));
}

#[test]
fn separate_workers_of_vllm_have_the_transfer_in_the_queue_of_decode() {
    let times = |queue: f64, prefill: f64, decode: f64| {
        [
            ("gen_ai.latency.time_in_queue", json!(queue)),
            ("gen_ai.latency.time_in_model_prefill", json!(prefill)),
            ("gen_ai.latency.time_in_model_decode", json!(decode)),
            ("gen_ai.latency.time_in_model_inference", json!(prefill + decode)),
            ("gen_ai.latency.time_to_first_token", json!(queue + prefill + 0.001)),
            ("gen_ai.latency.e2e", json!(queue + prefill + decode + 0.001)),
        ]
    };
    let prefill = span("llm_request", (0, 100), &times(0.05, 0.04, 0.0));
    let decode = span("llm_request", (100, 300), &times(0.02, 0.01, 0.16));
    let timing = read(&[prefill.clone(), decode]);
    assert!(near(timing.stages.queue, 50.0) && near(timing.stages.prefill, 40.0));
    assert!(near(timing.stages.front_end, 1.0));
    assert!(near(timing.stages.kv_transfer_and_decode, 190.0));
    assert_eq!((timing.first_token, timing.whole), (None, None));

    // Two choices of one request.
    let other = span("llm_request", (1, 120), &times(0.05, 0.05, 0.01));
    let timing = read(&[prefill, other]);
    assert_eq!((timing.stages, timing.first_token), (Stages::default(), None));
    assert!(near(timing.whole, 111.0));
}

#[test]
fn an_engine_behind_a_front_end_has_the_stages_only() {
    let request =
        ServerSpan { id: [1; 8], ..span("http-request", (0, 100), &[("ttft_ms", json!("30.5"))]) };
    let route = ServerSpan { parent: [1; 8], ..span("router.route_request", (2, 99), &[]) };
    let engine = span(
        "llm_request",
        (4, 98),
        &[
            ("gen_ai.latency.time_in_queue", json!(0.01)),
            ("gen_ai.latency.time_in_model_prefill", json!(0.008)),
            ("gen_ai.latency.time_in_model_decode", json!(0.07)),
            ("gen_ai.latency.time_to_first_token", json!(0.019)),
            ("gen_ai.latency.e2e", json!(0.094)),
        ],
    );
    let timing = read(&[request, route, engine]);
    assert_eq!(timing.family, "dynamo");
    // 2 until the router, and 1 in the engine before its queue.
    assert!(near(timing.stages.front_end, 3.0));
    assert!(near(timing.stages.queue, 10.0) && near(timing.stages.prefill, 8.0));
    assert!(near(timing.stages.decode, 70.0) && timing.stages.queue_and_prefill.is_none());
    assert!(near(timing.first_token, 30.5) && near(timing.whole, 100.0));
}

#[test]
fn other_families_are_read_by_their_names() {
    let timing = read(&[
        span(
            "Req 1234abcd",
            (0, 100),
            &[
                ("gen_ai.latency.time_to_first_token", json!(0.04)),
                ("gen_ai.latency.e2e", json!(0.1)),
            ],
        ),
        span("prefill_waiting", (5, 15), &[]),
        span("prefill_waiting", (60, 61), &[]),
        span("prefill_forward", (15, 35), &[]),
    ]);
    assert_eq!(timing.family, "sglang");
    let Stages { queue, prefill, decode, .. } = timing.stages;
    assert!(near(queue, 11.0) && near(prefill, 20.0) && near(decode, 60.0));

    let timing = read(&[span(
        "llm",
        (0, 100),
        &[
            ("gen_ai.latency.time_in_queue", json!(0.01)),
            ("gen_ai.latency.kv_cache_transfer_time", json!(0.005)),
            ("gen_ai.latency.time_to_first_token", json!(0.045)),
            ("gen_ai.latency.e2e", json!(0.1)),
        ],
    )]);
    assert_eq!(timing.family, "tensorrt-llm");
    let Stages { queue, prefill, kv_transfer, decode, .. } = timing.stages;
    assert!(near(queue, 10.0) && near(prefill, 30.0) && near(kv_transfer, 5.0));
    assert!(near(decode, 55.0));

    let timing = read(&[span(
        "generate_stream",
        (0, 100),
        &[
            ("total_time", json!("1.5s")),
            ("validation_time", json!("250µs")),
            ("queue_time", json!("12.5ms")),
            ("inference_time", json!("1.48s")),
        ],
    )]);
    assert_eq!(timing.family, "text-generation-inference");
    let Stages { front_end, queue, prefill_and_decode, .. } = timing.stages;
    assert!(near(front_end, 0.25) && near(queue, 12.5) && near(prefill_and_decode, 1480.0));
    assert!(near(timing.whole, 1500.0));

    let timing = read(&[
        span("llm_d.pd_proxy.request", (0, 100), &[("total_duration_ms", json!(90.5))]),
        span("llm_d.pd_proxy.prefill", (0, 30), &[("prefill_duration_ms", json!(30))]),
        span("llm_d.pd_proxy.decode", (30, 90), &[("decode_duration_ms", json!(60.0))]),
    ]);
    assert_eq!(timing.family, "llm-d");
    assert!(near(timing.stages.queue_and_prefill, 30.0) && near(timing.whole, 90.5));
    assert!(near(timing.stages.kv_transfer_and_decode, 60.0));
}

/// The events of Triton's trace with timestamps, in its three spans.
#[test]
fn triton_has_its_times_in_events() {
    let events = |of: &[(&str, u64)]| -> Vec<(String, u64)> {
        of.iter().map(|(name, at)| ((*name).to_owned(), at * 1_000_000)).collect()
    };
    let request = span("InferRequest", (0, 100), &[]);
    let model = ServerSpan {
        events: events(&[("REQUEST_START", 1), ("QUEUE_START", 2), ("REQUEST_END", 99)]),
        ..span("tiny", (1, 99), &[])
    };
    let compute = ServerSpan {
        events: events(&[
            ("COMPUTE_START", 22),
            ("COMPUTE_INPUT_END", 25),
            ("COMPUTE_OUTPUT_START", 95),
            ("COMPUTE_END", 97),
        ]),
        ..span("compute", (22, 97), &[])
    };
    let timing = read(&[request.clone(), model.clone(), compute.clone()]);
    assert_eq!(timing.family, "triton");
    let Stages { front_end, queue, prefill_and_decode, .. } = timing.stages;
    assert!(near(front_end, 2.0) && near(queue, 20.0) && near(prefill_and_decode, 75.0));
    assert!(near(timing.whole, 100.0) && timing.first_token.is_none());
    // An ensemble of two models.
    assert!(!read(&[request, model.clone(), model, compute.clone(), compute]).has_times());
}

#[test]
fn what_is_not_a_time_is_left_out() {
    for value in [json!(-1.0), json!("x"), json!(null), json!(1e300)] {
        let spans = [span(
            "llm_request",
            (0, 1),
            &[("gen_ai.latency.time_in_queue", value.clone()), ("inference_time", value)],
        )];
        assert!(!read(&spans).has_times());
    }
    assert!(read(&[]).is_empty());
    assert!(read(&[span("unknown", (0, 1), &[])]).is_empty());
}
