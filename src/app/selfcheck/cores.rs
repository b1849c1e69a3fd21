//! Which cores client and server have.

use serde::Serialize;

/// Cores by number; empty where the system does not tell or there is only one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Cores {
    /// The mock server's own.
    pub(super) server: Vec<usize>,
    /// The client's: all others.
    pub(super) client: Vec<usize>,
}

impl Cores {
    /// The first core that this thread may use for the server, the rest for the client.
    pub(super) fn split() -> Self {
        let mut all = allowed();
        if all.len() < 2 {
            return Self::default();
        }
        let client = all.split_off(1);
        Self { server: all, client }
    }
}

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Keeps this thread, and what it starts from now on, to `cores`; any where
/// there are none.
#[cfg(target_os = "linux")]
pub(super) fn keep_to(cores: &[usize]) -> std::io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn keep_to(_cores: &[usize]) -> std::io::Result<()> {
    Ok(())
}
