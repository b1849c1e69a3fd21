//! Ctrl-C and SIGTERM: once to drain, twice to stop now.

use std::io;
use std::thread;

use tokio::sync::watch;

use crate::runner::Interrupt;

/// Listens for the rest of the program's life.
pub(super) fn listen() -> io::Result<watch::Receiver<Interrupt>> {
    let (sender, receiver) = watch::channel(Interrupt::None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while next_signal().await.is_ok() {
                let next = match *sender.borrow() {
                    Interrupt::None => Interrupt::Drain,
                    Interrupt::Drain | Interrupt::Abort => Interrupt::Abort,
                };
                if sender.send(next).is_err() {
                    return;
                }
            }
        });
    })?;
    Ok(receiver)
}

#[cfg(unix)]
async fn next_signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn next_signal() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
