//! Signals that end the process by default.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal was closed. Absent if the signal is ignored.
    hang_up: Option<Signal>,
    /// Never awaited; only registered, so that the signal does not kill the process.
    _file_size: Signal,
}

impl Signals {
    /// Registers the signals within the runtime of the thread. No later signal is missed.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) },
            _file_size: file_size()?,
        })
    }

    /// Waits for a signal. Returns false if there will be none.
    pub async fn next(&mut self) -> bool {
        tokio::select! {
            signal = self.interrupt.recv() => signal.is_some(),
            signal = self.terminate.recv() => signal.is_some(),
            signal = heard(&mut self.hang_up) => signal.is_some(),
        }
    }
}

async fn heard(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns whether SIGHUP is ignored, as `nohup` does.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal n is bit n - 1 (proc_pid_status(5)).
    ignored.unwrap_or(0) & (1 << (Number::HUP.as_raw() - 1)) != 0
}

/// Registers SIGXFSZ, which the kernel sends when a file reaches the size limit
/// (`ulimit -f`). The default action kills the process; if it is registered, the write fails
/// as on a full disk.
fn file_size() -> io::Result<Signal> {
    signal(SignalKind::from_raw(Number::XFSZ.as_raw()))
}

/// Lets writes beyond the size limit of files fail, for the life of the process, instead of
/// killing it.
pub fn survive_full_files() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    let _ = file_size()?;
    Ok(())
}
