//! Signals that end the process by default.

use std::io;

/// Ctrl-C only.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    /// Needs no registration.
    pub const fn new() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Waits for a signal. Returns false if there will be none.
    pub async fn next(&mut self) -> bool {
        tokio::signal::ctrl_c().await.is_ok()
    }
}

/// Has no effect: the size of files has no limit that sends a signal.
pub const fn survive_full_files() -> io::Result<()> {
    Ok(())
}
