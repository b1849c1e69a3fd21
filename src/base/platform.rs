//! The operating system, beyond what std and tokio cover on every platform.
//!
//! `linux` calls Linux; `portable` replaces it on other systems, and documents what is
//! missing there. Both export the same names, and no other module depends on which of them
//! is compiled. The feature `portable` selects the replacement on Linux, for tests.

pub mod child;
pub mod exhaustion;
pub mod lookup;
pub mod machine;
pub mod receive;
pub mod replace;
pub mod socket;

#[cfg(not(any(not(target_os = "linux"), feature = "portable")))]
mod linux;
#[cfg(not(any(not(target_os = "linux"), feature = "portable")))]
use linux as system;

#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
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
