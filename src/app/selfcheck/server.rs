//! The mock server as a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for the server's end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running mock server. Dropping it kills it.
pub(super) struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts this program's `mock-server` with `flags`, on this thread's cores;
    /// its write log goes to `log`.
    pub(super) fn start(flags: &[&str], log: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program's own file cannot be found")?;
        let process = Command::new(program)
            .args(["mock-server", "--port", "0", "--write-log"])
            .arg(log)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the mock server cannot be started")?;
        let mut server = Self { process, url: String::new() };
        let stdout = server.process.stdout.take().context("the mock server has no output")?;
        // It writes its address once it listens; where it cannot, it ends.
        BufReader::new(stdout.take(1024)).read_line(&mut server.url)?;
        anyhow::ensure!(server.url.ends_with('\n'), "the mock server ended before it listened");
        server.url.truncate(server.url.trim_end().len());
        Ok(server)
    }

    /// Its base URL.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Ends it; the write log is complete then.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::TERM).context("the mock server cannot be ended")?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.process.try_wait()?.is_none() {
            anyhow::ensure!(Instant::now() < deadline, "the mock server does not end");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; there is nothing more to do then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
