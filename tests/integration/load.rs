//! Transport and runner with real sockets: the mock server and plain ones.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base::units::Nanos;
use client::endpoint::{Endpoint, EndpointTraits, ParsedResponse};
use client::record::{ErrorKind, RequestRecord, ResponseBody};
use client::runner::RunnerError;
use client::schedule::config::{Cancellation, Limit, PhaseConfig, StopCondition};
use client::schedule::{PhaseKind, PhaseStats};
use client::transport::{self};
use dataset::Conversation;
use mock_server::Script;

use crate::support::port::Refusing;
use crate::support::raw_server;

use crate::support::load::{Load, closed_loop, faulty, mock, open_loop, served};

#[test]
fn the_server_sees_the_concurrency_asked_for() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let outcome = Load { phases: vec![closed_loop(16, 64)], ..Load::on(&server.url()) }.run();
    assert_eq!(outcome.records.len(), 64);
    assert!(outcome.records.iter().all(|record| record.error.is_none()));
    assert_eq!(server.peak_in_flight(), 16);
    assert_eq!(outcome.peak_in_flight, 16);
    let stats = outcome.phases[0];
    assert_eq!((stats.requests_sent, stats.requests_completed), (64, 64));
    assert_eq!((stats.sessions_sent, stats.sessions_completed), (64, 64));
    let sessions: BTreeSet<u64> = outcome.records.iter().map(|r| r.turn.session).collect();
    assert_eq!(sessions, (0..64).collect());
}

#[test]
fn a_loop_without_a_bound_sends_all_at_once() {
    let server = mock(Script { ttft: Nanos::from_seconds(2.0), ..Script::default() });
    let phase = PhaseConfig { concurrency: None, ..closed_loop(1, 12) };
    let outcome = Load { phases: vec![phase], workers: 2, ..Load::on(&server.url()) }.run();
    assert_eq!((outcome.records.len(), outcome.peak_in_flight), (12, 12));
}

#[test]
fn several_workers_share_the_budget_and_the_slots() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let load = Load { phases: vec![closed_loop(8, 100)], workers: 3, ..Load::on(&server.url()) };
    let outcome = load.run();
    assert_eq!(outcome.records.len(), 100);
    assert!(server.peak_in_flight() <= 8);
    assert_eq!(server.requests_served(), 100);
    for worker in 0..3 {
        let own = || outcome.records.iter().filter(|record| record.worker == worker);
        let in_flight = |at| own().filter(|other| other.start <= at && at < other.end).count();
        // A third of eight slots.
        assert!(own().all(|record| in_flight(record.start) <= 3), "worker {worker}");
    }
}

#[test]
fn every_arrival_lies_after_the_servers_write() {
    let itl = Nanos::from_millis(3.0);
    let server = mock(Script { ttft: Nanos::from_millis(10.0), itl, ..Script::default() });
    let outcome = Load { phases: vec![closed_loop(2, 6)], ..Load::on(&server.url()) }.run();
    let log = server.write_log();
    for record in &outcome.records {
        let entry = served(&log, record);
        for (event, written) in record.body.events.iter().zip(&entry.events) {
            assert!(event.arrival.at >= written.write_start.unwrap());
        }
        assert!(record.start <= entry.arrival);
    }
}

#[test]
fn the_phases_of_an_exchange_follow_each_other() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let outcome = Load { phases: vec![closed_loop(1, 2)], ..Load::on(&server.url()) }.run();
    let [first, second] = &outcome.records[..] else { panic!("two requests") };
    let trace = &first.trace;
    let stamps = [
        trace.connect_start,
        trace.connect_end,
        trace.send_start,
        trace.send_end,
        trace.headers_received,
        trace.receive_start,
        trace.receive_end,
    ];
    assert!(stamps.iter().all(Option::is_some), "{trace:?}");
    assert!(stamps.is_sorted(), "{trace:?}");
    assert_eq!(trace.reused, None);
    assert_eq!(first.sent, trace.send_start);
    assert!(first.start <= trace.connect_start.unwrap(), "{trace:?}");
    assert!(trace.request_bytes > first.payload.len() as u64);
    assert!(trace.response_bytes > first.body.bytes.len() as u64);
    assert!(second.trace.reused.is_some() && second.trace.connect_start.is_none());
    assert_eq!(second.trace.local_addr, first.trace.local_addr);
}

