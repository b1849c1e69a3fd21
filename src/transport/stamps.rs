//! When bytes came, from the kernel's receive stamps. Arithmetic only: no clock
//! is read and no socket touched.
//!
//! The kernel stamps a segment with wall time. The two clocks are read together
//! right after each read, and the stamp is placed by how long ago it was then:
//! never through an origin kept from earlier, so that a step of the wall clock
//! cannot move a latency. A stamp that cannot be placed is not used, and the
//! bytes bear the time at which they were read.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::record::Arrival;
use crate::units::{Clock, Nanos};

/// How far the clocks may seem to move against each other between two looks.
///
/// Slewing moves both alike, so all that a look adds is the time between its two
/// readings. More is a step of the wall clock, or an interruption between them.
const MOST_SHIFT_NS: u64 = 50_000;

/// Both clocks, read one right after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Nanoseconds since the Unix epoch.
    pub(super) wall_ns: u64,
    /// The monotonic clock, read second: a stamp is placed late rather than early.
    pub(super) monotonic: Nanos,
}

impl Reading {
    /// Reads both clocks.
    pub(super) fn now() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall_ns: Nanos::from(wall).0, monotonic: Clock::now() }
    }

    /// Wall time less monotonic time, modulo 2^64: only differences count.
    const fn offset(self) -> u64 {
        self.wall_ns.wrapping_sub(self.monotonic.0)
    }
}

/// How the wall clock stood to the monotonic one when it was last looked at.
#[derive(Debug)]
pub(super) struct WallClock {
    offset: Cell<u64>,
}

impl WallClock {
    pub(super) const fn new(reading: Reading) -> Self {
        Self { offset: Cell::new(reading.offset()) }
    }

    /// Whether the clocks stand to each other as at the last look.
    pub(super) const fn agrees(&self, reading: Reading) -> bool {
        let moved = reading.offset().wrapping_sub(self.offset.get()).cast_signed();
        moved.unsigned_abs() <= MOST_SHIFT_NS
    }

    /// The monotonic instant of a kernel stamp, as of `reading`. `None` where the
    /// clocks have moved since the last look: the stamp may be from before.
    fn instant_of(&self, stamp_ns: u64, reading: Reading) -> Option<Nanos> {
        let is_steady = self.agrees(reading);
        self.offset.set(reading.offset());
        let age = reading.wall_ns.checked_sub(stamp_ns).filter(|_| is_steady)?;
        reading.monotonic.0.checked_sub(age).map(Nanos)
    }
}

/// One read from a socket that brought bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketRead {
    /// Just before the read: what is left out of it came later.
    pub(super) begun: Nanos,
    /// Just after the read.
    pub(super) done: Reading,
    /// The kernel's stamp of the last byte's segment, in wall time.
    pub(super) stamp_ns: Option<u64>,
    /// Whether the read left nothing in the socket.
    pub(super) has_drained: bool,
}

/// A read's arrival, as far as the read itself tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadArrival {
    /// Of any byte of the read.
    pub(super) arrival: Arrival,
    /// Whether the stamp is the kernel's.
    pub(super) is_kernel: bool,
    /// Whether the last byte came at the stamp itself: segments that wait in the
    /// socket are merged under the last one's stamp, which is the last byte's.
    pub(super) ends_at_stamp: bool,
}

impl ReadArrival {
    /// Bytes that came at the instant `at`.
    pub(super) fn at(at: Nanos) -> Self {
        Self { arrival: at.into(), ..Self::default() }
    }
}

/// What is known of a socket between its reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inbound {
    /// What is to be read came no earlier: the send it answers, and the last arrival.
    floor: Nanos,
    /// When the socket was last known to be empty.
    empty: Nanos,
}

impl Inbound {
    /// A request begins to be sent at `at`: its answer comes later.
    pub(super) fn send(&mut self, at: Nanos) {
        self.floor = self.floor.max(at);
        self.empty = self.empty.max(at);
    }

