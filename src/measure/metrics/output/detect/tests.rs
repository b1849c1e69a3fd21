use client::endpoint::{Config, ContentPiece, EndpointType, ToolCalls, Usage, build};
use client::record::{Arrival, ResponseBody, SseEvent};

use base::units::Nanos;

use super::*;

/// The contents of a recording.
macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/golden/", $name))
    };
}

fn piece(at: u64) -> ContentPiece {
    ContentPiece { arrival: Arrival::from(Nanos(at)), is_output: true, choice: 0 }
}

/// Returns the names of the faults of `response` to a request with this body, of which 40 tokens arrived as
/// a stream.
fn names(payload: &str, response: &ParsedResponse) -> String {
    let answered = Answered {
        payload: payload.as_bytes(),
        response,
        output_tokens: Some(40),
        requested_tokens: Some(64),
        is_stream: true,
    };
    answered.faults().names().unwrap_or_default()
}

fn stopped(reason: &str) -> ParsedResponse {
    ParsedResponse {
        content: vec![piece(1), piece(2)],
        output_text: "It is so.".to_owned(),
        finish_reasons: vec![reason.to_owned()],
        finished: Some(Arrival::from(Nanos(2))),
        ..ParsedResponse::default()
    }
}

#[test]
fn nothing_is_wrong_with_a_usual_output() {
    assert_eq!(names("{}", &stopped("stop")), "");
}

#[test]
fn content_after_the_finish_reason_is_a_fault() {
    let response = ParsedResponse { has_content_after_end: true, ..stopped("stop") };
    assert_eq!(names("{}", &response), "after_end");
}