#[test]
fn later_turns_repeat_the_servers_answers() {
    let server = mock(Script::default());
    let stop = StopCondition { sessions: Some(2), ..StopCondition::default() };
    let phases = vec![PhaseConfig { stop, ..closed_loop(2, 0) }];
    let outcome = Load { turns: 3, phases, ..Load::on(&server.url()) }.run();
    assert_eq!(outcome.records.len(), 6);
    assert_eq!(outcome.phases[0].sessions_completed, 2);
    for record in &outcome.records {
        let body: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2 * record.turn.turn + 1);
        for (turn, answer) in record.earlier_answers.iter().enumerate() {
            let answer = answer.as_deref().unwrap();
            assert!(!answer.is_empty());
            assert_eq!(messages[2 * turn]["content"], format!("question {turn}"));
            assert_eq!(messages[2 * turn + 1]["role"], "assistant");
            assert_eq!(messages[2 * turn + 1]["content"], answer);
        }
    }
}

#[test]
fn turns_wait_for_their_delay() {
    let server = mock(Script::default());
    let turn_delay = Nanos::from_millis(40.0);
    let load =
        Load { turns: 2, turn_delay, phases: vec![closed_loop(1, 2)], ..Load::on(&server.url()) };
    let records = load.run().records;
    assert!(records[1].issued.since(records[0].end) >= turn_delay);
}

/// The outcomes of a phase's requests: sent, completed, errors, cancelled.
fn requests(stats: &PhaseStats) -> [u64; 4] {
    let ended = stats.requests_completed + stats.request_errors + stats.requests_cancelled;
    assert_eq!(stats.requests_sent, ended, "{stats:?}");
    assert_eq!((stats.requests_in_flight(), stats.sessions_in_flight()), (0, 0));
    [stats.requests_sent, stats.requests_completed, stats.request_errors, stats.requests_cancelled]
}

/// The outcomes of its sessions: sent, completed, failed, cancelled.
fn ended_sessions(stats: &PhaseStats) -> [u64; 4] {
    let ended = stats.sessions_completed + stats.sessions_failed + stats.sessions_cancelled;
    assert_eq!(stats.sessions_sent, ended, "{stats:?}");
    [stats.sessions_sent, stats.sessions_completed, stats.sessions_failed, stats.sessions_cancelled]
}

/// One at a time.
fn sessions_in_turn(count: u64) -> PhaseConfig {
    let stop = StopCondition { sessions: Some(count), ..StopCondition::default() };
    PhaseConfig { stop, ..closed_loop(1, 0) }
}

#[test]
fn turns_after_a_failed_one_are_sent_with_what_history_there_is() {
    let server = faulty("every=5:status=500");
    let phases = vec![sessions_in_turn(10)];
    let outcome = Load { turns: 4, phases, ..Load::on(&server.url()) }.run();
    // Every fifth of the forty: turn 0 of session 1, turn 1 of session 2, turn 2 of session 3, turn
    // 3 of session 4 and so on, counted from 0; the last turns of the sessions 4 and 9 are among
    // them.
    let failed: Vec<(u64, usize)> = outcome
        .records
        .iter()
        .filter(|record| record.error.is_some())
        .map(|record| (record.turn.session, record.turn.turn))
        .collect();
    let all = [(1, 0), (2, 1), (3, 2), (4, 3), (6, 0), (7, 1), (8, 2), (9, 3)];
    assert_eq!(failed, all);
    assert_eq!(requests(&outcome.phases[0]), [40, 32, 8, 0]);
    assert_eq!(ended_sessions(&outcome.phases[0]), [10, 8, 2, 0]);
    for record in &outcome.records {
        let body: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
        let roles: Vec<&str> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        let is_missing = |turn| failed.contains(&(record.turn.session, turn));
        let mut expected = Vec::new();
        for turn in 0..record.turn.turn {
            expected.push("user");
            expected.extend((!is_missing(turn)).then_some("assistant"));
            assert_eq!(record.earlier_answers[turn].is_none(), is_missing(turn));
        }
        expected.push("user");
        assert_eq!(roles, expected, "{:?}", record.turn);
    }
}

