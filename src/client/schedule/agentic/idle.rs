//! How long all lanes together may be without a request in flight.

use base::units::Nanos;

/// What all lanes together wait for. Once nothing is in flight for too long, all timers move by the same
/// time, so that their distances stay.
#[derive(Debug)]
pub(crate) struct SystemIdle {
    cap: Option<Nanos>,
    lanes: Vec<State>,
    busy: usize,
    since: Nanos,
    moved: Nanos,
}

/// The state of a lane.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    in_flight: usize,
    /// Its earliest timer, before all by which timers were moved.
    earliest: Option<Nanos>,
}

impl SystemIdle {
    /// Creates the state of so many lanes that begin `at` a time.
    pub(crate) fn new(cap: Option<Nanos>, lanes: usize, at: Nanos) -> Self {
        let lanes = vec![State::default(); lanes];
        Self { cap, lanes, busy: 0, since: at, moved: Nanos::ZERO }
    }

    /// Returns by how much all timers were moved to earlier times.
    pub(crate) const fn moved(&self) -> Nanos {
        self.moved
    }

    /// Takes note of what a lane has in flight and of its earliest timer, and moves all timers if
    /// they are too late.
    pub(crate) fn update(
        &mut self,
        lane: usize,
        (in_flight, earliest): (usize, Option<Nanos>),
        at: Nanos,
    ) {
        let Some(own) = self.lanes.get_mut(lane) else { return };
        let before = self.busy;
        self.busy = self.busy + in_flight - own.in_flight;
        *own = State { in_flight, earliest };
        if before > 0 && self.busy == 0 {
            self.since = self.since.max(at);
        }
        let Some(cap) = self.cap.filter(|_| self.busy == 0) else { return };
        let first = self.lanes.iter().filter_map(|lane| lane.earliest).min();
        let excess = first.map_or(Nanos::ZERO, |timer| timer.since(self.moved + self.since + cap));
        self.moved = self.moved + excess;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(number: u64) -> Nanos {
        Nanos(number * 1_000_000_000)
    }

    #[test]
    fn timers_move_by_the_same_time_once_nothing_is_in_flight() {
        let mut idle = SystemIdle::new(Some(seconds(10)), 2, seconds(0));
        idle.update(0, (1, None), seconds(0));
        idle.update(1, (0, Some(seconds(55))), seconds(0));
        assert_eq!(idle.moved(), seconds(0));
        // Nothing is in flight since 0; timers are due in 40 s and in 55 s.
        idle.update(0, (0, Some(seconds(40))), seconds(0));
        assert_eq!(idle.moved(), seconds(30));
        let due = |timer: Nanos| timer.since(idle.moved());
        assert_eq!([due(seconds(40)), due(seconds(55))], [seconds(10), seconds(25)]);
    }

    #[test]
    fn idleness_counts_from_the_last_response() {
        let mut idle = SystemIdle::new(Some(seconds(10)), 1, seconds(0));
        idle.update(0, (1, None), seconds(3));
        idle.update(0, (0, Some(seconds(28))), seconds(8));
        assert_eq!(idle.moved(), seconds(10));
        // The same lane says it again later: nothing moves further.
        idle.update(0, (0, Some(seconds(28))), seconds(12));
        assert_eq!(idle.moved(), seconds(10));
    }

    #[test]
    fn without_a_cap_nothing_moves() {
        let mut idle = SystemIdle::new(None, 1, seconds(0));
        idle.update(0, (0, Some(seconds(1_000))), seconds(1));
        assert_eq!(idle.moved(), seconds(0));
    }
}
