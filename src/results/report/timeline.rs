//! Requests over the time of a run, in intervals of equal length.

use base::statistics::order;
use base::statistics::percentile::percentile;

use super::chart::{Interval, Point, round_up, rounded};
use super::requests::Request;

/// Minimum length of an interval in milliseconds.
const MIN_LENGTH: f64 = 100.0;
/// Maximum number of intervals.
const MAX_COUNT: f64 = 600.0;
/// Mean number of requests of an interval, at least.
const REQUESTS: f64 = 10.0;
/// Number of median latencies in an interval, so that requests that are sent together do not make a
/// rate alternate between zero and a peak.
const LATENCIES: f64 = 3.0;
/// Part of a run up to which intervals are made longer because of latencies: rounded up, these are still
/// a twentieth at most.
const MOST: f64 = 1.0 / 50.0;

/// The intervals of a run: of equal length, except for the last one, which is between half as long
/// and one and a half times as long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Intervals {
    /// Length in milliseconds.
    length: f64,
    count: usize,
    /// The end of the last one.
    end: f64,
}

/// Percentiles of each interval.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Percentiles {
    /// The percentile in the middle of each interval.
    pub(super) points: Vec<Point>,
    /// Where it would be with other requests, at a confidence of 95%; absent if there are too few.
    pub(super) within: Vec<Option<Interval>>,
}

impl Intervals {
    /// Divides a run until `end` with so many `requests`, whose median latency is `typical`; times are
    /// in milliseconds since the start.
    ///
    /// The length is 1, 2 or 5 times a power of ten, and the smallest one with which an interval has
    /// [`REQUESTS`] on average and takes [`LATENCIES`].
    pub(super) fn up_to(end: f64, requests: usize, typical: f64) -> Self {
        let end = if end.is_finite() { end.max(0.0) } else { 0.0 };
        let latencies = (LATENCIES * typical).min(end * MOST);
        let needed = [MIN_LENGTH, end / MAX_COUNT, REQUESTS * end / requests as f64, latencies];
        let length = needed.into_iter().filter(|length| length.is_finite()).fold(0.0, f64::max);
        let length = round_up(length);
        let count = ((end / length).round() as usize).max(1);
        Self { length, count, end: if end > 0.0 { end } else { length } }
    }

    /// Returns the length in seconds, as text.
    pub(super) fn described(self) -> String {
        format!("{} s", rounded(self.length / 1e3))
    }

    /// Returns the index of the interval of a time in milliseconds.
    pub(super) fn at(self, ms: f64) -> usize {
        ((ms / self.length).max(0.0) as usize).min(self.count - 1)
    }

    /// Returns something for each interval.
    pub(super) fn each<T>(self, new: impl Fn() -> T) -> Vec<T> {
        std::iter::repeat_with(new).take(self.count).collect()
    }

    /// Returns intervals of several of these each, `most` at most.
    pub(super) fn joined(self, most: usize) -> Self {
        let joined = self.count.div_ceil(most);
        let length = self.length * joined as f64;
        Self { length, count: self.count.div_ceil(joined), ..self }
    }

    /// Returns the starts of the intervals, and the end of the last one, in seconds.
    pub(super) fn edges(self) -> Vec<f64> {
        let starts = (0..self.count).map(|at| self.bounds(at).0);
        starts.chain([self.end]).map(|ms| ms / 1e3).collect()
    }

    /// Returns the start and the end of the interval at the index `at`, in milliseconds.
    fn bounds(self, at: usize) -> (f64, f64) {
        let start = at as f64 * self.length;
        (start, if at + 1 < self.count { (at + 1) as f64 * self.length } else { self.end })
    }

    /// Returns the value of each interval at its start, in seconds.
    pub(super) fn points(self, values: impl Iterator<Item = Option<f64>>) -> Vec<Point> {
        let start = |at| self.bounds(at).0 / 1e3;
        values.enumerate().map(|(at, y)| Point { x: start(at), y }).collect()
    }

    /// Returns the value of each interval in its middle, in seconds.
    fn middles(self, values: impl Iterator<Item = Option<f64>>) -> Vec<Point> {
        let middle = |(start, end): (f64, f64)| f64::midpoint(start, end) / 1e3;
        values.enumerate().map(|(at, y)| Point { x: middle(self.bounds(at)), y }).collect()
    }

