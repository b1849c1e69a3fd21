//! The machine, of which nothing is known.

use super::super::machine::{Counters, Ends, Queues, Scaling};

/// This machine.
#[derive(Debug, Clone)]
pub struct Machine;

#[expect(clippy::unused_self, reason = "other systems read files")]
impl Machine {
    #[must_use]
    pub const fn this() -> Self {
        Self
    }

    /// Returns `None`.
    #[must_use]
    pub const fn core_list(&self) -> Option<String> {
        None
    }

    /// Returns no nodes.
    #[must_use]
    pub const fn numa_nodes(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Returns `None`.
    #[must_use]
    pub const fn cpu_limit_millicores(&self) -> Option<u64> {
        None
    }

    /// Returns `None`.
    #[must_use]
    pub const fn scaling(&self) -> Option<Scaling> {
        None
    }

    /// Returns `None`.
    #[must_use]
    pub const fn fastest_mhz(&self) -> Option<u64> {
        None
    }

    /// Returns no counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Returns `None`.
    #[must_use]
    pub const fn device_between(&self, _ends: Ends) -> Option<String> {
        None
    }

    /// Returns no queues.
    #[must_use]
    pub fn queues(&self, _name: &str) -> Queues {
        Queues::default()
    }
}
