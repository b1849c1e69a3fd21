//! `profile_export.jsonl` and `profile_export_raw.jsonl`, line by line.

use std::fs;

use base::units::Nanos;
use results::artifacts::ExportLevel;
use serde_json::{Value, json};

use super::golden;
use super::run::TestRun;
use crate::support::run::json_lines;
use crate::support::schema::RAW_RECORD;

fn lines(run: &TestRun, name: &str) -> Vec<Value> {
    json_lines(&run.directory().join(name))
}

#[test]
fn each_request_has_its_line() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let records = lines(&run, "profile_export.jsonl");
    assert_eq!(records.len(), run.measured.len());
    for (record, measured) in records.iter().zip(&run.measured) {
        let (metadata, request) = (&record["metadata"], &measured.record);
        let number = |name: &str| metadata[name].as_u64();
        assert_eq!(metadata["session_num"], request.turn.session);
        assert_eq!(metadata["x_request_id"], request.request_id.to_string());
        assert_eq!(metadata["x_correlation_id"], request.correlation_id.to_string());
        let conversation = ["first", "second"][request.turn.conversation];
        assert_eq!(metadata["conversation_id"], conversation);
        assert_eq!(metadata["turn_index"], 0);
        let start = run.clock.wall_ns(request.start);
        assert_eq!(metadata["request_start_ns"], start);
        assert_eq!(metadata["credit_issued_ns"], start - 1_234);
        assert_eq!(metadata["request_end_ns"], run.clock.wall_ns(request.end));
        let wall = |at: Option<Nanos>| at.map(|at| run.clock.wall_ns(at));
        assert_eq!(number("request_ack_ns"), wall(request.ack));
        assert_eq!(number("request_sent_ns"), wall(request.sent));
        assert_eq!(number("request_due_ns"), wall(request.due));
        assert_eq!(metadata["worker_id"], format!("worker_{}", request.worker));
        let processor = metadata["record_processor_id"].as_str().unwrap();
        assert!(processor.starts_with("record_processor_"));
        assert_eq!(metadata["requested_output_tokens"], 10);
        assert_eq!(number("retry_count"), (request.retry_count > 0).then_some(1));
        // Those of a closed loop did not wait for anything.
        assert_eq!(metadata["late_ns"], request.due.map_or(0, |_| 1_234));
        // The first byte is offered to the connection at the start, or after a retry from 120 ns on.
        let sent_after = if request.retry_count > 0 { 1_234 - 120 } else { 0 };
        assert_eq!(metadata["send_delay_ns"], sent_after);
        // Of an event, of the third one, or the largest read lag; absent without content.
        for edge in ["first_content", "last_content", "end"] {
            let error = number(&format!("{edge}_uncertainty_ns"));
            assert!([None, Some(2_500), Some(4_500), Some(3_500)].contains(&error), "{error:?}");
        }
        // The last three events of a complete stream come after its content, at the same time.
        let events = &request.body.events;
        let is_complete = request.body.bytes.ends_with(b"[DONE]\n\n");
        let gap = is_complete.then(|| {
            let [before, after] = [4, 1].map(|at| events[events.len() - at].arrival.at);
            after.since(before).0
        });
        assert_eq!(number("end_gap_ns"), gap);
        assert_eq!(metadata["was_cancelled"], request.cancelled_at.is_some());
        assert_eq!(number("cancellation_time_ns"), wall(request.cancelled_at));
        let phase = request.phase.as_str();
        for name in ["benchmark_phase", "phase_name", "phase_kind"] {
            assert_eq!(metadata[name], phase);
        }
        assert_eq!(metadata["phase_index"], u64::from(phase == "profiling"));
        assert_eq!(number("profiling_index"), (phase == "profiling").then_some(0));
        assert!(record.get("trace_data").is_none());
    }
}

