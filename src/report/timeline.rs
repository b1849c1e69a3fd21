//! Requests over the time of a run, in intervals of equal length.

use super::chart::Point;
use super::requests::Request;
use crate::statistics::percentile::percentile;

/// Maximum number of intervals.
const MAX_INTERVALS: f64 = 600.0;
/// Maximum number of intervals of less than a second.
const MAX_SHORT_INTERVALS: f64 = 60.0;
/// Lengths of intervals in milliseconds.
const LENGTHS: &[f64] =
    &[100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 10e3, 20e3, 30e3, 60e3, 300e3, 1800e3];

/// The intervals of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Intervals {
    /// Length in milliseconds.
    pub(super) length: f64,
    count: usize,
}

impl Intervals {
    /// Divides a run until `end`, in milliseconds since its start: into seconds, unless they would be
    /// very many or very few.
    pub(super) fn until(end: f64) -> Self {
        let end = if end.is_finite() { end.max(0.0) } else { 0.0 };
        let most = |length: f64| if length < 1e3 { MAX_SHORT_INTERVALS } else { MAX_INTERVALS };
        let fits = |length: &&f64| end / **length <= most(**length);
        let last = end / MAX_INTERVALS;
        let length = LENGTHS.iter().find(fits).copied().unwrap_or(last);
        // A moment at the end belongs to an interval too.
        let count = (end / length).floor() as usize + 1;
        Self { length, count }
    }

    /// Returns the length in seconds, as text.
    pub(super) fn described(self) -> String {
        format!("{} s", self.length / 1e3)
    }

    /// Returns the index of the interval of a time in milliseconds.
    pub(super) fn at(self, ms: f64) -> usize {
        ((ms / self.length).max(0.0) as usize).min(self.count - 1)
    }

    /// Returns something for each interval.
    pub(super) fn each<T>(self, new: impl Fn() -> T) -> Vec<T> {
        std::iter::repeat_with(new).take(self.count).collect()
    }

    /// Returns the value of each interval at its start, in seconds.
    pub(super) fn points(self, values: impl Iterator<Item = Option<f64>>) -> Vec<Point> {
        let start = |at: usize| at as f64 * self.length / 1e3;
        values.enumerate().map(|(at, y)| Point { x: start(at), y }).collect()
    }

    /// Returns the value of each interval at its start, and that of the last one at its end too, in
    /// seconds.
    fn steps(self, values: impl Iterator<Item = f64>) -> Vec<Point> {
        let mut steps = self.points(values.map(Some));
        let end = self.count as f64 * self.length / 1e3;
        let last = steps.last().map(|last| Point { x: end, ..*last });
        steps.extend(last);
        steps
    }

    /// Returns the number of `times` per second.
    pub(super) fn rate(self, times: impl Iterator<Item = f64>) -> Vec<Point> {
        let mut counts = vec![0.0; self.count];
        times.for_each(|time| counts[self.at(time)] += 1.0);
        let seconds = self.length / 1e3;
        self.steps(counts.into_iter().map(|count| count / seconds))
    }

    /// Returns the number of `times`.
    pub(super) fn count(self, times: impl Iterator<Item = f64>) -> Vec<Point> {
        let mut counts = vec![0.0; self.count];
        times.for_each(|time| counts[self.at(time)] += 1.0);
        self.steps(counts.into_iter())
    }

    /// Returns the sum of amounts that each arrive evenly between two times, per second.
    pub(super) fn flow(self, amounts: impl Iterator<Item = (f64, f64, f64)>) -> Vec<Point> {
        let seconds = self.length / 1e3;
        self.steps(self.spread(amounts).into_iter().map(|sum| sum / seconds))
    }

    /// Returns the mean number of `requests` in flight.
    pub(super) fn in_flight(self, requests: impl Iterator<Item = Request>) -> Vec<Point> {
        let spans = requests.map(|request| (request.start, request.end(), request.duration));
        self.steps(self.spread(spans).into_iter().map(|ms| ms / self.length))
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
                let start = if at == first { from } else { at as f64 * self.length };
                let end = if at == last { to } else { (at + 1) as f64 * self.length };
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
    ) -> [Vec<Point>; N] {
        let mut found = [const { Vec::new() }; N];
        let mut values = values.filter(|(_, value)| value.is_finite()).peekable();
        let mut of_interval: Vec<f64> = Vec::new();
        for interval in 0..self.count {
            of_interval.clear();
            while let Some((_, value)) = values.next_if(|(time, _)| self.at(*time) <= interval) {
                of_interval.push(value);
            }
            of_interval.sort_by(f64::total_cmp);
            for (found, percent) in found.iter_mut().zip(percents) {
                found.push(percentile(&of_interval, percent));
            }
        }
        found.map(|values| self.points(values.into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(points: &[Point]) -> Vec<f64> {
        points.iter().filter_map(|point| point.y).collect()
    }

    #[test]
    fn a_run_has_some_hundred_intervals_at_most() {
        assert_eq!(Intervals::until(0.0), Intervals { length: 100.0, count: 1 });
        assert_eq!(Intervals::until(5_000.0), Intervals { length: 100.0, count: 51 });
        assert_eq!(Intervals::until(11_000.0), Intervals { length: 200.0, count: 56 });
        assert_eq!(Intervals::until(60_000.0), Intervals { length: 1e3, count: 61 });
        assert_eq!(Intervals::until(3_600_000.0), Intervals { length: 10e3, count: 361 });
        assert!(Intervals::until(1e12).count <= 601);
        assert_eq!(Intervals::until(f64::NAN).count, 1);
    }

    #[test]
    fn what_is_counted_adds_up() {
        let seconds = Intervals { length: 1e3, count: 3 };
        assert_eq!(
            values(&seconds.rate([0.0, 999.9, 1000.0, 9000.0].into_iter())),
            [2.0, 1.0, 1.0, 1.0]
        );
        let flow = seconds.flow([(500.0, 2500.0, 8.0), (100.0, 100.0, 1.0)].into_iter());
        assert_eq!(values(&flow), [3.0, 4.0, 2.0, 2.0]);
        assert_eq!(flow.last(), Some(&Point::new(3.0, 2.0)));
    }

    #[test]
    fn an_interval_without_values_has_no_percentile() {
        let seconds = Intervals { length: 1e3, count: 3 };
        let [p50] =
            seconds.percentiles([(0.0, 1.0), (10.0, 3.0), (2500.0, 5.0)].into_iter(), [50.0]);
        assert_eq!(
            p50.iter().map(|point| point.y).collect::<Vec<_>>(),
            [Some(2.0), None, Some(5.0)]
        );
    }
}
