use proptest::prelude::*;

use super::Choices;
use crate::endpoint::fixture::{piece, stream, whole};
use crate::endpoint::{ParsedResponse, ToolCalls, reader};
use crate::record::{ErrorKind, ResponseBody};

fn parse(body: &ResponseBody) -> ParsedResponse {
    reader::parse::<Choices>(body)
}

fn has_content(event: &[u8]) -> bool {
    reader::has_content::<Choices>(event)
}

fn delta(members: &str) -> String {
    format!(r#"data: {{"choices":[{{"index":0,"delta":{members},"finish_reason":null}}]}}"#)
}

const STOP: &str = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "data: [DONE]";

#[test]
fn only_events_with_content_are_content() {
    let parsed = parse(&stream(&[
        &delta(r#"{"role":"assistant","content":""}"#),
        &delta(r#"{"role":"assistant","content":null}"#),
        ": keep-alive",
        &delta(r#"{"content":"Hel"}"#),
        &delta(r#"{"content":"lo"}"#),
        STOP,
        r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        DONE,
    ]));
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.content, [piece(4, true), piece(5, true)]);
    assert_eq!(parsed.output_text, "Hello");
    assert_eq!(parsed.finish_reasons, ["stop"]);
    assert_eq!(parsed.usage.unwrap().completion_tokens, Some(2));
}

#[test]
fn an_event_alone_has_content_where_the_response_has_it() {
    let events = [
        ": keep-alive",
        "data: null",
        &delta(r#"{"role":"assistant","content":""}"#),
        &delta(r#"{"content":"a"}"#),
        &delta(r#"{"reasoning_content":"b"}"#),
        &delta(r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#),
        &delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":""}}]}"#),
        r#"data: {"choices":[{"index":0,"text":"c"}]}"#,
        r#"data: {"choices":[{"index":0,"text":""}]}"#,
        r#"data: {"choices":[],"usage":{"completion_tokens":2}}"#,
        "event: error\ndata: {\"choices\":[{\"text\":\"no\"}]}",
        "data: {broken",
        STOP,
        DONE,
    ];
    let content = parse(&stream(&events)).content;
    let expected: Vec<u64> = content.iter().map(|piece| piece.arrival.at.0).collect();
    assert_eq!(expected, [4, 5, 6, 8]);
    let alone = events.iter().zip(1u64..).filter(|(event, _)| has_content(event.as_bytes()));
    assert_eq!(alone.map(|(_, arrival)| arrival).collect::<Vec<_>>(), expected);
}

#[test]
fn reasoning_is_content_but_no_output() {
    let parsed = parse(&stream(&[
        &delta(r#"{"reasoning_content":"hm"}"#),
        &delta(r#"{"reasoning":"m"}"#),
        &delta(r#"{"reasoning":"!","reasoning_content":"!"}"#),
        &delta(r#"{"reasoning":".","content":"yes"}"#),
        DONE,
    ]));
    assert_eq!(parsed.content, [piece(1, false), piece(2, false), piece(3, false), piece(4, true)]);
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("hmm!.", "yes"));
}

#[test]
fn tool_calls_and_refusals_are_output() {
    let parsed = parse(&stream(&[
        &delta(r#"{"tool_calls":[{"index":0,"function":{"name":"add","arguments":""}}]}"#),
        &delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}"#),
        &delta(r#"{"tool_calls":null,"function_call":{"name":"f"}}"#),
        &delta(r#"{"refusal":"no"}"#),
        DONE,
    ]));
    assert_eq!(parsed.output_text, r#"add{"a":1}fno"#);
    assert_eq!(parsed.content.len(), 4);
    // The arguments of `f` are missing.
    assert_eq!(parsed.tool_calls, ToolCalls { count: 2, invalid: 1 });
}

#[test]
fn finish_reasons_are_in_the_order_of_the_choices() {
    let chunk = |index, reason: &str| {
        format!(r#"data: {{"choices":[{{"index":{index},"text":"x","finish_reason":{reason}}}]}}"#)
    };
    let parsed =
        parse(&stream(&[&chunk(1, "null"), &chunk(1, "\"length\""), &chunk(0, "\"stop\"")]));
    assert_eq!(parsed.finish_reasons, ["stop", "length"]);
    // A stream that was cut: no reason is made up for the choice that did not end.
    let parsed = parse(&stream(&[&chunk(0, "null"), &chunk(1, "\"length\"")]));
    assert_eq!(parsed.finish_reasons, ["length"]);
    assert!(parsed.error.is_some());
}

#[test]
fn choices_are_joined_by_line_feeds() {
    let choice =
        |index, text| format!(r#"data: {{"choices":[{{"index":{index},"text":"{text}"}}]}}"#);
    let events = [choice(1, "c"), choice(0, "a"), choice(1, "d"), choice(0, "b"), DONE.into()];
    let parsed = parse(&stream(&events.each_ref().map(String::as_str)));
    assert_eq!(parsed.output_text, "ab\ncd");
    assert_eq!(parsed.output_choices, [3]);
    assert_eq!(parsed.content.len(), 4);
}

#[test]
fn a_body_that_is_not_streamed_is_one_piece() {
    let parsed = parse(&whole(
        br#"{"model":"m","choices":[{"message":{"content":"a"}},{"index":1,"message":{"content":"b"}}],
             "usage":{"total_tokens":4},"error":null}"#,
    ));
    assert_eq!(parsed.content, [piece(9, true)]);
    assert_eq!((&*parsed.output_text, parsed.model.as_deref()), ("a\nb", Some("m")));
    assert_eq!(parsed.error, None);
}

#[test]
fn reported_errors_keep_code_and_words() {
    let event = r#"data: {"error":{"message":"out of memory","type":"server","code":503}}"#;
    let parsed = parse(&stream(&[&delta(r#"{"content":"a"}"#), event, DONE]));
    let error = parsed.error.unwrap();
    assert_eq!((error.code, error.kind), (Some(503), ErrorKind::Http5xx));
    assert_eq!((&*error.name, &*error.message), ("server", "out of memory"));
    assert_eq!(parsed.output_text, "a", "what came before is kept");

    let error_of = |event: &str| parse(&stream(&[event])).error.unwrap();
    assert_eq!(error_of(r#"data: {"error":"bad"}"#).message, "bad");
    assert_eq!(error_of(r#"data: {"error":{"code":"429"}}"#).kind, ErrorKind::Http4xx);
    assert_eq!(error_of(r#"data: {"error":{"code":"oops","message":"x"}}"#).kind, ErrorKind::Other);
    let flat = error_of(r#"data: {"object":"error","message":"too long","code":400}"#);
    assert_eq!((flat.code, &*flat.message), (Some(400), "too long"));
    assert_eq!(error_of("event: error\n: worker gone").message, "worker gone");
    assert_eq!(error_of("event: error\ndata: {\"message\":\"m\"}").message, "m");
    let body = parse(&whole(br#"{"message":"Model not found","type":"Not Found","code":404}"#));
    assert_eq!(body.error.unwrap().kind, ErrorKind::Http4xx);
}

#[test]
fn invalid_json_names_the_event_and_spares_the_rest() {
    let parsed = parse(&stream(&[&delta(r#"{"content":"a"}"#), "data: {\"choi", DONE]));
    let error = parsed.error.unwrap();
    assert_eq!((error.kind, &*error.name), (ErrorKind::Parse, "InvalidJson"));
    assert!(error.message.contains("event 2 of 3"), "{}", error.message);
    assert_eq!(parsed.output_text, "a");
    for text in [&b""[..], b"<html>", b"[1]", b"7"] {
        assert_eq!(parse(&whole(text)).error.unwrap().kind, ErrorKind::Parse);
    }
}

#[test]
fn bytes_that_are_not_utf8_become_replacement_characters() {
    let mut body = stream(&[&delta(r#"{"content":"a?b"}"#), DONE]);
    let at = body.bytes.iter().position(|byte| *byte == b'?').unwrap();
    body.bytes[at] = 0xff;
    let parsed = parse(&body);
    assert_eq!((parsed.error, &*parsed.output_text), (None, "a\u{fffd}b"));
}

#[test]
fn ends_that_are_complete_and_ends_that_are_not() {
    let name = |events: &[&str]| parse(&stream(events)).error.map(|error| error.name);
    let text = delta(r#"{"content":"a"}"#);
    assert_eq!(name(&[&text, DONE]), None);
    assert_eq!(name(&[&text, STOP]), None, "a finish_reason is enough");
    assert_eq!(name(&[&text]).unwrap(), "CutStream");
    let other = r#"data: {"choices":[{"index":1,"delta":{"content":"b"}}]}"#;
    assert_eq!(name(&[&text, other, STOP]).unwrap(), "CutStream", "choice 1 has not ended");
    assert_eq!(name(&[STOP, DONE]).unwrap(), "EmptyResponse");
    assert_eq!(name(&[]).unwrap(), "EmptyResponse");
    let usage = r#"data: {"choices":[],"usage":{"completion_tokens":0}}"#;
    assert_eq!(name(&[STOP, usage, DONE]).unwrap(), "EmptyResponse");
}

#[test]
fn a_huge_index_costs_no_memory() {
    let event = r#"data: {"choices":[{"index":4000000000,"delta":{"content":"a"}}]}"#;
    assert_eq!(parse(&stream(&[event, DONE])).output_text, "a");
}

proptest! {
    #[test]
    fn texts_come_back_whole(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let event = |text| format!("data: {}", serde_json::json!({"choices": [{"text": text}]}));
        let mut events: Vec<String> = texts.iter().map(event).collect();
        events.push(DONE.to_owned());
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let parsed = parse(&stream(&events));
        prop_assert_eq!(parsed.output_text, texts.concat());
        let pieces = texts.iter().filter(|text| !text.is_empty()).count();
        prop_assert_eq!(parsed.content.len(), pieces);
    }

    /// Each event is read on its own, too, where no event before it can have the same pattern.
    #[test]
    fn a_stream_says_what_its_events_say_one_by_one(
        said in prop::collection::vec((0..TEMPLATES.len(), "[ab\"\\\\\n\u{e9}]{0,3}"), 1..12),
    ) {
        let events: Vec<String> = said
            .iter()
            .map(|(template, text)| {
                let json = TEMPLATES[*template].replace("TEXT", &serde_json::json!(text).to_string());
                format!("data: {json}")
            })
            .collect();
        let parsed = parse(&stream(&events.iter().map(String::as_str).collect::<Vec<_>>()));
        let alone: Vec<ParsedResponse> = events.iter().map(|event| parse(&stream(&[event]))).collect();
        let texts = |of: fn(&ParsedResponse) -> &String| -> String { alone.iter().map(of).cloned().collect() };
        prop_assert_eq!(&parsed.output_text, &texts(|one| &one.output_text));
        prop_assert_eq!(&parsed.reasoning_text, &texts(|one| &one.reasoning_text));
        let kinds = |of: &ParsedResponse| of.content.iter().map(|piece| piece.is_output).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&parsed), alone.iter().flat_map(kinds).collect::<Vec<_>>());
        prop_assert_eq!(parsed.usage, alone.iter().rev().find_map(|one| one.usage));
        let calls: Vec<_> = alone.iter().map(|one| one.tool_calls).collect();
        let any_call = calls.iter().any(|calls| *calls != ToolCalls::default());
        prop_assert_eq!(parsed.tool_calls != ToolCalls::default(), any_call);
    }
}

/// Events in which `TEXT` is a string of JSON: of one choice, so that their texts join.
const TEMPLATES: &[&str] = &[
    r#"{"id":"x","choices":[{"index":0,"delta":{"content":TEXT},"finish_reason":null}]}"#,
    r#"{"id":"x","choices":[{"index":0,"delta":{"content":[{"type":"text","text":TEXT}]}}]}"#,
    r#"{"id":"x","choices":[{"index":0,"delta":{"reasoning_content":TEXT},"logprobs":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"a","reasoning":TEXT}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"a","refusal":TEXT}}]}"#,
    r#"{"choices":[{"index":0,"text":TEXT}],"usage":null}"#,
    r#"{"choices":[{"index":0,"text":TEXT}],"usage":{"completion_tokens":3}}"#,
    r#"{"choices":[{"index":0,"text":TEXT,"finish_reason":"stop"}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0,"function":{"arguments":TEXT}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"role":TEXT,"content":"a"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"b"}}],"model":TEXT}"#,
];

/// The error of five words and then this event.
fn error_after_words(event: &str) -> crate::record::RequestError {
    let word = delta(r#"{"content":"word "}"#);
    let events = [&*word, &word, &word, &word, &word, event, DONE];
    let parsed = parse(&stream(&events));
    assert_eq!(parsed.output_text, "word ".repeat(5), "what came before is kept");
    parsed.error.unwrap_or_else(|| panic!("{event}"))
}

#[test]
fn an_error_in_a_choice_fails_the_response() {
    let error = error_after_words(
        r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"provider disconnected"}}]}"#,
    );
    assert_eq!((error.code, &*error.message), (Some(502), "provider disconnected"));
    assert_eq!(error.kind, ErrorKind::Http5xx);
    let in_delta = r#"data: {"choices":[{"delta":{"error":{"message":"gone"}}}]}"#;
    assert_eq!(error_after_words(in_delta).message, "gone");
    let listed = r#"data: {"choices":[],"error":[{"message":"gone","code":"503"}]}"#;
    assert_eq!(error_after_words(listed).code, Some(503));
    let body = br#"{"choices":[{"message":{"content":"a"},"error":{"message":"gone"}}]}"#;
    assert_eq!(parse(&whole(body)).error.unwrap().message, "gone");
    // llama.cpp's older servers have a field of their own for it.
    assert_eq!(
        error_after_words("error: {\"code\":500,\"message\":\"no slot\"}").message,
        "no slot"
    );
}

#[test]
fn a_finish_reason_can_be_a_failure() {
    for reason in ["error", "failed", "abort", "Cancelled", "insufficient_system_resource"] {
        let event = format!(
            r#"data: {{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#
        );
        let message = error_after_words(&event).message;
        assert!(message.contains(reason), "{message}");
    }
    let of_sglang = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":{"type":"abort","message":"out of memory","code":503}}]}"#;
    let error = error_after_words(of_sglang);
    assert_eq!((&*error.name, &*error.message), ("abort", "out of memory"));
    let error_of = |event: &str| parse(&stream(&[&delta(r#"{"content":"a"}"#), event, DONE])).error;
    let filtered = r#"data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;
    assert_eq!(error_of(filtered), None, "there is an output");
    let message = parse(&stream(&[filtered, DONE])).error.unwrap().message;
    assert!(message.ends_with("finish reason content_filter"), "{message}");
    for no_error in ["null", "{}", "\"\"", "false", "[]", "0"] {
        let event = format!(r#"data: {{"choices":[{{"error":{no_error}}}],"error":{no_error}}}"#);
        assert_eq!(error_of(&event), None, "{no_error}");
    }
}

/// Mistral's parts and `OpenRouter`'s details.
#[test]
fn texts_in_unknown_places_are_content() {
    let mistral = |text: &str| {
        delta(&format!(
            r#"{{"content":[{{"type":"thinking","thinking":[{{"type":"text","text":"{text}"}}]}}]}}"#
        ))
    };
    let events = [mistral(" a"), mistral(" b"), delta(r#"{"content":" c"}"#), DONE.into()];
    let parsed = parse(&stream(&events));
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), (" a b", " c"));
    assert_eq!(parsed.content, [piece(1, false), piece(2, false), piece(3, true)]);
    assert_eq!(parsed.notes, ["text_in:content[].thinking[].text"]);
    assert!(has_content(events[0].as_bytes()));

    let details = r#"{"reasoning_details":[{"type":"reasoning.text","text":" a","index":0}]}"#;
    let parsed = parse(&stream(&[&delta(details), DONE]));
    assert_eq!((&*parsed.reasoning_text, parsed.content.len()), (" a", 1));
    assert_eq!(parsed.notes, ["text_in:reasoning_details[].text"]);
    // It mirrors the member that is known.
    let both = details.replace("{\"reasoning_details", "{\"reasoning\":\" a\",\"reasoning_details");
    let parsed = parse(&stream(&[&delta(&both), DONE]));
    assert_eq!((&*parsed.reasoning_text, parsed.notes.len()), (" a", 0));
    let parsed = parse(&whole(
        br#"{"choices":[{"message":{"content":null,"audio":{"data":"QQ==","transcript":"hi"}}}]}"#,
    ));
    assert_eq!((&*parsed.output_text, parsed.error), ("hi", None));
    let parsed = parse(&stream(&[r#"data: {"choices":[{"delta":"plain"}]}"#, DONE]));
    assert_eq!((&*parsed.output_text, parsed.content.len()), ("plain", 1));
}

#[test]
fn a_text_that_is_sent_again_counts_once() {
    let words = ["The", "The quick", "The quick brown", "The quick brown fox"];
    let mut events: Vec<String> =
        words.iter().map(|text| delta(&format!(r#"{{"content":"{text}"}}"#))).collect();
    events.push(DONE.to_owned());
    let parsed = parse(&stream(&events));
    assert_eq!((&*parsed.output_text, parsed.content.len()), ("The quick brown fox", 4));
    assert_eq!(parsed.notes, ["text_repeated"]);

    let message =
        r#"data: {"choices":[{"index":0,"delta":{"content":"b"},"message":{"content":"ab"}}]}"#;
    let parsed = parse(&stream(&[&delta(r#"{"content":"a"}"#), message, DONE]));
    assert_eq!((&*parsed.output_text, &*parsed.notes), ("ab", &["text_repeated".into()][..]));
    let last =
        r#"data: {"choices":[{"index":0,"message":{"content":"ab"},"finish_reason":"stop"}]}"#;
    let deltas = [delta(r#"{"content":"a"}"#), delta(r#"{"content":"b"}"#), last.into()];
    let parsed = parse(&stream(&deltas));
    assert_eq!((&*parsed.output_text, parsed.content.len()), ("ab", 2));

    let mirrored = delta(r#"{"reasoning_content":"hm","content":"hm"}"#);
    let parsed = parse(&stream(&[&mirrored, &delta(r#"{"content":"yes"}"#), DONE]));
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("hm", "yes"));
    assert_eq!(parsed.content, [piece(1, false), piece(2, true)]);
    assert_eq!(parsed.notes, ["text_mirrored"]);
    let parsed = parse(&whole(
        br#"{"choices":[{"message":{"content":"<think>let me think</think>yes",
            "reasoning_content":"let me think"}}]}"#,
    ));
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("let me think", "yes"));
}

#[test]
fn counts_do_not_decrease_and_are_found_in_choices() {
    let usage = |usage: &str| format!(r#"data: {{"choices":[],"usage":{usage}}}"#);
    let parsed = parse(&stream(&[
        &delta(r#"{"content":"a"}"#),
        &usage(
            r#"{"prompt_tokens":900,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":900}}"#,
        ),
        &usage(
            r#"{"prompt_tokens":0,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}"#,
        ),
        DONE,
    ]));
    let found = parsed.usage.unwrap();
    assert_eq!((found.prompt_tokens, found.completion_tokens), (Some(900), Some(7)));
    assert_eq!(found.prompt_cache_read_tokens, Some(900));
    assert_eq!(parsed.notes, ["usage_decreased"]);
    let of_kimi = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":8,"completion_tokens":1}}]}"#;
    let parsed = parse(&stream(&[&delta(r#"{"content":"a"}"#), of_kimi]));
    assert_eq!(parsed.usage.unwrap().prompt_tokens, Some(8));
}

#[test]
fn the_pieces_of_a_stream_know_their_choice() {
    let chunk = |choices: &[usize]| {
        let choice = |index| format!(r#"{{"index":{index},"delta":{{"content":"a"}}}}"#);
        let all: Vec<String> = choices.iter().map(choice).collect();
        format!(r#"data: {{"choices":[{}]}}"#, all.join(","))
    };
    let parsed =
        parse(&stream(&[chunk(&[0]), chunk(&[1]), chunk(&[0]), chunk(&[1, 0]), DONE.into()]));
    let pieces = parsed.content.iter().map(|piece| (piece.arrival.at.0, piece.choice));
    assert_eq!(pieces.collect::<Vec<_>>(), [(1, 0), (2, 1), (3, 0), (4, 1), (4, 0)]);
}
