//! Rates of a phase in the long run.
//!
//! AIPerf's rates are counts divided by the time from the first start to the last end, which for few requests
//! at a low rate is too short by the time in which nothing happens after the last one (see
//! [`statistics::rate`](base::statistics::rate)). Files have AIPerf's; whatever decides uses these.

use base::statistics::rate::{self, Rate, Span};
use base::units::Nanos;

use super::Accumulator;
use crate::metrics::metric::{ByDuration, Metric};
use crate::metrics::tag::MetricTag;

/// Number of requests from which the distances between them are no longer a matter of chance: few that arrive
/// at random may all come at once, but no server does more in the long run than what it is asked for.
const MANY: usize = 50;

/// The rates of a phase in the long run, as a share of AIPerf's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRun(f64);

impl Default for LongRun {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl LongRun {
    /// The factors of a phase whose rates are those of the long run, or of which nothing is known.
    pub const WHOLE: Self = Self(1.0);

    /// Returns what `value` of a metric is in the long run: it changes if the metric is a rate, or a cost,
    /// which is proportional to the time.
    #[must_use]
    pub fn value(self, metric: &Metric, value: f64) -> f64 {
        match metric.by_duration() {
            Some(ByDuration::Rate) => value * self.0,
            Some(ByDuration::Cost) => value / self.0,
            None => value,
        }
    }
}

impl LongRun {
    /// Returns what the rates of a closed loop are by Little's law: the mean number in flight divided by the
    /// mean latency, of requests that start and end at these times in nanoseconds. Unlike the time from the
    /// first start to the last end, this does not depend on how many are in flight at the end.
    ///
    /// The number in flight is averaged from the time when it first was at its highest until the last start.
    /// Where that is less than a latency, it is the highest. Requests that started before may have found the
    /// server idle, and count only if the others are less than a quarter.
    pub fn by_latency(spans: &[(u64, u64)]) -> Self {
        let mut changes: Vec<(u64, i64)> =
            spans.iter().flat_map(|(start, end)| [(*start, 1), (*end, -1)]).collect();
        // A request that ends makes room for the one that starts.
        changes.sort_unstable();
        let mut running = 0;
        let counts = changes.iter().map(|(time, change)| {
            running += change;
            (*time, running)
        });
        let counts: Vec<(u64, i64)> = counts.collect();
        let Some(peak) = counts.iter().map(|(_, count)| *count).max() else { return Self::WHOLE };
        let from = counts.iter().find(|(_, count)| *count == peak).map_or(0, |(time, _)| *time);
        let until = spans.iter().map(|(start, _)| *start).max().unwrap_or(0);
        let first = spans.iter().map(|(start, _)| *start).min().unwrap_or(0);
        let last = spans.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let settled = |span: &&(u64, u64)| span.0 > from;
        let is_enough = 4 * spans.iter().filter(settled).count() >= spans.len();
        let counted = || spans.iter().filter(|span| !is_enough || settled(span));
        let latencies =
            counted().map(|(start, end)| end.saturating_sub(*start) as f64).sum::<f64>();
        let latency = latencies / counted().count() as f64;
        let window = until.saturating_sub(from) as f64;
        let within = counts.windows(2).filter(|pair| (from..until).contains(&pair[0].0));
        let area: f64 =
            within.map(|pair| pair[0].1 as f64 * (pair[1].0.min(until) - pair[0].0) as f64).sum();
        let held = if window < latency { peak as f64 } else { area / window };
        let time = last.saturating_sub(first) as f64;
        let share = (held / latency) / (spans.len() as f64 / time);
        if share > 0.0 && share.is_finite() { Self(share) } else { Self::WHOLE }
    }
}

/// The times of the requests of a phase, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Extent {
    count: usize,
    first_start: u64,
    last_start: u64,
    last_end: u64,
    latencies: u128,
}

impl Extent {
    /// Adds a request.
    pub fn add(&mut self, start: u64, end: u64) {
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
    pub fn period(&self, asked: Option<f64>) -> Nanos {
        let sent = asked.filter(|_| self.count < MANY).map_or(0.0, |rate| self.count as f64 / rate);
        Nanos((self.time() + self.idle()).max(Nanos::from_seconds(sent).0 as f64) as u64)
    }

    /// Returns what their rates are in the long run, if they are sent at `asked` requests per second or at no
    /// certain rate.
    #[must_use]
    pub fn long_run(&self, asked: Option<f64>) -> LongRun {
        let time = self.time();
        let share = time / self.period(asked).0 as f64;
        if time > 0.0 && share.is_finite() { LongRun(share.min(1.0)) } else { LongRun::WHOLE }
    }
}

impl Accumulator {
    /// Returns what the rates of the phase are in the long run, whose requests are sent at `asked` requests per
    /// second or at no certain rate.
    #[must_use]
    pub fn long_run(&self, asked: Option<f64>) -> LongRun {
        let mut extent = Extent::default();
        self.timeline().requests().for_each(|request| extent.add(request.start, request.end()));
        extent.long_run(asked)
    }

