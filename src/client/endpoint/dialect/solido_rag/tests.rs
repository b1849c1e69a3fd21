use proptest::prelude::*;
use serde_json::json;

use crate::endpoint::EndpointType;
use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, stream, whole};

const SOLIDO: EndpointType = EndpointType::SOLIDO_RAG;

/// The server does not have a public reference: the members are those that AIPerf 0.13 sends and
/// reads.
#[test]
fn a_request_bears_queries_filters_and_the_model() {
    let mut conversation = conversation();
    (conversation.system, conversation.user_context) = (None, None);
    let mut config = config(SOLIDO, true);
    let filters = json!({"family": "Solido", "tool": "SDE"});
    assert_eq!(
        body(&config, &conversation, 1),
        json!({"query": ["two"], "filters": filters, "inference_model": "m"})
    );
    let others = json!({"family": "Other"});
    config.extra_inputs =
        vec![("filters".to_owned(), others.clone()), ("stream".to_owned(), true.into())];
    assert_eq!(
        body(&config, &conversation, 1),
        json!({"query": ["two"], "filters": others, "inference_model": "m", "stream": true})
    );
    conversation.turns[0].texts.push("three".into());
    assert_eq!(body(&config, &conversation, 0)["query"], json!(["one", "three"]));
}

#[test]
fn an_answer_is_its_content() {
    let read = |text: &str| endpoint(SOLIDO).parse(&whole(text.as_bytes()));
    let parsed = read(r#"{"content":"It is so.","sources":[{"doc":"a.pdf"}]}"#);
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!((parsed.output_text.as_str(), parsed.usage), ("It is so.", None));
    let name = |text: &str| read(text).error.unwrap().name;
    assert_eq!(name(r#"{"content":"","sources":{}}"#), "EmptyResponse");
    assert_eq!(name(r#"{"sources":[]}"#), "EmptyResponse");
    assert_eq!(name(r#"{"error":{"message":"no","type":"Forbidden"}}"#), "Forbidden");
    assert_eq!(read(r#"{"message":"down"}"#).error.unwrap().message, "down");
    assert_eq!(name("{"), "InvalidJson");
}

#[test]
fn a_stream_ends_where_the_server_ends_it() {
    let events =
        [r#"data: {"content":"It "}"#, r#"data: {"sources":[]}"#, r#"data: {"content":"is"}"#];
    let parsed = endpoint(SOLIDO).parse(&stream(&events));
    assert_eq!((parsed.error, parsed.output_text.as_str()), (None, "It is"));
    assert_eq!(parsed.content, [piece(1, true), piece(3, true)]);
    let with_sign = endpoint(SOLIDO).parse(&stream(&[events[0], "data: [DONE]"]));
    assert_eq!((with_sign.error, with_sign.output_text.as_str()), (None, "It "));
}

proptest! {
    #[test]
    fn any_answer_is_read(answer in r#"\{"(content|usage|error|message)":[\[\]{}":,a-z0-9]{0,12}\}?"#) {
        let parsed = endpoint(SOLIDO).parse(&whole(answer.as_bytes()));
        prop_assert!(parsed.error.is_some() || !parsed.content.is_empty());
    }
}
