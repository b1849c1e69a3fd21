use serde_json::{Value, json};

use super::*;
use crate::file::otel::span::Span;

fn span(name: &str, attributes: &Value) -> Span {
    let attributes = attributes.as_object().unwrap().clone();
    Span { name: name.to_owned(), attributes, ..Span::default() }
}

/// The messages of a request and its response, and its tools.
fn found(span: &Span) -> (Value, Value, Option<Value>) {
    let content = content(span);
    assert!(!content.is_cut);
    let json = |value: &Vec<Message>| serde_json::to_value(value).unwrap();
    let output = content.output.map_or(Value::Null, |it| serde_json::to_value(it).unwrap());
    (json(&content.input.all), output, content.tools)
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn weather(id: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "weather", "arguments": "{\"at\":\"x\"}"}},
    ]})
}

#[test]
fn vercel_records_the_requests_to_providers() {
    let messages = json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
    ]);
    let tool = json!({"type": "function", "name": "weather", "inputSchema": {"type": "object"}});
    let calls = json!([{"toolCallType": "function", "toolCallId": "c", "toolName": "weather",
                        "args": "{\"at\":\"x\"}"}]);
    let span = span(
        "ai.generateText.doGenerate",
        &json!({
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": messages.to_string(),
            "ai.prompt.tools": [tool.to_string()],
            "ai.response.toolCalls": calls.to_string(),
            "ai.usage.promptTokens": 12, "ai.usage.completionTokens": 3, "ai.model.id": "m",
            "ai.telemetry.metadata.chatId": "chat",
        }),
    );
    assert_eq!(kind(&span), Some(OperationKind::Call));
    assert_eq!(conversation(&span.attributes), Some("chat"));
    let function = json!({"name": "weather", "parameters": {"type": "object"}});
    let tools = json!([{"type": "function", "function": function}]);
    let input = json!([said("system", "s"), said("user", "u")]);
    assert_eq!(found(&span), (input, weather("c"), Some(tools)));
    let facts = facts(&span.attributes);
    assert_eq!((facts.input_tokens, facts.output_tokens), (Some(12), Some(3)));
    assert_eq!(facts.model.as_deref(), Some("m"));
    for (operation, expected) in [
        ("ai.generateText", None),
        ("ai.toolCall", Some(OperationKind::Tool)),
        ("ai.embed.doEmbed", Some(OperationKind::OtherRequest)),
    ] {
        assert_eq!(kind(&self::span("x", &json!({"ai.operationId": operation}))), expected);
    }
}

#[test]
fn langsmith_records_the_inputs_and_outputs_of_runs() {
    let class = |name: &str, kwargs: Value| {
        json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name],
               "kwargs": kwargs})
    };
    let of_langchain = span(
        "ChatOpenAI",
        &json!({
            "langsmith.span.kind": "llm",
            "gen_ai.prompt": json!({"messages": [[class("HumanMessage", json!({"content": "u"}))]]}).to_string(),
            "gen_ai.completion": json!({"generations": [[{"text": "", "message":
                class("AIMessage", json!({"content": "", "tool_calls": [
                    {"name": "weather", "args": {"at": "x"}, "id": "c", "type": "tool_call"}]}))}]]}).to_string(),
        }),
    );
    let of_openai = span(
        "ChatOpenAI",
        &json!({
            "langsmith.span.kind": "llm",
            "gen_ai.prompt": json!({"messages": [said("user", "u")], "model": "m"}).to_string(),
            "gen_ai.completion": json!({"choices": [{"message": weather("c")}]}).to_string(),
        }),
    );
    for span in [of_langchain, of_openai] {
        assert_eq!(kind(&span), Some(OperationKind::Call));
        assert_eq!(found(&span), (json!([said("user", "u")]), weather("c"), None));
    }
    let cut =
        span("x", &json!({"langsmith.span.kind": "llm", "gen_ai.prompt": "{\"messages\": [{"}));
    assert!(content(&cut).is_cut);
}

#[test]
fn messages_that_are_missing_among_their_numbers_are_noticed() {
    let mut attributes = json!({
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "a",
        "gen_ai.prompt.2.role": "user", "gen_ai.prompt.2.content": "c",
    });
    assert!(content(&span("openai.chat", &attributes)).is_cut);
    attributes["gen_ai.prompt.1.role"] = "assistant".into();
    attributes["gen_ai.prompt.1.content"] = "b".into();
    let whole = json!([said("user", "a"), said("assistant", "b"), said("user", "c")]);
    assert_eq!(found(&span("openai.chat", &attributes)).0, whole);
}

#[test]
fn instructions_and_parameters_are_sent_too() {
    let span = span(
        "chat m",
        &json!({
            "gen_ai.operation.name": "chat",
            "gen_ai.system_instructions": json!([{"type": "text", "content": "s"}]).to_string(),
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "u"}]}],
            "gen_ai.request.stop_sequences": ["x"], "gen_ai.request.choice.count": 1,
            "llm.invocation_parameters":
                json!({"temperature": 0.5, "max_tokens": 30, "n": 2, "stream": true}).to_string(),
        }),
    );
    assert_eq!(found(&span).0, json!([said("system", "s"), said("user", "u")]));
    let facts = facts(&span.attributes);
    assert_eq!(facts.max_tokens, Some(30));
    let expected = [("stop", json!(["x"])), ("temperature", json!(0.5)), ("n", json!(2))];
    assert_eq!(facts.settings, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn an_openinference_request_without_its_body_is_read_from_its_messages() {
    let span = span(
        "ChatCompletion",
        &json!({
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "u",
            "llm.input_messages.1.message.role": "assistant",
            "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "weather",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": "{\"at\":\"x\"}",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "a",
        }),
    );
    assert_eq!(
        found(&span),
        (json!([said("user", "u"), weather("c")]), said("assistant", "a"), None)
    );
}
