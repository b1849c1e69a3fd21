//! Tracks whether servers can be connected to and accept any request, and how long a closed loop
//! waits if it cannot connect.
//!
//! A refused connection takes no time, so a closed loop would retry as fast as it can. Instead it
//! waits after each round of failures, twice as long each time. An open loop does not wait, because
//! it keeps its arrival times.
//!
//! A server that rejects the first requests because of what all of them have, such as their key, their
//! path or their model, would reject the others too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use rand::{Rng, RngExt};

use base::lock::Lock;
use base::units::{Clock, Nanos};

use crate::record::{ErrorKind, RequestError};
use crate::transport::{Connector, Exchange};

/// Wait after the first failure.
const SHORTEST: Nanos = Nanos(10_000_000);
/// Maximum wait.
const LONGEST: Nanos = Nanos(1_000_000_000);
/// Number of rounds of failures after which a run that never connected is aborted: about five
/// seconds plus the time of the attempts.
const HOPELESS: u32 = 12;

/// Statuses of responses to requests that the server rejects because of what all requests of a run
/// have: unauthorized, forbidden, not found, method not allowed, unprocessable content.
const REJECTED: &[u16] = &[401, 403, 404, 405, 422];

/// The servers of a run, over all phases.
#[derive(Debug)]
pub(super) struct Reach {
    servers: Vec<Server>,
    connector: Arc<Connector>,
    last_failure: Lock<Option<RequestError>>,
    rejections: Rejections,
}

/// The requests that were rejected before the first one that was not.
#[derive(Debug)]
struct Rejections {
    /// Number after which the run is aborted; 0 if it never is.
    limit: u64,
    count: AtomicU64,
    /// Status of the last of them.
    status: AtomicU32,
    /// Whether there was a response with another status.
    are_over: AtomicBool,
}

impl Rejections {
    /// Counts a response; returns whether as many as the limit have been rejected.
    fn observe(&self, status: u16) -> bool {
        // All that is left to do for every request after the first accepted one.
        if self.are_over.load(Relaxed) {
            return false;
        }
        if self.limit == 0 || !REJECTED.contains(&status) {
            self.are_over.store(true, Relaxed);
            return false;
        }
        self.status.store(status.into(), Relaxed);
        self.count.fetch_add(1, Relaxed) + 1 >= self.limit
    }

    fn reason(&self) -> Option<Rejection> {
        let requests = self.count.load(Relaxed);
        let is_reached = self.limit > 0 && requests >= self.limit && !self.are_over.load(Relaxed);
        let status = u16::try_from(self.status.load(Relaxed)).unwrap_or_default();
        is_reached.then_some(Rejection { requests, status })
    }
}

/// The first requests of a run, all of which were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) requests: u64,
    /// Status of the last response.
    pub(super) status: u16,
}

#[derive(Debug, Default)]
struct Server {
    /// Number of rounds of failures since the last connection.
    rounds: AtomicU32,
    /// When the next round may begin. Requests that started earlier belong to the last round.
    next: AtomicU64,
}

impl Reach {
    /// Creates the state of `servers` servers, to which `connector` connects. The run is aborted after
    /// `rejection_limit` rejected requests, unless it is 0.
    pub(super) fn new(servers: usize, connector: Arc<Connector>, rejection_limit: u64) -> Self {
        Self {
            servers: (0..servers).map(|_| Server::default()).collect(),
            connector,
            last_failure: Lock::default(),
            rejections: Rejections {
                limit: rejection_limit,
                count: AtomicU64::default(),
                status: AtomicU32::default(),
                are_over: AtomicBool::default(),
            },
        }
    }

    /// Records whether `exchange` had a connection to `server`, and whether its request was rejected;
    /// returns whether the run is to be aborted because all were.
    pub(super) fn observe(&self, server: usize, exchange: &Exchange) -> bool {
        let Some(found) = self.servers.get(server) else { return false };
        if exchange.trace.had_connection() {
            // Written only if it changes, because all workers read it.
            if found.rounds.load(Relaxed) > 0 {
                found.rounds.store(0, Relaxed);
            }
        } else if let Some(error) = &exchange.error
            && error.kind != ErrorKind::Cancelled
        {
            self.failed(found, exchange.start, error);
        }
        exchange.status.is_some_and(|status| self.rejections.observe(status))
    }

    /// Returns what was rejected if the run is to be aborted because of it.
    pub(super) fn rejected(&self) -> Option<Rejection> {
        self.rejections.reason()
    }

