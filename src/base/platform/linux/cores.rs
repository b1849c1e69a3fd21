//! CPU affinity.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the cores that this thread may use.
#[must_use]
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Restricts this thread, and the threads and processes that it starts from now on, to
/// `cores`; no restriction if `cores` is empty.
pub fn keep_to(cores: &[usize]) -> io::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    Ok(sched_setaffinity(None, &set)?)
}
