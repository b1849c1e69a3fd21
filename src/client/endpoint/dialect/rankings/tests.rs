use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::endpoint::fixture::{body, config, endpoint, piece, turn, whole};
use crate::endpoint::{EndpointType, ParsedResponse};

const ALL: [EndpointType; 3] =
    [EndpointType::COHERE_RANKINGS, EndpointType::HF_TEI_RANKINGS, EndpointType::NIM_RANKINGS];

fn ranking() -> Conversation {
    let text = |name: &str, text: &str| dataset::Text::from(text).named(name);
    let mut turn = turn(&[], None);
    turn.texts = vec![text("query", "why?"), text("passages", "a \"b\""), text("passages", "c")];
    Conversation { turns: vec![turn], ..Conversation::default() }
}

fn read(text: &str) -> ParsedResponse {
    endpoint(EndpointType::COHERE_RANKINGS).parse(&whole(text.as_bytes()))
}

#[test]
fn each_form_of_a_request() {
    let expected = [
        json!({"model": "m", "query": "why?", "documents": ["a \"b\"", "c"], "top_n": 1}),
        json!({"query": "why?", "texts": ["a \"b\"", "c"], "top_n": 1}),
        json!({"model": "m", "query": {"text": "why?"},
               "passages": [{"text": "a \"b\""}, {"text": "c"}], "top_n": 1}),
    ];
    for (endpoint, expected) in ALL.into_iter().zip(expected) {
        let mut config = config(endpoint, false);
        config.extra_inputs = vec![("top_n".to_owned(), 1.into())];
        assert_eq!(body(&config, &ranking(), 0), expected);
    }
    assert_eq!(ALL.map(|e| e.traits().path), ["/v2/rerank", "/rerank", "/v1/ranking"]);
}

#[test]
fn a_ranking_needs_one_query_and_passages() {
    let check = |conversation: &Conversation| endpoint(ALL[0]).check(conversation);
    assert_eq!(check(&ranking()), Ok(()));
    let refused = |change: fn(&mut Conversation)| {
        let mut ranking = ranking();
        change(&mut ranking);
        check(&ranking).unwrap_err()
    };
    assert!(
        refused(|r| r.turns[0].texts.truncate(1)).contains("a text named `passages` is missing")
    );
    assert!(
        refused(|r| drop(r.turns[0].texts.remove(0))).contains("one text named `query`, got 0")
    );
    assert!(refused(|r| r.turns[0].texts.push("x".into())).contains("a text is unnamed"));
    assert!(refused(|r| r.turns.push(Turn::default())).contains("one turn"));
    assert!(refused(|r| r.system = Some("s".into())).contains("cannot have a system prompt"));
}

#[test]
fn each_form_of_an_answer() {
    for answer in [
        r#"{"id":"1","results":[{"index":0,"relevance_score":0.9}],"meta":{"billed_units":{}}}"#,
        r#"[{"index":0,"score":0.9}]"#,
        r#"{"rankings":[{"index":0,"logit":-1.5}]}"#,
    ] {
        let parsed = read(answer);
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]), "{answer}");
        assert_eq!(parsed.output_text, "");
    }
}

#[test]
fn usage_and_the_model_are_read() {
    let parsed = read(
        r#"{"model":"r","results":[{"index":0}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#,
    );
    assert_eq!(parsed.model.as_deref(), Some("r"));
    assert_eq!(parsed.usage.unwrap().prompt_tokens, Some(7));
    let cohere = read(r#"{"results":[{}],"meta":{"tokens":{"input_tokens":5}}}"#);
    assert_eq!(cohere.usage.unwrap().prompt_tokens, Some(5));
}

#[test]
fn failures_are_reported() {
    let name = |answer: &str| read(answer).error.unwrap().name;
    assert_eq!(name(r#"{"results":[]}"#), "EmptyResponse");
    assert_eq!(name("[]"), "EmptyResponse");
    let error = read(r#"{"error":"too long","error_type":"Validation"}"#).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("Validation", "too long"));
    let error = read(r#"{"error":{"message":"no","type":"NotFoundError"}}"#).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("NotFoundError", "no"));
    assert_eq!(read(r#"{"message":"invalid request"}"#).error.unwrap().message, "invalid request");
    assert!(read("{").error.is_some());
}

proptest! {
    #[test]
    fn any_answer_is_read(answer in r#"[\[\]{}":,a-z0-9 ]{0,40}|\{"(results|rankings|error|meta)":[\[\]{}"a-z0-9]{0,9}\}"#) {
        let parsed = read(&answer);
        prop_assert!(parsed.error.is_some() == parsed.content.is_empty() || parsed.error.is_some());
    }
}
