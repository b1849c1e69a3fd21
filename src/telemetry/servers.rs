//! Notices from the scrapes of a server that it has restarted, or that it does not answer.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;

use measure::server_metrics::Scrape;
use measure::server_metrics::exposition::{Exposition, MetricType, Part};

/// Number of scrapes that must fail one after the other; a single one may only be late.
const FAILURES: u32 = 3;

/// Maximum number of restarts of a server that are told: behind a load balancer, each scrape may be of
/// another process.
const MAX_RESTARTS: u32 = 10;

/// The start of the server's process, in seconds since the epoch.
const START: &str = "process_start_time_seconds";

/// Difference of two starts that is not one of rounding, in seconds.
const LATER: f64 = 1.0;

/// What happened to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerEvent {
    /// Its process started anew since the scrape before.
    Restarted,
    /// It does not answer any more.
    Unreachable,
    /// It answers again.
    Reachable,
}

/// The servers of a run, by the index of their endpoint.
#[derive(Debug, Default)]
pub(super) struct ServerWatch {
    servers: HashMap<usize, Server>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Server {
    /// The latest start of its process, if it states that.
    started: Option<f64>,
    /// The values of its counters, by a hash of their names and labels, unless it states its start.
    counters: HashMap<u64, f64>,
    /// Number of scrapes that failed since the last one that did not.
    failures: u32,
    restarts: u32,
}

impl ServerWatch {
    /// Returns what a scrape reveals, in order.
    pub(super) fn answered(&mut self, scrape: &Scrape<'_>) -> Vec<ServerEvent> {
        let server = self.servers.entry(scrape.index).or_default();
        let is_back = std::mem::take(&mut server.failures) >= FAILURES;
        let has_restarted =
            !scrape.is_duplicate && server.restarted(scrape.exposition, &self.hasher);
        let back = is_back.then_some(ServerEvent::Reachable);
        let restarted = has_restarted.then_some(ServerEvent::Restarted);
        back.into_iter().chain(restarted).collect()
    }

    /// Returns what a failed scrape of the endpoint reveals.
    pub(super) fn failed(&mut self, index: usize) -> Option<ServerEvent> {
        let server = self.servers.entry(index).or_default();
        server.failures += 1;
        (server.failures == FAILURES).then_some(ServerEvent::Unreachable)
    }
}

impl Server {
    /// Returns whether the server has restarted since the scrape before.
    fn restarted(&mut self, exposition: &Exposition<'_>, hasher: &RandomState) -> bool {
        let starts = exposition.samples.iter().filter(|sample| sample.name == START);
        let started = starts.map(|sample| sample.value).filter(|at| at.is_finite());
        let has_restarted = match started.reduce(f64::max) {
            Some(now) => {
                let before = self.started.replace(self.started.map_or(now, |of| of.max(now)));
                before.is_some_and(|before| now > before + LATER)
            }
            None => self.has_counted_down(exposition, hasher),
        };
        let is_told = has_restarted && self.restarts < MAX_RESTARTS;
        self.restarts += u32::from(is_told);
        is_told
    }

    /// Returns whether a counter has fallen since the scrape before.
    fn has_counted_down(&mut self, exposition: &Exposition<'_>, hasher: &RandomState) -> bool {
        let is_counter = |sample: &&_| {
            let family = exposition.family(sample);
            family.is_some_and(|family| family.metric_type == MetricType::Counter)
                && sample.part == Part::Value
        };
        let mut has_fallen = false;
        for sample in exposition.samples.iter().filter(is_counter) {
            let labels = exposition.labels(sample).iter();
            let labels: Vec<_> = labels.map(|label| (&label.name, &label.value)).collect();
            let key = hasher.hash_one((&sample.name, labels));
            let before = self.counters.insert(key, sample.value);
            has_fallen |= before.is_some_and(|before| sample.value < before);
        }
        has_fallen
    }
}

#[cfg(test)]
mod tests {
    use measure::server_metrics::exposition::Format;
    use measure::server_metrics::scrape::{Endpoint, FetchTimes};
    use measure::server_metrics::snapshot::Snapshot;

    use super::*;

    fn answered(watch: &mut ServerWatch, body: &str) -> Vec<ServerEvent> {
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        let snapshot = Snapshot::from_exposition(&exposition);
        watch.answered(&Scrape {
            index: 0,
            endpoint: &Endpoint { url: "http://s:1/metrics".into() },
            times: FetchTimes::default(),
            phase: None,
            is_duplicate: false,
            exposition: &exposition,
            snapshot: &snapshot,
        })
    }

    fn started(at: &str) -> String {
        format!("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {at}\n")
    }

    fn counted(a: u32, b: u32) -> String {
        format!("# TYPE c counter\nc_total{{x=\"a\"}} {a}\nc_total{{x=\"b\"}} {b}\n")
    }

    #[test]
    fn a_later_start_of_the_process_is_a_restart() {
        let mut watch = ServerWatch::default();
        // The third differs by rounding; the fifth is of another process behind the same address.
        let expected = [
            ("1.7e9", false),
            ("1700000000", false),
            ("1700000000.25", false),
            ("1700000060", true),
            ("1700000000", false),
            ("1700000060", false),
        ];
        for (at, is_restart) in expected {
            let found = answered(&mut watch, &started(at));
            assert_eq!(found == [ServerEvent::Restarted], is_restart, "{at}: {found:?}");
        }
    }

    #[test]
    fn without_a_start_a_counter_that_falls_is_a_restart() {
        let mut watch = ServerWatch::default();
        assert_eq!(answered(&mut watch, &counted(5, 5)), []);
        assert_eq!(answered(&mut watch, &counted(5, 9)), []);
        assert_eq!(answered(&mut watch, &counted(6, 1)), [ServerEvent::Restarted]);
        // A gauge may fall.
        assert_eq!(answered(&mut watch, "# TYPE g gauge\ng 5\n"), []);
        assert_eq!(answered(&mut watch, "# TYPE g gauge\ng 1\n"), []);
        let many = (0..40).map(|number| answered(&mut watch, &counted(number % 2, 0)));
        assert_eq!(many.flatten().count(), MAX_RESTARTS as usize - 1);
    }

    #[test]
    fn three_failures_in_a_row_make_a_server_unreachable_until_it_answers() {
        let mut watch = ServerWatch::default();
        assert_eq!((watch.failed(0), watch.failed(0)), (None, None));
        assert_eq!(answered(&mut watch, &counted(1, 1)), []);
        let failures = [(); 5].map(|()| watch.failed(0));
        assert_eq!(failures, [None, None, Some(ServerEvent::Unreachable), None, None]);
        let found = answered(&mut watch, &counted(0, 0));
        assert_eq!(found, [ServerEvent::Reachable, ServerEvent::Restarted]);
        assert_eq!(watch.failed(1), None);
    }
}
