//! The barrier: shards wait for each other, and shard 0 sets the start.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, bail};
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::units::wall::shown;
use base::units::{Clock, Nanos};
use client::schedule::Shard;
use results::run::{Agreement, ClockOffset, ClockSpread};
use results::terminal::Stderr;

use super::ProcessId;
use super::files::{Agreed, Files, Note, State, wall_ns};
use super::member::Member;
use crate::config::{RunConfig, Ui};

/// Time between two steps, in addition to a time for each shard, so that the file system has about as
/// much to do for any number of them.
const STEP: Nanos = Nanos(100_000_000);

/// Time between two steps for each shard.
const STEP_PER_SHARD: Nanos = Nanos(2_000_000);

/// Time within which the others read the start, in addition to two of their steps.
const READING: Nanos = Nanos(1_000_000_000);

/// How much longer than shard 0 the others wait for it.
const GRACE: Nanos = Nanos(30_000_000_000);

/// The start is a multiple of this, in nanoseconds since the epoch.
const ROUND_NS: u64 = 100_000_000;

/// Longest time before the start that a shard is believed to need.
const LONGEST_LEAD: Nanos = Nanos(3_600_000_000_000);

/// Interval between messages to the user.
const TOLD_AGAIN: Nanos = Nanos(60_000_000_000);

/// Most shards that a message names.
const MAX_NAMED: usize = 10;

/// A shard that waits for the others.
pub(in crate::app) struct Barrier {
    files: Files,
    shard: Shard,
    timeout: Nanos,
    note: Note,
    /// Who was already sending when this process came, with their beats.
    running: BTreeMap<u64, u64>,
    /// The shards that are not ready, as far as this one knows.
    missing: Vec<u64>,
    is_shown: bool,
}

/// What the shards agreed.
pub(in crate::app) struct Met {
    /// The start, in nanoseconds since the epoch.
    pub(in crate::app) start_at_ns: u64,
    pub(in crate::app) agreement: Agreement,
    /// What the user should know of it.
    pub(in crate::app) warnings: Vec<String>,
    pub(in crate::app) member: Member,
}

impl Barrier {
    /// Returns the barrier in `files` for the run of `config`, whose shards share the `settings`;
    /// `None` if its start is configured. This shard needs the time `lead` before the start.
    pub(in crate::app) fn from_config(
        config: &RunConfig,
        settings: Uuid,
        lead: Nanos,
    ) -> anyhow::Result<Option<Self>> {
        let (Some(shard), Some(barrier)) = (config.schedule.shard, &config.barrier) else {
            return Ok(None);
        };
        let together = super::Together::from_config(config);
        if shard.index() == 0 {
            together.check()?;
        }
        let place = together.directory();
        let files = Files::create(place).with_context(|| {
            format!("the shards cannot agree on a start in {}", place.display())
        })?;
        let note = Note {
            id: Uuid::new_v4(),
            settings,
            attempt: barrier.attempt.clone(),
            leader: None,
            state: State::Ready,
            beat: 0,
            waited: Nanos::ZERO,
            lead,
            clock: None,
        };
        let is_shown = config.ui != Ui::None;
        Ok(Some(Self::new(files, shard, barrier.timeout, note, is_shown)))
    }

    fn new(files: Files, shard: Shard, timeout: Nanos, note: Note, is_shown: bool) -> Self {
        let (running, missing) = (BTreeMap::new(), Vec::new());
        Self { files, shard, timeout, note, running, missing, is_shown }
    }

    /// Waits for the other shards, and returns what they agreed; `None` if the user interrupts.
    ///
    /// # Errors
    ///
    /// Fails if the run has started without this shard, if shard 0 does not set a start in time, if
    /// it is the only shard, or if the files cannot be written.
    pub(in crate::app) fn meet(mut self, interrupt: &Interrupt) -> anyhow::Result<Option<Met>> {
        let began = Clock::now();
        let mut told = None;
        let outcome = loop {
            if interrupt.is_draining() {
                break Ok(None);
            }
            let waited = Clock::now().since(began);
            match self.step(waited) {
                Ok(None) => {}
                Ok(Some(agreed)) => return self.met(agreed).map(Some),
                Err(why) => break Err(why),
            }
            if told.is_none_or(|at| waited.since(at) >= TOLD_AGAIN) {
                self.tell(waited);
                told = Some(waited);
            }
            interrupt.sleep_until(Clock::now() + self.interval());
        };
        // The others shall not count on this shard.
        if let Err(why) = self.files.withdraw(self.shard.index()) {
            tracing::debug!("cannot remove the file of this shard: {why}");
        }
        outcome
    }

