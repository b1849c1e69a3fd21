//! Load modes with real servers: requests that were due, sent, and cancelled.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use base::units::Nanos;
use client::record::{ErrorKind, RequestRecord};
use client::runner::Progress;
use client::schedule::config::{
    Cancellation, Config, Limit, LoadPattern, PhaseConfig, Replay, StopCondition, UseOfTimestamps,
    Zero,
};
use client::schedule::{Line, settle};
use client::transport::{self, Connections};
use dataset::{Conversation, Dataset, Turn};
use mock_server::{self, RequestLog, Script};

use crate::support::load::{Load, Outcome, closed_loop, faulty, mock, open_loop, question};
use crate::support::metrics_endpoint::wait_until;
use crate::support::port::free_port;
use crate::support::raw_server;
use crate::support::run::{Run, profile};

fn millis(millis: u64) -> Nanos {
    Nanos(millis * 1_000_000)
}

/// Returns the due times of records as offsets from the start of the phase, in order.
fn due_offsets(outcome: &Outcome) -> Vec<Nanos> {
    let start = outcome.phases[0].start;
    let mut due: Vec<Nanos> =
        outcome.records.iter().map(|record| record.due.unwrap().since(start)).collect();
    due.sort_unstable();
    due
}

/// Returns the start of each interval, with the number of intervals that contain it.
fn overlaps(intervals: &[(Nanos, Nanos)]) -> Vec<(Nanos, u64)> {
    let at = |instant: Nanos| {
        intervals.iter().filter(|(from, until)| (*from..*until).contains(&instant)).count() as u64
    };
    intervals.iter().map(|(from, _)| (*from, at(*from))).collect()
}

/// Returns the number of requests of a load that have ended.
fn returned(progress: &OnceLock<Arc<Progress>>) -> u64 {
    progress.wait().snapshots().first().map_or(0, |phase| phase.requests_returned)
}

/// Returns when the server last started to write to a response.
fn last_write(log: &RequestLog) -> Nanos {
    log.events.iter().filter_map(|event| event.write_start).next_back().unwrap()
}

/// Returns when the server started to write the first token of a response.
fn first_token(log: &RequestLog) -> Nanos {
    log.events.iter().find(|event| event.tokens > 0).unwrap().write_start.unwrap()
}

#[test]
fn a_concurrency_ramp_stays_below_its_line_and_reaches_the_target() {
    let server = mock(Script { ttft: millis(15), itl: millis(2), ..Script::default() });
    let limit = Limit { most: 8, ramp: Some(millis(400)) };
    let phase = PhaseConfig { concurrency: Some(limit), ..closed_loop(1, 200) };
    for workers in [1, 2] {
        let load = Load { phases: vec![phase.clone()], workers, ..Load::on(&server.url()) };
        let outcome = load.run();
        assert_eq!(outcome.records.len(), 200);
        let ids: BTreeSet<String> =
            outcome.records.iter().map(|record| record.request_id.to_string()).collect();
        // The server observes a request only while the client's slot is taken.
        let seen: Vec<(Nanos, Nanos)> = server
            .write_log()
            .iter()
            .filter(|log| ids.contains(log.request_id.as_ref().unwrap()))
            .map(|log| (log.arrival, last_write(log)))
            .collect();
        let (line, start) = (Line::new(limit), outcome.phases[0].start);
        for (at, count) in overlaps(&seen) {
            assert!(count <= line.open_at(at.since(start)), "{count} at {at:?}");
        }
        assert_eq!(outcome.peak_in_flight, 8);
    }
}

#[test]
fn a_rate_ramp_is_due_when_its_integral_says() {
    let server = mock(Script::default());
    let mut phase = open_loop(200.0, 21);
    let LoadPattern::Rate(rate) = &mut phase.load else { panic!() };
    rate.ramp = Some(millis(200));
    let outcome = Load { phases: vec![phase], ..Load::on(&server.url()) }.run();
    // From 0 to 200 per second in 0.2 s: 500·t² are due by t, 20 at the end.
    let expected = |count: u64| (count as f64 / 500.0).sqrt();
    for (count, due) in (0u64..).zip(due_offsets(&outcome)) {
        assert!((due.as_seconds() - expected(count)).abs() < 2e-9, "{count}: {due:?}");
    }
    assert!(outcome.records.iter().all(|record| record.start >= record.due.unwrap()));
}

