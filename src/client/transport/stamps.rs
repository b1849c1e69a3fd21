//! Arrival times from the kernel's receive timestamps. This is arithmetic only: it reads no clock
//! and uses no socket.
//!
//! The kernel's timestamp of a segment is in wall time. After each read, both clocks are read
//! together, and the timestamp is converted by its age at that moment. No earlier origin is used,
//! so that a step of the wall clock cannot change a latency. A timestamp that cannot be converted
//! is not used, and the bytes get the time of the read.

use std::cell::Cell;

use base::units::{Clock, Nanos};

use crate::record::Arrival;

/// Maximum apparent shift of the clocks against each other between two readings.
///
/// Slewing changes both alike, so a reading only adds the time between its two clocks. A larger
/// shift is a step of the wall clock, or an interruption between them.
const MAX_SHIFT_NS: u64 = 50_000;

/// Both clocks, read one right after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Nanoseconds since the Unix epoch.
    pub(super) wall_ns: u64,
    /// The monotonic clock. It is read second, so that a timestamp is rather too late than too
    /// early.
    pub(super) monotonic: Nanos,
}

impl Reading {
    /// Reads both clocks.
    pub(super) fn now() -> Self {
        let wall_ns = Clock::wall_now_ns();
        Self { wall_ns, monotonic: Clock::now() }
    }

    /// Returns wall time minus monotonic time, modulo 2^64; only differences are meaningful.
    const fn offset(self) -> u64 {
        self.wall_ns.wrapping_sub(self.monotonic.0)
    }
}

/// Offset of the wall clock to the monotonic clock at the last reading.
#[derive(Debug)]
pub(super) struct WallClock {
    offset: Cell<u64>,
}

impl WallClock {
    pub(super) const fn new(reading: Reading) -> Self {
        Self { offset: Cell::new(reading.offset()) }
    }

    /// Returns whether the offset of the clocks is the same as at the last reading.
    pub(super) const fn agrees(&self, reading: Reading) -> bool {
        let moved = reading.offset().wrapping_sub(self.offset.get()).cast_signed();
        moved.unsigned_abs() <= MAX_SHIFT_NS
    }

    /// Converts a kernel timestamp to a monotonic instant, based on `reading`. Returns `None` if
    /// the clocks have shifted since the last reading, because the timestamp may be older than the
    /// shift.
    fn instant_of(&self, stamp_ns: u64, reading: Reading) -> Option<Nanos> {
        let is_steady = self.agrees(reading);
        self.offset.set(reading.offset());
        let age = reading.wall_ns.checked_sub(stamp_ns).filter(|_| is_steady)?;
        reading.monotonic.0.checked_sub(age).map(Nanos)
    }
}

/// One socket read that returned bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketRead {
    /// When the thread last slept because no socket had anything to read.
    pub(super) slept_until: Nanos,
    /// Just before the read. Bytes that it did not return arrived later.
    pub(super) begun: Nanos,
    /// Just after the read.
    pub(super) done: Reading,
    /// The kernel's timestamp of the segment with the last byte, in wall time.
    pub(super) stamp_ns: Option<u64>,
    /// Whether the read emptied the socket.
    pub(super) has_drained: bool,
}

/// The arrival of a read, as far as the read alone determines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadArrival {
    /// Arrival of any byte of the read.
    pub(super) arrival: Arrival,
    /// Whether the timestamp is the kernel's.
    pub(super) is_kernel: bool,
    /// Whether the last byte arrived exactly at the timestamp. The kernel merges segments that wait
    /// in the socket under the timestamp of the last one, which is that of the last byte.
    pub(super) ends_at_stamp: bool,
}

impl ReadArrival {
    /// Creates the arrival of bytes at the instant `at`.
    pub(super) fn at(at: Nanos) -> Self {
        Self { arrival: at.into(), ..Self::default() }
    }
}

