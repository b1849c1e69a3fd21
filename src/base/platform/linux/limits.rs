//! Limits of the process.

use std::io;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use super::clock::process_cpu_ns;
use crate::platform::exhaustion::Exhausted;

fn set(resource: Resource, most: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    let current = most.into_iter().chain(maximum).min();
    // A system that refuses leaves it as it was.
    let _ = setrlimit(resource, Rlimit { current, maximum });
}

pub fn without_core_dump() {
    set(Resource::Core, Some(0));
}

/// Limits memory and CPU time to `bytes` and `seconds` beyond the current use.
pub fn allow(bytes: u64, seconds: u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let data = data.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    set(Resource::Data, Some(data.unwrap_or(0) * 1024 + bytes));
    let used = process_cpu_ns() / 1_000_000_000;
    set(Resource::Cpu, Some(used + 1 + seconds));
}

/// Removes the limits of [`allow`].
pub fn lift() {
    set(Resource::Data, None);
    set(Resource::Cpu, None);
}

/// Returns whether the process was killed for exceeding its limit of CPU time.
#[must_use]
pub fn exceeded_cpu_time(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(Signal::XCPU.as_raw())
}

/// Raises the limit of open files to the maximum of the process. Returns the new limit, if
/// there is one.
#[must_use]
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // A system that refuses leaves the limit as it is; connections that
    // meet it become error records.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    open_files()
}

/// Returns the number of files that the process may have open; `None` without a limit.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the memory available to the process: the least of the machine's, the
/// container's and the process's limit.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    let machine = Some((info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1))));
    let process = getrlimit(Resource::As).current;
    let container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    [machine.filter(|bytes| *bytes > 0), process, container].into_iter().flatten().min()
}

/// See [`Exhausted::from_error`].
#[must_use]
pub(crate) fn exhausted_by(error: &io::Error) -> Option<Exhausted> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => Some(Exhausted::Descriptors),
        Errno::NFILE => Some(Exhausted::SystemDescriptors),
        Errno::ADDRNOTAVAIL => Some(Exhausted::Ports),
        _ => None,
    }
}

/// Returns the exhausted resource that prevents the process from opening files, if any.
#[must_use]
pub fn exhausted_for_files() -> Option<Exhausted> {
    exhausted_by(&std::fs::File::open("/dev/null").err()?)
}
