//! Processes, and the cores that they are pinned to.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The program under test.
pub(crate) const AIPERF: &str = env!("CARGO_BIN_EXE_aiperf");

/// Time limit for a single process.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Interval between checks of a process.
const LOOK: Duration = Duration::from_millis(2);

/// One side of a benchmark, with its core.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    Server,
    Client,
}

impl Side {
    /// The first core that this program was allowed to use, or the second; if there is only one,
    /// both sides share it.
    pub(crate) fn core(self) -> usize {
        static ALLOWED: LazyLock<Vec<usize>> = LazyLock::new(allowed);
        let core = match self {
            Self::Server => ALLOWED.first(),
            Self::Client => ALLOWED.get(1).or(ALLOWED.first()),
        };
        core.copied().unwrap_or(0)
    }

    /// Returns a command that runs `program` on this side's core.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        on(&[self.core()], program)
    }

    /// Pins this thread to this side's core.
    pub(crate) fn enter(self) -> anyhow::Result<()> {
        let mut core = CpuSet::new();
        core.set(self.core());
        Ok(sched_setaffinity(None, &core)?)
    }
}

/// Returns the cores that this thread may use.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Returns a command that runs `program` on `cores`.
pub(crate) fn on(cores: &[usize], program: impl AsRef<OsStr>) -> Command {
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cores.join(",")).arg(program);
    command
}

/// A mock server on its own core; it is killed when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(flags: &[&str]) -> anyhow::Result<Self> {
        Self::start_on(&[Side::Server.core()], flags)
    }

    /// Starts a server on `cores`.
    pub(crate) fn start_on(cores: &[usize], flags: &[&str]) -> anyhow::Result<Self> {
        let mut process = on(cores, AIPERF)
            .args(["mock-server", "--port", "0"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .context("taskset cannot be run")?;
        let stdout = process.stdout.take().context("the mock server's output is not piped")?;
        let mut server = Self { process, url: String::new() };
        BufReader::new(stdout).read_line(&mut server.url)?;
        server.url.truncate(server.url.trim_end().len());
        ensure!(!server.url.is_empty(), "the mock server did not start");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

/// The resources that a process used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// Peak memory in bytes.
    pub(crate) peak_memory: u64,
}

/// Runs `command` to its end, which must be successful.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Usage> {
    let start = Instant::now();
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", process.id());
    let mut peak_memory = 0;
    let ended = loop {
        if let Some(ended) = process.try_wait()? {
            break ended;
        }
        // The peak never decreases, so the last reading is the result.
        peak_memory =
            fs::read_to_string(&status).ok().and_then(|text| peak(&text)).unwrap_or(peak_memory);
        if start.elapsed() > TIMEOUT {
            let _ = process.kill();
            let _ = process.wait();
            anyhow::bail!("{command:?} took more than {TIMEOUT:?}");
        }
        thread::sleep(LOOK);
    };
    ensure!(ended.success(), "{command:?} failed: {ended}");
    Ok(Usage { wall: start.elapsed(), peak_memory })
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