#[test]
fn sessions_end_with_a_failed_turn_where_that_is_asked_for() {
    let server = faulty("every=2:status=500");
    let phase = PhaseConfig { end_failed_sessions: true, ..sessions_in_turn(2) };
    let outcome = Load { turns: 3, phases: vec![phase], ..Load::on(&server.url()) }.run();
    let failed: Vec<bool> = outcome.records.iter().map(|record| record.error.is_some()).collect();
    assert_eq!(failed, [false, true, false, true]);
    assert_eq!(requests(&outcome.phases[0]), [4, 2, 2, 0]);
    assert_eq!(ended_sessions(&outcome.phases[0]), [2, 0, 2, 0]);
}

#[test]
fn turns_after_a_cancelled_one_are_sent() {
    let server = mock(Script { ttft: Nanos::from_millis(400.0), ..Script::default() });
    let cancellation = Some(Cancellation { percent: 100.0, delay: Nanos::ZERO });
    let phase = PhaseConfig { cancellation, ..sessions_in_turn(2) };
    let outcome = Load { turns: 3, phases: vec![phase], ..Load::on(&server.url()) }.run();
    assert_eq!(requests(&outcome.phases[0]), [6, 0, 0, 6]);
    assert_eq!(ended_sessions(&outcome.phases[0]), [2, 0, 0, 2]);
}

#[test]
fn sessions_that_the_end_of_a_phase_cuts_short_are_cancelled() {
    let server = mock(Script::default());
    // Two of the third session's four turns remain.
    let outcome = Load { turns: 4, phases: vec![closed_loop(1, 10)], ..Load::on(&server.url()) };
    let outcome = outcome.run();
    assert_eq!(requests(&outcome.phases[0]), [10, 10, 0, 0]);
    assert_eq!(ended_sessions(&outcome.phases[0]), [3, 2, 0, 1]);
}

#[test]
fn a_phase_that_its_duration_ends_says_so_also_with_nothing_in_flight() {
    let server = mock(Script::default());
    let stop = StopCondition { duration: Some(Nanos::from_millis(300.0)), ..Default::default() };
    // One request at a time, the next after 10 s: at 300 ms none is in flight.
    let phase = PhaseConfig { stop, ..open_loop(0.1, 0) };
    let stats = Load { phases: vec![phase], ..Load::on(&server.url()) }.run().phases[0];
    assert!(stats.timeout_triggered && !stats.timeout_in_flight);
    assert_eq!(requests(&stats), [1, 1, 0, 0]);
}

#[test]
fn an_open_loop_sends_when_it_is_due_and_not_before() {
    // The server stalls, which does not affect the sends.
    let server = mock(Script { ttft: Nanos::from_millis(150.0), ..Script::default() });
    let outcome = Load { phases: vec![open_loop(200.0, 40)], ..Load::on(&server.url()) }.run();
    let start = outcome.phases[0].start;
    let mut due: Vec<u64> =
        outcome.records.iter().map(|record| record.due.unwrap().since(start).0).collect();
    due.sort_unstable();
    assert_eq!(due, (0..40).map(|n| n * 5_000_000).collect::<Vec<_>>());
    assert!(outcome.records.iter().all(|record| record.issued >= record.due.unwrap()));
    // Between two sends there is nothing to do but sleep.
    assert!(outcome.records.iter().any(|record| record.due_while_asleep));
    // Responses of 150 ms at 200 per second: 30 in flight; a closed loop would have 1.
    assert!(outcome.peak_in_flight >= 10, "{}", outcome.peak_in_flight);
}

#[test]
fn an_open_loop_beyond_its_memory_loses_no_record() {
    let server = mock(Script::default());
    let budget = 20_000;
    let phase = open_loop(2000.0, 400);
    let load =
        Load { phases: vec![phase], turns: 2, queue_budget: budget, ..Load::on(&server.url()) };
    let outcome = load.run();
    let queue = outcome.queue;
    // Each record is more than 1000 bytes, and none is taken while the load runs.
    assert!(queue.spilled_records >= 380, "{queue:?}");
    assert_eq!((queue.kept_over_budget, queue.lost, queue.pauses), (0, 0, 0));
    assert_eq!(outcome.records.len(), 400);
    assert_eq!(server.requests_served(), 400);
    let turns: BTreeSet<_> =
        outcome.records.iter().map(|record| (record.turn.session, record.turn.turn)).collect();
    assert_eq!(turns.len(), 400);
    for record in &outcome.records {
        assert_eq!(record.error, None);
        let body: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2 * record.turn.turn + 1);
        assert_eq!(record.earlier_answers.len(), record.turn.turn);
        assert!(record.body.bytes.ends_with(b"data: [DONE]\n\n"));
    }
}

