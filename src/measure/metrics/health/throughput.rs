//! How far the client may have shifted the throughput.
//!
//! A client that is kept from its core reads a response late and sends the next request late. Every
//! latency is still right, since the kernel stamped the response, but the server did less than it
//! could. Without the client's delays, the requests would have taken a shorter time:
//!
//! - A slot that has work is busy again as soon as its response has arrived. All slots together lose
//!   the sum of the delays, so a run with the same responses is shorter by the same share: delays
//!   divided by the time for which slots were open.
//! - A request that is due at a time, and does not wait for a slot, delays nothing but itself. Only
//!   the delays of the first request and of the one that ends last change the run's duration.
//!
//! All counts are the same in that run, so that each rate is higher by the same factor. A server that
//! is slower under the higher load has a rate between the measured one and that.

use serde::{Deserialize, Serialize};

use base::statistics::normal;
use base::units::Nanos;
use client::record::RequestRecord;

use super::errors::ClientErrors;
use super::load::LoadReport;

/// A rate is not lower than measured by more than this share of it: it would be zero, and a cost infinite.
const MOST_BELOW: f64 = 0.999;

/// How much lower and higher the rates of a phase may be, in percent of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct RateBounds {
    /// How much lower they may be.
    pub below_percent: f64,
    /// How much higher they may be.
    pub above_percent: f64,
    /// How much higher they are at most with a probability of 95%.
    pub likely_above_percent: f64,
    /// Mean time from when a request could have been sent until its first byte was, in milliseconds.
    pub delay_ms: f64,
    /// Mean time from one request of a slot to the next, in milliseconds; absent without slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle_ms: Option<f64>,
}

impl RateBounds {
    /// Returns how much lower and higher a rate with this `value` may be, in its unit.
    #[must_use]
    pub fn errors(&self, value: f64) -> [f64; 2] {
        [self.below_percent, self.above_percent].map(|percent| value * percent / 100.0)
    }

    /// Returns how much lower and higher a cost with this `value` may be, in its unit. It is
    /// proportional to the duration of the run, and so inversely proportional to its rates.
    #[must_use]
    pub(crate) fn cost_errors(&self, value: f64) -> [f64; 2] {
        let above = self.above_percent / 100.0;
        let below = (self.below_percent / 100.0).min(MOST_BELOW);
        [value * above / (1.0 + above), value * below / (1.0 - below)]
    }
}

/// When a request could be sent, when it was, and when it ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotUse {
    /// When it was handed to the transport.
    pub start: Nanos,
    /// When its response ended.
    pub end: Nanos,
    /// When it was due; absent in a closed loop.
    pub due: Option<Nanos>,
}

impl From<&RequestRecord> for SlotUse {
    fn from(record: &RequestRecord) -> Self {
        Self { start: record.start, end: record.end, due: record.due }
    }
}

/// Collects the delays of all requests of the measurement, successful or not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlotTimes {
    requests: u64,
    /// Whether the delay of each request is known.
    is_incomplete: bool,
    first_start: Option<Nanos>,
    last_end: Nanos,
    /// The same without the delays of requests that only waited to be due.
    first_possible_start: Option<Nanos>,
    last_possible_end: Nanos,
    /// Sum of all delays, in nanoseconds.
    all_delays: f64,
    /// Sum of the delays of requests that waited for a slot, in nanoseconds.
    slot_delays: f64,
    /// Sum of how much earlier than known responses may have ended that a slot waited for.
    vague: f64,
    /// The variance of that sum, in square nanoseconds.
    variance: f64,
}

impl SlotTimes {
    /// Adds a request.
    pub(super) fn observe(&mut self, request: SlotUse, errors: &ClientErrors) {
        self.requests += 1;
        let Some(late) = errors.late else {
            self.is_incomplete = true;
            return;
        };
        let SlotUse { start, end, due } = request;
        let delay = late + errors.send_delay;
        // What delayed it longest was the schedule, or else the slot.
        let waited_for_slot = due.is_none_or(|due| start.since(due).0 > late);
        self.all_delays += delay as f64;
        self.first_start = Some(self.first_start.map_or(start, |first| first.min(start)));
        self.last_end = self.last_end.max(end);
        let own = if waited_for_slot { Nanos::ZERO } else { Nanos(delay) };
        let vague = f64::from(errors.end_uncertainty);
        if waited_for_slot {
            self.slot_delays += delay as f64;
            self.vague += vague;
            // The variance of the continuous uniform distribution.
            self.variance += vague * vague / 12.0;
        }
        // A start cannot be earlier than the clock's origin.
        let possible = Nanos(start.0.saturating_sub(own.0));
        let first = self.first_possible_start.map_or(possible, |first| first.min(possible));
        self.first_possible_start = Some(first);
        self.last_possible_end = self.last_possible_end.max(Nanos(end.0.saturating_sub(own.0)));
    }

