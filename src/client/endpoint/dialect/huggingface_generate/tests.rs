use proptest::prelude::*;
use serde_json::{Value, json};

use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, stream, whole};
use crate::endpoint::{EndpointType, ParsedResponse};

const GENERATE: EndpointType = EndpointType::HUGGINGFACE_GENERATE;

fn read(events: &[Value]) -> ParsedResponse {
    let events: Vec<String> = events.iter().map(|value| format!("data:{value}")).collect();
    endpoint(GENERATE).parse(&stream(&events))
}

fn token(text: &str, special: bool) -> Value {
    json!({"index": 1, "token": {"id": 1, "text": text, "logprob": -0.5, "special": special},
           "generated_text": null, "details": null})
}

/// The last event: its token ends the text but is not part of it.
fn last(generated: &str) -> Value {
    let mut event = token("</s>", true);
    event["generated_text"] = generated.into();
    event["details"] =
        json!({"finish_reason": "eos_token", "generated_tokens": 3, "input_length": 7});
    event
}

#[test]
fn a_request_bears_its_own_turn_and_parameters() {
    assert_eq!(
        body(&config(GENERATE, true), &conversation(), 1),
        json!({"inputs": "be brief\ncontext\ntwo",
               "parameters": {"max_new_tokens": 8, "details": true}})
    );
    let mut conversation = conversation();
    (conversation.system, conversation.user_context) = (None, None);
    conversation.turns[0].texts.push("more".into());
    let mut config = config(GENERATE, false);
    config.extra_inputs = vec![("do_sample".to_owned(), true.into())];
    assert_eq!(
        body(&config, &conversation, 0),
        json!({"inputs": "one more", "parameters": {"do_sample": true}})
    );
    assert_eq!(config.path("m"), "/generate");
    assert_eq!(crate::endpoint::fixture::config(GENERATE, true).path("m"), "/generate_stream");
}

#[test]
fn tokens_are_content_but_special_ones() {
    let parsed = read(&[
        token("<s>", true),
        token("Hel", false),
        token("", false),
        token("lo", false),
        last("Hello"),
    ]);
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.content, [piece(2, true), piece(4, true)]);
    assert_eq!(parsed.output_text, "Hello");
    assert_eq!(parsed.finish_reasons, ["eos_token"]);
    let usage = parsed.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(7), Some(3)));
}

#[test]
fn whole_answers_alone_or_in_a_list() {
    for text in [&br#"{"generated_text":"a"}"#[..], br#" [{"generated_text":"a"}]"#] {
        let parsed = endpoint(GENERATE).parse(&whole(text));
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
        assert_eq!((&*parsed.output_text, parsed.usage), ("a", None));
    }
}

#[test]
fn failures_are_reported() {
    let error = json!({"error": "out of memory", "error_type": "generation"});
    let error = read(&[token("a", false), error]).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("generation", "out of memory"));
    assert_eq!(read(&[token("a", false)]).error.unwrap().name, "CutStream");
    assert_eq!(read(&[last("")]).error.unwrap().name, "EmptyResponse");
}

proptest! {
    #[test]
    fn texts_come_back_whole(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let mut events: Vec<Value> = texts.iter().map(|text| token(text, false)).collect();
        events.push(last(&texts.concat()));
        let parsed = read(&events);
        prop_assert_eq!(parsed.output_text, texts.concat());
        let pieces = texts.iter().filter(|text| !text.is_empty()).count();
        prop_assert_eq!(parsed.content.len(), pieces);
    }
}
