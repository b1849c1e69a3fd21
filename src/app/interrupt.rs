//! Handling of Ctrl-C, SIGTERM and SIGHUP: the first signal drains, the second stops
//! immediately.

use std::io;
use std::thread;

use tokio::sync::watch;

use crate::platform::signals::Signals;
use crate::runner::Interrupt;

/// Listens for the rest of the program's life. No signal is missed after this returns.
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
