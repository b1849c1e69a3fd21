//! Handling of Ctrl-C, SIGTERM and SIGHUP: the first signal drains, the second stops
//! immediately.

use std::io;
use std::thread;

use crate::interrupt::Interrupter;
use crate::platform::signals::Signals;

/// Listens for the rest of the program's life. No signal is missed after this returns.
pub(super) fn listen() -> io::Result<Interrupter> {
    let interrupter = Interrupter::default();
    let signalled = interrupter.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while signals.next().await {
                signalled.signal();
            }
        });
    })?;
    Ok(interrupter)
}
