//! The requests that are shown one by one.

use std::collections::BTreeMap;

use super::requests::{Request, Requests};

/// Maximum number of requests in a scatter plot.
const MAX_REQUESTS: usize = 16_000;
/// Number of requests kept of each group of consecutive ones.
const OF_GROUP: usize = 4;
/// Maximum number of rows of a table of requests.
pub(super) const MAX_ROWS: usize = 50;

/// Requests that are shown one by one, by their index in order of start.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Those in scatter plots and tables.
    pub(super) shown: BTreeMap<usize, Request>,
    /// The slowest successful ones, slowest first.
    pub(super) slowest: Vec<usize>,
    /// The first failed ones.
    pub(super) failed: Vec<usize>,
    /// The number of consecutive requests of which only some are shown; `None` if all are.
    pub(super) group: Option<usize>,
}

impl Sample {
    /// Selects from `requests`. Of many, it keeps from each group of consecutive ones the first, the
    /// fastest and the slowest, and the first failed one.
    pub(super) fn from_requests(requests: &Requests) -> Self {
        Self::of_count(requests.len(), requests.iter())
    }

    /// Selects from `count` requests in order of start.
    fn of_count(count: usize, requests: impl Iterator<Item = Request>) -> Self {
        let length =
            if count <= MAX_REQUESTS { 1 } else { count.div_ceil(MAX_REQUESTS / OF_GROUP) };
        let mut sample = Self { group: (length > 1).then_some(length), ..Self::default() };
        let mut slowest = Slowest::default();
        let mut group = Group::default();
        for (at, request) in requests.enumerate() {
            if at.is_multiple_of(length) {
                sample.shown.extend(std::mem::take(&mut group).kept());
            }
            group.add(at, request);
            if request.succeeded() {
                slowest.add(at, request);
            } else if sample.failed.len() < MAX_ROWS {
                sample.failed.push(at);
                sample.shown.insert(at, request);
            }
        }
        sample.shown.extend(group.kept());
        let slowest = slowest.sorted();
        sample.slowest = slowest.iter().map(|(at, _)| *at).collect();
        sample.shown.extend(slowest);
        sample
    }
}

/// What is kept of a group of consecutive requests, with their indices.
#[derive(Debug, Default)]
struct Group {
    first: Option<(usize, Request)>,
    fastest: Option<(usize, Request)>,
    slowest: Option<(usize, Request)>,
    failed: Option<(usize, Request)>,
}

impl Group {
    fn add(&mut self, at: usize, request: Request) {
        let this = (at, request);
        self.first.get_or_insert(this);
        if !request.succeeded() {
            self.failed.get_or_insert(this);
            return;
        }
        if self.fastest.is_none_or(|(_, fastest)| request.duration < fastest.duration) {
            self.fastest = Some(this);
        }
        if self.slowest.is_none_or(|(_, slowest)| request.duration > slowest.duration) {
            self.slowest = Some(this);
        }
    }

    fn kept(self) -> impl Iterator<Item = (usize, Request)> {
        [self.first, self.fastest, self.slowest, self.failed].into_iter().flatten()
    }
}

/// The slowest requests so far with their indices, and some others.
#[derive(Debug, Default)]
struct Slowest(Vec<(usize, Request)>);

impl Slowest {
    fn add(&mut self, at: usize, request: Request) {
        if self.0.len() == 2 * MAX_ROWS {
            self.truncate();
        }
        self.0.push((at, request));
    }

    fn truncate(&mut self) {
        self.0.sort_by(|(_, a), (_, b)| b.duration.total_cmp(&a.duration));
        self.0.truncate(MAX_ROWS);
    }

    /// Returns the slowest ones, slowest first.
    fn sorted(mut self) -> Vec<(usize, Request)> {
        self.truncate();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(row: u64, duration: f64, class: Option<u32>) -> Request {
        Request { row, start: row as f64, duration, class, ..Request::default() }
    }

    fn sample(requests: Vec<Request>) -> Sample {
        Sample::of_count(requests.len(), requests.into_iter())
    }

    #[test]
    fn of_many_requests_the_extremes_are_shown() {
        let mut all: Vec<Request> = (0..100_000).map(|row| request(row, 10.0, None)).collect();
        all[54_321].duration = 99.0;
        all[12_345].duration = 1.0;
        all[77_777].class = Some(0);
        let sample = sample(all);
        assert!(sample.shown.len() <= MAX_REQUESTS + 2 * MAX_ROWS, "{}", sample.shown.len());
        for extreme in [54_321, 12_345, 77_777] {
            assert_eq!(sample.shown[&extreme].row, extreme as u64);
        }
        // The first of each group.
        assert!((0..100_000).step_by(25).all(|first| sample.shown.contains_key(&first)));
        assert_eq!(sample.slowest.len(), MAX_ROWS);
        assert_eq!(sample.slowest[0], 54_321);
        assert_eq!(sample.failed, [77_777]);
        assert_eq!(sample.group, Some(25));
    }

    #[test]
    fn the_slowest_requests_are_in_descending_order() {
        let durations = |at: u64| ((at * 7919) % 1000) as f64;
        let all = (0..1000).map(|row| request(row, durations(row), None)).collect();
        let sample = sample(all);
        let shown: Vec<f64> = sample.slowest.iter().map(|at| durations(*at as u64)).collect();
        assert_eq!(shown, (950..1000).rev().map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn few_requests_are_all_shown() {
        let of_two = sample(vec![request(0, 5.0, None), request(1, 7.0, Some(0))]);
        assert_eq!(of_two.shown.len(), 2);
        assert_eq!(of_two.slowest, [0]);
        assert_eq!(of_two.group, None);
        assert!(sample(Vec::new()).shown.is_empty());
    }
}
