//! The mock server as a separate process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::Context;

use base::platform::{child, process};

/// Maximum time to wait for the server to exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running mock server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts this program's `mock-server` with `flags` on this thread's cores, with its write
    /// log in `log`.
    ///
    /// # Errors
    ///
    /// If the process cannot be started, or ends before it listens.
    pub fn start<S: AsRef<OsStr>>(flags: &[S], log: &Path) -> anyhow::Result<Self> {
        let process = Command::new(process::own_program())
            .args(["mock-server", "--port", "0", "--write-log"])
            .arg(log)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the mock server")?;
        let mut server = Self { process, url: String::new() };
        let stdout =
            server.process.stdout.take().context("the mock server's output is not piped")?;
        // It prints its address once it listens, and exits if it cannot.
        BufReader::new(stdout.take(1024)).read_line(&mut server.url)?;
        anyhow::ensure!(server.url.ends_with('\n'), "the mock server ended before it listened");
        server.url.truncate(server.url.trim_end().len());
        Ok(server)
    }

    /// The server's base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops the server, after which the write log is complete.
    ///
    /// # Errors
    ///
    /// If it cannot be stopped, or does not exit within five seconds.
    pub fn stop(mut self) -> anyhow::Result<()> {
        process::terminate(&mut self.process).context("cannot stop the mock server")?;
        let ended = child::watch(&self.process)?.recv_timeout(STOP_TIMEOUT);
        anyhow::ensure!(ended != Err(RecvTimeoutError::Timeout), "the mock server does not exit");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
