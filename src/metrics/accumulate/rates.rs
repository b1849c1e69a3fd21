//! Rates of a phase in the long run.
//!
//! AIPerf's rates are counts divided by the time from the first start to the last end, which for few requests
//! at a low rate is too short by the time in which nothing happens after the last one (see
//! [`statistics::rate`](crate::statistics::rate)). Files have AIPerf's; whatever decides uses these.

use super::Accumulator;
use crate::metrics::metric::{ByDuration, Metric};
use crate::metrics::tag::MetricTag;
use crate::statistics::rate::{self, Rate, Span};
use crate::units::Nanos;

/// Number of requests from which the distances between them are no longer a matter of chance: few that arrive
/// at random may all come at once, but no server does more in the long run than what it is asked for.
const MANY: usize = 50;

/// What the rates of a phase are in the long run, as a share of AIPerf's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRun(f64);

impl Default for LongRun {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl LongRun {
    /// That of a phase whose rates are those of the long run, or of which nothing is known.
    pub(crate) const WHOLE: Self = Self(1.0);

    /// Returns what `value` of a metric is in the long run: it changes if the metric is a rate, or a cost,
    /// which is proportional to the time.
    #[must_use]
    pub(crate) fn value(self, metric: &Metric, value: f64) -> f64 {
        match metric.by_duration() {
            Some(ByDuration::Rate) => value * self.0,
            Some(ByDuration::Cost) => value / self.0,
            None => value,
        }
    }
}

/// The times of the requests of a phase, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Extent {
    count: usize,
    first_start: u64,
    last_start: u64,
    last_end: u64,
    latencies: u128,
}

impl Extent {
    /// Adds a request.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        self.first_start = if self.count == 0 { start } else { self.first_start.min(start) };
        self.last_start = self.last_start.max(start);
        self.last_end = self.last_end.max(end);
        self.latencies += u128::from(end.saturating_sub(start));
        self.count += 1;
    }

    /// Returns the time from the first start to the last end.
    const fn time(&self) -> f64 {
        self.last_end.saturating_sub(self.first_start) as f64
    }

    /// Returns the time in which a server is idle after the last request, if it is as after any other.
    fn idle(&self) -> f64 {
        let until_last = self.last_start.saturating_sub(self.first_start) as f64;
        rate::idle(self.count, until_last, self.latencies as f64)
    }

    /// Returns the time that so many requests take in the long run: at least as long as `asked` requests per
    /// second need, if they are sent at that rate.
    pub(crate) fn period(&self, asked: Option<f64>) -> Nanos {
        let sent = asked.filter(|_| self.count < MANY).map_or(0.0, |rate| self.count as f64 / rate);
        Nanos((self.time() + self.idle()).max(Nanos::from_seconds(sent).0 as f64) as u64)
    }

    /// Returns what their rates are in the long run, if they are sent at `asked` requests per second or at no
    /// certain rate.
    #[must_use]
    pub(crate) fn long_run(&self, asked: Option<f64>) -> LongRun {
        let time = self.time();
        let share = time / self.period(asked).0 as f64;
        if time > 0.0 && share.is_finite() { LongRun(share.min(1.0)) } else { LongRun::WHOLE }
    }
}

impl Accumulator {
    /// Returns what the rates of the phase are in the long run, whose requests are sent at `asked` requests per
    /// second or at no certain rate.
    #[must_use]
    pub(crate) fn long_run(&self, asked: Option<f64>) -> LongRun {
        let mut extent = Extent::default();
        self.timeline().requests().for_each(|request| extent.add(request.start, request.end()));
        extent.long_run(asked)
    }

    /// Returns the sum of the record metric `summed` per second in the long run, in its display unit, or the
    /// requests that a count with this tag counted; `None` if its requests take no time.
    #[must_use]
    pub(crate) fn rate_of(&self, summed: MetricTag) -> Option<Rate> {
        let by_start = self.in_order(summed);
        let first = by_start.first()?.start;
        let seconds = |time: u64| Nanos(time.saturating_sub(first)).as_seconds();
        let spans = by_start.iter().map(|request| Span {
            start: seconds(request.start),
            end: seconds(request.end),
            weight: request.value.unwrap_or(0.0),
        });
        let by_start: Vec<Span> = spans.collect();
        let mut by_end = by_start.clone();
        by_end.sort_unstable_by(|one, other| one.end.total_cmp(&other.end));
        rate::rate(|| by_start.iter().copied(), || by_end.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use crate::metrics::tag;

    /// Milliseconds.
    fn extent(requests: &[(u64, u64)]) -> Extent {
        let mut extent = Extent::default();
        for (start, end) in requests {
            extent.add(start * 1_000_000, end * 1_000_000);
        }
        extent
    }

    fn shown(long_run: LongRun, tag: MetricTag, value: f64) -> f64 {
        long_run.value(Registry::row(tag).unwrap(), value)
    }

    #[test]
    fn three_requests_have_three_distances() {
        // Each 1,250 ms, 250 ms long: 3 in 2,750 ms by AIPerf's formula.
        let found = extent(&[(0, 250), (1250, 1500), (2500, 2750)]).long_run(None);
        let rate = shown(found, tag::REQUEST_THROUGHPUT, 3.0 / 2.75);
        assert!((rate - 0.8).abs() < 1e-12, "{rate}");
        let cost = shown(found, tag::COST_PER_MILLION_OUTPUT_TOKENS, 2.75);
        assert!((cost - 3.75).abs() < 1e-9, "{cost}");
        assert_eq!(shown(found, tag::REQUEST_LATENCY, 250.0), 250.0);
    }

    #[test]
    fn a_server_that_is_never_idle_has_the_rate_of_its_time() {
        let one_user = extent(&[(0, 100), (100, 200), (200, 300)]);
        let overlapping = extent(&[(0, 500), (100, 600), (200, 700)]);
        for busy in [one_user, overlapping, extent(&[(0, 100)]), Extent::default()] {
            assert_eq!(busy.long_run(None), LongRun::WHOLE);
        }
    }

    #[test]
    fn no_server_does_more_than_it_is_asked_for() {
        // At 0.4/s, two happen to arrive 667 ms after each other.
        let few = extent(&[(0, 600), (667, 1267)]);
        let rate = shown(few.long_run(Some(0.4)), tag::GOODPUT, 2.0 / 1.267);
        assert!((rate - 0.4).abs() < 1e-9, "{rate}");
        // A single one says nothing of the rate.
        let rate = shown(extent(&[(0, 667)]).long_run(Some(0.4)), tag::GOODPUT, 1.0 / 0.667);
        assert!((rate - 0.4).abs() < 1e-9, "{rate}");
        // A server that does not keep up has its own rate.
        let slow = extent(&[(0, 5000), (2500, 10_000)]);
        assert_eq!(slow.long_run(Some(0.4)), LongRun::WHOLE);
        // Many decide for themselves.
        let many: Vec<(u64, u64)> = (0..100).map(|at| (at * 100, at * 100 + 100)).collect();
        assert_eq!(extent(&many).long_run(Some(5.0)), LongRun::WHOLE);
    }
}
