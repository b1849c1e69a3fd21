//! Converts the times of a dataset to those of the run.

use std::sync::Arc;

use thiserror::Error;

use base::units::Nanos;
use dataset::{Conversation, Conversations, Dataset, LeftOut, Turn};

use super::config::{
    Config, LoadPattern, PhaseConfig, Replay, StopCondition, UseOfTimestamps, Zero,
};

/// The dataset does not fit the load.
#[derive(Debug, Error, PartialEq)]
pub enum ScheduleError {
    /// A fixed schedule needs timestamps, and a conversation has none.
    #[error(
        "--fixed-schedule: the first turn of conversation `{conversation}` lacks a timestamp; add a \
         `timestamp` in milliseconds to each conversation, or remove the flag"
    )]
    NoTimestamp {
        /// Identifier of the conversation.
        conversation: Arc<str>,
    },
    /// No timestamp lies within the window.
    #[error(
        "no timestamp of the dataset is between --fixed-schedule-start-offset and \
         --fixed-schedule-end-offset; timestamps are from {first} to {last} ms"
    )]
    EmptyWindow {
        /// The earliest timestamp, in milliseconds.
        first: f64,
        /// The latest timestamp, in milliseconds.
        last: f64,
    },
    /// Gaps between timestamps are to be capped, but requests are not sent at timestamps.
    #[error(
        "--max-idle-gap-cap-seconds applies to timestamps, but requests are not sent at timestamps; \
         remove the flag, or use a file with timestamps and no rate"
    )]
    NoGaps,
    /// A user-centric load needs conversations of more than one turn.
    #[error(
        "--user-centric-rate: all conversations of the dataset have a single turn; use \
         conversations of several turns, or --request-rate"
    )]
    SingleTurns,
}

/// Settles what depends on the dataset: whether its timestamps are the schedule, and the end of
/// phases without a stop condition. Converts its times to those of the run: timestamps count from
/// the phase's start, and conversations are in order of time.
pub fn settle(config: &mut Config, dataset: &mut Dataset) -> Result<(), ScheduleError> {
    let is_fixed = settle_dataset(&config.replay, dataset)?;
    settle_phases(config, dataset, &[is_fixed])
}

/// Applies `replay` to the times of a dataset of one part; returns whether they are the schedule.
pub fn settle_dataset(replay: &Replay, dataset: &mut Dataset) -> Result<bool, ScheduleError> {
    let conversations = &mut dataset.conversations;
    let is_fixed = has_schedule(replay, conversations)?;
    if is_fixed {
        select(replay, conversations)?;
        if replay.strict {
            conversations.rearrange(split);
        }
        rebase(replay, conversations);
    } else if replay.idle_gap_cap.is_some() {
        return Err(ScheduleError::NoGaps);
    }
    set_delays(replay, conversations);
    let replay = replay.clone();
    dataset.rearranged(move |made| set_delays(&replay, std::slice::from_mut(made)));
    Ok(is_fixed)
}

/// Completes the phases with what depends on a settled dataset, whose parts have times that are a schedule
/// if `is_fixed`.
pub fn settle_phases(
    config: &mut Config,
    dataset: &Dataset,
    is_fixed: &[bool],
) -> Result<(), ScheduleError> {
    for phase in &mut config.phases {
        settle_phase(phase, dataset.part(phase.dataset))?;
    }
    // Phases that are listed say themselves whether they follow timestamps.
    let last = config.phases.last_mut().filter(|phase| phase.name.is_none());
    if let Some(phase) = last.filter(|phase| is_fixed.get(phase.dataset) == Some(&true)) {
        phase.load = LoadPattern::FixedSchedule;
        if let UseOfTimestamps::IfPresent(concurrency) = config.replay.schedule {
            phase.concurrency = concurrency;
        }
    }
    Ok(())
}

/// Returns whether the timestamps of the dataset are the schedule.
fn has_schedule(replay: &Replay, conversations: &[Conversation]) -> Result<bool, ScheduleError> {
    let untimed = conversations.iter().find(|conversation| start(conversation).is_none());
    match (replay.schedule, untimed) {
        (UseOfTimestamps::Never, _) => Ok(false),
        (UseOfTimestamps::IfPresent(_), untimed) => Ok(untimed.is_none()),
        (UseOfTimestamps::Always, None) => Ok(true),
        (UseOfTimestamps::Always, Some(conversation)) => {
            Err(ScheduleError::NoTimestamp { conversation: Arc::clone(&conversation.id) })
        }
    }
}

fn start(conversation: &Conversation) -> Option<Nanos> {
    conversation.turns.first().and_then(|turn| turn.timestamp)
}

