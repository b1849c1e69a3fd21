//! Streams that gateways in front of models really send, in whole runs: what counts as a success, as a
//! text and as a count, in the files, on the terminal, and as `aiperf report` reads it again.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::raw_server;
use crate::support::run::{Run, aiperf, profile, summary};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// A server that responds to each request with `writes`, 20 ms apart.
fn gateway(writes: Vec<String>) -> String {
    let address = raw_server::serve(move |_, stream| {
        if raw_server::read_request(stream).is_none() {
            return;
        }
        raw_server::write(stream, HEAD.as_bytes());
        for write in &writes {
            thread::sleep(Duration::from_millis(20));
            raw_server::write(stream, write.as_bytes());
        }
    });
    format!("http://{address}")
}

fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn delta(members: &str) -> String {
    event(&format!(r#"{{"choices":[{{"index":0,"delta":{members},"finish_reason":null}}]}}"#))
}

/// The usual end: the finish reason, then the usage, then `[DONE]`.
fn end(usage: &str) -> String {
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let usage = format!(r#"{{"choices":[],"usage":{usage}}}"#);
    event(stop) + &event(&usage) + &event("[DONE]")
}

fn run(writes: Vec<String>, flags: &[&str]) -> Run {
    let all = [&["--request-count", "3", "--no-server-metrics"][..], flags].concat();
    profile(&gateway(writes), &all)
}

/// Returns the summary that `aiperf report` computes from the records of `run` again.
fn reported(run: &Run) -> Value {
    let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.code().is_some(), "{}", String::from_utf8_lossy(&output.stderr));
    summary(run.directory.path())
}

#[test]
fn a_stream_that_ends_with_an_error_is_a_failure() {
    let word = delta(r#"{"content":"word "}"#);
    let broken = event(
        r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"provider disconnected"}}]}"#,
    );
    let run = run(vec![word.repeat(5) + &broken + &event("[DONE]")], &[]);
    assert_ne!(run.exit_code(), Some(0), "no request succeeded");
    let of_run = run.summary();
    for summary in [&of_run, &reported(&run)] {
        assert_eq!(summary["error_request_count"]["avg"], 3.0);
        assert!(summary["time_to_first_token"].is_null());
        let error = &summary["error_summary"][0]["error_details"];
        assert_eq!(
            (&error["code"], &error["message"]),
            (&502.into(), &"provider disconnected".into())
        );
    }
}

#[test]
fn counts_that_decrease_and_texts_in_unknown_places_are_kept_and_said() {
    let thinking = |text: &str| {
        delta(&format!(
            r#"{{"content":[{{"type":"thinking","thinking":[{{"type":"text","text":" {text}"}}]}}]}}"#
        ))
    };
    let words = ["one", "two", "three"].map(thinking).concat() + &delta(r#"{"content":" four"}"#);
    let counts = r#"{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24}"#;
    let first = event(&format!(r#"{{"choices":[],"usage":{counts}}}"#));
    let zeros = r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#;
    let run = run(vec![words, first + &end(zeros)], &[]).succeeded();
    let said = run.stdout();
    assert!(said.contains("! unusual-responses: "), "{said}");
    let of_run = run.summary();
    for summary in [&of_run, &reported(&run)] {
        assert_eq!(summary["usage_prompt_tokens"]["avg"], 20.0);
        assert_eq!(summary["usage_completion_tokens"]["avg"], 4.0);
        assert_eq!(summary["reasoning_token_count"]["avg"], 3.0);
        assert_eq!(summary["output_sequence_length"]["avg"], 4.0);
        assert_eq!(summary["response_notes"]["usage_decreased"], 3);
        assert_eq!(summary["response_notes"]["text_in:content[].thinking[].text"], 3);
    }
    for record in run.records() {
        let notes = "text_in:content[].thinking[].text,usage_decreased";
        assert_eq!(record["metadata"]["response_notes"], notes);
    }
}

/// Four writes of sixteen events: fifteen of sixteen events arrive together with the one before.
#[test]
fn events_that_arrive_in_groups_are_said_and_no_other_bound_is_named() {
    let group = delta(r#"{"content":" word"}"#).repeat(16);
    let usage = r#"{"prompt_tokens":20,"completion_tokens":64,"total_tokens":84}"#;
    let mut writes = vec![group; 4];
    writes.push(end(usage));
    let run = run(writes, &[]).succeeded();
    let of_run = run.summary();
    for summary in [&of_run, &reported(&run)] {
        assert_eq!(summary["chunk_count"]["avg"], 64.0);
        // A client that is late reads two groups as one.
        assert!(summary["coalesced_chunk_count"]["avg"].as_f64() >= Some(60.0));
        assert!(summary["coalesced_chunk_share"]["avg"].as_f64() >= Some(93.75));
        assert_eq!(summary["buffered_response_count"]["avg"], 0.0);
    }
    let said = run.stdout();
    assert!(said.contains("! events-together: "), "{said}");
    assert!(!said.contains("bundled-tokens") && !said.contains("too low"), "{said}");
}

#[test]
fn a_stream_that_comes_at_its_end_was_not_streamed() {
    let words = delta(r#"{"content":" word"}"#).repeat(16);
    let usage = r#"{"prompt_tokens":20,"completion_tokens":16,"total_tokens":36}"#;
    let run = run(vec![words + &end(usage)], &[]).succeeded();
    assert_eq!(run.summary()["buffered_response_count"]["avg"], 3.0);
    let said = run.stdout();
    assert!(said.contains("! not-streamed: each of 3 responses came all at once"), "{said}");
    assert!(!said.contains("events-together"), "{said}");
}