#[test]
fn requests_before_their_first_token_are_bounded() {
    let server = mock(Script { ttft: millis(20), itl: millis(8), ..Script::default() });
    for workers in [1, 3] {
        let phase =
            PhaseConfig { prefill_concurrency: Some(Limit::constant(2)), ..closed_loop(12, 36) };
        let load = Load { phases: vec![phase], workers, ..Load::on(&server.url()) };
        let outcome = load.run();
        assert_eq!(outcome.records.len(), 36);
        assert!(outcome.records.iter().all(|record| record.error.is_none()));
    }
    let log = server.write_log();
    let prefill: Vec<_> = log.iter().map(|log| (log.arrival, first_token(log))).collect();
    assert!(overlaps(&prefill).iter().all(|(_, count)| *count <= 2));
    let whole: Vec<_> = log.iter().map(|log| (log.arrival, last_write(log))).collect();
    let most = overlaps(&whole).into_iter().map(|(_, count)| count).max();
    assert!(most > Some(2), "the slot is free while tokens follow");
}

#[test]
fn a_request_without_content_frees_its_prefill_slot_too() {
    for fault in ["every=2:status=500", "every=2:empty", "every=2:cut=0", "every=2:close"] {
        let server = faulty(fault);
        let phase = PhaseConfig {
            prefill_concurrency: Some(Limit { most: 2, ramp: Some(millis(20)) }),
            ..closed_loop(4, 20)
        };
        let outcome = Load { phases: vec![phase], ..Load::on(&server.url()) }.run();
        assert_eq!(outcome.records.len(), 20, "{fault}");
    }
}

/// A conversation whose turns have these timestamps and delays, in milliseconds.
fn traced(id: &str, turns: &[(Option<u64>, u64)]) -> Conversation {
    let turn = |&(timestamp, delay): &(Option<u64>, u64)| Turn {
        timestamp: timestamp.map(millis),
        delay: millis(delay),
        ..question(id)
    };
    Conversation {
        id: id.into(),
        turns: turns.iter().map(turn).collect(),
        ..Conversation::default()
    }
}

#[test]
fn a_fixed_schedule_sends_each_conversation_when_its_time_has_come() {
    let server = mock(Script { ttft: millis(5), ..Script::default() });
    let trace = vec![
        traced("late", &[(Some(1090), 0)]),
        traced("talk", &[(Some(1000), 0), (Some(1060), 0), (None, 20)]),
        // Its second turn is due before a response to the first can arrive.
        traced("hasty", &[(Some(1030), 0), (Some(1031), 0)]),
    ];
    for workers in [1, 2] {
        let mut dataset = Dataset::from_conversations(trace.clone());
        let phase = PhaseConfig {
            load: LoadPattern::FixedSchedule,
            concurrency: None,
            stop: StopCondition::default(),
            ..closed_loop(1, 1)
        };
        let mut config = Config {
            phases: vec![phase],
            replay: Replay {
                schedule: UseOfTimestamps::Always,
                zero: Zero::First,
                ..Replay::default()
            },
            shard: None,
            start_at: None,
        };
        settle(&mut config, &mut dataset).unwrap();
        let outcome = Load {
            phases: config.phases,
            conversations: Some(dataset.conversations.into_vec()),
            workers,
            ..Load::on(&server.url())
        }
        .run();
        let start = outcome.phases[0].start;
        let by_turn: BTreeMap<(u64, usize), &RequestRecord> =
            outcome.records.iter().map(|r| ((r.turn.session, r.turn.turn), r)).collect();
        let due = |session, turn| by_turn[&(session, turn)].due.unwrap().since(start);
        assert_eq!(by_turn.len(), 6);
        assert_eq!((due(0, 0), due(0, 1)), (millis(0), millis(60)));
        assert_eq!(due(0, 2), by_turn[&(0, 1)].end.since(start) + millis(20));
        assert_eq!((due(1, 0), due(1, 1)), (millis(30), millis(31)));
        assert!(by_turn[&(1, 1)].start >= by_turn[&(1, 0)].end);
        assert_eq!(due(2, 0), millis(90));
        assert!(outcome.records.iter().all(|record| record.start >= record.due.unwrap()));
        assert_eq!(outcome.phases[0].sessions_completed, 3);
    }
}