    /// Tells the others that this shard has been waiting for the time `waited`, and returns the start
    /// once it is set.
    fn step(&mut self, waited: Nanos) -> anyhow::Result<Option<Agreed>> {
        self.note.waited = waited;
        self.note.beat += 1;
        // Writing in the directory also makes a client of NFS look for what others have written there.
        let clock = self.files.tell(self.shard.index(), &self.note);
        let clock = clock.context("cannot write to the directory of the shards")?;
        let error = |clock: &ClockOffset| clock.error_ms;
        let clocks = self.note.clock.into_iter().chain(clock);
        self.note.clock = clocks.min_by(|a, b| error(a).total_cmp(&error(b)));
        if self.shard.index() == 0 { self.lead() } else { self.follow() }
    }

    /// Sets the start if all are ready, or if those that are have waited long enough.
    fn lead(&mut self) -> anyhow::Result<Option<Agreed>> {
        let others: BTreeMap<u64, Note> = (1..self.shard.count())
            .filter_map(|index| Some((index, self.files.heard(index)?)))
            .collect();
        for (index, note) in &others {
            self.refuse_to_join(*index, note)?;
        }
        let ready = |note: &&Note| {
            note.leader == Some(self.note.id)
                && note.settings == self.note.settings
                && note.state == State::Ready
        };
        let own = (0, &self.note);
        let ready: BTreeMap<u64, &Note> = others
            .iter()
            .map(|(index, note)| (*index, note))
            .filter(|(_, note)| ready(note))
            .chain([own])
            .collect();
        self.missing = (0..self.shard.count()).filter(|index| !ready.contains_key(index)).collect();
        if !self.missing.is_empty() {
            let waited = ready.values().map(|note| note.waited).max().unwrap_or(Nanos::ZERO);
            if waited < self.timeout {
                return Ok(None);
            }
            if ready.len() == 1 {
                bail!(
                    "none of the other {} shards was ready within {:.0} s; nothing was sent. Check that \
                     all have the same settings and the same --artifact-dir, or use a longer \
                     --wait-for-shards-timeout",
                    self.shard.count() - 1,
                    self.timeout.as_seconds()
                );
            }
        }
        let lead = ready.values().map(|note| note.lead).max().unwrap_or(Nanos::ZERO);
        let lead = lead.min(LONGEST_LEAD);
        let step = self.interval();
        let at = wall_ns() + (lead + step + step + READING).0;
        let agreed = Agreed {
            attempt: self.note.attempt.clone(),
            start_at_ns: at.next_multiple_of(ROUND_NS),
            members: ready.iter().map(|(index, note)| (*index, note.id)).collect(),
        };
        self.files.agree(&agreed).context("cannot write the start for the shards")?;
        Ok(Some(agreed))
    }

    /// Returns an error if another shard is sending already, as when only this process was restarted.
    fn refuse_to_join(&mut self, other: u64, note: &Note) -> anyhow::Result<()> {
        if note.state != State::Running {
            return Ok(());
        }
        let before = *self.running.entry(other).or_insert(note.beat);
        if before != note.beat {
            bail!(
                "shard {other} is sending already, so this run has started without shard {}; nothing \
                 was sent. Start all shards again, or use another --artifact-dir",
                self.shard.index()
            );
        }
        Ok(())
    }

