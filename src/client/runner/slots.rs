//! Slots that limit a number of concurrent things.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;

use base::lock::Lock;
use base::timer::Timer;
use base::units::{Clock, Nanos};

use crate::schedule::Line;

/// Slots shared by the workers, taken in order of arrival. On a ramp, more slots open over time; the
/// waiting tasks open them. A ceiling limits how many are open, and can change: surplus slots close as they
/// are given back.
#[derive(Debug)]
pub(super) struct Slots {
    line: Line,
    start: Nanos,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Maximum number of opened slots, and since when; absent without a ceiling.
    ceiling: Option<(u64, Nanos)>,
    /// Number of opened slots.
    opened: u64,
    /// Number of opened slots without a holder; zero while a task waits.
    free: u64,
    /// Tasks that wait for a slot; some may have stopped waiting.
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// A slot, held until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Absent without a limit.
    slots: Option<Arc<Slots>>,
    /// When the slot became free, if its holder waited for it or a change of the ceiling opened it;
    /// otherwise zero.
    pub(super) free_from: Nanos,
    /// When the holder's last response arrived; zero if that is not known.
    ended: Nanos,
}

impl Slot {
    /// Returns whether anything is limited.
    pub(super) const fn is_limited(&self) -> bool {
        self.slots.is_some()
    }

    /// Gives the slot to the next holder. It was free since the last response arrived at `ended`, which
    /// the program may have read later.
    pub(super) fn end(mut self, ended: Nanos) {
        self.ended = ended;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            let is_known = self.ended > Nanos::ZERO;
            slots.pass_on(if is_known { self.ended } else { Clock::now() });
        }
    }
}

impl Slots {
    /// Creates the slots of a phase that starts at `start`.
    pub(super) fn new(line: Line, start: Nanos) -> Self {
        Self { line, start, state: Lock::default() }
    }

    /// Returns how many of the slots belong to one of `workers`, so that together they have all.
    pub(super) fn of_each(&self, workers: usize) -> u64 {
        self.line.open_at(Nanos(u64::MAX)).div_ceil(workers as u64)
    }

    /// Sets the maximum number of open slots from `now` on.
    pub(super) fn limit_to(self: &Arc<Self>, most: u64, now: Nanos) {
        let mut state = self.state.lock();
        state.ceiling = Some((most, now));
        let surplus = state.opened.saturating_sub(most).min(state.free);
        state.free -= surplus;
        state.opened -= surplus;
        drop(state);
        self.open_due();
    }

    /// Returns whether more slots are open than the ceiling permits, so that one is to be given back.
    pub(super) fn has_surplus(&self) -> bool {
        let state = self.state.lock();
        state.ceiling.is_some_and(|(most, _)| state.opened > most)
    }

    /// Waits for a slot and takes it.
    pub(super) async fn take(self: &Arc<Self>, timer: &Timer) -> Slot {
        let mut next = self.open_due();
        let mut passed_on = match self.request() {
            Ok(slot) => return slot,
            Err(passed_on) => passed_on,
        };
        loop {
            tokio::select! {
                biased;
                slot = &mut passed_on => match slot {
                    Ok(slot) => return slot,
                    // Nobody drops those who wait, except for the end of the phase.
                    Err(_) => std::future::pending().await,
                },
                () = timer.until_some(next) => next = self.open_due(),
            }
        }
    }