    /// Returns the `amounts` of the intervals divided by their lengths in units of `ms`: at the start
    /// of each, and that of the last one at its end too, in seconds.
    fn rates(self, amounts: Vec<f64>, ms: f64) -> Vec<Point> {
        let rate = |(at, amount): (usize, f64)| {
            let (start, end) = self.bounds(at);
            Some(amount / ((end - start) / ms))
        };
        let mut rates = self.points(amounts.into_iter().enumerate().map(rate));
        let last = rates.last().map(|last| Point { x: self.end / 1e3, ..*last });
        rates.extend(last);
        rates
    }

    /// Returns the number of `times` per second.
    pub(super) fn rate(self, times: impl Iterator<Item = f64>) -> Vec<Point> {
        let mut counts = vec![0.0; self.count];
        times.for_each(|time| counts[self.at(time)] += 1.0);
        self.rates(counts, 1e3)
    }

    /// Returns the sum of amounts that each arrive evenly between two times, per second.
    pub(super) fn flow(self, amounts: impl Iterator<Item = (f64, f64, f64)>) -> Vec<Point> {
        self.rates(self.spread(amounts), 1e3)
    }

    /// Returns the mean number of `requests` in flight.
    pub(super) fn in_flight(self, requests: impl Iterator<Item = Request>) -> Vec<Point> {
        let spans = requests.map(|request| (request.start, request.end(), request.duration));
        self.rates(self.spread(spans), 1.0)
    }

    /// Divides each amount among the intervals between its two times.
    fn spread(self, amounts: impl Iterator<Item = (f64, f64, f64)>) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        for (from, to, amount) in amounts {
            let (first, last) = (self.at(from), self.at(to));
            let length = to - from;
            if first == last || length <= 0.0 {
                sums[first] += amount;
                continue;
            }
            for (at, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
                let (start, end) = self.bounds(at);
                let start = if at == first { from } else { start };
                let end = if at == last { to } else { end };
                *sum += amount * (end - start) / length;
            }
        }
        sums
    }

    /// Returns percentiles of the values at their times, which ascend; absent in an interval without
    /// values.
    pub(super) fn percentiles<const N: usize>(
        self,
        values: impl Iterator<Item = (f64, f64)>,
        percents: [f64; N],
    ) -> [Percentiles; N] {
        let mut found = [const { (Vec::new(), Vec::new()) }; N];
        let mut values = values.filter(|(_, value)| value.is_finite()).peekable();
        let mut of_interval: Vec<f64> = Vec::new();
        for interval in 0..self.count {
            of_interval.clear();
            while let Some((_, value)) = values.next_if(|(time, _)| self.at(*time) <= interval) {
                of_interval.push(value);
            }
            of_interval.sort_by(f64::total_cmp);
            for ((points, within), percent) in found.iter_mut().zip(percents) {
                points.push(percentile(&of_interval, percent));
                within.push(confidence(&of_interval, percent));
            }
        }
        found.map(|(points, within)| Percentiles {
            points: self.middles(points.into_iter()),
            within,
        })
    }
}

