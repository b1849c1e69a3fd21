//! How exact a rate is: so many requests, or tokens, in the time from the first start to the last
//! end.
//!
//! The number is given by the schedule, the time differs from run to run. It is a sum of times
//! between requests, but these compensate each other: where few requests end for a while, many do
//! afterwards. Their sum is far more exact than if they were independent. Three sums have the same total, up
//! to what is in flight at the end. The one whose terms compensate each other least has the smallest
//! variance, and is taken:
//!
//! - the times between starts, which an open loop knows;
//! - the times between ends, which an overloaded server knows;
//! - the latencies divided by the mean number in flight, if that number hardly varies: by Little's law,
//!   a closed loop of c requests takes the sum of the latencies divided by c. It is the first sum with
//!   a control variate, the time that requests in flight have still to go.
//!
//! A run ends with its last response, but so many requests take as much time as there is from the first start
//! to the one that would follow: of requests that are sent at greater distances than they take, n have only
//! n - 1 distances between them. The time that is idle after a request on average is therefore added after
//! the last one, too. Without it, three requests at 0.6/s that take no time would be 0.9/s.
//!
//! After the last start, a run goes on for as long as the slowest request in flight. How much that
//! differs from run to run is seen at each start: how long the run would have gone on after it.

use super::dependent::{Exactness, dependence};
use super::percentile::exact_sum;
use super::sums::Sums;

/// The largest variance of the number of requests in flight, in relation to its mean, at which it is
/// held: that of requests that arrive independently of each other is 1.
const HELD: f64 = 0.1;

/// The share of a run's time until its last start from which starts are informative about the time.
const MOSTLY: f64 = 0.5;

/// How much smaller a variance must be for its sum to be preferred.
const MUCH_SMALLER: f64 = 0.6;

/// A request: when it started and ended, in seconds, and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
    pub weight: f64,
}

/// A sum of weights divided by a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The sum of the weights.
    pub weight: f64,
    /// The time, including that which is idle after the last request.
    pub seconds: f64,
    /// How exact the sum is for the time.
    pub exactness: Exactness,
    /// Number of requests in a batch.
    pub batch: usize,
}

/// Computes the rate of requests, in the order of their starts and in that of their ends; both are
/// called several times. `None` if they take no time.
pub fn rate<S, E>(by_start: impl Fn() -> S, by_end: impl Fn() -> E) -> Option<Rate>
where
    S: Iterator<Item = Span>,
    E: Iterator<Item = Span>,
{
    let first = by_start().next()?.start;
    let last = by_end().last()?.end;
    let weight = exact_sum(by_start().map(|span| span.weight));
    let latencies = exact_sum(by_start().map(|span| span.end - span.start));
    let idle = idle(by_start().count(), by_start().last()?.start - first, latencies);
    let seconds = last - first + idle;
    let rate = weight / seconds;
    if !rate.is_finite() || last <= first {
        return None;
    }
    let held = in_flight(gaps(by_start(), by_end()));
    let ends = of_ends(by_end(), rate, first - idle);
    let mut sums = vec![ends];
    if held.seconds >= seconds * MOSTLY {
        let count = by_start().count();
        let rate_by = |by: f64| of_starts(gaps(by_start(), by_end()), count, rate, by, held.mean);
        sums.insert(0, rate_by(0.0));
        if held.variance <= HELD * held.mean {
            sums.push(rate_by(1.0 / held.mean));
        }
    }
    // The smallest of several estimates that hardly differ would be too small.
    let smaller = |best: (Exactness, usize), next: (Exactness, usize)| {
        if next.0.variance < best.0.variance * MUCH_SMALLER { next } else { best }
    };
    let (exactness, batch) = sums.into_iter().reduce(smaller)?;
    Some(Rate { weight, seconds, exactness, batch })
}

/// Returns the time for which a server is idle after a request, on average over `count` requests that take
/// `latencies` together, the last of which starts `until_last` after the first; 0 if they overlap.
pub fn idle(count: usize, until_last: f64, latencies: f64) -> f64 {
    if count < 2 {
        return 0.0;
    }
    (until_last / (count - 1) as f64 - latencies / count as f64).max(0.0)
}

/// The time from the start of a request until the next one starts.
#[derive(Debug, Clone, Copy)]
struct Gap {
    span: Span,
    /// 0 after the last one.
    seconds: f64,
    /// The number of requests in flight, added up over the time.
    area: f64,
    /// The same for the square of the number.
    squares: f64,
    /// How long the run would have gone on if the request had been the last.
    left: f64,
    /// The time that the requests in flight have still to go, all together.
    work: f64,
}

