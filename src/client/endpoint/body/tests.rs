use std::sync::Arc;

use serde_json::json;

use super::super::{EndpointType, build};
use super::*;

fn config(endpoint_type: EndpointType) -> Config {
    Config::new(endpoint_type, true)
}

fn turn(texts: &[&str], max_tokens: Option<u32>) -> Turn {
    Turn {
        model: "m".into(),
        texts: texts.iter().map(|text| Text::from(*text)).collect(),
        max_tokens,
        ..Turn::default()
    }
}

fn conversation(turns: Vec<Turn>) -> Conversation {
    Conversation { id: "c".into(), turns, ..Conversation::default() }
}

fn body(config: &Config, conversation: &Conversation, at: usize, answers: &[&str]) -> String {
    let answers: Vec<Option<Arc<str>>> =
        answers.iter().map(|text| Some(Arc::from(*text))).collect();
    String::from_utf8(build(config).request_body(conversation, at, &answers)).unwrap()
}

/// The first payload of AIPerf's own `inputs.json`, identical except for white space.
#[test]
fn a_chat_body_is_as_aiperf_sends_it() {
    let text = "unts son And that blood we desire to shed is mutual In";
    let conversation = conversation(vec![turn(&[text], Some(8))]);
    assert_eq!(
        body(&config(EndpointType::CHAT), &conversation, 0, &[]),
        concat!(
            r#"{"messages":[{"role":"user","content":"#,
            r#""unts son And that blood we desire to shed is mutual In"}],"model":"m","stream":true,"#,
            r#""max_completion_tokens":8,"stream_options":{"include_usage":true}}"#
        )
    );
}

/// The forms of a prompt in OpenAI's API: a list of token IDs, or a list of such lists.
#[test]
fn token_ids_are_sent_instead_of_texts() {
    let with_ids = |texts: &[&str], ids: &[&[u32]]| {
        let token_ids = ids.iter().map(|ids| Arc::from(*ids)).collect();
        let turn = Turn { token_ids, ..turn(texts, Some(8)) };
        let system = Some("s".into());
        Conversation { system, ..conversation(vec![turn]) }
    };
    let config = Config { streaming: false, ..config(EndpointType::COMPLETIONS) };
    assert_eq!(
        body(&config, &with_ids(&["a"], &[&[4, 5]]), 0, &[]),
        r#"{"prompt":[4,5],"model":"m","stream":false,"max_tokens":8}"#
    );
    assert_eq!(
        body(&config, &with_ids(&["a", "b"], &[&[4, 5], &[6]]), 0, &[]),
        r#"{"prompt":[[4,5],[6]],"model":"m","stream":false,"max_tokens":8}"#
    );
    let config = Config { endpoint_type: EndpointType::EMBEDDINGS, ..config };
    assert_eq!(
        body(&config, &with_ids(&["a"], &[&[4, 5]]), 0, &[]),
        r#"{"input":[4,5],"model":"m"}"#
    );
}

#[test]
fn a_later_turn_repeats_the_conversation() {
    let mut conversation = conversation(vec![turn(&["one"], None), turn(&["two"], None)]);
    conversation.system = Some("be brief".into());
    conversation.user_context = Some("context".into());
    let config = Config { streaming: false, ..config(EndpointType::CHAT) };
    let sent: Value = serde_json::from_str(&body(&config, &conversation, 1, &["answer"])).unwrap();
    let message = |role, content| json!({"role": role, "content": content});
    let messages = [
        message("system", "be brief"),
        message("user", "context"),
        message("user", "one"),
        message("assistant", "answer"),
        message("user", "two"),
    ];
    assert_eq!(sent, json!({"messages": messages, "model": "m", "stream": false}));
}

#[test]
fn extras_take_the_place_of_members() {
    let mut config = Config { use_legacy_max_tokens: true, ..config(EndpointType::CHAT) };
    config.extra_inputs = vec![
        ("stream_options".into(), json!({"include_usage": false})),
        ("top_p".into(), json!(0.1)),
        ("top_p".into(), json!(0.5)),
        ("max_tokens".into(), json!(3)),
    ];
    assert_eq!(
        body(&config, &conversation(vec![turn(&["a"], Some(8))]), 0, &[]),
        concat!(
            r#"{"messages":[{"role":"user","content":"a"}],"model":"m","stream":true,"#,
            r#""max_tokens":3,"stream_options":{"include_usage":false},"top_p":0.5}"#
        )
    );
}