/// Returns the interval of a percentile of values in ascending order at a confidence of 95%; `None`
/// if there are too few, and for the smallest and the largest value.
fn confidence(ascending: &[f64], percent: f64) -> Option<Interval> {
    if percent <= 0.0 || percent >= 100.0 {
        return None;
    }
    let order::Interval { low, high } = order::interval(ascending.len() as u64, percent / 100.0);
    let at = |index: Option<u64>| ascending.get(usize::try_from(index?).ok()?).copied();
    Some(Interval { low: at(low)?, high: at(high)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(points: &[Point]) -> Vec<f64> {
        points.iter().filter_map(|point| point.y).collect()
    }

    fn intervals(end: f64, requests: usize, typical: f64) -> (f64, usize) {
        let found = Intervals::up_to(end, requests, typical);
        (found.length, found.count)
    }

    #[test]
    fn an_interval_has_some_requests() {
        // 100 requests a second of 1 ms: 10 of them take 0.1 s.
        assert_eq!(intervals(5_000.0, 500, 1.0), (100.0, 50));
        // 40 a second: 10 take 0.25 s.
        assert_eq!(intervals(5_000.0, 200, 1.0), (500.0, 10));
        assert_eq!(intervals(600_000.0, 60, 1.0), (100_000.0, 6));
        // Fewer than 10 are in one interval.
        assert_eq!(intervals(5_000.0, 9, 1.0), (10_000.0, 1));
        assert_eq!(intervals(5_000.0, 0, 0.0), (100.0, 50));
    }

    #[test]
    fn an_interval_takes_some_latencies() {
        // 3 times 0.2 s is 0.6 s.
        assert_eq!(intervals(60_000.0, 100_000, 200.0), (1_000.0, 60));
        // A run of 60 s is not divided into fewer than 20 intervals by latencies of 30 s.
        assert_eq!(intervals(60_000.0, 100_000, 30_000.0), (2_000.0, 30));
    }

    #[test]
    fn a_run_has_some_hundred_intervals_at_most() {
        assert_eq!(intervals(3_600_000.0, 1_000_000, 1.0), (10_000.0, 360));
        assert!(intervals(1e12, 1_000_000_000_000, 1.0).1 <= 600);
        assert_eq!(intervals(0.0, 0, 0.0), (100.0, 1));
        assert_eq!(intervals(f64::NAN, 3, f64::NAN).1, 1);
        assert_eq!(intervals(1e5, 1, f64::INFINITY).1, 1);
    }

    #[test]
    fn the_last_interval_ends_with_the_run() {
        let short = Intervals::up_to(1_040.0, 1000, 0.0);
        assert_eq!((short.count, short.bounds(9)), (10, (900.0, 1_040.0)));
        let long = Intervals::up_to(1_060.0, 1000, 0.0);
        assert_eq!((long.count, long.bounds(10)), (11, (1_000.0, 1_060.0)));
        // A moment at the end belongs to it too.
        assert_eq!((short.at(1_040.0), long.at(1_060.0)), (9, 10));
    }

    #[test]
    fn what_is_counted_adds_up() {
        let seconds = Intervals { length: 1e3, count: 3, end: 2_500.0 };
        let rate = seconds.rate([0.0, 999.9, 1000.0, 2400.0].into_iter());
        assert_eq!(values(&rate), [2.0, 1.0, 2.0, 2.0]);
        let flow = seconds.flow([(500.0, 2500.0, 8.0), (100.0, 100.0, 1.0)].into_iter());
        assert_eq!(values(&flow), [3.0, 4.0, 4.0, 4.0]);
        assert_eq!(flow.last(), Some(&Point::new(2.5, 4.0)));
        let request = Request { start: 500.0, duration: 1_750.0, ..Request::default() };
        let in_flight = seconds.in_flight(std::iter::once(request));
        assert_eq!(values(&in_flight), [0.5, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn an_interval_without_values_has_no_percentile() {
        let seconds = Intervals { length: 1e3, count: 3, end: 4_000.0 };
        let [p50] =
            seconds.percentiles([(0.0, 1.0), (10.0, 3.0), (2500.0, 5.0)].into_iter(), [50.0]);
        let point = |x, y| Point { x, y };
        let points = [point(0.5, Some(2.0)), point(1.5, None), point(3.0, Some(5.0))];
        assert_eq!(p50, Percentiles { points: points.into(), within: vec![None; 3] });
    }

    #[test]
    fn a_percentile_has_an_interval_if_there_are_enough_values() {
        let second = Intervals { length: 1e3, count: 1, end: 1e3 };
        let share_of = |count: u32| {
            let values = (0..count).map(|value| (0.0, f64::from(value)));
            second.percentiles(values, [50.0, 99.0, 100.0]).map(|found| found.within[0])
        };
        assert_eq!(share_of(5), [None; 3]);
        // scipy.stats.binom(40, 0.5): ppf(0.025) - 1 and ppf(0.975).
        assert_eq!(share_of(40), [Some(Interval { low: 13.0, high: 26.0 }), None, None]);
        let p99 = Interval { low: 489.0, high: 499.0 };
        assert_eq!(share_of(500)[1..], [Some(p99), None]);
    }
}
