//! A shard that belongs to the run: it shows the others that it is alive, until it has ended.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use base::interrupt::Interrupt;
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::units::{Clock, Nanos};
use client::schedule::Shard;

use super::ProcessId;
use super::files::{Files, Note, State};

/// Minimum time between two signs of life.
const BEAT: Nanos = Nanos(1_000_000_000);

/// A shard without a sign of life for so many beats has been killed.
const MISSED_BEATS: u64 = 15;

/// A shard of a run that has a start. It has ended when this is dropped.
pub(in crate::app) struct Member {
    files: Files,
    shard: Shard,
    members: BTreeMap<u64, ProcessId>,
    beat: Nanos,
    step: Nanos,
    /// Ends the thread when it is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    /// Starts to show that this shard is alive; others look at its file every `step`.
    pub(super) fn start(
        files: Files,
        shard: Shard,
        note: Note,
        members: BTreeMap<u64, ProcessId>,
        step: Nanos,
    ) -> std::io::Result<Self> {
        let beat = BEAT.max(step);
        let (end, ended) = mpsc::channel();
        let own = files.clone();
        let live = move || beat_until(&ended, &own, shard, note, beat);
        let thread = thread::Builder::new().name("shard".to_owned()).spawn(live)?;
        Ok(Self { files, shard, members, beat, step, end: Some(end), thread: Some(thread) })
    }

    /// Returns the shard.
    pub(in crate::app) const fn shard(&self) -> Shard {
        self.shard
    }

    /// Waits until all other shards of the run have ended or have been killed, or until the user
    /// interrupts.
    pub(in crate::app) fn wait_for_others(&self, interrupt: &Interrupt) {
        let others = self.members.iter().filter(|(index, _)| **index != self.shard.index());
        let mut alive: BTreeMap<u64, Life> =
            others.map(|(index, id)| (*index, Life::new(*id, Clock::now()))).collect();
        let silence = Nanos(self.beat.0.saturating_mul(MISSED_BEATS));
        while !interrupt.is_draining() {
            let now = Clock::now();
            alive.retain(|index, life| life.goes_on(self.files.heard(*index), now, silence));
            if alive.is_empty() {
                break;
            }
            interrupt.sleep_until(now + self.step);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Replaces the file of the shard every `beat`, and for the last time once the shard has ended. An
/// error is only logged: the next beat may reach the file system again.
fn beat_until(
    ended: &mpsc::Receiver<()>,
    files: &Files,
    shard: Shard,
    mut note: Note,
    beat: Nanos,
) {
    yield_to_measurement(Background::Timely);
    loop {
        note.beat += 1;
        if let Err(why) = files.tell(shard.index(), &note) {
            tracing::debug!("cannot write the file of this shard: {why}");
        }
        if note.state == State::Ended {
            return;
        }
        if ended.recv_timeout(beat.into()) != Err(RecvTimeoutError::Timeout) {
            note.state = State::Ended;
        }
    }
}

/// What is known of the life of another shard.
struct Life {
    id: ProcessId,
    beat: Option<u64>,
    /// When its last beat was seen.
    seen: Nanos,
}

impl Life {
    const fn new(id: ProcessId, now: Nanos) -> Self {
        Self { id, beat: None, seen: now }
    }

    /// Returns whether the shard has neither ended nor been silent for the time `silence`.
    fn goes_on(&mut self, heard: Option<Note>, now: Nanos, silence: Nanos) -> bool {
        if let Some(note) = heard.filter(|note| note.id == self.id) {
            if note.state == State::Ended {
                return false;
            }
            if self.beat.replace(note.beat) != Some(note.beat) {
                self.seen = now;
            }
        }
        now.since(self.seen) < silence
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn note(id: Uuid, state: State, beat: u64) -> Note {
        let waited = Nanos::ZERO;
        let settings = Uuid::nil();
        let (attempt, leader, clock) = (None, None, None);
        Note { id, settings, attempt, leader, state, beat, waited, lead: waited, clock }
    }

    #[test]
    fn a_shard_lives_while_its_beats_are_heard() {
        let id = Uuid::new_v4();
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let mut life = Life::new(id, second(0));
        let silence = second(15);
        assert!(life.goes_on(Some(note(id, State::Running, 1)), second(10), silence));
        assert!(life.goes_on(Some(note(id, State::Running, 1)), second(24), silence));
        // The file system is away for a while.
        assert!(life.goes_on(None, second(24), silence));
        assert!(life.goes_on(Some(note(id, State::Running, 2)), second(26), silence));
        assert!(!life.goes_on(Some(note(id, State::Running, 2)), second(41), silence));
        let mut done = Life::new(id, second(0));
        assert!(!done.goes_on(Some(note(id, State::Ended, 9)), second(1), silence));
        // Another process in its place is not a member of the run.
        let mut replaced = Life::new(id, second(0));
        assert!(replaced.goes_on(
            Some(note(Uuid::new_v4(), State::Running, 1)),
            second(14),
            silence
        ));
        assert!(!replaced.goes_on(
            Some(note(Uuid::new_v4(), State::Running, 2)),
            second(15),
            silence
        ));
    }

    #[test]
    fn a_dropped_member_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::create(directory.path()).unwrap();
        let ids = [Uuid::new_v4(), Uuid::new_v4()];
        let members: BTreeMap<u64, Uuid> = (0..).zip(ids).collect();
        let [first, second] = [0, 1].map(|index: u64| {
            let note = note(ids[index as usize], State::Running, 0);
            let (files, members) = (files.clone(), members.clone());
            Member::start(
                files,
                format!("{index}/2").parse().unwrap(),
                note,
                members,
                Nanos(1_000_000),
            )
            .unwrap()
        });
        drop(second);
        assert_eq!(files.heard(1).unwrap().state, State::Ended);
        // Returns, since the other one has ended.
        first.wait_for_others(&Interrupt::never());
        drop(first);
        assert_eq!(files.heard(0).unwrap().state, State::Ended);
    }
}