    fn failed(&self, server: &Server, start: Nanos, error: &RequestError) {
        // Requests that did not wait after the last round belong to that round.
        if start.0 >= server.next.load(Relaxed) {
            let rounds = server.rounds.fetch_add(1, Relaxed) + 1;
            server.next.store((Clock::now() + least(rounds)).0, Relaxed);
            if rounds == 1 {
                tracing::warn!(
                    "{}; requests of a closed loop are delayed until it succeeds",
                    error.message
                );
            }
        }
        let mut last = self.last_failure.lock();
        last.get_or_insert_with(|| error.clone());
    }

    /// Returns how long the next request to `server` is held back: a random time between half and
    /// all of a wait that doubles with each round, so that sessions do not retry at the same time.
    pub(super) fn pause(&self, server: usize, rng: &mut impl Rng) -> Option<Nanos> {
        let rounds = self.servers.get(server)?.rounds.load(Relaxed);
        let least = (rounds > 0).then(|| least(rounds))?;
        Some(Nanos(rng.random_range(least.0..=2 * least.0)))
    }

    /// Returns the reason to abort the run if no connection ever succeeded.
    pub(super) fn hopeless(&self) -> Option<RequestError> {
        let is_hopeless = !self.connector.has_connected()
            && self.servers.iter().all(|server| server.rounds.load(Relaxed) >= HOPELESS);
        let last = || self.last_failure.lock().clone();
        is_hopeless.then(last).flatten()
    }
}

/// Returns the minimum wait after `rounds` rounds: half of the maximum after as many rounds.
fn least(rounds: u32) -> Nanos {
    let longest = SHORTEST.0 << rounds.saturating_sub(1).min(20);
    Nanos(longest.min(LONGEST.0) / 2)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::transport;

    fn reach(servers: usize) -> Reach {
        let connector = Connector::new(transport::Config::default(), &[]).unwrap();
        Reach::new(servers, Arc::new(connector), 3)
    }

    /// Returns the shortest and the longest pause after `rounds` rounds, in milliseconds.
    fn pauses(rounds: u32) -> (f64, f64) {
        let reach = reach(1);
        reach.servers[0].rounds.store(rounds, Relaxed);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let all: Vec<f64> =
            (0..1000).map(|_| reach.pause(0, &mut rng).unwrap().as_millis()).collect();
        (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(0.0, f64::max))
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(reach(1).pause(0, &mut rng), None);
        for (rounds, longest) in [(1, 10.0), (2, 20.0), (7, 640.0), (8, 1000.0), (4000, 1000.0)] {
            let (least, most) = pauses(rounds);
            assert!(least >= longest / 2.0 && least < 0.55 * longest, "{rounds}: {least}");
            assert!(most <= longest && most > 0.95 * longest, "{rounds}: {most}");
        }
    }

    #[test]
    fn what_did_not_wait_is_of_one_round() {
        let reach = reach(2);
        let error = RequestError::new(ErrorKind::Other, "ConnectionRefused", "cannot connect");
        let server = &reach.servers[0];
        let begun = Clock::now();
        reach.failed(server, begun, &error);
        // This includes requests sent one after the other before the first wait was over.
        for start in [begun, begun + Nanos(1_000_000), begun + Nanos(4_900_000)] {
            reach.failed(server, start, &error);
        }
        assert_eq!(server.rounds.load(Relaxed), 1);
        reach.failed(server, Nanos(server.next.load(Relaxed)), &error);
        assert_eq!(server.rounds.load(Relaxed), 2);
    }

    #[test]
    fn only_the_first_requests_can_be_rejected_for_the_same_reason() {
        let observed = |statuses: &[u16]| {
            let reach = reach(1);
            let all: Vec<bool> =
                statuses.iter().map(|status| reach.rejections.observe(*status)).collect();
            (all, reach.rejected())
        };
        let (all, rejected) = observed(&[404, 401, 403]);
        assert_eq!(all, [false, false, true]);
        assert_eq!(rejected, Some(Rejection { requests: 3, status: 403 }));
        for accepted in [200, 400, 429, 500] {
            assert_eq!(observed(&[404, accepted, 404, 404, 404]), (vec![false; 5], None));
        }
        assert_eq!(observed(&[405, 422]), (vec![false; 2], None));
    }

    #[test]
    fn a_run_is_hopeless_where_no_server_was_ever_reached() {
        let reach = reach(2);
        let error = RequestError::new(ErrorKind::Other, "ConnectionRefused", "cannot connect");
        for server in &reach.servers {
            assert_eq!(reach.hopeless(), None);
            for _ in 0..HOPELESS {
                reach.failed(server, Nanos(u64::MAX), &error);
            }
        }
        assert_eq!(reach.hopeless(), Some(error));
    }
}
