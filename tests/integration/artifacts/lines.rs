//! `profile_export.jsonl` and `profile_export_raw.jsonl`, line by line.

use std::fs;

use aiperf::artifacts::ExportLevel;
use serde_json::Value;

use super::golden;
use super::run::TestRun;
use super::schema::{RawRecord, Record};

fn lines<T: serde::de::DeserializeOwned>(run: &TestRun, name: &str) -> Vec<T> {
    let text = fs::read_to_string(run.directory().join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_request_has_its_line() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let records: Vec<Record> = lines(&run, "profile_export.jsonl");
    assert_eq!(records.len(), run.measured.len());
    for (record, measured) in records.iter().zip(&run.measured) {
        let (metadata, request) = (&record.metadata, &measured.record);
        assert_eq!(metadata.session_num, request.turn.session);
        assert_eq!(metadata.x_request_id, request.request_id.to_string());
        assert_eq!(metadata.x_correlation_id, request.correlation_id.to_string());
        let conversation = ["first", "second"][request.turn.conversation];
        assert_eq!((&*metadata.conversation_id, metadata.turn_index), (conversation, 0));
        assert_eq!(metadata.request_start_ns, run.clock.wall_ns(request.start));
        assert_eq!(metadata.request_start_ns - metadata.credit_issued_ns, 1_234);
        assert_eq!(metadata.request_end_ns, run.clock.wall_ns(request.end));
        assert_eq!(metadata.request_ack_ns, request.ack.map(|at| run.clock.wall_ns(at)));
        assert_eq!(metadata.request_sent_ns, request.sent.map(|at| run.clock.wall_ns(at)));
        assert_eq!(metadata.request_due_ns, request.due.map(|at| run.clock.wall_ns(at)));
        assert_eq!(metadata.worker_id, format!("worker_{}", request.worker));
        assert!(metadata.record_processor_id.starts_with("record_processor_"));
        assert_eq!(metadata.requested_output_tokens, Some(10));
        assert_eq!(metadata.retry_count, (request.retry_count > 0).then_some(1));
        // Those of a closed loop did not wait for anything.
        assert_eq!(metadata.late_ns, Some(request.due.map_or(0, |_| 1_234)));
        // The first byte is offered to the connection at the start, or after a retry from 120 ns on.
        let sent_after = if request.retry_count > 0 { 1_234 - 120 } else { 0 };
        assert_eq!(metadata.send_delay_ns, Some(sent_after));
        assert!([0, 2_500, 4_500, 3_500].contains(&metadata.end_uncertainty_ns));
        // Of an event, of the third one, or the largest read lag; 0 without content.
        let errors = [metadata.first_content_uncertainty_ns, metadata.last_content_uncertainty_ns];
        assert!(errors.iter().all(|error| [0, 2_500, 4_500, 3_500].contains(error)), "{errors:?}");
        // The last three events of a complete stream come after its content, at the same time.
        let events = &request.body.events;
        let is_complete = request.body.bytes.ends_with(b"[DONE]\n\n");
        let gap = is_complete.then(|| {
            let [before, after] = [4, 1].map(|at| events[events.len() - at].arrival.at);
            after.since(before).0
        });
        assert_eq!(metadata.end_gap_ns.map(u64::from), gap);
        assert_eq!(metadata.was_cancelled, request.cancelled_at.is_some());
        assert_eq!(metadata.cancellation_time_ns.is_some(), metadata.was_cancelled);
        let phase = request.phase.as_str();
        assert_eq!(
            [&*metadata.benchmark_phase, &metadata.phase_name, &metadata.phase_kind],
            [phase; 3]
        );
        assert_eq!(metadata.phase_index, u64::from(phase == "profiling"));
        assert_eq!(metadata.profiling_index, (phase == "profiling").then_some(0));
        assert!(record.trace_data.is_none());
    }
}

#[test]
fn values_are_in_display_units() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let records: Vec<Record> = lines(&run, "profile_export.jsonl");
    // Request 0: 4 words, the first 30 ms after its due time, which is 1 234 ns
    // before its start; gaps of 10 ms and (17 w mod 101) × 10.007 µs.
    let metrics = &records[0].metrics;
    let metric = |tag: &str| (metrics[tag].value.to_string(), metrics[tag].unit.as_str());
    assert_eq!(metric("time_to_first_token"), ("29.998766".to_owned(), "ms"));
    assert_eq!(metric("inter_chunk_latency"), ("[10.0,10.170119,10.340238]".to_owned(), "ms"));
    // 29.998766 + 30.510357
    assert_eq!(metric("request_latency"), ("60.509123".to_owned(), "ms"));
    assert_eq!(metric("output_sequence_length"), ("4".to_owned(), "tokens"));
    // 30.510357 / 3
    assert_eq!(metric("inter_token_latency"), ("10.170119".to_owned(), "ms"));
    // 4 of 10 tokens.
    assert_eq!(metric("osl_mismatch_diff_pct"), ("-60.0".to_owned(), "%"));
    assert!(!metrics.contains_key("request_count") && !metrics.contains_key("requested_osl"));
}

