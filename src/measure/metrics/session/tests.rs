use client::endpoint::EndpointType;
use client::record::RequestError;
use std::sync::Arc;

use super::*;
use crate::metrics::fixture;
use crate::metrics::metric::{Objective, RecordValues, Settings, Value};
use crate::metrics::tag::MetricTag;

const MILLI: u64 = 1_000_000;

/// A request from `start` to `end`, in milliseconds.
fn request(start: u64, end: u64, values: &[(MetricTag, f64)]) -> Observation {
    let mut own = RecordValues::default();
    for (tag, value) in values {
        own.set(*tag, Value::Scalar(*value));
    }
    Observation {
        start_wall_ns: start * MILLI,
        end_wall_ns: end * MILLI,
        values: own,
        ..fixture::observation()
    }
}

fn failed(observation: Observation, kind: ErrorKind) -> Observation {
    let error = Some(RequestError::new(kind, "error", "it failed"));
    Observation { error, ..observation }
}

const fn place(is_final: bool, delay: u64) -> TurnPlace {
    TurnPlace { is_final, children: 0, delay: Nanos(delay * MILLI) }
}

/// A turn of the root of a session, which is conversation 1.
fn turn(session: u64, index: usize, place: TurnPlace, of: &Observation) -> SessionTurn<'_> {
    SessionTurn {
        session,
        correlation_id: Uuid::from_u128(u128::from(session) << 64 | 1),
        ancestry: None,
        conversation_id: "c",
        index,
        due_wall_ns: None,
        place: Some(place),
        observation: of,
    }
}