#[test]
fn users_come_back_at_equal_intervals() {
    let server = mock(Script { ttft: millis(3), ..Script::default() });
    for workers in [1, 2] {
        let phase = PhaseConfig {
            load: LoadPattern::UserCentric { rate: 50.0, users: 3 },
            concurrency: None,
            stop: StopCondition { sessions: Some(6), ..StopCondition::default() },
            ..closed_loop(1, 1)
        };
        let load = Load { turns: 2, phases: vec![phase], workers, ..Load::on(&server.url()) };
        let outcome = load.run();
        // 3 users, two sessions of two turns each: turn n of user u is due at (u + 3n)/50 s.
        let expected: Vec<Nanos> = (0..12).map(|slot| millis(slot * 20)).collect();
        assert_eq!(due_offsets(&outcome), expected);
        let start = outcome.phases[0].start;
        for record in &outcome.records {
            let (user, nth) = (record.turn.session % 3, record.turn.session / 3);
            let turn = 2 * nth + record.turn.turn as u64;
            assert_eq!(record.due.unwrap().since(start), millis((user + 3 * turn) * 20));
            assert!(record.start >= record.due.unwrap());
        }
        assert_eq!(outcome.phases[0].sessions_completed, 6);
    }
}

#[test]
fn a_user_waits_for_the_answer_and_keeps_the_schedule() {
    // Responses take longer than the users' interval of 10 ms.
    let server = mock(Script { ttft: millis(25), ..Script::default() });
    let phase = PhaseConfig {
        load: LoadPattern::UserCentric { rate: 100.0, users: 1 },
        concurrency: None,
        stop: StopCondition { requests: Some(4), ..StopCondition::default() },
        ..closed_loop(1, 1)
    };
    let outcome = Load { turns: 3, phases: vec![phase], ..Load::on(&server.url()) }.run();
    assert_eq!(due_offsets(&outcome), [0, 10, 20, 30].map(millis));
    assert!(outcome.records.windows(2).all(|pair| pair[1].start >= pair[0].end));
    // Nothing delayed the first; the others were due before the previous response had arrived, the
    // fourth before the user's previous session was complete.
    assert_eq!(outcome.records[0].free_from, Nanos::ZERO);
    for pair in outcome.records.windows(2) {
        assert!(pair[1].due.unwrap() < pair[1].free_from);
        assert!((pair[0].end..=pair[1].issued).contains(&pair[1].free_from));
    }
}

/// A server that never responds, and counts complete requests and closed connections.
fn silent() -> (String, Arc<[AtomicU64; 2]>) {
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let seen = Arc::clone(&counts);
    let address = raw_server::serve(move |_, stream| {
        if raw_server::read_request(stream).is_some() {
            seen[0].fetch_add(1, Ordering::SeqCst);
            let end = stream.read(&mut [0; 64]);
            assert!(!matches!(end, Ok(1..)), "a cancelled connection is not used again");
            seen[1].fetch_add(1, Ordering::SeqCst);
        }
    });
    (format!("http://{address}"), counts)
}

#[test]
fn cancelled_requests_are_sent_whole_and_give_everything_back() {
    let (url, counts) = silent();
    // More than a socket's buffers can hold, so that it takes many writes.
    let long = "word ".repeat(2_000_000);
    let conversation = Conversation { turns: vec![question(&long)], ..Conversation::default() };
    let delay = millis(3);
    let phase = PhaseConfig {
        cancellation: Some(Cancellation { percent: 100.0, delay }),
        ..closed_loop(2, 12)
    };
    let outcome =
        Load { phases: vec![phase], conversations: Some(vec![conversation]), ..Load::on(&url) }
            .run();
    assert_eq!(outcome.records.len(), 12);
    for record in &outcome.records {
        assert_eq!(record.error.as_ref().unwrap().kind, ErrorKind::Cancelled);
        let sent = record.trace.send_end.unwrap();
        assert!(record.cancelled_at.unwrap().since(sent) >= delay);
        assert!(record.trace.request_bytes > long.len() as u64);
        assert_eq!(record.trace.reused, None);
    }
    assert_eq!(outcome.phases[0].requests_cancelled, 12);
    wait_until("12 requests read whole and 12 connections closed", || {
        counts.each_ref().map(|count| count.load(Ordering::SeqCst)) == [12, 12]
    });
}