#[test]
fn workers_tell_how_busy_they_were() {
    let server = mock(Script { ttft: Nanos::from_millis(30.0), ..Script::default() });
    let load = Load { phases: vec![closed_loop(2, 4)], workers: 2, ..Load::on(&server.url()) };
    let cpu = load.run().cpu;
    assert_eq!(cpu.workers.len(), 2);
    // They waited for the server for 60 ms and did other work besides; the fraction of a thread's
    // time is at most 1.
    assert!(cpu.workers.iter().all(|share| *share > 0.0 && *share < 1.01), "{cpu:?}");
    assert!(cpu.process >= cpu.workers.iter().copied().fold(0.0, f64::max) * 0.5, "{cpu:?}");
}

#[test]
fn later_turns_of_an_open_loop_take_due_times_too() {
    let server = mock(Script { ttft: Nanos::from_millis(2.0), ..Script::default() });
    let mut phase = open_loop(500.0, 0);
    phase.stop = StopCondition { sessions: Some(4), ..StopCondition::default() };
    let outcome = Load { turns: 3, phases: vec![phase], ..Load::on(&server.url()) }.run();
    assert_eq!(outcome.records.len(), 12);
    let due: BTreeSet<u64> = outcome.records.iter().map(|r| r.due.unwrap().0).collect();
    assert_eq!(due.len(), 12, "no due time serves two requests");
    assert_eq!(outcome.phases[0].sessions_completed, 4);
}

#[test]
fn later_turns_of_a_rate_go_on_while_its_slots_are_taken() {
    for workers in [1, 2] {
        let server = mock(Script { ttft: Nanos::from_millis(15.0), ..Script::default() });
        let phase = PhaseConfig {
            concurrency: Some(Limit::constant(2)),
            stop: StopCondition {
                sessions: Some(6),
                // Long enough for everything except turns that wait for slots they hold.
                duration: Some(Nanos::from_seconds(20.0)),
                ..StopCondition::default()
            },
            ..open_loop(200.0, 0)
        };
        let load = Load { turns: 3, phases: vec![phase], workers, ..Load::on(&server.url()) };
        let outcome = load.run();
        assert_eq!(outcome.phases[0].sessions_completed, 6, "{workers} workers");
        assert_eq!(outcome.records.len(), 18);
        assert_eq!(server.peak_in_flight(), 2);
        let due: BTreeSet<u64> = outcome.records.iter().map(|r| r.due.unwrap().0).collect();
        assert_eq!(due.len(), 18, "no due time serves two requests");
    }
}

#[test]
fn a_rate_with_a_concurrency_never_passes_it() {
    let server = mock(Script { ttft: Nanos::from_millis(30.0), ..Script::default() });
    let phase = PhaseConfig { concurrency: Some(Limit::constant(3)), ..open_loop(1000.0, 30) };
    let outcome = Load { phases: vec![phase], ..Load::on(&server.url()) }.run();
    assert_eq!(outcome.records.len(), 30);
    assert_eq!(server.peak_in_flight(), 3);
}

#[test]
fn sessions_that_hold_every_slot_get_due_times_for_their_later_turns() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    for workers in [1, 2] {
        let stop = StopCondition {
            sessions: Some(6),
            duration: Some(Nanos::from_seconds(20.0)),
            ..StopCondition::default()
        };
        let concurrency = Some(Limit::constant(2));
        let phase = PhaseConfig { concurrency, stop, ..open_loop(1000.0, 0) };
        let load = Load { turns: 3, phases: vec![phase], workers, ..Load::on(&server.url()) };
        let outcome = load.run();
        assert_eq!(outcome.records.len(), 18);
        assert_eq!(outcome.phases[0].sessions_completed, 6);
        let due: BTreeSet<u64> = outcome.records.iter().map(|r| r.due.unwrap().0).collect();
        assert_eq!(due.len(), 18, "no due time serves two requests");
    }
    assert_eq!(server.peak_in_flight(), 2);
}