/// Removes what lies outside the window: conversations that start outside it, and the turns of
/// other conversations from the first late turn on.
fn select(replay: &Replay, conversations: &mut Conversations) -> Result<(), ScheduleError> {
    let starts = || conversations.iter().filter_map(start);
    let first = starts().min().unwrap_or_default().as_millis();
    let last = starts().max().unwrap_or_default().as_millis();
    let (from, until) = (replay.from.unwrap_or_default(), replay.until.unwrap_or(Nanos(u64::MAX)));
    let is_late = |turn: &Turn| turn.timestamp.is_some_and(|at| at > until);
    conversations.retain(LeftOut::OutsideWindow, |_, conversation| {
        start(conversation).is_some_and(|at| (from..=until).contains(&at))
    });
    conversations.shorten(LeftOut::OutsideWindow, |conversation| {
        conversation.turns.iter().position(is_late).unwrap_or(conversation.turns.len())
    });
    if conversations.is_empty() { Err(ScheduleError::EmptyWindow { first, last }) } else { Ok(()) }
}

/// Makes each turn with a timestamp a conversation of its own.
fn split(conversations: Vec<Conversation>) -> Vec<Conversation> {
    let mut apart: Vec<Conversation> = Vec::new();
    for mut conversation in conversations {
        let turns = std::mem::take(&mut conversation.turns);
        let is_single = turns.iter().skip(1).all(|turn| turn.timestamp.is_none());
        for (index, turn) in turns.into_iter().enumerate() {
            let goes_on = index > 0 && turn.timestamp.is_none();
            match apart.last_mut() {
                Some(last) if goes_on => last.turns.push(turn),
                _ => {
                    let id = if is_single {
                        Arc::clone(&conversation.id)
                    } else {
                        format!("{}-{index}", conversation.id).into()
                    };
                    apart.push(Conversation { id, turns: vec![turn], ..conversation.clone() });
                }
            }
        }
    }
    apart
}

/// Sorts conversations by time and counts their timestamps from the start.
fn rebase(replay: &Replay, conversations: &mut [Conversation]) {
    conversations.sort_by_key(start);
    let zero = match replay.zero {
        Zero::First => conversations.first().and_then(start).unwrap_or_default(),
        Zero::At(zero) => zero,
    };
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.timestamp = turn.timestamp.map(|at| faster(at.since(zero), replay.speedup));
    }
    if let Some(cap) = replay.session_gap_cap {
        for conversation in conversations.iter_mut() {
            cap_gaps(cap, conversation.turns.iter_mut().collect());
        }
    }
    if let Some(cap) = replay.idle_gap_cap {
        let turns = conversations.iter_mut().flat_map(|conversation| &mut conversation.turns);
        cap_gaps(cap.max(LEAST_GAP), turns.collect());
    }
}

/// Minimum cap on gaps between the timestamps of all conversations, so that they keep their order.
const LEAST_GAP: Nanos = Nanos(1_000_000);

/// Moves the timestamps of `turns` forward, so that none is more than `cap` after the one before
/// it. The first one stays.
fn cap_gaps(cap: Nanos, mut turns: Vec<&mut Turn>) {
    turns.retain(|turn| turn.timestamp.is_some());
    turns.sort_by_key(|turn| turn.timestamp);
    let mut last: Option<(Nanos, Nanos)> = None;
    for turn in turns {
        let Some(at) = turn.timestamp else { continue };
        let moved = last.map_or(at, |(before, moved)| moved + at.since(before).min(cap));
        turn.timestamp = Some(moved);
        last = Some((at, moved));
    }
}

fn set_delays(replay: &Replay, conversations: &mut [Conversation]) {
    let caps = [replay.delay_cap, replay.session_gap_cap];
    let cap =
        if replay.ignore_delays { Some(Nanos::ZERO) } else { caps.into_iter().flatten().min() };
    let cap = cap.unwrap_or(Nanos(u64::MAX));
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.delay = faster(turn.delay, replay.speedup).min(cap);
    }
}

/// Converts a time of the trace to a replay that is `speedup` times as fast.
fn faster(time: Nanos, speedup: f64) -> Nanos {
    // Unchanged times do not pass through a double, which has only 53 bits.
    if speedup == 1.0 { time } else { Nanos((time.0 as f64 / speedup).round() as u64) }
}