#[test]
fn workers_agree_on_who_is_cancelled() {
    let server = mock(Script { ttft: millis(2), itl: millis(1), ..Script::default() });
    let cancelled = |workers| -> BTreeSet<u64> {
        let phase = PhaseConfig {
            cancellation: Some(Cancellation { percent: 30.0, delay: Nanos::ZERO }),
            ..closed_loop(4, 60)
        };
        let load = Load { phases: vec![phase], workers, ..Load::on(&server.url()) };
        let records = load.run().records;
        assert_eq!(records.len(), 60);
        let cancelled = records.iter().filter(|record| record.cancelled_at.is_some());
        cancelled.map(|record| record.turn.session).collect()
    };
    let one = cancelled(1);
    assert!(!one.is_empty() && one.len() < 60);
    assert_eq!(one, cancelled(3));
}

#[test]
fn a_stall_loses_no_request_that_was_due() {
    // Only one at a time, and the first takes a second.
    let server = faulty("requests=1:stall=0,1s");
    let phase = PhaseConfig { concurrency: Some(Limit::constant(1)), ..open_loop(100.0, 80) };
    let outcome = Load { phases: vec![phase], ..Load::on(&server.url()) }.run();
    let expected: Vec<Nanos> = (0..80).map(|count| millis(count * 10)).collect();
    assert_eq!(due_offsets(&outcome), expected);
    let stalled = outcome.records[0].end;
    assert!(stalled.since(outcome.records[0].start) >= millis(1000));
    for record in &outcome.records[1..] {
        // They are sent when the server has room; users have waited since they were due.
        assert!(record.start >= stalled);
        // The last of them are due when the server has caught up.
        let was_held_up = record.due.unwrap() < stalled;
        assert!(!was_held_up || record.free_from >= stalled);
        let effective = record.end.since(record.due.unwrap());
        assert!(effective >= stalled.since(record.due.unwrap()));
        assert!(effective > record.end.since(record.start));
    }
}

#[test]
fn whatever_ends_a_request_gives_back_its_slot_and_its_connection() {
    let (url, counts) = silent();
    let cancelled = PhaseConfig {
        cancellation: Some(Cancellation { percent: 60.0, delay: millis(1) }),
        ..closed_loop(20, 400)
    };
    let transport = transport::Config {
        request_timeout: millis(30),
        connections: Connections { limit: 20, ..Connections::default() },
        ..transport::Config::default()
    };
    let load = Load { phases: vec![cancelled], transport, ..Load::on(&url) };
    let outcome = load.run();
    let kinds = |kind| {
        let of = |record: &&RequestRecord| record.error.as_ref().unwrap().kind == kind;
        outcome.records.iter().filter(of).count()
    };
    let (cancelled, timed_out) = (kinds(ErrorKind::Cancelled), kinds(ErrorKind::Timeout));
    assert_eq!(cancelled + timed_out, 400);
    assert!(cancelled > 100 && timed_out > 50, "{cancelled} {timed_out}");
    assert_eq!(outcome.peak_in_flight, 20);
    wait_until("as many closed connections as requests", || {
        counts[1].load(Ordering::SeqCst) == counts[0].load(Ordering::SeqCst)
    });
}

#[test]
fn failures_that_come_at_once_do_not_hold_up_the_end() {
    let refusing = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let endless = PhaseConfig {
        stop: StopCondition { duration: Some(millis(50)), ..StopCondition::default() },
        ..closed_loop(50, 1)
    };
    let outcome = Load { phases: vec![endless], ..Load::on(&refusing) }.run();
    assert!(outcome.records.iter().all(RequestRecord::has_failed));
    let load = Load { phases: vec![closed_loop(50, u64::MAX)], ..Load::on(&refusing) };
    let (interrupter, progress) = (load.interrupter.clone(), Arc::clone(&load.progress));
    thread::spawn(move || {
        wait_until("failures of all 50", || returned(&progress) >= 50);
        interrupter.signal();
    });
    let outcome = load.run();
    assert!(outcome.phases[0].was_cancelled);
}

#[test]
fn overdue_sends_do_not_starve_those_under_way() {
    let server = mock(Script::default());
    // Faster than requests can be sent: all but the first are overdue.
    let outcome = Load { phases: vec![open_loop(1e6, 3000)], ..Load::on(&server.url()) }.run();
    assert!(outcome.records.iter().all(|record| record.error.is_none()));
    let first_end = outcome.records.iter().map(|record| record.end).min().unwrap();
    let last_issued = outcome.records.iter().map(|record| record.issued).max().unwrap();
    assert!(first_end < last_issued, "no answer was read before all had been sent");
}

