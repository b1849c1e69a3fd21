//! The intervals of the statistics of a single run, from its requests.

use base::column::{Column, Store};
use base::statistics::interval::Measured;
use base::statistics::rate::{Span, rate};
use measure::judge::compare::{Sampled, Source};
use measure::metrics::metric::Statistic;
use measure::metrics::tag::{self, MetricTag};
use measure::multi_run::aggregate::Row;

use crate::report::chart::Interval;
use crate::report::requests::{Request, Requests};
use crate::report::run::LATENCIES;

/// The interval of a statistic of a metric.
pub(super) type Within = (MetricTag, Statistic, Interval);

/// Returns the intervals at the confidence `level` of those of `rows`, the statistics of a run with
/// these `requests`, that have enough requests for one.
pub(super) fn within(requests: &Requests, rows: &[Row], level: f64) -> Vec<Within> {
    let interval = |row: &Row| {
        let source = Source::for_statistic(row.metric, row.statistic)?;
        let sampled = sampled(requests, source, row.across.mean)?;
        let [low, high] = sampled.interval(source, level)?;
        let low = if row.metric.is_signed() { low } else { low.max(0.0) };
        Some((row.metric.tag, row.statistic, Interval { low, high }))
    };
    rows.iter().filter_map(interval).collect()
}

/// Returns the statistic of `source`, whose value is known; `None` if the table of requests does not
/// have what it is computed from.
fn sampled(requests: &Requests, source: Source, value: f64) -> Option<Sampled> {
    match source {
        Source::Mean(tag) | Source::Percentile(tag, _) => {
            let values_of = values_of(tag)?;
            let values = || requests.iter().filter_map(|request| values_of(&request));
            let count = values().count();
            let measured = match source {
                Source::Percentile(_, percent) => {
                    let mut column = Column::new(Store::default());
                    column.extend(values());
                    Measured::percentile(column, percent)
                }
                _ => Measured::mean(values),
            };
            Some(Sampled { measured: measured?, count })
        }
        Source::Rate(tag::OUTPUT_SEQUENCE_LENGTH) => {
            of_rate(requests, value, |request| request.osl.filter(|_| request.succeeded()))
        }
        Source::SuccessRate => {
            of_rate(requests, value, |request| request.succeeded().then_some(1.0))
        }
        Source::Failures => {
            let failed = || requests.iter().map(|one| f64::from(u8::from(!one.succeeded())));
            let count = failed().count();
            let measured = Measured::share(failed)?.times(100.0);
            Some(Sampled { measured, count })
        }
        Source::Rate(_) | Source::Share(_) => None,
    }
}

/// Returns what gives the values of a metric, in its display unit.
fn values_of(tag: MetricTag) -> Option<fn(&Request) -> Option<f64>> {
    if tag == tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER {
        return Some(|request| request.itl.filter(|ms| *ms > 0.0).map(|ms| 1e3 / ms));
    }
    LATENCIES.iter().find(|(latency, _)| *latency == tag).map(|(_, value_of)| *value_of)
}

/// Returns the rate of the weights of requests, which is `value` per second.
fn of_rate(
    requests: &Requests,
    value: f64,
    weight: fn(&Request) -> Option<f64>,
) -> Option<Sampled> {
    let span = |request: Request| Span {
        start: request.start / 1e3,
        end: request.end() / 1e3,
        weight: weight(&request).unwrap_or(0.0),
    };
    let by_start: Vec<Span> = requests.iter().map(span).collect();
    let mut by_end = by_start.clone();
    by_end.sort_unstable_by(|one, other| one.end.total_cmp(&other.end));
    let found = rate(|| by_start.iter().copied(), || by_end.iter().copied())?;
    // The duration of the phase, which `value` is relative to.
    let seconds = found.weight / value;
    let (exactness, batch, count) = (found.exactness, found.batch, by_start.len());
    let measured = Measured::of_sum(value, seconds, exactness, batch, count);
    seconds.is_finite().then_some(Sampled { measured, count })
}

#[cfg(test)]
mod tests {
    use measure::metrics::Registry;
    use measure::multi_run::aggregate::Across;

    use super::*;

    /// Requests one after the other of `seconds` each, of which every tenth takes twice as long to its
    /// first token, and has failed if `with_failures`.
    fn requests(count: u32, with_failures: bool) -> Requests {
        let request = |at: u32| {
            let is_tenth = at.is_multiple_of(10);
            Request {
                start: f64::from(at) * 100.0,
                duration: 100.0,
                ttft: Some(if is_tenth { 40.0 } else { 20.0 }),
                itl: Some(5.0),
                osl: Some(8.0),
                class: (is_tenth && with_failures).then_some(0),
                ..Request::default()
            }
        };
        Requests::from_requests((0..count).map(request))
    }

    fn found(
        requests: &Requests,
        tag: MetricTag,
        statistic: &'static str,
        mean: f64,
    ) -> Option<[f64; 2]> {
        let across = Across { runs: 1, mean, min: mean, max: mean, spread: None };
        let statistic = Statistic::named(statistic).unwrap();
        let row = Row { metric: Registry::row(tag).unwrap(), statistic, across };
        let [(of, name, interval)] = within(requests, &[row], 0.95)[..] else { return None };
        assert_eq!((of, name), (tag, statistic));
        Some([interval.low, interval.high])
    }

    #[test]
    fn a_statistic_of_enough_requests_has_an_interval() {
        let many = requests(1000, true);
        // Nine of ten take 20 ms, and the median is far from the tenth.
        assert_eq!(found(&many, tag::TIME_TO_FIRST_TOKEN, "p50", 20.0), Some([20.0, 20.0]));
        // The tenth is beyond p90, and what is between 20 and 40 ms is not known.
        let p99 = found(&many, tag::TIME_TO_FIRST_TOKEN, "p99", 40.0);
        assert!(p99.is_some_and(|[low, high]| low >= 20.0 && high == 40.0), "{p99:?}");
        // 1000 ms over 5 ms.
        let per_user = found(&many, tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, "avg", 200.0);
        assert_eq!(per_user, Some([200.0, 200.0]));
        // Nine tokens of ten requests, 8 each, in a second; failed ones do not count.
        let [low, high] = found(&many, tag::OUTPUT_TOKEN_THROUGHPUT, "avg", 72.0).unwrap();
        assert!(low <= 72.0 && 72.0 <= high && high - low < 10.0, "{low} to {high}");
        let [low, high] = found(&many, tag::REQUEST_ERROR_RATE, "avg", 10.0).unwrap();
        assert!(low <= 10.0 && 10.0 <= high && low > 5.0 && high < 15.0, "{low} to {high}");
    }

    #[test]
    fn a_statistic_of_few_requests_has_none() {
        let few = requests(100, false);
        assert!(found(&few, tag::TIME_TO_FIRST_TOKEN, "p50", 20.0).is_some());
        // p99 takes 1000 requests, so that ten are beyond it, and everything takes 50.
        assert_eq!(found(&few, tag::TIME_TO_FIRST_TOKEN, "p99", 40.0), None);
        assert_eq!(found(&requests(49, false), tag::TIME_TO_FIRST_TOKEN, "p50", 20.0), None);
        // The table does not say which requests are good.
        assert_eq!(found(&few, tag::GOODPUT, "avg", 10.0), None);
    }
}
