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

/// Does nothing: exceeding a limit on file sizes does not cause a signal.
pub const fn survive_full_files() -> io::Result<()> {
    Ok(())
}