#[test]
fn users_are_had_by_two_flags() {
    let server = mock(Script::default());
    let run = profile(
        &server.url(),
        &["--user-centric-rate", "40", "--num-users", "2", "--session-turns-mean", "2"],
    )
    .succeeded();
    assert_eq!(run.records().len(), 4);
    let phase = &run.summary()["input_config"]["phases"][0];
    assert_eq!((&phase["type"], &phase["users"]), (&"user_centric".into(), &2.into()));
}

#[test]
fn a_run_that_mostly_fails_is_given_up() {
    let server = faulty("every=2:status=500");
    let run = profile(
        &server.url(),
        &["--request-count", "1000000", "--num-prompts", "5", "--failed-request-threshold", "0.3"],
    );
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(run.stderr().contains("--failed-request-threshold"), "{}", run.stderr());
    let summary = run.summary();
    assert_eq!(summary["was_cancelled"], true);
    assert!(summary["incomplete_reason"].as_str().unwrap().contains("requests failed"));
    let records = run.records();
    assert!(records.len() >= 10 && records.len() < 1_000_000);
}

/// Returns an address without a server.
fn dead() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_closed_loop_that_never_connects_backs_off_and_gives_up() {
    let flags = ["--concurrency", "8", "--benchmark-duration", "60", "--no-server-metrics"];
    let run = profile(&dead(), &flags);
    assert_eq!(run.exit_code(), Some(1));
    assert!(run.stderr().contains("cannot connect to any server"), "{}", run.stderr());
    assert!(run.stderr().contains("refused"), "{}", run.stderr());
    let summary = run.summary();
    let reason = summary["incomplete_reason"].as_str().unwrap();
    assert!(reason.contains("cannot connect to any server"), "{reason}");
    // Twelve rounds of eight, and any requests of the next round that were already sent.
    let records = run.records();
    assert!(records.len() >= 12 && records.len() < 300, "{}", records.len());
    let held_back = summary["load"]["sends_held_back"].as_u64().unwrap();
    assert!(held_back >= 12 && held_back <= records.len() as u64 + 8, "{held_back}");
    assert!(run.stdout().contains("Nothing listens at http://"), "{}", run.stdout());
    // The waits between rounds increase, up to a second; the last one is at least half of that.
    let mut starts: Vec<u64> = records
        .iter()
        .map(|record| record["metadata"]["request_start_ns"].as_u64().unwrap())
        .collect();
    starts.sort_unstable();
    let took = starts.last().unwrap() - starts[0];
    assert!(took >= (10 + 20 + 40 + 80 + 160 + 320 + 640) / 2 * 1_000_000, "{took}");
    // Nothing was measured, so there cannot be a verdict.
    assert_eq!(summary["client_health"].get("verdict"), None);
    assert!(!run.stdout().contains("Client health: valid"), "{}", run.stdout());
}

/// Returns the run of 100,000 requests, of which the server rejects all.
fn rejected(url: &str, flags: &[&str]) -> Run {
    let load = ["--concurrency", "8", "--request-count", "100000", "--num-prompts", "5"];
    let run = profile(url, &[&load[..], flags].concat());
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    // Those that were in flight when the twentieth was rejected have ended too.
    let records = run.records();
    assert!((20..28).contains(&records.len()), "{}", records.len());
    run
}

#[test]
fn a_wrong_model_ends_the_run_and_the_server_names_its_models() {
    let models = ["one", "two"].map(str::to_owned).to_vec();
    let server = mock(Script { strict_models: true, models, ..Script::default() });
    let run = rejected(&server.url(), &[]);
    for shown in [run.stderr(), run.summary()["incomplete_reason"].to_string()] {
        assert!(shown.contains("requests were all rejected, the last with status 404"), "{shown}");
    }
    let stdout = run.stdout();
    for said in [
        "404 Not Found: The model `mock-model` does not exist.",
        "The server offers one, two; choose with --model.",
        "--model one --message hello",
    ] {
        assert!(stdout.contains(said), "{stdout}");
    }
}

#[test]
fn a_wrong_path_ends_the_run_and_those_that_answer_are_named() {
    let server = mock(Script::default());
    let run = rejected(&server.url(), &["--endpoint", "/v1/wrong"]);
    let stdout = run.stdout();
    assert!(stdout.contains("The server answers at "), "{stdout}");
    assert!(
        stdout.contains("/v1/chat/completions") && stdout.contains("/v1/embeddings"),
        "{stdout}"
    );
}

