//! Servers that a command starts and stops itself.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::platform::{child, process};

/// Time that a server has to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that was started by a command; it is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Launched(Child);

impl Launched {
    /// Starts a server with `command`, a line for the shell. What it prints is appended to the file
    /// `log`.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be opened or the shell cannot be started.
    pub(crate) fn start(command: &str, log: &Path) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        process::lead_group(&mut shell);
        shell.spawn().map(Self)
    }

    /// Returns an error that says how the server ended, if it has; waits up to `patience` for that.
    pub(crate) fn check(&mut self, patience: Duration) -> io::Result<()> {
        let _ = child::watch(&self.0)?.recv_timeout(patience);
        match self.0.try_wait()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!("it ended with {status}"))),
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        let ended = child::watch(&self.0);
        // Errors mean that it has ended.
        let _ = process::terminate_group(&mut self.0);
        if ended.is_ok_and(|ended| ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)) {
            let _ = process::kill_group(&mut self.0);
        }
        let _ = self.0.wait();
    }
}