    /// Computes the bounds of rates; `None` without requests, or if not all delays are known.
    #[must_use]
    pub(super) fn bounds(&self, load: &LoadReport) -> Option<RateBounds> {
        if self.is_incomplete {
            return None;
        }
        let duration = self.last_end.since(self.first_start?).0 as f64;
        let possible = self.last_possible_end.since(self.first_possible_start?).0 as f64;
        let slots = OpenSlots::of_load(load, self.requests).mean(duration);
        if duration <= 0.0 {
            return None;
        }
        // How much higher rates are, relative to themselves, if the slots do not lose `lost`
        // nanoseconds.
        let factor = |lost: f64| {
            let shorter = if slots > 0.0 { lost / slots } else { 0.0 };
            duration / (possible - shorter).max(1.0) - 1.0
        };
        let percent = |factor: f64| 100.0 * factor;
        let likely = self.slot_delays + self.vague / 2.0 + normal::QUANTILE * self.variance.sqrt();
        let most = self.slot_delays + self.vague;
        let cycle_ms = (slots > 0.0).then(|| duration * slots / self.requests as f64 / 1e6);
        Some(RateBounds {
            below_percent: percent((-factor(self.slot_delays)).max(0.0)),
            above_percent: percent(factor(most).max(0.0)),
            likely_above_percent: percent(factor(likely.min(most)).max(0.0)),
            delay_ms: self.all_delays / self.requests as f64 / 1e6,
            cycle_ms,
        })
    }
}

/// The slots of a phase, which limit the requests in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct OpenSlots {
    /// Time for which the slots of a closed loop were open, together; zero in other loads, and if it
    /// is not known.
    time: Nanos,
    /// Maximum number of requests in flight, by the configuration or else as observed.
    most: u64,
}

impl OpenSlots {
    /// Returns the slots of this `load`, which has so many `requests`.
    fn of_load(load: &LoadReport, requests: u64) -> Self {
        let most = load.requested_concurrency.map_or(0, |asked| asked.min(requests));
        Self {
            time: load.slot_seconds.map_or(Nanos::ZERO, Nanos::from_seconds),
            most: most.max(load.reached_concurrency),
        }
    }

