//! Servers that a command starts and stops itself.

use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base::platform::process::yield_to_measurement;
use base::platform::{Background, child, process};
use base::units::Clock;

/// Time that a server has to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two looks at whether the processes of a server have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Maximum size of what is kept of a server's output.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// A server that was started by a command; it is stopped with all that it has started when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Launched(Child);

impl Launched {
    /// Starts a server with `command`, a line for the shell. The first 64 MiB of what it prints are
    /// appended to the file `log`.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be opened, or the shell or a thread cannot be started.
    pub(crate) fn start(command: &str, log: &Path) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let (output, input) = io::pipe()?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        process::lead_group(&mut shell);
        // The thread is first, so that no server runs without one that reads what it prints.
        thread::Builder::new().name("server-log".to_owned()).spawn(move || {
            yield_to_measurement(Background::Timely);
            keep(output, log, MAX_LOG_BYTES);
        })?;
        shell.spawn().map(Self)
    }

    /// Returns an error that describes how the server ended, if it has; waits up to `patience` for that.
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
        // The shell may have ended before what it has started. Errors mean that all have ended.
        let until = Clock::now() + PATIENCE.into();
        if process::terminate_group(&mut self.0).is_ok() {
            // Nothing is sent; the channel is closed when the shell has ended.
            let _ = child::watch(&self.0).map(|ended| ended.recv_timeout(PATIENCE));
            let _ = self.0.try_wait();
            while process::has_group(&self.0) && Clock::now() < until {
                thread::sleep(LOOK);
            }
            let _ = process::kill_group(&mut self.0);
        }
        let _ = self.0.wait();
    }
}

/// Writes what a server prints to its log, up to `most` bytes; the rest is read and dropped, so that the
/// server goes on.
fn keep(mut output: PipeReader, mut log: File, most: u64) {
    let kept = io::copy(&mut output.by_ref().take(most), &mut log);
    // A log that cannot be written must not stop the server either.
    let is_cut = kept.is_ok_and(|kept| kept == most);
    if io::copy(&mut output, &mut io::sink()).is_ok_and(|rest| rest > 0) && is_cut {
        let _ = writeln!(log, "\n[aiperf: the rest of the output was dropped]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_limit_and_the_server_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (output, mut input) = io::pipe().unwrap();
        // Far more than a pipe holds.
        let printing = thread::spawn(move || input.write_all(&vec![b'a'; 1 << 20]).unwrap());
        keep(output, File::create(&path).unwrap(), 10);
        printing.join().unwrap();
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(log.starts_with("aaaaaaaaaa\n[aiperf: "), "{log}");
    }

    #[test]
    fn what_a_shell_leaves_behind_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut server = Launched::start("sleep 1000 & echo $!", &path).unwrap();
        // The shell ends at once, and its child goes on.
        server.check(Duration::from_mins(1)).unwrap_err();
        let text = || std::fs::read_to_string(&path).unwrap();
        while !text().ends_with('\n') {
            thread::yield_now();
        }
        drop(server);
        // A process that has ended may wait for its new parent.
        let state = std::fs::read_to_string(format!("/proc/{}/stat", text().trim()));
        assert!(!state.is_ok_and(|state| !state.contains(") Z ")));
    }
}
