use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::json;
use uuid::Uuid;

use client::record::TraceContext;

use super::super::fixture::{self, child, encoded, sent_by};
use super::*;

/// Returns the spans of a request as they would be claimed.
fn claimed(body: &[u8], request: [u8; 8]) -> Vec<ServerSpan> {
    let mut spans = Vec::new();
    each_span(body, &mut |source, span| {
        let Source { resource, scope } = source.clone();
        spans.push(decode(OriginalSpan { resource, scope, span: span.into() }, request).unwrap());
    })
    .unwrap();
    spans
}

#[test]
fn a_span_keeps_what_matters_and_is_passed_on_unchanged() {
    let request = Uuid::from_u128(7);
    let parent = TraceContext::from_request_id(request).span_id;
    let mut of_engine = child(request, 1);
    of_engine.attributes = vec![
        fixture::attribute("gen_ai.latency.e2e", &json!(0.25)),
        fixture::attribute("gen_ai.usage.prompt_tokens", &json!(74)),
        fixture::attribute("code.line.number", &json!(7)),
        fixture::attribute("thread.name", &"worker".into()),
        fixture::attribute("yes", &json!(true)),
        fixture::attribute("negative", &json!(-5)),
        fixture::attribute("short", &"x".repeat(256).into()),
        fixture::attribute("long", &"x".repeat(257).into()),
        KeyValue { key: "empty".to_owned(), ..KeyValue::default() },
    ];
    of_engine.events.push(event("transfer", 1_500));
    let mut grandchild = child(request, 2);
    grandchild.parent_span_id = 1_u64.to_be_bytes().to_vec();
    let sent = vec![sent_by("vllm", vec![of_engine]), sent_by("proxy", vec![grandchild])];

    let spans = claimed(&encoded(sent.clone()), parent);
    let [engine, inner] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&*engine.service, &*engine.scope, &*engine.name), ("vllm", "scope", "llm_request"));
    assert_eq!((engine.start_ns, engine.end_ns), (1_000, 2_000));
    assert!(engine.is_child_of_request && !inner.is_child_of_request);
    assert_eq!(&*inner.service, "proxy");
    let names: Vec<_> = engine.attributes.keys().collect();
    let expected = ["gen_ai.latency.e2e", "gen_ai.usage.prompt_tokens", "yes", "negative", "short"];
    assert_eq!(names, expected);
    assert_eq!(engine.attributes["gen_ai.usage.prompt_tokens"], json!(74));
    assert_eq!(
        (&engine.attributes["yes"], &engine.attributes["negative"]),
        (&json!(true), &json!(-5))
    );
    assert_eq!(engine.attributes["gen_ai.latency.e2e"], json!(0.25));
    assert_eq!(engine.events, [("transfer".to_owned(), 1_500)]);

    let passed_on = ExportTraceServiceRequest::decode(&*request_of(&spans)).unwrap();
    assert_eq!(passed_on.resource_spans, sent);
}

fn event(name: &str, at: u64) -> opentelemetry_proto::tonic::trace::v1::span::Event {
    opentelemetry_proto::tonic::trace::v1::span::Event {
        name: name.to_owned(),
        time_unix_nano: at,
        ..Default::default()
    }
}

fn request_of(spans: &[ServerSpan]) -> Vec<u8> {
    super::request(spans)
}

#[test]
fn ids_of_other_lengths_are_not_valid() {
    let request = Uuid::from_u128(7);
    let valid = child(request, 1);
    assert!(place(&valid.encode_to_vec()).is_ok());
    for (trace_id, span_id, parent_span_id) in [
        (vec![], vec![1; 8], vec![]),
        (vec![1; 15], vec![1; 8], vec![]),
        (vec![0; 16], vec![1; 8], vec![]),
        (vec![1; 16], vec![], vec![]),
        (vec![1; 16], vec![0; 8], vec![]),
        (vec![1; 16], vec![1; 8], vec![1; 7]),
    ] {
        let span = ProtoSpan { trace_id, span_id, parent_span_id, ..valid.clone() };
        assert_eq!(place(&span.encode_to_vec()), Err(Malformed), "{span:?}");
    }
    let root = ProtoSpan { parent_span_id: vec![], ..valid };
    assert_eq!(place(&root.encode_to_vec()).unwrap().parent, [0; 8]);
}

#[test]
fn a_cut_request_is_malformed() {
    let spans = (1..4).map(|id| child(Uuid::from_u128(7), id)).collect();
    let body = encoded(vec![sent_by("vllm", spans)]);
    for length in 1..body.len() {
        assert_eq!(each_span(&body[..length], &mut |_, _| {}), Err(Malformed), "{length}");
    }
}

proptest! {
    #[test]
    fn every_span_of_a_request_is_found(counts in proptest::collection::vec(0_u64..5, 0..5)) {
        let spans = |count: &u64| (1..=*count).map(|id| child(Uuid::from_u128(7), id)).collect();
        let sent = counts.iter().map(|count| sent_by("vllm", spans(count))).collect();
        let mut found = 0;
        let read = each_span(&encoded(sent), &mut |source, span| {
            found += u64::from(place(span).is_ok() && service(&source.resource) == "vllm");
        });
        prop_assert_eq!((read, found), (Ok(()), counts.iter().sum()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut spans = 0;
        let read = each_span(&body, &mut |source, span| {
            spans += 1;
            let _ = place(span);
            let original = OriginalSpan { span: span.into(), ..OriginalSpan::default() };
            let _ = decode(original, [0; 8]);
            let _ = first_text(span, &["a"], |_| Some(()));
            let _ = service(&source.resource);
        });
        // Of what is read, prost decodes as many spans, unless they are not valid themselves.
        if let (Ok(()), Ok(request)) = (read, ExportTraceServiceRequest::decode(&*body)) {
            let all = request.resource_spans.iter().flat_map(|of| &of.scope_spans);
            prop_assert_eq!(all.map(|scope| scope.spans.len()).sum::<usize>(), spans);
        }
    }
}