#[test]
fn an_output_that_may_not_end_by_itself_has_its_length() {
    // 40 of 64 tokens.
    let response = stopped("stop");
    assert_eq!(names(r#"{"max_tokens":64,"ignore_eos":true}"#, &response), "ended_early");
    assert_eq!(names(r#"{"max_tokens":64,"ignore_eos":false}"#, &response), "");
    assert_eq!(names(r#"{"stop":["x"],"ignore_eos":true}"#, &response), "");
    assert_eq!(names(r#"{"content":"\"ignore_eos\":true"}"#, &response), "");
    // 90% of 45 are 40.5, and of 44 they are 39.6.
    assert_eq!(names(r#"{"min_tokens":45}"#, &response), "ended_early");
    assert_eq!(names(r#"{"min_tokens":44}"#, &response), "");
    assert_eq!(names(r#"{"min_tokens":45}"#, &stopped("length")), "");
    let mut usage = Usage::default();
    usage.completion_tokens = Some(64);
    let counted = ParsedResponse { usage: Some(usage), ..response };
    assert_eq!(names(r#"{"min_tokens":64}"#, &counted), "");
}

#[test]
fn many_tokens_do_not_come_in_one_event() {
    let response = ParsedResponse { content: vec![piece(2)], ..stopped("stop") };
    assert_eq!(names("{}", &response), "single_event");
}

#[test]
fn white_space_alone_is_not_an_output() {
    let response = ParsedResponse { output_text: " \n\t\u{3000}".to_owned(), ..stopped("stop") };
    assert_eq!(names("{}", &response), "blank");
}

#[test]
fn arguments_of_calls_that_were_not_cut_are_valid() {
    let tool_calls = ToolCalls { count: 2, invalid: 1 };
    let response = ParsedResponse { tool_calls, ..stopped("tool_calls") };
    assert_eq!(names("{}", &response), "invalid_tool_arguments");
    let cut = ParsedResponse { tool_calls, ..stopped("length") };
    assert_eq!(names("{}", &cut), "");
}

#[test]
fn each_choice_and_the_reasoning_have_sound_texts() {
    let looping = "and then ".repeat(6);
    let response = |output: &str, reasoning: &str| ParsedResponse {
        output_text: output.to_owned(),
        reasoning_text: reasoning.to_owned(),
        ..stopped("stop")
    };
    assert_eq!(names("{}", &response(&looping, "")), "repetition");
    assert_eq!(names("{}", &response("So it is.", &looping)), "repetition");
    assert_eq!(
        names("{}", &response("a\u{FFFD}bcde", "CafÃ©s et thÃ©s")),
        "replacement_characters,mojibake"
    );
    // The loop is not at the end of the whole text.
    let both = looping.clone() + "\nSo it is.";
    assert_eq!(names("{}", &response(&both, &both)), "");
    let choices = vec![looping.len() + 1];
    let of_output = ParsedResponse { output_choices: choices.clone(), ..response(&both, "") };
    assert_eq!(names("{}", &of_output), "repetition");
    let of_reasoning =
        ParsedResponse { reasoning_choices: choices, ..response("So it is.", &both) };
    assert_eq!(names("{}", &of_reasoning), "repetition");
}

#[test]
fn the_script_of_reasoning_may_be_another() {
    let other = "это рассказ о море и о лодке у скал";
    let body = r#"{"prompt":"Tell me something about that sea"}"#;
    let answer = ParsedResponse { output_text: other.to_owned(), ..stopped("stop") };
    assert_eq!(names(body, &answer), "wrong_script");
    let reasoning = ParsedResponse { reasoning_text: other.to_owned(), ..stopped("stop") };
    assert_eq!(names(body, &reasoning), "");
}

#[test]
fn only_complete_outputs_are_json() {
    let body = r#"{"response_format":{"type":"json_object"}}"#;
    assert_eq!(names(body, &stopped("stop")), "invalid_json");
    for reason in ["length", "content_filter", "tool_calls"] {
        assert_eq!(names(body, &stopped(reason)), "", "{reason}");
    }
    let unknown = ParsedResponse { finish_reasons: Vec::new(), ..stopped("stop") };
    assert_eq!(names(body, &unknown), "");
    let tool_calls = ToolCalls { count: 1, invalid: 0 };
    assert_eq!(names(body, &ParsedResponse { tool_calls, ..stopped("stop") }), "");
    let text = |text: &str| ParsedResponse { output_text: text.to_owned(), ..stopped("stop") };
    assert_eq!(names(body, &text("{\"a\": 1}")), "");
    let two = ParsedResponse { output_choices: vec![3], ..text("{}\n{}") };
    assert_eq!(names(body, &two), "");
    let one_of_two = ParsedResponse { output_choices: vec![3], ..text("{}\n[]") };
    assert_eq!(names(body, &one_of_two), "invalid_json");
}

/// Returns the request and the response in a recording by curl.
fn recorded(text: &str) -> (String, ResponseBody) {
    let text = text.replace('\r', "");
    let (request, response) = text.split_once("\nHTTP/1.1 200 OK\n").unwrap();
    let request = request.split("\n>>> ").nth(1).unwrap().trim_end();
    let (head, body) = response.split_once("\n\n").unwrap();
    let body = body.split("\n<<< ").next().unwrap().trim_end();
    let is_event_stream = head.contains("text/event-stream");
    let mut events = Vec::new();
    let mut start = 0;
    for event in body.split(if is_event_stream { "\n\n" } else { "\0" }) {
        let end = start + event.len() as u32;
        events.push(SseEvent { arrival: Nanos(u64::from(end)).into(), start, end });
        start = end + 2;
    }
    (request.to_owned(), ResponseBody { bytes: body.into(), is_event_stream, events })
}

#[test]
fn outputs_of_servers_have_the_faults_that_they_show() {
    // The model has random weights: two of the recordings have U+FFFD.
    let replaced = Some("replacement_characters");
    for (recording, endpoint_type, faults) in [
        (golden!("vllm/http/chat_stream.txt"), EndpointType::CHAT, None),
        (golden!("vllm/http/responses_nonstream.txt"), EndpointType::RESPONSES, None),
        (golden!("server-timing/vllm/chat_n2.txt"), EndpointType::CHAT, None),
        (golden!("server-timing/vllm/messages_stream.txt"), EndpointType::MESSAGES, None),
        (golden!("server-timing/vllm/completions_stream.txt"), EndpointType::COMPLETIONS, None),
        (golden!("llamacpp/http/chat_stream_n2.txt"), EndpointType::CHAT, None),
        (golden!("llamacpp/http/completions_nonstream.txt"), EndpointType::COMPLETIONS, replaced),
        (golden!("dynamo/http/chat_stream.txt"), EndpointType::CHAT, replaced),
        (golden!("dynamo/http/responses_stream.txt"), EndpointType::RESPONSES, None),
    ] {
        let (request, body) = recorded(recording);
        let response = build(&Config::new(endpoint_type, body.is_event_stream)).parse(&body);
        assert_eq!(response.error, None, "{request}");
        assert!(response.output_text.len() >= 20, "{request}: {}", response.output_text);
        let answered = Answered {
            payload: request.as_bytes(),
            response: &response,
            output_tokens: Some(16),
            requested_tokens: None,
            is_stream: body.is_event_stream,
        };
        assert_eq!(
            answered.faults().names().as_deref(),
            faults,
            "{request}: {}",
            response.output_text
        );
    }
}
