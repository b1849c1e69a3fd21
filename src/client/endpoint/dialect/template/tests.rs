use proptest::prelude::*;

use dataset::Text;

use super::*;
use crate::endpoint::fixture::{self, turn};
use crate::endpoint::{EndpointType, build};

fn config(template: &str) -> Config {
    let mut config = fixture::config(EndpointType::TEMPLATE, false);
    config.extra_inputs = vec![(PAYLOAD_TEMPLATE.to_owned(), template.into())];
    config
}

fn conversation(texts: Vec<Text>) -> Conversation {
    let turn = Turn { texts, ..turn(&[], Some(8)) };
    Conversation { turns: vec![turn], ..Conversation::default() }
}

fn refusal(template: &str) -> String {
    build(&config(template)).check(&conversation(vec!["a \"b\"".into()])).unwrap_err()
}

#[test]
fn a_body_is_what_the_template_makes() {
    let template = r#"{"m": {{ model|tojson }}, "in": {{ text|tojson }}, "all": {{ texts|tojson }},
        "max": {{ max_tokens }}, "s": {{ stream|tojson }}, "q": {{ query|tojson }},
        "p": [{% for p in passages %}{{ p|tojson }}{{ "," if not loop.last }}{% endfor %}],
        "by": {{ texts_by_name|tojson }}, "none": {{ image|tojson }}}"#;
    let mut config = config(template);
    config.extra_inputs.push(("top_k".to_owned(), 1.into()));
    config.extra_inputs.push((RESPONSE_FIELD.to_owned(), "x".into()));
    let texts = vec![
        Text::from("a \"b\"\n<").named("query"),
        Text::from("c").named("passages"),
        Text::from("d").named("passages"),
    ];
    let conversation = conversation(texts);
    assert_eq!(build(&config).check(&conversation), Ok(()));
    assert_eq!(
        fixture::body(&config, &conversation, 0),
        json!({"m": "m", "in": "a \"b\"\n<", "all": ["a \"b\"\n<", "c", "d"], "max": 8,
               "s": false, "q": "a \"b\"\n<", "p": ["c", "d"],
               "by": {"query": ["a \"b\"\n<"], "passages": ["c", "d"]}, "none": null,
               "top_k": 1})
    );
}

#[test]
fn a_named_template() {
    let conversation = conversation(vec!["a".into(), "b".into()]);
    assert_eq!(fixture::body(&config("nv-embedqa"), &conversation, 0), json!({"text": ["a", "b"]}));
}

#[test]
fn bodies_of_a_file_are_sent_as_they_are() {
    let payload = serde_json::value::RawValue::from_string(r#"{"a":1.0}"#.to_owned()).unwrap();
    let turn = Turn { raw_payload: Some(payload.into()), ..Turn::default() };
    let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
    let body = build(&config("{{ nothing }}")).request_body(&conversation, 0, &[]);
    assert_eq!(body, br#"{"a":1.0}"#);
}

#[test]
fn bad_templates_are_refused_with_their_line() {
    assert!(refusal("{\n{% if %}}").contains("line 2: syntax error"));
    let unknown = refusal("{\n\n\"a\": {{ promt }}}");
    assert!(unknown.contains("line 3: ") && unknown.contains("\"promt\""), "{unknown}");
    let unquoted = refusal(r#"{"a": "{{ text }}"}"#);
    assert!(
        unquoted.contains("does not render valid JSON") && unquoted.contains("line 1"),
        "{unquoted}"
    );
    assert!(unquoted.contains("{{ text|tojson }}"), "{unquoted}");
    assert!(refusal("{{ 1 / 0 }}").contains("line 1: "));
    let mut missing = config("x");
    missing.extra_inputs.clear();
    let missing = build(&missing).check(&conversation(Vec::new())).unwrap_err();
    assert!(missing.contains("the template is missing"), "{missing}");
    let mut list = config("[1]");
    list.extra_inputs.push(("a".to_owned(), 1.into()));
    assert!(
        build(&list)
            .check(&conversation(Vec::new()))
            .unwrap_err()
            .contains("does not render a JSON object")
    );
}

#[test]
fn what_may_be_absent_can_be_asked_for() {
    let template = r#"{"a": {{ (nothing if nothing is defined else 1)|tojson }}}"#;
    assert_eq!(fixture::body(&config(template), &conversation(Vec::new()), 0), json!({"a": 1}));
}

proptest! {
    #[test]
    fn any_text_survives(texts in prop::collection::vec(any::<String>(), 1..4)) {
        let conversation = conversation(texts.iter().map(|text| Text::from(&**text)).collect());
        let body = fixture::body(&config(r#"{"a": {{ texts|tojson }}}"#), &conversation, 0);
        prop_assert_eq!(body, json!({"a": texts}));
    }
}
