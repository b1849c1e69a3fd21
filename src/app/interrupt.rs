//! Ctrl-C and SIGTERM: once to drain, twice to stop now.

use std::io;
use std::thread;

use tokio::sync::watch;

use crate::runner::Interrupt;

/// Listens for the rest of the program's life: a signal that comes after this
/// has returned is not missed.
pub(super) fn listen() -> io::Result<watch::Receiver<Interrupt>> {
    let (sender, receiver) = watch::channel(Interrupt::None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while signals.next().await {
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
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal; false when there will be none.
    async fn next(&mut self) -> bool {
        tokio::select! {
            signal = self.interrupt.recv() => signal.is_some(),
            signal = self.terminate.recv() => signal.is_some(),
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for a signal; false when there will be none.
    async fn next(&mut self) -> bool {
        tokio::signal::ctrl_c().await.is_ok()
    }
}
