use client::endpoint::{ContentPiece, ToolCalls, Usage};
use client::record::Arrival;

use base::units::Nanos;

use super::*;

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
    let response = ParsedResponse { content: vec![piece(1), piece(3)], ..stopped("stop") };
    assert_eq!(names("{}", &response), "after_end");
    let other = ContentPiece { choice: 1, ..piece(3) };
    let of_two = ParsedResponse { content: vec![piece(1), other], ..stopped("stop") };
    assert_eq!(names("{}", &of_two), "");
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