fn ledger(turns: &[SessionTurn<'_>]) -> Sessions {
    let mut ledger = SessionLedger::new(Store::default(), false);
    for turn in turns {
        ledger.observe(turn);
    }
    ledger.sessions().unwrap()
}

fn only(sessions: &Sessions) -> Session {
    let mut all = sessions.iter();
    let first = all.next().unwrap();
    assert!(all.next().is_none());
    first
}

#[test]
fn time_is_divided_between_server_dataset_and_schedule() {
    let ttft = |millis: u64| (tag::TIME_TO_FIRST_TOKEN, (millis * MILLI) as f64);
    let tokens = |input, output, cached| {
        [
            (tag::INPUT_SEQUENCE_LENGTH, input),
            (tag::OUTPUT_SEQUENCE_LENGTH, output),
            (tag::USAGE_PROMPT_TOKENS, input),
            (tag::USAGE_PROMPT_CACHE_READ_TOKENS, cached),
        ]
    };
    let first = request(0, 100, &[&tokens(10.0, 4.0, 0.0)[..], &[ttft(40)]].concat());
    // 50 ms of delay, then 20 ms after its delay of 30 ms.
    let second = request(150, 250, &[&tokens(20.0, 4.0, 10.0)[..], &[ttft(10)]].concat());
    let third = request(300, 390, &[&tokens(30.0, 2.0, 20.0)[..], &[ttft(20)]].concat());
    // Processors may pass requests on in any order.
    let sessions = ledger(&[
        turn(7, 2, place(true, 30), &third),
        turn(7, 0, place(false, 0), &first),
        turn(7, 1, place(false, 50), &second),
    ]);
    let Session { number, work, conversations } = only(&sessions);
    assert_eq!((number, work.end, work.turns, work.failed_turns), (7, SessionEnd::Completed, 3, 0));
    assert_eq!(work.duration(), Nanos(390 * MILLI));
    assert_eq!(work.server_time, Nanos(290 * MILLI));
    assert_eq!(work.delay_time, Nanos(80 * MILLI));
    assert_eq!(work.schedule_time(), Nanos(20 * MILLI));
    assert_eq!((work.input_tokens, work.output_tokens), (Some(60.0), Some(10.0)));
    assert_eq!((work.prompt_tokens, work.cached_tokens), (Some(60.0), Some(30.0)));
    assert_eq!(work.first_ttft, Some(40.0 * MILLI as f64));
    assert_eq!(work.later_ttft, Some(15.0 * MILLI as f64));
    assert_eq!(conversations.len(), 1);
    assert_eq!(&*conversations[0].name, "c");
    assert_eq!(conversations[0].work, work);
}

#[test]
fn a_fixed_schedule_delays_until_the_timestamp() {
    let mut ledger = SessionLedger::new(Store::default(), true);
    let (first, second) = (request(0, 100, &[]), request(180, 200, &[]));
    ledger.observe(&turn(0, 0, place(false, 0), &first));
    let due_wall_ns = Some(160 * MILLI);
    ledger.observe(&SessionTurn { due_wall_ns, ..turn(0, 1, place(true, 0), &second) });
    let work = only(&ledger.sessions().unwrap()).work;
    assert_eq!(work.delay_time, Nanos(60 * MILLI));
    assert_eq!(work.schedule_time(), Nanos(20 * MILLI));
}

#[test]
fn conversations_that_run_at_the_same_time_share_the_time() {
    let ids = |number: u128| Uuid::from_u128(number);
    let root = Ancestry::of_root(ids(1));
    let turn = |id, index, ancestry, place, observation| SessionTurn {
        correlation_id: ids(id),
        ancestry: Some(ancestry),
        conversation_id: if id == 1 { "main" } else { "sub" },
        ..turn(0, index, place, observation)
    };
    let starts = TurnPlace { is_final: false, children: 1, delay: Nanos::ZERO };
    let first = request(0, 100, &[]);
    let sub = request(100, 300, &[]);
    let second = request(120, 200, &[]);
    let last = request(340, 400, &[]);
    let turns = [
        turn(1, 0, root, starts, &first),
        turn(2, 0, root.of_child(ids(1)), place(true, 0), &sub),
        turn(1, 1, root, place(false, 20), &second),
        turn(1, 2, root, place(true, 40), &last),
    ];
    let Session { work, conversations, .. } = only(&ledger(&turns));
    assert_eq!((work.end, work.turns), (SessionEnd::Completed, 4));
    assert_eq!(work.server_time, Nanos(360 * MILLI));
    assert_eq!(work.delay_time, Nanos(40 * MILLI));
    let names: Vec<_> = conversations.iter().map(|one| (&*one.name, one.parent)).collect();
    assert_eq!(names, [("main", None), ("sub", Some(ids(1)))]);
    let alone: Vec<_> = conversations.iter().map(|one| one.work.server_time.0 / MILLI).collect();
    assert_eq!(alone, [240, 200]);
    // Without the conversation that the first turn starts, the session was cut off.
    let without = [turns[0], turns[2], turns[3]];
    assert_eq!(only(&ledger(&without)).work.end, SessionEnd::Cancelled);
}

#[test]
fn sessions_end_in_three_ways() {
    let fine = request(0, 10, &[]);
    let timeout = failed(request(20, 30, &[]), ErrorKind::Timeout);
    let cancelled = failed(request(20, 30, &[]), ErrorKind::Cancelled);
    let end = |last: &Observation, is_final| {
        let turns = [turn(0, 0, place(false, 0), &fine), turn(0, 1, place(is_final, 0), last)];
        only(&ledger(&turns)).work.end
    };
    let next = request(20, 30, &[]);
    assert_eq!(end(&next, true), SessionEnd::Completed);
    assert_eq!(end(&next, false), SessionEnd::Cancelled);
    assert_eq!(end(&timeout, true), SessionEnd::Failed);
    assert_eq!(end(&timeout, false), SessionEnd::Failed);
    assert_eq!(end(&cancelled, true), SessionEnd::Cancelled);
}

#[test]
fn single_turns_are_not_sessions() {
    let mut ledger = SessionLedger::new(Store::default(), false);
    let one = request(0, 10, &[]);
    ledger.observe(&SessionTurn { place: None, ..turn(0, 0, place(true, 0), &one) });
    assert!(ledger.sessions().is_none());
    // Among others, they are.
    ledger.observe(&turn(1, 0, place(true, 0), &one));
    let ends: Vec<_> = ledger.sessions().unwrap().iter().map(|one| one.work.end).collect();
    assert_eq!(ends, [SessionEnd::Completed; 2]);
}

#[test]
fn results_are_of_completed_sessions() {
    let objective = Objective { tag: tag::REQUEST_LATENCY, threshold: 100.0 };
    let settings = Settings { objectives: vec![objective], ..Settings::default() };
    let registry: Arc<Registry> = fixture::registry(EndpointType::CHAT, settings, true);
    let good = [(tag::GOOD_REQUEST_COUNT, 1.0), (tag::OUTPUT_SEQUENCE_LENGTH, 5.0)];
    let slow = [(tag::OUTPUT_SEQUENCE_LENGTH, 5.0)];
    let requests = [
        // A good session of 30 ms, a completed one of 50 ms with a slow turn.
        (0, request(0, 10, &good), false),
        (0, request(20, 30, &good), true),
        (1, request(0, 10, &good), false),
        (1, request(20, 50, &slow), true),
        // A failed one, and one that lacks a turn.
        (2, request(0, 10, &good), false),
        (2, failed(request(20, 900, &[]), ErrorKind::Http5xx), true),
        (3, request(0, 900, &good), false),
    ];
    let turns: Vec<_> = requests
        .iter()
        .enumerate()
        .map(|(at, (session, request, is_final))| {
            turn(*session, at % 2, place(*is_final, 0), request)
        })
        .collect();
    let results = ledger(&turns).results(&registry, Some(2.0));
    let stats_of = |tag| results.iter().find(|result| result.metric.tag == tag).unwrap().stats;
    let durations = stats_of(tag::SESSION_DURATION).distribution.unwrap();
    assert_eq!((durations.count, durations.min, durations.max), (2, 30.0, 50.0));
    assert_eq!(stats_of(tag::SESSION_OUTPUT_TOKENS).avg, 10.0);
    for (tag, value) in [
        (tag::SESSION_COUNT, 2.0),
        (tag::ERROR_SESSION_COUNT, 1.0),
        (tag::CANCELLED_SESSION_COUNT, 1.0),
        (tag::SESSION_THROUGHPUT, 1.0),
        (tag::GOOD_SESSION_COUNT, 1.0),
        // Of three that ended.
        (tag::GOOD_SESSION_FRACTION, 1.0 / 3.0),
        (tag::SESSION_GOODPUT, 0.5),
    ] {
        assert_eq!(stats_of(tag).avg, value, "{tag}");
    }
    assert!(results.iter().all(|result| result.metric.tag != tag::SESSION_CACHE_READ_PCT));
}