    /// Takes a free slot, or else joins the tasks that wait for one.
    fn request(self: &Arc<Self>) -> Result<Slot, oneshot::Receiver<Slot>> {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            // Nobody took it since the ceiling was raised.
            let free_from = state.ceiling.map_or(Nanos::ZERO, |(_, since)| since);
            return Ok(Slot { slots: Some(Arc::clone(self)), free_from, ended: Nanos::ZERO });
        }
        // Now and then, so that it hardly takes time.
        if state.waiting.len().is_power_of_two() {
            state.waiting.retain(|next| !next.is_closed());
        }
        let (sender, passed_on) = oneshot::channel();
        state.waiting.push_back(sender);
        Err(passed_on)
    }

    /// Gives a slot that has been free since `free_from` to the next task that waits.
    fn pass_on(self: &Arc<Self>, free_from: Nanos) {
        loop {
            let mut state = self.state.lock();
            if state.ceiling.is_some_and(|(most, _)| state.opened > most) {
                state.opened -= 1;
                return;
            }
            let Some(next) = state.waiting.pop_front() else {
                state.free += 1;
                return;
            };
            // Whoever gave up drops the slot.
            drop(state);
            let slot = Slot { slots: Some(Arc::clone(self)), free_from, ended: Nanos::ZERO };
            let Err(mut refused) = next.send(slot) else { return };
            refused.slots = None;
        }
    }

    /// Opens the slots that are due; returns when the next one opens.
    fn open_due(self: &Arc<Self>) -> Option<Nanos> {
        let opens = |slot| self.line.opens(slot).map(|opens| self.start + opens);
        let due_of_line = self.line.open_at(Clock::now().since(self.start));
        loop {
            let mut state = self.state.lock();
            let (most, since) = state.ceiling.unwrap_or((u64::MAX, Nanos::ZERO));
            let due = due_of_line.min(most);
            let opening = state.opened;
            if opening >= due {
                return opens(opening).filter(|_| opening < most);
            }
            if state.waiting.is_empty() {
                state.free += due - opening;
                state.opened = due;
            } else {
                state.opened += 1;
                drop(state);
                self.pass_on(opens(opening).unwrap_or(self.start).max(since));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::config::Limit;

    fn slots(most: u64) -> Arc<Slots> {
        let slots = Arc::new(Slots::new(Line::new(Limit::constant(most)), Nanos(1)));
        slots.open_due();
        slots
    }

    #[test]
    fn who_waits_learns_when_the_slot_became_free() {
        let slots = slots(2);
        let (first, second) = (slots.request().unwrap(), slots.request().unwrap());
        assert_eq!([first.free_from, second.free_from], [Nanos::ZERO; 2]);
        let mut waiting: Vec<_> = (0..3).map(|_| slots.request().unwrap_err()).collect();
        // The second holder's response came first, and the first in line gave up.
        drop(waiting.remove(0));
        second.end(Nanos(5));
        first.end(Nanos(7));
        let got: Vec<Slot> = waiting.iter_mut().map(|next| next.try_recv().unwrap()).collect();
        assert_eq!([got[0].free_from, got[1].free_from], [Nanos(5), Nanos(7)]);
        drop(got);
        assert_eq!(slots.state.lock().free, 2);
    }

    #[test]
    fn a_slot_that_was_passed_to_somebody_who_left_is_not_lost() {
        let slots = slots(1);
        let held = slots.request().unwrap();
        let waiting = slots.request().unwrap_err();
        held.end(Nanos(3));
        // It has the slot, but never looks.
        drop(waiting);
        assert_eq!(slots.state.lock().free, 1);
    }

    #[test]
    fn a_ceiling_opens_and_closes_slots() {
        let slots = Arc::new(Slots::new(Line::new(Limit::constant(8)), Nanos(1)));
        slots.limit_to(2, Nanos(1));
        let mut held = vec![slots.request().unwrap(), slots.request().unwrap()];
        let mut waiting: Vec<_> = (0..3).map(|_| slots.request().unwrap_err()).collect();
        slots.limit_to(4, Nanos(9));
        // Two of those that wait get the new slots, which have been free since the change.
        let got: Vec<Slot> = waiting.drain(..2).map(|mut next| next.try_recv().unwrap()).collect();
        assert_eq!([got[0].free_from, got[1].free_from], [Nanos(9); 2]);
        held.extend(got);
        slots.limit_to(1, Nanos(11));
        assert!(slots.has_surplus());
        for _ in 0..3 {
            held.pop();
            assert!(waiting[0].try_recv().is_err());
        }
        assert!(!slots.has_surplus());
        // The last one is passed on.
        held.pop().unwrap().end(Nanos(20));
        let last = waiting[0].try_recv().unwrap();
        assert_eq!(last.free_from, Nanos(20));
        drop(last);
        slots.limit_to(8, Nanos(30));
        assert_eq!(slots.state.lock().free, 8);
        // Free ones close at once.
        slots.limit_to(3, Nanos(40));
        assert_eq!(slots.state.lock().free, 3);
        assert_eq!(slots.request().unwrap().free_from, Nanos(40));
        assert!(!slots.has_surplus());
    }

    #[test]
    fn those_who_gave_up_are_forgotten() {
        let slots = slots(1);
        let _held = slots.request().unwrap();
        for _ in 0..1000 {
            drop(slots.request().unwrap_err());
        }
        assert!(slots.state.lock().waiting.len() <= 2);
    }
}
