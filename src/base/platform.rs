//! The operating system, beyond what std and tokio cover on every platform.
//!
//! `linux` calls Linux; `portable` replaces it on other systems, and documents what is
//! missing there. Both export the same names, and no other module depends on which of them
//! is compiled. The tests run with both.

pub mod child;
pub mod exhaustion;
pub mod lookup;
pub mod machine;
pub mod receive;
pub mod replace;
pub mod socket;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
use portable as system;

pub use system::{
    alarm, clock, cores, energy, files, host, limits, machine as machine_files, process, signals,
    terminal,
};

/// Work that is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// It waits in a queue as long as necessary.
    Queued,
    /// It has deadlines, and takes little of a core.
    Timely,
}

#[cfg(test)]
mod tests;

/// This module with the replacement.
#[cfg(all(test, target_os = "linux"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests do not use all of it")]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    reason = "it has the signatures of Linux"
)]
#[path = "platform"]
mod elsewhere {
    mod child;
    mod exhaustion;
    mod machine;
    mod portable;
    mod receive;
    mod replace;
    mod socket;
    mod tests;

    use super::Background;
    use portable as system;
    use system::{alarm, clock, cores, files, host, limits, process, signals, terminal};
}