#[test]
fn values_are_in_display_units() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let records = lines(&run, "profile_export.jsonl");
    // Request 0: 4 words, the first 30 ms after its due time, which is 1 234 ns
    // before its start; gaps of 10 ms and (17 w mod 101) × 10.007 µs.
    let metrics = &records[0]["metrics"];
    let metric = |tag: &str| metrics[tag].to_string();
    assert_eq!(metric("time_to_first_token"), r#"{"value":29.998766,"unit":"ms"}"#);
    let gaps = r#"{"value":[10.0,10.170119,10.340238],"unit":"ms"}"#;
    assert_eq!(metric("inter_chunk_latency"), gaps);
    // 29.998766 + 30.510357
    assert_eq!(metric("request_latency"), r#"{"value":60.509123,"unit":"ms"}"#);
    assert_eq!(metric("output_sequence_length"), r#"{"value":4,"unit":"tokens"}"#);
    // 30.510357 / 3
    assert_eq!(metric("inter_token_latency"), r#"{"value":10.170119,"unit":"ms"}"#);
    // 4 of 10 tokens.
    assert_eq!(metric("osl_mismatch_diff_pct"), r#"{"value":-60.0,"unit":"%"}"#);
    assert!(metrics.get("request_count").is_none() && metrics.get("requested_osl").is_none());
}

#[test]
fn a_failure_has_its_error_and_no_latency() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let records = lines(&run, "profile_export.jsonl");
    let refused = &records[5]["error"];
    assert_eq!((&refused["code"], &refused["type"]), (&500.into(), &"OK".into()));
    assert_eq!(refused["message"], r#"{"error": "boom"}"#);
    assert_eq!(refused["error_type"], "http_5xx");
    assert!(records[5]["metrics"].get("request_latency").is_none());
    assert_eq!(records[5]["metrics"]["error_isl"]["value"], 50);
    let cancelled = &records[7]["error"];
    assert_eq!((cancelled.get("code"), &cancelled["error_type"]), (None, &"cancelled".into()));
    // Written as null, so that the member is in every line.
    let text = fs::read_to_string(run.directory().join("profile_export.jsonl")).unwrap();
    assert!(text.lines().next().unwrap().ends_with(r#","error":null}"#));
}

/// Members of AIPerf's lines that are not written: all concern the sessions of agents.
const NOT_WRITTEN: [&str; 3] = ["context_overflow_skip", "agent_depth", "root_correlation_id"];

#[test]
fn lines_have_the_members_of_aiperf_in_its_order() {
    let mut run = TestRun::new(ExportLevel::Records);
    run.config.http_trace = true;
    run.complete();
    let text = fs::read_to_string(run.directory().join("profile_export.jsonl")).unwrap();
    let ours: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sample = golden("profile_export.jsonl");
    let sample: Vec<Value> =
        sample.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys =
        |object: &Value| -> Vec<String> { object.as_object().unwrap().keys().cloned().collect() };
    // The warmup uses a new connection, profiling a reused one; the third request fails.
    for (ours, theirs) in [(&ours[0], &sample[0]), (&ours[2], &sample[1]), (&ours[5], &sample[2])] {
        let expected: Vec<String> = keys(&theirs["metadata"])
            .into_iter()
            .filter(|key| !NOT_WRITTEN.contains(&key.as_str()))
            .collect();
        assert_eq!(keys(&ours["metadata"])[..expected.len()], expected);
        for key in keys(&theirs["trace_data"]) {
            assert!(ours["trace_data"].get(&key).is_some(), "trace_data.{key}");
        }
        for (tag, measurement) in ours["metrics"].as_object().unwrap() {
            if let Some(theirs) = theirs["metrics"].get(tag) {
                assert_eq!(measurement["unit"], theirs["unit"], "{tag}");
                let is_int = |value: &Value| value.is_u64();
                assert_eq!(is_int(&measurement["value"]), is_int(&theirs["value"]), "{tag}");
            }
        }
    }
}

#[test]
fn traces_have_wall_times_and_durations() {
    let mut run = TestRun::new(ExportLevel::Records);
    run.config.http_trace = true;
    run.complete();
    let records = lines(&run, "profile_export.jsonl");
    let trace = |at: usize| &records[at]["trace_data"];
    let fresh = trace(0);
    let start = records[0]["metadata"]["credit_issued_ns"].as_u64().unwrap();
    assert_eq!(fresh["trace_type"], "hyper");
    for (name, value) in [
        ("request_send_start_ns", start + 1_234),
        ("request_send_end_ns", start + 2_500),
        ("tcp_connect_start_ns", start + 200),
        ("sending_ns", 1_266),
        ("waiting_ns", 797_500),
        ("connecting_ns", 700),
        ("blocked_ns", 100),
        ("request_chunks_count", 1),
        ("response_bytes_total", 1000),
        ("remote_port", 8_000),
        // The third event of the stream was the latest and the least certain.
        ("max_read_lag_ns", 3_500),
        ("max_uncertainty_ns", 4_500),
    ] {
        assert_eq!(fresh[name], value, "{name}");
    }
    assert_eq!(fresh["request_chunks"], serde_json::json!([[start + 2_000, 200]]));
    assert_eq!(fresh["local_ip"], "127.0.0.1");
    assert_eq!(fresh["clock"], "mixed");
    // Neither a lookup nor a connection: absent, not null.
    for name in ["dns_lookup_ns", "connecting_ns", "tcp_connect_start_ns", "tls_handshaking_ns"] {
        assert!(trace(1).get(name).is_none(), "{name}");
    }
    assert!(trace(1).get("connection_reused_ns").is_some());
}

#[test]
fn raw_lines_have_request_and_response() {
    let run = TestRun::new(ExportLevel::Raw);
    run.complete();
    let records = lines(&run, "profile_export_raw.jsonl");
    assert_eq!(records.len(), run.measured.len());
    let (streamed, measured) = (&records[0], &run.measured[0]);
    let metadata = &streamed["metadata"];
    assert_eq!((&metadata["session_num"], &metadata["model"]), (&0.into(), &"m".into()));
    assert_eq!(metadata["url"], *measured.record.url);
    assert_eq!(metadata["endpoint_type"], "chat");
    assert_eq!(streamed["start_perf_ns"], measured.record.start.0);
    assert_eq!(streamed["status"], 200);
    assert_eq!(streamed["payload"], json!({"model": "m", "stream": true, "max_tokens": 10}));
    assert_eq!(streamed["request_headers"]["Authorization"], "<redacted>");
    assert_eq!(streamed["response_headers"]["Set-Cookie"], "<redacted>");
    let events = measured.record.body.events.len();
    for (name, first) in [("response_read_lag_ns", 1_500), ("response_uncertainty_ns", 2_500)] {
        assert_eq!(streamed[name][0], first, "{name}");
        assert_eq!(streamed[name].as_array().unwrap().len(), events, "{name}");
    }
    assert_eq!(streamed["responses"].as_array().unwrap().len(), events);
    let event = &streamed["responses"][0];
    assert_eq!(event["perf_ns"], measured.record.body.events[0].arrival.at.0);
    assert!(event.get("content_type").is_none() && event.get("text").is_none());
    let packet = &event["packets"][0];
    assert_eq!(packet["name"], "data");
    assert!(packet["value"].as_str().unwrap().starts_with(r#"{"choices":"#));
    assert!(streamed.get("error").is_none());
    let refused = &records[5];
    let response = &refused["responses"][0];
    let end = run.measured[5].record.end.0;
    let text = json!({
        "perf_ns": end, "content_type": "text/event-stream", "text": r#"{"error": "boom"}"#,
    });
    assert_eq!(*response, text);
    assert_eq!(refused["error"]["code"], 500);
}

/// Members of lines that AIPerf does not write.
const NOT_AIPERFS: [&str; 6] = [
    "model",
    "url",
    "endpoint_type",
    "send_delay_ns",
    "response_read_lag_ns",
    "response_uncertainty_ns",
];

#[test]
fn raw_lines_of_aiperf_fit_the_same_layout() {
    for line in golden("profile_export_raw.jsonl").lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let metadata = line["metadata"].as_object_mut().unwrap();
        for key in NOT_WRITTEN {
            metadata.shift_remove(key);
        }
        if let Some(error) = line.get_mut("error") {
            // An additional member, for `error.type`.
            error["error_type"] = "http_5xx".into();
        }
        let mut mistakes = RAW_RECORD.mistakes(&line);
        mistakes.retain(|mistake| {
            let is_missing = |name| mistake.ends_with(&format!("{name:?} is a required property"));
            !NOT_AIPERFS.iter().any(is_missing)
        });
        assert!(mistakes.is_empty(), "{mistakes:#?}");
        assert!(line["status"].is_u64());
    }
}