    /// Returns the mean number of open slots in `duration` nanoseconds.
    fn mean(&self, duration: f64) -> f64 {
        if self.time > Nanos::ZERO { self.time.0 as f64 / duration } else { self.most as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Times in milliseconds: when it could be sent, when it was, and when it ended.
    fn request(slots: &mut SlotTimes, due: Option<u64>, [free, start, end]: [u64; 3], vague: u64) {
        let possible = due.unwrap_or(0).max(free);
        let errors = ClientErrors {
            late: Some((start - possible) * MS),
            end_uncertainty: (vague * MS) as u32,
            ..ClientErrors::default()
        };
        let [start, end] = [start, end].map(|ms| Nanos(ms * MS));
        slots.observe(SlotUse { start, end, due: due.map(|due| Nanos(due * MS)) }, &errors);
    }

    fn closed(slots: u64, seconds: f64) -> LoadReport {
        LoadReport {
            requested_concurrency: Some(slots),
            reached_concurrency: slots,
            slot_seconds: Some(seconds),
            ..LoadReport::default()
        }
    }

    #[test]
    fn a_slot_that_the_client_left_empty_for_half_of_the_time_could_do_twice_as_much() {
        let mut slots = SlotTimes::default();
        // 50 ms of each 100 ms: ten requests take 950 ms, and 500 ms without the delays.
        for nth in 0..10 {
            let end = 100 * nth + 50;
            let free = if nth == 0 { 0 } else { end - 100 };
            request(&mut slots, None, [free, end - 50, end], 0);
        }
        let bounds = slots.bounds(&closed(1, 0.95)).unwrap();
        assert_eq!(bounds.below_percent, 0.0);
        assert!((bounds.above_percent - 90.0).abs() < 1e-9, "{bounds:?}");
        assert_eq!(bounds.likely_above_percent, bounds.above_percent);
        assert_eq!((bounds.delay_ms, bounds.cycle_ms), (45.0, Some(95.0)));
        assert_eq!(bounds.errors(10.0).map(f64::round), [0.0, 9.0]);
        // In 1 / 1.9 of the time, 19.0 cost 10.0.
        let [below, above] = bounds.cost_errors(19.0);
        assert!((below - 9.0).abs() < 1e-9 && above == 0.0, "{below}, {above}");
        // A rate that is 20 % lower makes costs 25 % higher.
        let lower = RateBounds { below_percent: 20.0, ..RateBounds::default() };
        assert_eq!(lower.cost_errors(4.0), [0.0, 1.0]);
    }

    #[test]
    fn slots_that_think_are_not_idle() {
        // Two slots, each with requests of 100 ms and pauses of 900 ms that the session wants.
        let mut slots = SlotTimes::default();
        for nth in 0..10 {
            for _ in 0..2 {
                request(&mut slots, None, [1000 * nth, 1000 * nth + 10, 1000 * nth + 100], 0);
            }
        }
        // 10 of 1,000 ms are the client's, except that the last pause is missing.
        let bounds = slots.bounds(&closed(2, 2.0 * 9.1)).unwrap();
        // The run takes 9,090 ms, of which 100 ms are delays.
        let expected = 100.0 * (9090.0 / (9090.0 - 9090.0 * 0.2 / 18.2) - 1.0);
        assert!((bounds.above_percent - expected).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn responses_that_may_have_ended_earlier_count_by_half_on_average() {
        let mut slots = SlotTimes::default();
        for nth in 0..100 {
            request(&mut slots, None, [100 * nth, 100 * nth, 100 * (nth + 1)], 20);
        }
        let bounds = slots.bounds(&closed(1, 10.0)).unwrap();
        // At most 20 of 100 ms are the client's; half of that on average, with a standard deviation
        // of 20 / sqrt(12) ms each.
        assert!((bounds.above_percent - 25.0).abs() < 1e-9, "{bounds:?}");
        let likely = 10.0 + 1.959_964 * 20.0 / 12.0_f64.sqrt() / 10.0;
        let expected = 100.0 * (100.0 / (100.0 - likely) - 1.0);
        assert!((bounds.likely_above_percent - expected).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn a_schedule_makes_up_for_delays_except_at_its_ends() {
        let mut slots = SlotTimes::default();
        for nth in 0..10 {
            // The fourth is 90 ms late, and the last 100 ms.
            let late = [0, 0, 0, 90, 0, 0, 0, 0, 0, 100][nth as usize];
            request(&mut slots, Some(100 * nth), [0, 100 * nth + late, 100 * nth + late + 50], 9);
        }
        let load = LoadReport { reached_concurrency: 2, ..LoadReport::default() };
        let bounds = slots.bounds(&load).unwrap();
        // 1,050 ms, and 950 ms without the last delay.
        assert!((bounds.above_percent - 100.0 * (1050.0 / 950.0 - 1.0)).abs() < 1e-9, "{bounds:?}");
        assert_eq!(bounds.below_percent, 0.0);
        // If only the first is late, the run appears shorter.
        let mut slots = SlotTimes::default();
        request(&mut slots, Some(100), [0, 200, 250], 0);
        request(&mut slots, Some(1000), [0, 1000, 1100], 0);
        let bounds = slots.bounds(&load).unwrap();
        assert!((bounds.below_percent - 100.0 * (1.0 - 900.0 / 1000.0)).abs() < 1e-9, "{bounds:?}");
        assert_eq!(bounds.above_percent, 0.0);
    }

    #[test]
    fn due_requests_that_wait_for_a_slot_lose_its_time() {
        let mut slots = SlotTimes::default();
        // All are due at once; one slot of 100 ms, of which the client loses 25 ms each.
        for nth in 0..8 {
            let free = if nth == 0 { 0 } else { 125 * nth - 25 };
            request(&mut slots, Some(0), [free, 125 * nth, 125 * nth + 100], 0);
        }
        let load = LoadReport {
            requested_concurrency: Some(1),
            reached_concurrency: 1,
            ..LoadReport::default()
        };
        let bounds = slots.bounds(&load).unwrap();
        // 975 ms, and 800 ms without the delays.
        assert!((bounds.above_percent - 100.0 * (975.0 / 800.0 - 1.0)).abs() < 1e-9, "{bounds:?}");
    }

    #[test]
    fn nothing_is_claimed_without_all_delays() {
        let mut slots = SlotTimes::default();
        assert_eq!(slots.bounds(&LoadReport::default()), None);
        request(&mut slots, None, [0, 0, 10], 0);
        assert!(slots.bounds(&closed(1, 0.01)).is_some());
        let (start, end) = (Nanos(1), Nanos(2));
        slots.observe(SlotUse { start, end, due: None }, &ClientErrors::default());
        assert_eq!(slots.bounds(&closed(1, 0.01)), None);
    }
}