#[test]
fn greedy_requests_have_a_temperature_of_0() {
    let sent = |kind: EndpointType, extras: &[(&str, Value)]| {
        let own = |(name, value): &(&str, Value)| ((*name).to_owned(), value.clone());
        let extra_inputs = extras.iter().map(own).collect();
        let config = Config { streaming: false, extra_inputs, ..config(kind) };
        let greedy = Turn { is_greedy: true, ..turn(&["a"], Some(8)) };
        body(&config, &conversation(vec![greedy]), 0, &[])
    };
    let warm = [("top_p", json!(0.5)), ("temperature", json!(0.7))];
    assert_eq!(
        sent(EndpointType::COMPLETIONS, &[]),
        r#"{"prompt":"a","model":"m","stream":false,"max_tokens":8,"temperature":0}"#
    );
    assert_eq!(
        sent(EndpointType::COMPLETIONS, &warm),
        r#"{"prompt":"a","model":"m","stream":false,"max_tokens":8,"top_p":0.5,"temperature":0}"#
    );
    let own = [("generationConfig", json!({"temperature": 1, "topK": 3}))];
    assert_eq!(
        sent(EndpointType::GEMINI, &own),
        concat!(
            r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}],"#,
            r#""generationConfig":{"maxOutputTokens":8,"temperature":0,"topK":3}}"#
        )
    );
    assert_eq!(
        sent(EndpointType::HUGGINGFACE_GENERATE, &warm),
        r#"{"inputs":"a","parameters":{"max_new_tokens":8,"top_p":0.5,"temperature":0}}"#
    );
    assert_eq!(
        sent(EndpointType::CHAT, &[]),
        concat!(
            r#"{"messages":[{"role":"user","content":"a"}],"model":"m","stream":false,"#,
            r#""max_completion_tokens":8,"temperature":0}"#
        )
    );
}

#[test]
fn completions_and_embeddings_take_texts() {
    let one = conversation(vec![turn(&["a"], Some(4))]);
    let mut two = conversation(vec![turn(&["a", "b"], None)]);
    let completions = config(EndpointType::COMPLETIONS);
    assert_eq!(
        body(&completions, &one, 0, &[]),
        concat!(
            r#"{"prompt":"a","model":"m","stream":true,"max_tokens":4,"#,
            r#""stream_options":{"include_usage":true}}"#
        )
    );
    let embeddings = Config { streaming: false, ..config(EndpointType::EMBEDDINGS) };
    assert_eq!(body(&embeddings, &two, 0, &[]), r#"{"input":["a","b"],"model":"m"}"#);
    two.system = Some("s".into());
    assert!(body(&completions, &two, 0, &[]).starts_with(r#"{"prompt":["s\na","s\nb"],"#));
}

#[test]
fn a_raw_payload_is_sent_as_it_is() {
    let payload = r#"{ "messages": [], "temperature": 0.10 }"#;
    let mut raw = turn(&["ignored"], None);
    raw.raw_payload =
        Some(serde_json::value::RawValue::from_string(payload.into()).unwrap().into());
    let conversation = conversation(vec![raw]);
    for kind in [EndpointType::CHAT, EndpointType::COMPLETIONS, EndpointType::EMBEDDINGS] {
        assert_eq!(body(&config(kind), &conversation, 0, &[]), payload);
        assert_eq!(body(&config(kind), &conversation, 7, &[]), "", "no such turn");
    }
}

#[test]
fn turns_that_bear_their_history_are_sent_alone() {
    let mut conversation = conversation(vec![turn(&["one"], None), turn(&["two"], None)]);
    conversation.standalone_turns = true;
    let config = Config { streaming: false, ..config(EndpointType::CHAT) };
    assert_eq!(
        body(&config, &conversation, 1, &["an answer"]),
        r#"{"messages":[{"role":"user","content":"two"}],"model":"m","stream":false}"#
    );
}

#[test]
fn messages_of_a_turn_are_sent_as_they_are() {
    let messages = r#"[{"role": "user", "content": [{"type": "text", "text": "a"}]}]"#;
    let mut own = turn(&[], Some(3));
    own.messages = Some(Arc::from(RawValue::from_string(messages.to_owned()).unwrap()));
    let config = Config { streaming: false, ..config(EndpointType::CHAT) };
    assert_eq!(
        body(&config, &conversation(vec![own]), 0, &[]),
        format!(
            r#"{{"messages":{messages},"model":"m","stream":false,"max_completion_tokens":3}}"#
        )
    );
}
