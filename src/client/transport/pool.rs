//! Idle connections between two requests.

use std::cell::RefCell;
use std::collections::VecDeque;

use base::units::Nanos;

use super::connection::Connection;

/// An idle connection.
#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Nanos,
}

impl Idle {
    /// Returns the connection, unless it has been idle for `timeout` or the server has closed it.
    fn usable(mut self, now: Nanos, timeout: Nanos) -> Option<Connection> {
        self.is_usable(now, timeout).then_some(self.connection)
    }

    fn is_usable(&mut self, now: Nanos, timeout: Nanos) -> bool {
        now.since(self.since) < timeout && self.connection.is_usable()
    }
}

/// The idle connections of one client; those of a target are in the order in which they became
/// idle.
#[derive(Debug)]
pub(super) struct IdlePool {
    by_target: RefCell<Vec<VecDeque<Idle>>>,
    timeout: Nanos,
}

impl IdlePool {
    /// Creates a pool that keeps a connection for `timeout`.
    pub(super) fn new(targets: usize, timeout: Nanos) -> Self {
        let by_target = (0..targets).map(|_| VecDeque::new()).collect();
        Self { by_target: RefCell::new(by_target), timeout }
    }

    /// Takes the most recently used connection to `target`.
    pub(super) fn take(&self, target: usize, now: Nanos) -> Option<Connection> {
        let mut by_target = self.by_target.borrow_mut();
        let idle = by_target.get_mut(target)?;
        while let Some(last) = idle.pop_back() {
            if let Some(connection) = last.usable(now, self.timeout) {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection to `target` that has been idle since `since`.
    pub(super) fn put(&self, target: usize, connection: Connection, since: Nanos) {
        if let Some(idle) = self.by_target.borrow_mut().get_mut(target) {
            idle.push_back(Idle { connection, since });
        }
    }

    /// Closes the connection that has been idle longest; returns whether there was one.
    pub(super) fn close_oldest(&self) -> bool {
        let mut by_target = self.by_target.borrow_mut();
        let of_target = |idle: &&mut VecDeque<Idle>| idle.front().map(|first| first.since);
        let oldest = by_target.iter_mut().filter(|idle| !idle.is_empty()).min_by_key(of_target);
        oldest.and_then(VecDeque::pop_front).is_some()
    }

    /// Closes connections that have been idle for too long or that the server has closed.
    pub(super) fn close_stale(&self, now: Nanos) {
        for idle in self.by_target.borrow_mut().iter_mut() {
            idle.retain_mut(|idle| idle.is_usable(now, self.timeout));
        }
    }
}

/// The connection that a session keeps between its turns, if sessions have their own connections.
#[derive(Debug, Default)]
pub struct SessionConnection(RefCell<Option<Idle>>);

impl SessionConnection {
    pub(super) fn take(&self, now: Nanos, timeout: Nanos) -> Option<Connection> {
        self.0.take().and_then(|idle| idle.usable(now, timeout))
    }

    pub(super) fn put(&self, connection: Connection, since: Nanos) {
        self.0.replace(Some(Idle { connection, since }));
    }

    pub(super) fn close(&self) {
        drop(self.0.take());
    }
}
