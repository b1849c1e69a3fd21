use super::*;

/// Returns the times in headers.
fn said(headers: &[(&str, &str)], is_stream: bool) -> ServerTiming {
    let mut timing = ServerTiming::default();
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    timing.headers(&reports(headers), is_stream);
    timing
}

#[test]
fn text_generation_inference_reports_whole_milliseconds() {
    let headers = [
        ("X-Queue-Time", "80"),
        ("x-inference-time", "530"),
        ("x-validation-time", "2"),
        ("x-total-time", "613"),
        ("x-time-per-token", "7"),
    ];
    let found = said(&headers, false);
    let expected = Stages {
        front_end: Some(2e6),
        queue: Some(80e6),
        prefill_and_decode: Some(530e6),
        ..Stages::default()
    };
    assert_eq!((found.stages, found.whole), (expected, Some(613e6)));
    assert_eq!((found.family, found.source), ("text-generation-inference", Source::Headers));
    // A stream's headers are sent before these times are known.
    assert!(!said(&headers, true).has_times());
}

#[test]
fn tensorrt_llm_with_separate_workers_reports_each_phase() {
    let found = said(
        &[(
            "server-timing",
            "disagg_queue;dur=1, ctx_queue;dur=80;desc=\"a\", ctx_ttft; dur=110 , \
             gen_kv_transfer;dur=\"15\",gen_ttft;dur=20,gen_e2e;dur=520,disagg_ttft;dur=130",
        )],
        false,
    );
    let expected = Stages {
        front_end: Some(1e6),
        queue: Some(80e6),
        prefill: Some(30e6),
        kv_transfer: Some(15e6),
        decode: Some(500e6),
        ..Stages::default()
    };
    assert_eq!((found.stages, found.first_token), (expected, Some(130e6)));
}

#[test]
fn the_innermost_server_is_believed() {
    let proxies = [
        ("x-envoy-upstream-service-time", "700"),
        ("x-litellm-response-duration-ms", "650.5"),
        ("x-litellm-overhead-duration-ms", "4.5"),
    ];
    let found = said(&proxies, false);
    assert_eq!((found.family, found.whole), ("litellm", Some(650.5e6)));
    assert_eq!(found.stages.front_end, Some(4.5e6));
    let openai = [proxies[0], ("openai-processing-ms", "612")];
    assert_eq!(said(&openai, false).whole, Some(612e6));
    // The body knows better than any header.
    let mut timing = ServerTiming::default();
    let found = Member::find("metrics").unwrap();
    timing.member(found, &Object::parse(r#"{"queue_time_ms": 3}"#));
    timing.headers(&[("openai-processing-ms".into(), "612".into())], false);
    assert_eq!((timing.source, timing.whole), (Source::Body, None));
}

#[test]
fn a_header_names_the_worker() {
    assert_eq!(
        said(&[("x-served-by", "cache"), ("x-worker-id", "w1")], true).worker.as_deref(),
        Some("w1")
    );
    let long = said(&[("x-backend", &"b".repeat(1000))], false);
    assert_eq!(long.worker.unwrap().len(), WORKER_LENGTH);
    assert!(said(&[("server-timing", "total;dur=x"), ("x-queue-time", "")], false).is_empty());
}

#[test]
fn each_way_of_asking_is_that_of_one_server() {
    assert!(TimingMode::Auto.members(true).is_empty() && TimingMode::Auto.header().is_none());
    let asked = TimingMode::AskDynamo.members(true);
    assert_eq!(asked, [("nvext".into(), json!({"extra_fields": ["timing", "worker_id"]}))]);
    assert!(TimingMode::AskSglang.members(true).is_empty());
    assert_eq!(TimingMode::AskSglang.members(false), [("return_meta_info".into(), json!(true))]);
    let header = TimingMode::AskTensorrtLlm.header();
    assert_eq!(header, Some(("X-TRTLLM-return-metrics", "1")));
}

proptest::proptest! {
    #[test]
    fn any_header_is_read_without_panicking(text in ".{0,200}", is_stream: bool) {
        let mut timing = ServerTiming::default();
        let headers = TIME_HEADERS.iter().chain(WORKER_HEADERS);
        let headers: Vec<_> = headers.map(|name| ((*name).to_owned(), text.clone())).collect();
        timing.headers(&headers, is_stream);
        let known = timing.stages.all().into_iter().flatten();
        proptest::prop_assert!(known.chain(timing.whole).all(|time| time >= 0.0));
    }
}