#[test]
fn a_phase_ends_by_its_duration_and_then_by_its_grace_period() {
    let server = faulty("all:hang");
    let phase = PhaseConfig {
        stop: StopCondition { duration: Some(Nanos::from_seconds(1.0)), ..Default::default() },
        grace_period: Some(Nanos::from_millis(50.0)),
        ..closed_loop(2, 0)
    };
    let outcome = Load { phases: vec![phase], ..Load::on(&server.url()) }.run();
    let stats = outcome.phases[0];
    assert!(stats.timeout_triggered && stats.grace_timeout_triggered);
    assert_eq!((stats.requests_sent, stats.requests_cancelled), (2, 2));
    assert!(!stats.was_cancelled);
    let cancelled: Vec<&RequestRecord> =
        outcome.records.iter().filter(|record| record.cancelled_at.is_some()).collect();
    assert_eq!((cancelled.len(), outcome.records.len()), (2, 2));
    assert!(cancelled.iter().all(|record| {
        record.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Cancelled)
    }));
}

#[test]
fn a_warmup_comes_first_and_sessions_go_on_counting() {
    let server = mock(Script::default());
    let warmup = PhaseConfig { kind: PhaseKind::Warmup, ..closed_loop(1, 3) };
    let outcome = Load { phases: vec![warmup, closed_loop(1, 2)], ..Load::on(&server.url()) }.run();
    let seen: Vec<_> = outcome.records.iter().map(|r| (r.phase, r.turn.session)).collect();
    let (warm, measured) = (PhaseKind::Warmup, PhaseKind::Profiling);
    assert_eq!(seen, [(warm, 0), (warm, 1), (warm, 2), (measured, 3), (measured, 4)]);
    assert!(outcome.phases[0].now <= outcome.phases[1].start);
}

#[test]
fn an_interrupt_drains_and_a_second_one_stops() {
    let server = faulty("all:hang");
    let load = Load { phases: vec![closed_loop(4, 1000)], ..Load::on(&server.url()) };
    let interrupter = load.interrupter.clone();
    let (sender, receiver) = mpsc::channel();
    let (outcome, drained_early) = thread::scope(|scope| {
        let (server, interrupter) = (&server, &interrupter);
        let user = scope.spawn(move || {
            // Once the server has received the requests.
            while server.requests_received() < 4 {
                thread::yield_now();
            }
            interrupter.signal();
            let drained_early = receiver.recv_timeout(Duration::from_millis(50)).is_ok();
            interrupter.signal();
            drained_early
        });
        let outcome = load.run();
        let _ = sender.send(());
        (outcome, user.join().unwrap())
    });
    assert!(!drained_early, "requests in flight were not waited for");
    let stats = outcome.phases[0];
    assert!(stats.was_cancelled);
    assert_eq!((stats.requests_sent, stats.requests_cancelled), (4, 4));
}

/// Returns the error of the only request of a load on `server`.
fn error_of(load: Load) -> (String, ErrorKind, RequestRecord) {
    let mut records = load.run().records;
    assert_eq!(records.len(), 1);
    let record = records.remove(0);
    let error = record.error.clone().unwrap();
    (error.name, error.kind, record)
}

#[test]
fn a_refused_connection_is_a_record() {
    let gone = Refusing::new();
    let (name, kind, record) = error_of(Load::on(&gone.url()));
    assert_eq!((name.as_str(), kind), ("ConnectionRefused", ErrorKind::Other));
    assert!(record.error.unwrap().message.contains("127.0.0.1"));
    assert!(record.trace.error_at.is_some());
}

#[test]
fn an_unknown_host_is_a_record() {
    let (name, kind, _) = error_of(Load::on("http://host.invalid:1"));
    assert_eq!((name.as_str(), kind), ("DnsError", ErrorKind::Other));
}

#[test]
fn statuses_are_errors_with_the_servers_words() {
    for (fault, kind) in [
        ("all:status=503,overloaded", ErrorKind::Http5xx),
        ("all:status=429,slow down", ErrorKind::Http4xx),
    ] {
        let server = faulty(fault);
        let (_, found, record) = error_of(Load::on(&server.url()));
        assert_eq!(found, kind);
        let error = record.error.unwrap();
        assert_eq!(error.code, record.status);
        assert!(fault.ends_with(&error.message), "{}", error.message);
    }
}