#[test]
fn a_failure_has_its_error_and_no_latency() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let records: Vec<Record> = lines(&run, "profile_export.jsonl");
    let refused = records[5].error.as_ref().unwrap();
    assert_eq!((refused.code, &*refused.name), (Some(500), "OK"));
    assert_eq!((&*refused.message, &*refused.error_type), (r#"{"error": "boom"}"#, "http_5xx"));
    assert!(!records[5].metrics.contains_key("request_latency"));
    assert_eq!(records[5].metrics["error_isl"].value, 50);
    let cancelled = records[7].error.as_ref().unwrap();
    assert_eq!((cancelled.code, &*cancelled.error_type), (None, "cancelled"));
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
    let records: Vec<Record> = lines(&run, "profile_export.jsonl");
    let trace = |at: usize| records[at].trace_data.as_ref().unwrap();
    let fresh = trace(0);
    let start = records[0].metadata.credit_issued_ns;
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
        assert!(!trace(1).contains_key(name), "{name}");
    }
    assert!(trace(1).contains_key("connection_reused_ns"));
}

#[test]
fn raw_lines_have_request_and_response() {
    let run = TestRun::new(ExportLevel::Raw);
    run.complete();
    let records: Vec<RawRecord> = lines(&run, "profile_export_raw.jsonl");
    assert_eq!(records.len(), run.measured.len());
    let (streamed, measured) = (&records[0], &run.measured[0]);
    assert_eq!(streamed.metadata.session_num, 0);
    assert_eq!(streamed.metadata.model, "m");
    assert_eq!(*streamed.metadata.url, *measured.record.url);
    assert_eq!(streamed.metadata.endpoint_type, "chat");
    assert_eq!(streamed.start_perf_ns, measured.record.start.0);
    assert_eq!(streamed.status, Some(200));
    assert_eq!(
        streamed.payload,
        serde_json::json!({"model": "m", "stream": true, "max_tokens": 10})
    );
    assert_eq!(streamed.request_headers["Authorization"], "<redacted>");
    assert_eq!(streamed.response_headers["Set-Cookie"], "<redacted>");
    assert_eq!(streamed.responses.len(), measured.record.body.events.len());
    let event = &streamed.responses[0];
    assert_eq!(event.perf_ns, measured.record.body.events[0].arrival.at.0);
    assert_eq!(streamed.response_read_lag_ns.len(), streamed.responses.len());
    assert_eq!(streamed.response_uncertainty_ns.len(), streamed.responses.len());
    assert_eq!(
        (streamed.response_read_lag_ns[0], streamed.response_uncertainty_ns[0]),
        (1_500, 2_500)
    );
    assert_eq!((&event.content_type, &event.text), (&None, &None));
    let packets = event.packets.as_ref().unwrap();
    assert_eq!(packets[0].name, "data");
    assert!(packets[0].value.starts_with(r#"{"choices":"#));
    assert!(streamed.error.is_none());
    let refused = &records[5];
    let response = &refused.responses[0];
    assert_eq!(response.perf_ns, run.measured[5].record.end.0);
    assert_eq!(response.content_type.as_deref(), Some("text/event-stream"));
    assert_eq!(response.text.as_deref(), Some(r#"{"error": "boom"}"#));
    assert!(response.packets.is_none());
    assert_eq!(refused.error.as_ref().unwrap().code, Some(500));
}

#[test]
fn raw_lines_of_aiperf_fit_the_same_layout() {
    for line in golden("profile_export_raw.jsonl").lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let metadata = line["metadata"].as_object_mut().unwrap();
        for key in NOT_WRITTEN {
            metadata.shift_remove(key).unwrap();
        }
        if let Some(error) = line.get_mut("error") {
            // An additional member, for `error.type`.
            error["error_type"] = "http_5xx".into();
        }
        let record: RawRecord = serde_json::from_value(line).unwrap();
        assert!(record.status.is_some());
    }
}