    /// Returns the start once shard 0 has set it for this process.
    fn follow(&mut self) -> anyhow::Result<Option<Agreed>> {
        let (index, id) = (self.shard.index(), self.note.id);
        let agreed = self.files.agreed();
        if let Some(agreed) = &agreed {
            if agreed.members.get(&index) == Some(&id) {
                let until = wall_ns().saturating_add(2 * LONGEST_LEAD.0);
                if agreed.start_at_ns > until {
                    let start = shown(agreed.start_at_ns);
                    bail!("shard 0 set the start {start}, which is too far away; nothing was sent");
                }
                return Ok(Some(agreed.clone()));
            }
            if agreed.attempt.is_some() && agreed.attempt == self.note.attempt {
                bail!(
                    "shard {index} was ready too late: the others agreed on the start {} without it; \
                     nothing was sent. Use a longer --wait-for-shards-timeout",
                    shown(agreed.start_at_ns)
                );
            }
        }
        let leader = self.files.heard(0);
        if let Some(leader) = &leader {
            self.refuse_to_join(0, leader)?;
        }
        let is_same = |leader: &&Note| leader.settings == self.note.settings;
        self.note.leader = leader.as_ref().filter(is_same).map(|leader| leader.id);
        self.missing = if self.note.leader.is_none() { vec![0] } else { Vec::new() };
        if self.note.waited >= self.timeout + GRACE {
            let seconds = self.note.waited.as_seconds();
            match (leader, agreed) {
                (Some(leader), _) if leader.settings != self.note.settings => bail!(
                    "shard 0 has other settings than shard {index}, so both cannot belong to one run; \
                     nothing was sent. Give all shards the same flags and the same version of aiperf"
                ),
                (Some(_), Some(agreed)) => bail!(
                    "shard 0 did not set a start for shard {index} within {seconds:.0} s; nothing was \
                     sent. The last start in this directory is {}, without this process: it came too \
                     late, or that was another run",
                    shown(agreed.start_at_ns)
                ),
                _ => bail!(
                    "shard 0, which sets the start, was not ready within {seconds:.0} s; nothing was \
                     sent. Check that it has the same --artifact-dir, or use a longer \
                     --wait-for-shards-timeout"
                ),
            }
        }
        Ok(None)
    }

    /// Returns what the shards agreed, from which on this shard belongs to the run.
    fn met(mut self, agreed: Agreed) -> anyhow::Result<Met> {
        let count = self.shard.count();
        let absent: Vec<u64> =
            (0..count).filter(|index| !agreed.members.contains_key(index)).collect();
        let agreement =
            Agreement { absent, waited_ms: self.note.waited.as_millis(), clock: self.note.clock };
        let warnings = self.warnings(&agreed, &agreement);
        self.note.state = State::Running;
        let interval = self.interval();
        let Self { files, shard, note, .. } = self;
        let start_at_ns = agreed.start_at_ns;
        let member = Member::start(files, shard, note, agreed.members, interval)?;
        Ok(Met { start_at_ns, agreement, warnings, member })
    }

    /// Returns what the user should know; shard 0 says it for all.
    fn warnings(&self, agreed: &Agreed, agreement: &Agreement) -> Vec<String> {
        if self.shard.index() != 0 {
            return Vec::new();
        }
        let absent = (!agreement.absent.is_empty()).then(|| {
            format!(
                "{} of {} shards were not ready within {:.0} s, so the others start without them: {}",
                agreement.absent.len(),
                self.shard.count(),
                self.timeout.as_seconds(),
                named(&agreement.absent)
            )
        });
        let clock = |(index, id): (&u64, &ProcessId)| {
            let note = self.files.heard(*index).filter(|note| note.id == *id)?;
            Some((*index, note.clock?))
        };
        let clocks: Vec<(u64, ClockOffset)> = agreed.members.iter().filter_map(clock).collect();
        let spread = ClockSpread::from_clocks(clocks.into_iter());
        absent.into_iter().chain(spread.and_then(|spread| spread.warning())).collect()
    }

    /// Prints who is missing.
    fn tell(&self, waited: Nanos) {
        if !self.is_shown {
            return;
        }
        let (index, count) = (self.shard.index(), self.shard.count());
        let left = self.timeout.since(waited).as_seconds();
        let whom = match self.missing.as_slice() {
            [] => "shard 0 to set the start".to_owned(),
            [one] => format!("shard {one}"),
            some => format!("{} other shards: {}", some.len(), named(some)),
        };
        // An error means that the terminal is gone; there is nowhere to report it.
        let _ = writeln!(
            Stderr,
            "shard {index} of {count} is ready, and waits up to {left:.0} s for {whom}"
        );
    }

    /// Returns the time between two steps.
    fn interval(&self) -> Nanos {
        Nanos(STEP.0 + STEP_PER_SHARD.0.saturating_mul(self.shard.count()))
    }
}

/// Formats `1, 2, 3`; a long list is cut, with the number of omitted items.
fn named(indices: &[u64]) -> String {
    let shown: Vec<String> = indices.iter().take(MAX_NAMED).map(u64::to_string).collect();
    let rest = indices.len().saturating_sub(MAX_NAMED);
    let shown = shown.join(", ");
    if rest > 0 { format!("{shown} and {rest} more") } else { shown }
}

#[cfg(test)]
mod tests;