#[test]
fn a_missing_key_ends_the_run_and_the_limit_can_be_set() {
    let server = faulty("all:status=401");
    let run = rejected(&server.url(), &[]);
    let advice = "The server needs a key; set it with --api-key";
    assert!(run.stdout().contains(advice), "{}", run.stdout());
    for (limit, requests) in [("3", 3), ("0", 40)] {
        let flags =
            ["--concurrency", "1", "--request-count", "40", "--rejected-request-limit", limit];
        let run = profile(&server.url(), &flags);
        assert_eq!((run.exit_code(), run.records().len()), (Some(1), requests), "{limit}");
    }
}

#[test]
fn requests_that_fail_later_do_not_end_the_run() {
    // One of the first twenty is accepted.
    let server = faulty("every=2:status=404");
    let run = profile(&server.url(), &["--request-count", "60"]).succeeded();
    assert_eq!(run.records().len(), 60);
}

#[test]
fn an_open_loop_keeps_its_times_where_nobody_listens() {
    let flags = ["--request-rate", "40", "--arrival-pattern", "constant", "--request-count", "80"];
    let run = profile(&dead(), &flags);
    let records = run.records();
    assert_eq!(records.len(), 80);
    let mut due: Vec<u64> = records
        .iter()
        .map(|record| record["metadata"]["request_due_ns"].as_u64().unwrap())
        .collect();
    due.sort_unstable();
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 25_000_000));
    assert_eq!(run.summary()["load"].get("sends_held_back"), None);
    assert_eq!(run.summary()["client_health"].get("verdict"), None);
}

#[test]
fn a_closed_loop_goes_on_when_the_server_is_back() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let load = Load { phases: vec![closed_loop(2, 60)], ..Load::on(&format!("http://{address}")) };
    let progress = Arc::clone(&load.progress);
    let returns = thread::spawn(move || {
        wait_until("two rounds of failures", || returned(&progress) >= 4);
        mock_server::MockServer::start(mock_server::Config {
            address,
            ..mock_server::Config::default()
        })
        .unwrap()
    });
    let outcome = load.run();
    drop(returns.join().unwrap());
    let failed = outcome.records.iter().filter(|record| record.error.is_some()).count();
    assert_eq!(outcome.records.len(), 60);
    // The server starts after two rounds of two, in less time than the pauses of a second take that
    // the rounds after the eighth have.
    assert!((4..30).contains(&failed), "{failed}");
}

#[test]
fn timestamps_in_a_file_are_a_schedule_unless_refused() {
    let server = mock(Script::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines = [r#"{"timestamp":1060,"text":"later"}"#, r#"{"timestamp":1000,"text":"first"}"#];
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let run = |flags: &[&str]| {
        let file = ["--input-file", file.path().to_str().unwrap()];
        profile(&server.url(), &[&file[..], flags].concat()).succeeded()
    };
    // The warmup's session has the same conversation, but does not use up time of the schedule.
    let scheduled = run(&["--fixed-schedule-auto-offset", "--warmup-request-count", "1"]);
    assert_eq!(scheduled.summary()["input_config"]["phases"][1]["type"], "fixed_schedule");
    let due = |of: &Run| -> Vec<(u64, u64)> {
        let records = of.records();
        let metadata = records.iter().map(|record| &record["metadata"]);
        let measured = metadata.filter(|record| record["benchmark_phase"] == "profiling");
        let mut due: Vec<(u64, u64)> = measured
            .map(|record| {
                let number = |name: &str| record[name].as_u64().unwrap();
                (number("session_num"), number("request_due_ns"))
            })
            .collect();
        due.sort_unstable();
        due
    };
    let [(first, start), (second, later)] = due(&scheduled)[..] else { panic!() };
    assert_eq!((first, second, later - start), (1, 2, 60_000_000));
    // Alone, its times start at zero: the first is due after a second.
    let by_itself = run(&["--replay-speedup", "10"]);
    assert_eq!(by_itself.summary()["input_config"]["phases"][0]["type"], "fixed_schedule");
    let [(_, start), (_, later)] = due(&by_itself)[..] else { panic!() };
    assert_eq!(later - start, 6_000_000);
    let refused = run(&["--no-fixed-schedule"]);
    assert_eq!(refused.summary()["input_config"]["phases"][0]["type"], "concurrency");
}
