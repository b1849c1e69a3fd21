//! The requests that are shown one by one.

use std::collections::BTreeSet;

use super::requests::Request;

/// Maximum number of requests in a scatter plot.
const MAX_REQUESTS: usize = 16_000;
/// Number of requests kept of each group of consecutive ones.
const OF_GROUP: usize = 4;
/// Maximum number of rows of a table of requests.
pub(super) const MAX_ROWS: usize = 50;

/// The indices of the requests that are shown.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Those in scatter plots and tables.
    pub(super) shown: BTreeSet<usize>,
    /// The slowest successful ones, slowest first.
    pub(super) slowest: Vec<usize>,
    /// The first failed ones.
    pub(super) failed: Vec<usize>,
    /// The number of consecutive requests of which only some are shown; `None` if all are.
    pub(super) group: Option<usize>,
}

impl Sample {
    /// Selects from `requests`, which are in order of start. Of many requests, it keeps from each
    /// group of consecutive ones the first, the fastest and the slowest, and the first failed one.
    pub(super) fn of(requests: &[Request]) -> Self {
        let indices = || 0..requests.len();
        let mut slowest: Vec<usize> = indices().filter(|at| requests[*at].succeeded()).collect();
        slowest.sort_by(|a, b| requests[*b].duration.total_cmp(&requests[*a].duration));
        slowest.truncate(MAX_ROWS);
        let failed: Vec<usize> =
            indices().filter(|at| !requests[*at].succeeded()).take(MAX_ROWS).collect();
        if requests.len() <= MAX_REQUESTS {
            return Self { shown: indices().collect(), slowest, failed, group: None };
        }
        let length = requests.len().div_ceil(MAX_REQUESTS / OF_GROUP);
        let mut shown: BTreeSet<usize> = slowest.iter().chain(&failed).copied().collect();
        for start in (0..requests.len()).step_by(length) {
            let group = || start..(start + length).min(requests.len());
            let of_success = || group().filter(|at| requests[*at].succeeded());
            let by_duration =
                |a: &usize, b: &usize| requests[*a].duration.total_cmp(&requests[*b].duration);
            shown.insert(start);
            shown.extend(of_success().min_by(by_duration));
            shown.extend(of_success().max_by(by_duration));
            shown.extend(group().find(|at| !requests[*at].succeeded()));
        }
        Self { shown, slowest, failed, group: Some(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(row: usize, duration: f64, class: Option<usize>) -> Request {
        Request {
            row,
            start: row as f64,
            duration,
            latency: None,
            ttft: None,
            itl: None,
            isl: None,
            osl: None,
            slip: None,
            read_lag: None,
            class,
        }
    }

    #[test]
    fn of_many_requests_the_extremes_are_shown() {
        let mut all: Vec<Request> = (0..100_000).map(|row| request(row, 10.0, None)).collect();
        all[54_321].duration = 99.0;
        all[12_345].duration = 1.0;
        all[77_777].class = Some(0);
        let sample = Sample::of(&all);
        assert!(sample.shown.len() <= MAX_REQUESTS + 2 * MAX_ROWS, "{}", sample.shown.len());
        for extreme in [54_321, 12_345, 77_777] {
            assert!(sample.shown.contains(&extreme));
        }
        assert_eq!(sample.slowest[0], 54_321);
        assert_eq!(sample.failed, [77_777]);
        assert_eq!(sample.group, Some(25));
    }

    #[test]
    fn few_requests_are_all_shown() {
        let sample = Sample::of(&[request(0, 5.0, None), request(1, 7.0, Some(0))]);
        assert_eq!(sample.shown.len(), 2);
        assert_eq!(sample.slowest, [0]);
        assert_eq!(sample.group, None);
        assert!(Sample::of(&[]).shown.is_empty());
    }
}