    /// Returns what the rates of a closed loop are by the latencies of its requests, however many of them were
    /// in flight when the phase ended.
    #[must_use]
    pub fn by_latency(&self) -> LongRun {
        let spans: Vec<(u64, u64)> =
            self.timeline().requests().map(|request| (request.start, request.end())).collect();
        LongRun::by_latency(&spans)
    }

    /// Returns the successful requests per second of a closed loop [by its latencies](Self::by_latency);
    /// `None` if they take no time.
    #[must_use]
    pub(crate) fn closed_rate(&self) -> Option<f64> {
        let mut extent = Extent::default();
        self.timeline().requests().for_each(|request| extent.add(request.start, request.end()));
        let LongRun(share) = self.by_latency();
        let rate = self.request_count() as f64 / Nanos(extent.time() as u64).as_seconds() * share;
        Some(rate).filter(|rate| rate.is_finite())
    }

    /// Returns the sum of the record metric `summed` per second in the long run, in its display unit, or the
    /// requests that a count with this tag counted; `None` if its requests take no time.
    #[must_use]
    pub fn rate_of(&self, summed: MetricTag) -> Option<Rate> {
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
    use base::statistics::simulation::{Arrivals, Server, Service};

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

    /// The rate of a closed loop of 16 for one second, of a server with lognormal latencies, by the time
    /// until the last response and by latencies.
    fn block(seconds: f64, seed: u64) -> [f64; 2] {
        let server = Server::new(16, seconds, Service::Lognormal(0.1));
        let run = server.run(Arrivals::Closed(16), 1000, seed);
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let spans = run.iter().filter(|request| request.start < 1.0);
        let spans: Vec<(u64, u64)> =
            spans.map(|request| (nanos(request.start), nanos(request.end))).collect();
        let last = spans.iter().map(|(_, end)| *end).max().unwrap();
        let plain = spans.len() as f64 / (last as f64 / 1e9);
        let found = LongRun::by_latency(&spans);
        [plain, shown(found, tag::REQUEST_THROUGHPUT, plain)]
    }

    #[test]
    fn short_blocks_of_a_closed_loop_have_the_rate_of_their_latencies() {
        // 16 / latency by Little's law, for latencies that fit into the second any number of times.
        for seconds in [0.05, 0.19, 0.33, 0.4, 0.7, 1.4] {
            let blocks: Vec<[f64; 2]> = (0..40).map(|seed| block(seconds, seed)).collect();
            let mean = blocks.iter().map(|[_, rate]| rate).sum::<f64>() / 40.0;
            assert!((mean * seconds / 16.0 - 1.0).abs() < 0.012, "{seconds}: {mean}");
        }
        // With as many as the slots serve, or more: 100 requests that begin all at once.
        for (concurrency, expected) in
            [(8, 200.0), (9, 225.0), (10, 250.0), (20, 250.0), (40, 250.0), (64, 250.0)]
        {
            let run =
                Server::new(10, 0.04, Service::Constant).run(Arrivals::Closed(concurrency), 100, 1);
            let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
            let spans: Vec<(u64, u64)> =
                run.iter().map(|request| (nanos(request.start), nanos(request.end))).collect();
            let last = spans.iter().map(|(_, end)| *end).max().unwrap();
            let plain = 100.0 / (last as f64 / 1e9);
            let rate = shown(LongRun::by_latency(&spans), tag::REQUEST_THROUGHPUT, plain);
            // Constant services come in waves: a wait is a whole number of them.
            assert!((rate / expected - 1.0).abs() < 0.012, "{concurrency}: {rate}");
        }
        // By the time until the last response, the rate of a server that is 4% slower is off by far more.
        let off = |of: usize| {
            let ratio =
                |seed| block(0.19 * 1.04, seed + 100)[of] / block(0.19, seed)[of] - 1.0 / 1.04;
            (0..40).map(ratio).sum::<f64>() / 40.0
        };
        assert!(off(1).abs() < 0.005, "{}", off(1));
        assert!(off(0).abs() > 0.01, "{}", off(0));
        assert_eq!(LongRun::by_latency(&[]), LongRun::WHOLE);
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
