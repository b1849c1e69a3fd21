//! Ctrl-C and SIGTERM: once to drain, twice to stop now.

use std::io;
use std::thread;

use tokio::sync::watch;

use crate::runner::Interrupt;

/// Listens for the rest of the program's life. From its return on no signal is lost.
pub(super) fn listen() -> io::Result<watch::Receiver<Interrupt>> {
    let (sender, receiver) = watch::channel(Interrupt::None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while signals.next().await.is_ok() {
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

/// The signals that end a run.
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

    async fn next(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        Ok(())
    }
}

/// The signals that end a run.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}
