//! Tracks whether servers can be connected to, and how long a closed loop waits if they cannot.
//!
//! A refused connection takes no time, so a closed loop would retry as fast as it can. Instead it
//! waits after each round of failures, twice as long each time. An open loop does not wait, because
//! it keeps its arrival times.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng, RngExt};

use crate::record::{ErrorKind, RequestError};
use crate::transport::{Connector, Exchange};
use crate::units::{Clock, Nanos};

/// Wait after the first failure.
const SHORTEST: Nanos = Nanos(10_000_000);
/// Maximum wait.
const LONGEST: Nanos = Nanos(1_000_000_000);
/// Number of rounds of failures after which a run that never connected is aborted: about five
/// seconds plus the time of the attempts.
const HOPELESS: u32 = 12;

/// The servers of a run, over all phases.
#[derive(Debug)]
pub(super) struct Reach {
    servers: Vec<Server>,
    connector: Arc<Connector>,
    last_failure: Mutex<Option<RequestError>>,
}

#[derive(Debug, Default)]
struct Server {
    /// Number of rounds of failures since the last connection.
    rounds: AtomicU32,
    /// When the next round may begin. Requests that started earlier belong to the last round.
    next: AtomicU64,
}

impl Reach {
    /// Creates the state of `servers` servers, to which `connector` connects.
    pub(super) fn of(servers: usize, connector: Arc<Connector>) -> Self {
        Self {
            servers: (0..servers).map(|_| Server::default()).collect(),
            connector,
            last_failure: Mutex::default(),
        }
    }

    /// Records whether `exchange` had a connection to `server`.
    pub(super) fn observe(&self, server: usize, exchange: &Exchange) {
        let Some(found) = self.servers.get(server) else { return };
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
        let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
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
        let last = || self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
        Reach::of(servers, Arc::new(connector))
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