#[test]
fn a_server_that_never_answers_runs_into_the_timeout() {
    let server = faulty("all:hang");
    let transport =
        transport::Config { request_timeout: Nanos::from_millis(60.0), ..Default::default() };
    let (name, kind, record) = error_of(Load { transport, ..Load::on(&server.url()) });
    assert_eq!((name.as_str(), kind), ("RequestTimeout", ErrorKind::Timeout));
    assert!(
        record.end.since(record.start) >= Nanos::from_millis(60.0).since(Nanos::from_millis(5.0))
    );
    assert_eq!(record.status, None);
}

#[test]
fn a_cut_stream_keeps_what_had_come() {
    let server = faulty("all:cut=2");
    let (name, kind, record) = error_of(Load::on(&server.url()));
    assert_eq!((name.as_str(), kind), ("IncompleteResponse", ErrorKind::Other));
    assert_eq!(record.status, Some(200));
    // The chunk with the role, and two with content.
    assert_eq!(record.body.events.len(), 3);
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

/// Returns a stream as chunks of HTTP.
fn chunked(events: &[&str]) -> Vec<u8> {
    let mut bytes = format!("{HEAD}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for event in events {
        bytes.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

const CONTENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn a_reused_connection_that_dies_silently_is_tried_again_once() {
    // The first connection announces keep-alive but closes when the second request has arrived;
    // later ones respond.
    let address = raw_server::serve(|connection, stream| {
        while raw_server::read_request(stream).is_some() {
            raw_server::write(stream, &chunked(&[CONTENT, DONE]));
            if connection == 0 {
                raw_server::read_request(stream);
                return;
            }
        }
    });
    let load = Load { phases: vec![closed_loop(1, 3)], ..Load::on(&format!("http://{address}")) };
    let records = load.run().records;
    assert!(records.iter().all(|record| record.error.is_none()), "{:?}", records[1].error);
    assert_eq!(records.iter().map(|record| record.retry_count).collect::<Vec<_>>(), [0, 1, 0]);
    let retried = &records[1];
    assert!(retried.trace.reused.is_none() && retried.trace.connect_start.is_some());
    assert!(retried.start < retried.trace.connect_start.unwrap());
}

#[test]
fn a_fresh_connection_that_dies_is_an_error() {
    let address = raw_server::serve(|_, stream| {
        raw_server::read_request(stream);
    });
    let (name, kind, record) = error_of(Load::on(&format!("http://{address}")));
    assert_eq!(kind, ErrorKind::Other);
    assert_eq!((name.as_str(), record.retry_count), ("IncompleteResponse", 0));
}

/// Sends one streamed request to a server that writes `pieces` one by one, each after the previous
/// one has been sent.
fn streamed(pieces: Vec<Vec<u8>>) -> RequestRecord {
    let address: SocketAddr = raw_server::serve(move |_, stream| {
        if raw_server::read_request(stream).is_some() {
            for piece in &pieces {
                raw_server::write(stream, piece);
            }
        }
    });
    Load::on(&format!("http://{address}")).run().records.remove(0)
}

#[test]
fn events_are_found_whatever_the_writes() {
    let bytes = chunked(&[": ping\n\n", CONTENT, DONE]);
    for size in [1, 2, 3, 7, 64, 10_000] {
        let record = streamed(bytes.chunks(size).map(<[u8]>::to_vec).collect());
        assert_eq!(record.error, None);
        let events: Vec<&[u8]> =
            record.body.events.iter().map(|event| record.body.raw(event)).collect();
        assert_eq!(events.len(), 3, "{size}");
        assert_eq!(
            events[1],
            CONTENT.trim_end().as_bytes().iter().chain(b"\n").copied().collect::<Vec<u8>>()
        );
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_whole() {
    let body = format!("{HEAD}\r\n{CONTENT}{DONE}");
    let record = streamed(vec![body.into_bytes()]);
    assert_eq!(record.error, None);
    assert_eq!(record.body.events.len(), 2);
}

#[test]
fn http_1_0_and_connection_close_are_served() {
    let json = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for head in ["HTTP/1.0 200 OK\r\n", "HTTP/1.1 200 OK\r\nconnection: close\r\n"] {
        let length = json.len();
        let body = format!(
            "{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
        );
        let record = streamed(vec![body.into_bytes()]);
        assert_eq!(record.error, None);
        assert!(!record.body.is_event_stream);
        assert_eq!(record.body.raw(&record.body.events[0]), json.as_bytes());
    }
}

/// Writes a stream of three events, each of which can be read on arrival.
fn write_events(encoder: &mut impl Write) {
    for event in [CONTENT, CONTENT, DONE] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
    }
}

#[test]
fn a_compressed_stream_is_read_event_by_event() {
    let level = flate2::Compression::default();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    write_events(&mut gzip);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
    write_events(&mut zlib);
    for (coding, body) in [("GZIP", gzip.finish().unwrap()), ("deflate", zlib.finish().unwrap())] {
        let length = body.len();
        let head = format!("{HEAD}content-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n");
        let record = streamed(vec![[head.as_bytes(), &body].concat()]);
        assert_eq!(record.error, None, "{coding}");
        assert_eq!(record.body.bytes, format!("{CONTENT}{CONTENT}{DONE}").into_bytes());
        assert_eq!(record.body.events.len(), 3);
    }
}

/// A dialect that fails at the second turn, as only a bug in aiperf could cause.
#[derive(Debug)]
struct Broken(Arc<dyn Endpoint>);

impl Endpoint for Broken {
    fn traits(&self) -> &'static EndpointTraits {
        self.0.traits()
    }

    fn request_body(
        &self,
        of: &Conversation,
        turn: usize,
        answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        assert_eq!(turn, 0, "the fault that is wanted here");
        self.0.request_body(of, turn, answers)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        self.0.parse(body)
    }
}

#[test]
fn a_worker_that_dies_ends_the_run_with_an_error() {
    let server = mock(Script::default());
    let load = Load {
        turns: 2,
        workers: 2,
        phases: vec![closed_loop(2, 8)],
        dialect: Box::new(|chat| Arc::new(Broken(chat))),
        ..Load::on(&server.url())
    };
    assert!(matches!(load.drive().0, Err(RunnerError::WorkerLost)));
}

#[test]
fn a_redirect_is_an_error_with_its_status() {
    let head = "HTTP/1.1 307 Temporary Redirect\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n";
    let record = streamed(vec![head.into()]);
    let error = record.error.unwrap();
    assert_eq!((error.code, error.name.as_str()), (Some(307), "Temporary Redirect"));
}

#[test]
fn the_servers_own_reason_phrase_is_kept() {
    let record = streamed(vec![b"HTTP/1.1 503 Warming Up\r\ncontent-length: 2\r\n\r\nno".to_vec()]);
    let error = record.error.unwrap();
    assert_eq!((error.code, error.name.as_str()), (Some(503), "Warming Up"));
    assert_eq!(error.message, "no");
}

#[test]
fn headers_are_kept_redacted_and_only_when_asked_for() {
    let server = mock(Script::default());
    let load = || Load { phases: vec![closed_loop(1, 1)], ..Load::on(&server.url()) };
    let record = load().run().records.remove(0);
    assert!(record.trace.request_headers.is_empty() && record.trace.response_headers.is_empty());
    let transport = transport::Config { keep_headers: true, ..Default::default() };
    let record = Load { transport, ..load() }.run().records.remove(0);
    let value = |headers: &[(String, String)], name: &str| {
        headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    let host = server.url().replace("http://", "");
    assert_eq!(value(&record.trace.request_headers, "Host"), Some(host));
    let id = value(&record.trace.request_headers, "X-Request-Id");
    assert_eq!(id, Some(record.request_id.to_string()));
    let kind = value(&record.trace.response_headers, "content-type").unwrap();
    assert!(kind.starts_with("text/event-stream"));
}

#[test]
fn what_is_not_http_is_an_error() {
    let record = streamed(vec![b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()]);
    assert_eq!(record.error.unwrap().kind, ErrorKind::Other);
}

#[test]
fn an_event_past_the_limit_is_refused() {
    let endless = vec![b'x'; 4096];
    let address = raw_server::serve(move |_, stream| {
        if raw_server::read_request(stream).is_some() {
            raw_server::write(stream, format!("{HEAD}\r\ndata: ").as_bytes());
            for _ in 0..64 {
                raw_server::write(stream, &endless);
            }
        }
    });
    let transport = transport::Config { body_limit: 100_000, ..Default::default() };
    let (name, kind, _) = error_of(Load { transport, ..Load::on(&format!("http://{address}")) });
    assert_eq!((name.as_str(), kind), ("ResponseTooLarge", ErrorKind::Other));
}
