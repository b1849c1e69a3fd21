use bytes::Bytes;

use client::endpoint::{ToolCalls, Usage};
use client::record::ResponseBody;

use super::*;
use crate::metrics::fixture::{self, START};
use crate::metrics::metric::{Observation, Value};
use crate::metrics::output::CanaryAnswer;

/// A request of a conversation, whose body and output have these texts.
fn measured(conversation: usize, prompt: &str, output: &str) -> MeasuredRecord {
    let mut record = fixture::record(START, ResponseBody::default());
    record.turn.conversation = conversation;
    record.payload = Bytes::copy_from_slice(prompt.as_bytes());
    MeasuredRecord {
        record,
        response: ParsedResponse { output_text: output.to_owned(), ..ParsedResponse::default() },
        observation: Observation { ..fixture::observation() },
        is_text: true,
        agent: None,
    }
}

fn names(outputs: &mut Outputs, measured: &MeasuredRecord) -> String {
    outputs.faults(measured).names().unwrap_or_default()
}

#[test]
fn another_requests_marker_is_crosstalk() {
    let mut outputs = Outputs::new(CacheBust::FirstTurnSuffix, false);
    let first = measured(0, "one [rid:00000000000a]", "It ends in [rid:00000000000a].");
    assert_eq!(names(&mut outputs, &first), "");
    let second = measured(1, "two [rid:00000000000b]", "[rid:00000000000a] and so on");
    assert_eq!(names(&mut outputs, &second), "crosstalk");
    // The other request has not ended yet, so that it is found there.
    let third = measured(2, "three [rid:00000000000c]", "[rid:00000000000d] and so on");
    assert_eq!(names(&mut outputs, &third), "");
    let fourth = measured(3, "four [rid:00000000000d]", "fine");
    assert_eq!(names(&mut outputs, &fourth), "leaked");
}

#[test]
fn markers_count_only_if_prompts_have_them() {
    for mode in [CacheBust::None, CacheBust::WarmupIsolationSystem] {
        let mut outputs = Outputs::new(mode, false);
        assert_eq!(names(&mut outputs, &measured(0, "[rid:00000000000a]", "")), "");
        assert_eq!(names(&mut outputs, &measured(1, "two", "[rid:00000000000a]")), "");
    }
}

#[test]
fn the_same_long_output_for_another_prompt_is_a_fault() {
    let mut outputs = Outputs::new(CacheBust::None, false);
    let (long, short) = ("x".repeat(64), "x".repeat(63));
    assert_eq!(names(&mut outputs, &measured(0, "one", &long)), "");
    assert_eq!(names(&mut outputs, &measured(0, "one, marked", &long)), "");
    assert_eq!(names(&mut outputs, &measured(1, "one", &long)), "");
    assert_eq!(names(&mut outputs, &measured(1, "two", &long)), "same_answer");
    assert_eq!(names(&mut outputs, &measured(0, "one", &short)), "");
    assert_eq!(names(&mut outputs, &measured(1, "two", &short)), "");
}

/// A request whose text has so many tokens, of which the server reports others.
fn counted(text: f64, told: u64) -> MeasuredRecord {
    let mut measured = measured(0, "one", "short");
    measured.observation.values.set(tag::OUTPUT_SEQUENCE_LENGTH, Value::Scalar(text));
    let mut usage = Usage::default();
    usage.completion_tokens = Some(told);
    measured.response.usage = Some(usage);
    measured
}

#[test]
fn a_count_that_differs_more_than_usual_is_a_fault() {
    let mut outputs = Outputs::new(CacheBust::None, true);
    // The server's tokenizer makes 5% more of the text; two of the first have half of that.
    for at in 0..64 {
        let told = if at % 32 == 3 { 53 } else { 105 };
        assert_eq!(names(&mut outputs, &counted(100.0, told)), "");
    }
    // 1.35 times as many as the usual 105 are 141.75, and as few 77.8.
    assert_eq!(names(&mut outputs, &counted(100.0, 142)), "usage_contradicts_text");
    assert_eq!(names(&mut outputs, &counted(100.0, 141)), "");
    assert_eq!(names(&mut outputs, &counted(100.0, 78)), "");
    assert_eq!(names(&mut outputs, &counted(100.0, 77)), "usage_contradicts_text");
    // A difference of 7, and of 8.
    assert_eq!(names(&mut outputs, &counted(20.0, 14)), "");
    assert_eq!(names(&mut outputs, &counted(20.0, 13)), "usage_contradicts_text");
    assert_eq!(names(&mut outputs, &counted(15.0, 3)), "");
    let mut with_call = counted(100.0, 300);
    with_call.response.tool_calls = ToolCalls { count: 1, invalid: 0 };
    assert_eq!(names(&mut outputs, &with_call), "");
}

#[test]
fn counts_that_vary_by_themselves_are_not_compared_as_closely() {
    let mut outputs = Outputs::new(CacheBust::None, true);
    for at in 0..64 {
        let told = if at % 2 == 0 { 100 } else { 125 };
        assert_eq!(names(&mut outputs, &counted(100.0, told)), "");
    }
    // The median is ln 1.25, and half deviate by that: twice as much is a factor of 1.5625.
    assert_eq!(names(&mut outputs, &counted(100.0, 195)), "");
    assert_eq!(names(&mut outputs, &counted(100.0, 196)), "usage_contradicts_text");
    let mut looping = counted(100.0, 300);
    looping.observation.output.faults.insert(Fault::Repetition);
    assert_eq!(names(&mut outputs, &looping), "");
    let mut known = counted(100.0, 300);
    let canary = CanaryAnswer { number: 1, common_tokens: Some(100), differing_tokens: None };
    known.observation.output.canary = Some(canary);
    assert_eq!(names(&mut outputs, &known), "");
    known.observation.output.canary = Some(CanaryAnswer { differing_tokens: Some(7), ..canary });
    assert_eq!(names(&mut outputs, &known), "usage_contradicts_text");
}

#[test]
fn only_the_latest_are_remembered() {
    let mut recent = Recent::default();
    for key in 0..=2 * REMEMBERED as u64 {
        recent.insert(key, key);
    }
    assert_eq!(recent.get(0), None);
    assert_eq!(recent.get(REMEMBERED as u64), Some(&(REMEMBERED as u64)));
    assert_eq!(recent.get(2 * REMEMBERED as u64), Some(&(2 * REMEMBERED as u64)));
}