    /// When the bytes of `read` came: at the kernel's stamp if it can be placed
    /// between the floor and the read, else at the read.
    pub(super) fn arrival(&mut self, read: SocketRead, wall: &WallClock) -> ReadArrival {
        let read_at = read.done.monotonic;
        let stamped = read
            .stamp_ns
            .and_then(|stamp| wall.instant_of(stamp, read.done))
            .filter(|at| *at >= self.floor);
        let at = stamped.unwrap_or(read_at);
        let arrival = Arrival {
            at,
            read_lag: narrow(read_at.since(at)),
            uncertainty: narrow(at.since(self.empty)),
        };
        self.floor = self.floor.max(at);
        if read.has_drained {
            self.empty = self.empty.max(read.begun);
        }
        let is_kernel = stamped.is_some();
        ReadArrival { arrival, is_kernel, ends_at_stamp: is_kernel && read.has_drained }
    }
}

/// As 32 bits hold it: at most 4.29 s.
fn narrow(duration: Nanos) -> u32 {
    u32::try_from(duration.0).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A wall clock that is set once: before `at` it runs ahead of the monotonic
    /// clock by `WALL`, from then on by `step` more.
    #[derive(Clone, Copy, Debug)]
    struct Step {
        at: u64,
        step: i64,
    }

    const WALL: u64 = 1_700_000_000_000_000_000;

    impl Step {
        fn wall(self, monotonic: u64) -> u64 {
            let step = if monotonic < self.at { 0 } else { self.step };
            (WALL + monotonic).saturating_add_signed(step)
        }

        /// Both clocks, read `gap` apart.
        fn reading(self, monotonic: u64, gap: u64) -> Reading {
            Reading { wall_ns: self.wall(monotonic), monotonic: Nanos(monotonic + gap) }
        }
    }

    const STEADY: Step = Step { at: 0, step: 0 };

    fn read(begun: u64, done: Reading, stamp_ns: Option<u64>) -> SocketRead {
        SocketRead { begun: Nanos(begun), done, stamp_ns, has_drained: true }
    }

    fn wall_clock() -> WallClock {
        WallClock::new(STEADY.reading(0, 0))
    }

    #[test]
    fn a_stamp_tells_how_late_the_read_was() {
        let (wall, mut inbound) = (wall_clock(), Inbound::default());
        inbound.send(Nanos(1_000));
        let first = read(8_000, STEADY.reading(9_000, 0), Some(STEADY.wall(5_000)));
        let found = inbound.arrival(first, &wall);
        let arrival = Arrival { at: Nanos(5_000), read_lag: 4_000, uncertainty: 4_000 };
        assert_eq!(found, ReadArrival { arrival, is_kernel: true, ends_at_stamp: true });
        // The first read left nothing in the socket, so this came after it began.
        let second = read(11_000, STEADY.reading(12_000, 0), Some(STEADY.wall(10_500)));
        let arrival = Arrival { at: Nanos(10_500), read_lag: 1_500, uncertainty: 2_500 };
        assert_eq!(inbound.arrival(second, &wall).arrival, arrival);
    }

    #[test]
    fn a_read_that_left_bytes_says_nothing_of_when_the_next_came() {
        let (wall, mut inbound) = (wall_clock(), Inbound::default());
        inbound.send(Nanos(1_000));
        let full = read(8_000, STEADY.reading(9_000, 0), Some(STEADY.wall(7_000)));
        let first = inbound.arrival(SocketRead { has_drained: false, ..full }, &wall);
        assert!(first.is_kernel && !first.ends_at_stamp);
        let rest = read(9_100, STEADY.reading(9_200, 0), Some(STEADY.wall(7_000)));
        let arrival = Arrival { at: Nanos(7_000), read_lag: 2_200, uncertainty: 6_000 };
        assert_eq!(inbound.arrival(rest, &wall).arrival, arrival);
    }

    #[test]
    fn without_a_usable_stamp_the_read_is_the_arrival() {
        // None at all, before the send, after the read.
        for stamp in [None, Some(STEADY.wall(2_999)), Some(STEADY.wall(9_001))] {
            let (wall, mut inbound) = (wall_clock(), Inbound::default());
            inbound.send(Nanos(3_000));
            let found = inbound.arrival(read(8_000, STEADY.reading(9_000, 0), stamp), &wall);
            let arrival = Arrival { at: Nanos(9_000), read_lag: 0, uncertainty: 6_000 };
            assert_eq!(found, ReadArrival { arrival, is_kernel: false, ends_at_stamp: false });
        }
    }

    #[test]
    fn a_step_between_stamp_and_read_is_seen_and_the_next_stamp_trusted() {
        let clock = Step { at: 6_000_000, step: -2_000_000 };
        let (wall, mut inbound) = (wall_clock(), Inbound::default());
        let mut arrival = |stamped: u64, done: u64| {
            let read = read(done, clock.reading(done, 0), Some(clock.wall(stamped)));
            inbound.arrival(read, &wall)
        };
        // By its stamp it would have come at 7 ms, within what can be.
        let stepped = arrival(5_000_000, 9_000_000);
        assert!(!stepped.is_kernel);
        assert_eq!(stepped.arrival.at, Nanos(9_000_000));
        let next = arrival(9_500_000, 9_600_000);
        assert!(next.is_kernel);
        assert_eq!(next.arrival.at, Nanos(9_500_000));
    }

    /// Reads of one connection: the time from each to the stamp of the next, from
    /// the stamp to the read, and between the two clocks' readings.
    fn reads() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
        prop::collection::vec((1..20_000_000_u64, 0..5_000_000_u64, 0..2_000_u64), 1..40)
    }

    fn steps() -> impl Strategy<Value = Step> {
        let far = -3_600_000_000_000..3_600_000_000_000_i64;
        let step = prop_oneof![-200_000..200_000_i64, -20_000_000..20_000_000_i64, far];
        (0..500_000_000_u64, step).prop_map(|(at, step)| Step { at, step })
    }

    proptest! {
        #[test]
        fn a_step_moves_no_arrival_by_more_than_goes_unseen(reads in reads(), clock in steps()) {
            let (wall, mut inbound) = (wall_clock(), Inbound::default());
            let (mut now, mut last) = (0, Nanos(0));
            for (to_stamp, lag, gap) in reads {
                let (came, began) = (now + to_stamp, now + to_stamp + lag);
                let stamp_ns = Some(clock.wall(came));
                let done = clock.reading(began + 500, gap);
                now = done.monotonic.0;
                let found = inbound.arrival(read(began, done, stamp_ns), &wall);
                let at = found.arrival.at;
                prop_assert!(at >= last && at <= done.monotonic, "{at:?}");
                prop_assert_eq!(found.arrival.read_at(), done.monotonic);
                if found.is_kernel {
                    // The gap between the readings counts as a little lateness.
                    prop_assert!(at.0 + MOST_SHIFT_NS >= came, "{} before", came - at.0);
                    prop_assert!(at.0 <= came + gap + MOST_SHIFT_NS, "{} after", at.0 - came);
                } else {
                    prop_assert_eq!(at, done.monotonic);
                }
                last = at;
            }
        }

        #[test]
        fn every_stamp_of_a_clock_that_is_not_set_is_used(reads in reads()) {
            let (wall, mut inbound) = (wall_clock(), Inbound::default());
            let mut now = 0;
            for (to_stamp, lag, gap) in reads {
                let (came, began) = (now + to_stamp, now + to_stamp + lag);
                let done = STEADY.reading(began + 500, gap);
                now = done.monotonic.0;
                let found = inbound.arrival(read(began, done, Some(STEADY.wall(came))), &wall);
                prop_assert!(found.is_kernel);
                prop_assert_eq!(found.arrival.at, Nanos(came + gap));
            }
        }

        #[test]
        fn bytes_that_came_since_the_last_read_are_within_the_uncertainty(reads in reads()) {
            let (wall, mut inbound) = (wall_clock(), Inbound::default());
            let mut now = 0;
            for (to_first, to_last, gap) in reads {
                // Merged under the stamp of the last.
                let (first, last) = (now + to_first, now + to_first + to_last);
                let done = STEADY.reading(last + 700, gap);
                now = last + 600;
                let stamp = Some(STEADY.wall(last));
                let Arrival { at, uncertainty, .. } =
                    inbound.arrival(read(now, done, stamp), &wall).arrival;
                prop_assert!(at.0 - u64::from(uncertainty) <= first && first <= at.0);
            }
        }
    }
}