/// State of a socket between its reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inbound {
    /// Lower bound of the next arrival: the send that it responds to, and the last arrival.
    floor: Nanos,
    /// When the socket was last known to be empty.
    empty: Nanos,
    /// Whether the last read left bytes in the socket.
    has_rest: bool,
}

impl Inbound {
    /// Records that a request is sent from `at` on. Its response arrives later.
    pub(super) fn send(&mut self, at: Nanos) {
        self.floor = self.floor.max(at);
        self.empty = self.empty.max(at);
    }

    /// Returns the arrival of the bytes of `read`: at the kernel's timestamp if it lies between the
    /// lower bound and the read, otherwise at the read.
    pub(super) fn arrival(&mut self, read: SocketRead, wall: &WallClock) -> ReadArrival {
        let read_at = read.done.monotonic;
        // Bytes that arrived earlier would have ended the sleep, unless they were left over.
        if !self.has_rest {
            self.empty = self.empty.max(read.slept_until);
        }
        self.has_rest = !read.has_drained;
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

/// Limits a duration to 32 bits: at most 4.29 s.
fn narrow(duration: Nanos) -> u32 {
    u32::try_from(duration.0).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A wall clock that is set once. Before `at` it is ahead of the monotonic clock by `WALL`, and
    /// afterwards by `step` more.
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

        /// Returns both clocks, read `gap` apart.
        fn reading(self, monotonic: u64, gap: u64) -> Reading {
            Reading { wall_ns: self.wall(monotonic), monotonic: Nanos(monotonic + gap) }
        }
    }

    const STEADY: Step = Step { at: 0, step: 0 };

    fn read(begun: u64, done: Reading, stamp_ns: Option<u64>) -> SocketRead {
        SocketRead {
            slept_until: Nanos::ZERO,
            begun: Nanos(begun),
            done,
            stamp_ns,
            has_drained: true,
        }
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
        // The first read emptied the socket, so this arrived after it began.
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
    fn nothing_waited_while_the_thread_slept() {
        let arrival = |has_drained: bool, slept_until: u64| {
            let (wall, mut inbound) = (wall_clock(), Inbound::default());
            inbound.send(Nanos(1_000));
            let first = read(2_000, STEADY.reading(2_100, 0), Some(STEADY.wall(1_900)));
            inbound.arrival(SocketRead { has_drained, ..first }, &wall);
            let second = read(9_000, STEADY.reading(9_100, 0), Some(STEADY.wall(8_500)));
            let slept_until = Nanos(slept_until);
            inbound.arrival(SocketRead { slept_until, ..second }, &wall).arrival.uncertainty
        };
        // The first read began at 2 µs, and left nothing.
        assert_eq!([1_500, 7_000, 8_800].map(|slept| arrival(true, slept)), [6_500, 1_500, 0]);
        // What a read left over wakes nobody.
        assert_eq!(arrival(false, 7_000), 7_500);
    }

    #[test]
    fn without_a_usable_stamp_the_read_is_the_arrival() {
        // No timestamp, one before the send, and one after the read.
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
        // The timestamp alone would give 7 ms, which is plausible.
        let stepped = arrival(5_000_000, 9_000_000);
        assert!(!stepped.is_kernel);
        assert_eq!(stepped.arrival.at, Nanos(9_000_000));
        let next = arrival(9_500_000, 9_600_000);
        assert!(next.is_kernel);
        assert_eq!(next.arrival.at, Nanos(9_500_000));
    }

    /// Reads of one connection: the time from each read to the next timestamp, from the timestamp
    /// to the read, and between the readings of the two clocks.
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
                    // The gap between the readings adds a small delay.
                    prop_assert!(at.0 + MAX_SHIFT_NS >= came, "{} before", came - at.0);
                    prop_assert!(at.0 <= came + gap + MAX_SHIFT_NS, "{} after", at.0 - came);
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
                // Merged under the timestamp of the last segment.
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