/// Returns the times between the starts of requests.
fn gaps(
    by_start: impl Iterator<Item = Span>,
    by_end: impl Iterator<Item = Span>,
) -> impl Iterator<Item = Gap> {
    let (mut starts, mut ends) = (by_start.peekable(), by_end.peekable());
    let (mut running, mut work, mut last_end) = (0.0_f64, 0.0_f64, f64::NEG_INFINITY);
    std::iter::from_fn(move || {
        let span = starts.next()?;
        running += 1.0;
        work += span.end - span.start;
        last_end = last_end.max(span.end);
        let mut gap =
            Gap { span, seconds: 0.0, area: 0.0, squares: 0.0, left: last_end - span.start, work };
        let Some(next) = starts.peek().map(|next| next.start) else { return Some(gap) };
        let mut now = span.start;
        let mut until = |time: f64, running: f64| {
            gap.area += running * (time - now);
            gap.squares += running * running * (time - now);
            now = time;
        };
        while let Some(ended) = ends.next_if(|ended| ended.end <= next) {
            until(ended.end, running);
            running -= 1.0;
        }
        until(next, running);
        gap.seconds = next - span.start;
        work = (work - gap.area).max(0.0);
        Some(gap)
    })
}

/// The number of requests in flight over time.
struct InFlight {
    /// Until the last one started.
    seconds: f64,
    mean: f64,
    variance: f64,
}

/// Returns how many were in flight until the last one started.
fn in_flight(gaps: impl Iterator<Item = Gap>) -> InFlight {
    let (mut seconds, mut area, mut squares) = (0.0, 0.0, 0.0);
    for gap in gaps {
        seconds += gap.seconds;
        area += gap.area;
        squares += gap.squares;
    }
    let mean: f64 = area / seconds;
    InFlight { seconds, mean, variance: squares / seconds - mean * mean }
}

/// Returns how exact the sum of the weights of `count` requests is by the times between starts, each
/// less the share `by` of the time in which more was in flight than the request itself takes. `mean`
/// requests were in flight.
fn of_starts(
    gaps: impl Iterator<Item = Gap>,
    count: usize,
    rate: f64,
    by: f64,
    mean: f64,
) -> (Exactness, usize) {
    let mut terms = Sums::default();
    let mut ends = Moments::default();
    // The first requests find an empty server.
    let skipped = (mean.ceil() as usize).min(count / 4);
    let round = mean.round().max(1.0) as usize;
    for (number, gap) in gaps.enumerate().skip(skipped) {
        let after = count - 1 - number;
        // Nothing follows the last request.
        if after > 0 {
            let latency = gap.span.end - gap.span.start;
            let seconds = gap.seconds - by * (gap.area - latency);
            terms.push(gap.span.weight - rate * seconds);
        }
        // So many requests before the last, all in flight were others, but as many in the same rhythm.
        if after.is_multiple_of(round) {
            ends.add(gap.left - by * gap.work);
        }
    }
    let dependence = dependence(&terms);
    let degrees = (ends.count - 1.0).max(1.0);
    let end = Exactness { variance: ends.variance() * rate * rate, degrees };
    let share = count as f64 / terms.count() as f64;
    // Latencies depend on each other over as many requests as are in flight.
    let most = if by > 0.0 { ends.count } else { f64::INFINITY };
    let sum = Exactness {
        variance: dependence.sum.variance * share,
        degrees: dependence.sum.degrees.min(most),
    };
    (sum.plus(end), dependence.batch)
}

/// Returns how exact the sum of the weights is by the times between ends, since `first`.
fn of_ends(by_end: impl Iterator<Item = Span>, rate: f64, first: f64) -> (Exactness, usize) {
    let mut terms = Sums::default();
    let mut before = first;
    for span in by_end {
        terms.push(span.weight - rate * (span.end - before));
        before = span.end;
    }
    let dependence = dependence(&terms);
    (dependence.sum, dependence.batch)
}

/// Mean and variance of values that are added one by one (Welford, "Note on a method for calculating
/// corrected sums of squares and products", Technometrics 4, 1962).
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let from_mean = value - self.mean;
        self.mean += from_mean / self.count;
        self.squares += from_mean * (value - self.mean);
    }

    /// Returns the variance without bias; 0 of a single value.
    fn variance(&self) -> f64 {
        self.squares / (self.count - 1.0).max(1.0)
    }
}

#[cfg(test)]
mod tests;