/// Sets the end of a phase without a stop condition, and limits the phase to what the dataset
/// provides.
fn settle_phase(
    phase: &mut PhaseConfig,
    conversations: &[Conversation],
) -> Result<(), ScheduleError> {
    if let LoadPattern::UserCentric { .. } = phase.load
        && conversations.iter().all(|conversation| conversation.turns.len() < 2)
    {
        return Err(ScheduleError::SingleTurns);
    }
    if phase.sends_whole_dataset() {
        let sessions = Some(dataset::roots(conversations) as u64);
        phase.stop = StopCondition { sessions, ..StopCondition::default() };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::PhaseKind;
    use super::super::config::{ArrivalPattern, Limit, Rate};
    use super::*;

    /// A turn of a trace: its timestamp and its delay, in milliseconds.
    type Times = (Option<u64>, u64);

    fn dataset(conversations: &[&[Times]]) -> Dataset {
        let turn = |&(timestamp, delay): &Times| Turn {
            timestamp: timestamp.map(|at| Nanos(at * 1_000_000)),
            delay: Nanos(delay * 1_000_000),
            ..Turn::default()
        };
        let conversation = |(index, turns): (usize, &&[Times])| Conversation {
            id: index.to_string().into(),
            turns: turns.iter().map(turn).collect(),
            ..Conversation::default()
        };
        let conversations: Vec<_> = conversations.iter().enumerate().map(conversation).collect();
        Dataset::from_conversations(conversations)
    }

    fn times(dataset: &Dataset) -> Vec<(String, Vec<Times>)> {
        let of =
            |turn: &Turn| (turn.timestamp.map(|at| at.0 / 1_000_000), turn.delay.0 / 1_000_000);
        let conversation = |c: &Conversation| (c.id.to_string(), c.turns.iter().map(of).collect());
        dataset.conversations.iter().map(conversation).collect()
    }

    fn config(load: LoadPattern, replay: Replay) -> Config {
        let phase = PhaseConfig {
            name: None,
            kind: PhaseKind::Profiling,
            seamless: false,
            dataset: 0,
            load,
            concurrency: Some(Limit::constant(1)),
            prefill_concurrency: None,
            stop: StopCondition::default(),
            grace_period: None,
            cancellation: None,
            failed_request_threshold: None,
            end_failed_sessions: false,
            adaptive: None,
        };
        Config { phases: vec![phase], replay, shard: None, start_at: None }
    }

    fn fixed(replay: &Replay) -> Config {
        let replay = Replay { schedule: UseOfTimestamps::Always, ..replay.clone() };
        config(LoadPattern::FixedSchedule, replay)
    }

    fn settled(replay: &Replay, of: &[&[Times]]) -> Vec<(String, Vec<Times>)> {
        let mut dataset = dataset(of);
        settle(&mut fixed(replay), &mut dataset).unwrap();
        times(&dataset)
    }

    fn named(id: &str, turns: &[Times]) -> (String, Vec<Times>) {
        (id.to_owned(), turns.to_vec())
    }

    /// Timestamps of 0, 10, 50 and 55 ms, with a second turn at 1,055 ms that has a delay too.
    #[test]
    fn gaps_are_capped() {
        let times_of = |replay: Replay| {
            let mut dataset = dataset(&[
                &[(Some(50), 0), (Some(1055), 40)],
                &[(Some(0), 0)],
                &[(Some(10), 0)],
                &[(Some(55), 0)],
            ]);
            let replay = Replay { schedule: UseOfTimestamps::Always, ..replay };
            settle_dataset(&replay, &mut dataset).unwrap();
            times(&dataset).into_iter().map(|(_, times)| times).collect::<Vec<_>>()
        };
        let cap = |millis| Some(Nanos::from_millis(millis));
        assert_eq!(
            times_of(Replay { idle_gap_cap: cap(20.0), ..Replay::default() }),
            [
                vec![(Some(0), 0)],
                vec![(Some(10), 0)],
                vec![(Some(30), 0), (Some(55), 40)],
                vec![(Some(35), 0)],
            ]
        );
        // A cap of 0 is one of a millisecond.
        let tight = times_of(Replay { idle_gap_cap: cap(0.0), ..Replay::default() });
        assert_eq!(tight[2], [(Some(2), 0), (Some(4), 40)]);
        let of_session = times_of(Replay { session_gap_cap: cap(20.0), ..Replay::default() });
        assert_eq!(of_session[2], [(Some(50), 0), (Some(70), 20)]);
        let mut untimed = dataset(&[&[(None, 0)]]);
        let replay = Replay { idle_gap_cap: cap(1.0), ..Replay::default() };
        assert_eq!(settle_dataset(&replay, &mut untimed), Err(ScheduleError::NoGaps));
    }

    #[test]
    fn conversations_come_in_order_of_time() {
        let settled = settled(
            &Replay::default(),
            &[&[(Some(30), 0)], &[(Some(10), 0), (Some(50), 0), (None, 7)], &[(Some(10), 0)]],
        );
        assert_eq!(
            settled,
            [
                named("1", &[(Some(10), 0), (Some(50), 0), (None, 7)]),
                named("2", &[(Some(10), 0)]),
                named("0", &[(Some(30), 0)]),
            ]
        );
    }

    #[test]
    fn times_count_from_zero_and_run_faster() {
        let trace: &[&[Times]] =
            &[&[(Some(400), 0), (Some(1000), 0), (None, 900)], &[(Some(600), 0)]];
        let replay = Replay { zero: Zero::First, speedup: 2.0, ..Replay::default() };
        let faster = settled(&replay, trace);
        let expected = [
            named("0", &[(Some(0), 0), (Some(300), 0), (None, 450)]),
            named("1", &[(Some(100), 0)]),
        ];
        assert_eq!(faster, expected);
        let capped = Replay { delay_cap: Some(Nanos::from_millis(100.0)), ..replay.clone() };
        assert_eq!(settled(&capped, trace)[0].1[2], (None, 100));
        let ignored = Replay { ignore_delays: true, ..replay };
        assert_eq!(settled(&ignored, trace)[0].1, [(Some(0), 0), (Some(300), 0), (None, 0)]);
    }

    #[test]
    fn the_window_leaves_out_what_is_outside() {
        let trace: &[&[Times]] = &[
            &[(Some(99), 0)],
            &[(Some(100), 0), (Some(200), 0), (Some(201), 0), (None, 5)],
            &[(Some(201), 0)],
        ];
        let replay = Replay {
            from: Some(Nanos::from_millis(100.0)),
            until: Some(Nanos::from_millis(200.0)),
            zero: Zero::At(Nanos::from_millis(100.0)),
            ..Replay::default()
        };
        assert_eq!(settled(&replay, trace), [named("1", &[(Some(0), 0), (Some(100), 0)])]);
        let error = settle(&mut fixed(&replay), &mut dataset(&[&[(Some(5), 0)], &[(Some(9), 0)]]));
        assert_eq!(error, Err(ScheduleError::EmptyWindow { first: 5.0, last: 9.0 }));
    }

    #[test]
    fn strictly_each_timestamp_is_a_session() {
        let trace: &[&[Times]] =
            &[&[(Some(1), 0), (Some(9), 0), (None, 2)], &[(Some(4), 0), (None, 3)]];
        let strict = Replay { strict: true, ..Replay::default() };
        let expected = [
            named("0-0", &[(Some(1), 0)]),
            named("1", &[(Some(4), 0), (None, 3)]),
            named("0-1", &[(Some(9), 0), (None, 2)]),
        ];
        assert_eq!(settled(&strict, trace), expected);
    }

    #[test]
    fn timestamps_that_all_have_make_a_schedule_by_themselves() {
        let replay =
            |cap| Replay { schedule: UseOfTimestamps::IfPresent(cap), ..Replay::default() };
        let (timed, untimed): (&[Times], &[Times]) = (&[(Some(3), 0)], &[(None, 0)]);
        let mut all = config(LoadPattern::ClosedLoop, replay(None));
        settle(&mut all, &mut dataset(&[timed, timed])).unwrap();
        assert!(all.is_fixed_schedule());
        assert_eq!((all.phases[0].concurrency, all.phases[0].stop.sessions), (None, Some(2)));
        let mut capped = config(LoadPattern::ClosedLoop, replay(Some(Limit::constant(4))));
        settle(&mut capped, &mut dataset(&[timed])).unwrap();
        assert_eq!(capped.phases[0].concurrency, Some(Limit::constant(4)));
        let mut some = config(LoadPattern::ClosedLoop, replay(None));
        settle(&mut some, &mut dataset(&[timed, untimed])).unwrap();
        assert_eq!(some.phases[0].load, LoadPattern::ClosedLoop);
        assert_eq!(some.phases[0].concurrency, Some(Limit::constant(1)));
        let asked = settle(&mut fixed(&Replay::default()), &mut dataset(&[timed, untimed]));
        assert_eq!(asked, Err(ScheduleError::NoTimestamp { conversation: "1".into() }));
    }

    #[test]
    fn users_need_turns_to_come_back_for() {
        let users = LoadPattern::UserCentric { rate: 1.0, users: 2 };
        let single: &[Times] = &[(None, 0)];
        let refused =
            settle(&mut config(users.clone(), Replay::default()), &mut dataset(&[single]));
        assert_eq!(refused, Err(ScheduleError::SingleTurns));
        let several: &[Times] = &[(None, 0), (None, 0)];
        assert_eq!(settle(&mut config(users, Replay::default()), &mut dataset(&[several])), Ok(()));
    }

    #[test]
    fn a_rate_leaves_timestamps_alone() {
        let rate = LoadPattern::Rate(Rate::constant(5.0, ArrivalPattern::Constant));
        let mut config = config(rate.clone(), Replay { speedup: 2.0, ..Replay::default() });
        let mut dataset = dataset(&[&[(Some(9), 0), (None, 8)], &[(Some(3), 0)]]);
        settle(&mut config, &mut dataset).unwrap();
        assert_eq!(config.phases[0].load, rate);
        let expected = [named("0", &[(Some(9), 0), (None, 4)]), named("1", &[(Some(3), 0)])];
        assert_eq!(times(&dataset), expected);
    }
}
