use serde_json::json;

use super::*;

fn wrong(body: &str, output: &str) -> bool {
    is_wrong(std::iter::once(output), body.as_bytes())
}

/// Each of these asks for an object with the member `a`, which is an integer.
fn requests() -> Vec<String> {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let gemini =
        json!({"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}, "required": ["a"]});
    let format = json!({"type": "json_schema", "name": "n", "schema": schema});
    let text = schema.to_string();
    [
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
        json!({"response_format": {"type": "json_object", "schema": schema}}),
        json!({"text": {"format": format}}),
        json!({"output_format": {"type": "json_schema", "schema": schema}}),
        json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        json!({"guided_json": schema}),
        json!({"guided_json": text}),
        json!({"nvext": {"guided_json": schema}}),
        json!({"structured_outputs": {"json": schema}}),
        json!({"structured_outputs": {"json": text}}),
        json!({"json_schema": schema}),
        json!({"generationConfig": {"responseMimeType": "application/json", "responseSchema": gemini}}),
        json!({"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}),
        json!({"generation_config": {"response_mime_type": "application/json", "response_schema": gemini}}),
    ]
    .map(|request| request.to_string())
    .to_vec()
}

#[test]
fn each_way_to_ask_for_json_is_known() {
    for request in requests() {
        for valid in [r#"{"a":1}"#, " {\"a\" : 1, \"b\": []}\n"] {
            assert!(!wrong(&request, valid), "{request} {valid}");
        }
        for invalid in [
            "",
            "Sure!",
            r#"{"a":1"#,
            r#"{"a":"1"}"#,
            "{}",
            "1",
            "```json\n{\"a\":1}\n```",
            "{\"a\":1}{}",
        ] {
            assert!(wrong(&request, invalid), "{request} {invalid}");
        }
    }
}

#[test]
fn an_object_may_be_any() {
    for request in [
        r#"{"response_format":{"type":"json_object"}}"#,
        r#"{"response_format": {"type" : "json_object", "schema": null}}"#,
        r#"{"text":{"format":{"type":"json_object"}}}"#,
        r#"{"structured_outputs":{"json_object":true}}"#,
    ] {
        assert!(!wrong(request, " {}"), "{request}");
        assert!(wrong(request, "[]"), "{request}");
    }
    let any = r#"{"generationConfig":{"responseMimeType":"application/json"}}"#;
    assert!(!wrong(any, "[1]"));
    assert!(wrong(any, "one"));
}

#[test]
fn other_requests_do_not_ask_for_json() {
    for request in [
        r#"{"prompt":"Give me \"json_object\" as JSON"}"#,
        r#"{"response_format":{"type":"text"},"metadata":"json_object"}"#,
        r#"{"structured_outputs":{"regex":"json"}}"#,
        r#"{"structured_outputs":{"json_object":false}}"#,
        r#"{"guided_json":null}"#,
        r#"{"generationConfig":{"responseMimeType":"text/plain"},"a":"application/json"}"#,
        r#"{"text":"json_schema","json_schema":null}"#,
        r#"{"response_format":{"type":"json_object"}"#,
        r#"{"response_format":{"type":"json_object"},"stop":["}"]}"#,
        r#"{"response_format":{"type":"json_object"},"echo":true}"#,
        r#"{"generationConfig":{"responseMimeType":"application/json","stopSequences":["a"]}}"#,
        r#"{"response_format":{"type":"json_object"},"messages":[{"role":"user"},{"role":"assistant"}]}"#,
    ] {
        assert!(!wrong(request, "Sure!"), "{request}");
    }
    let user =
        r#"{"response_format":{"type":"json_object"},"stop":null,"messages":[{"role":"user"}]}"#;
    assert!(wrong(user, "Sure!"));
}

#[test]
fn what_cannot_be_read_counts_as_valid() {
    let deep = "[".repeat(500) + &"]".repeat(500);
    assert!(!wrong(r#"{"guided_json":{"type":"object"}}"#, &deep));
    assert!(!wrong(r#"{"guided_json":{"type":"object"}}"#, "1e999"));
    assert!(!wrong(r#"{"guided_json":"not a schema"}"#, "1"));
    assert!(wrong(r#"{"guided_json":"not a schema"}"#, "one"));
}

#[test]
fn each_choice_is_json() {
    let request = br#"{"response_format":{"type":"json_object"}}"#;
    assert!(!is_wrong(["{}", "{}"].into_iter(), request));
    assert!(is_wrong(["{}", "{"].into_iter(), request));
}
