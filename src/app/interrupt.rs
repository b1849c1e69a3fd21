//! Handling of Ctrl-C, SIGTERM and SIGHUP: the first signal drains, the second stops
//! immediately.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use tokio::runtime::{Builder, Runtime};

use base::interrupt::Interrupter;
use base::platform::signals::Signals;

use super::outcome::Outcome;

/// Process ID of the first process of a container.
const FIRST: u32 = 1;

/// Whether [`listen`] answers the signals.
static LISTENS: AtomicBool = AtomicBool::new(false);

/// Lets a signal end the first process of a container, as it ends any other process, until [`listen`]
/// answers it: the kernel withholds signals that this process does not handle.
pub(super) fn end_first_process() -> io::Result<()> {
    if process::id() != FIRST {
        return Ok(());
    }
    let (runtime, mut signals) = signals()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if runtime.block_on(signals.next()) && !LISTENS.load(Relaxed) {
            process::exit(Outcome::Interrupted.exit_code().into());
        }
    })?;
    Ok(())
}

/// Listens for the rest of the program's life. No signal is missed after this returns.
pub(super) fn listen() -> io::Result<Interrupter> {
    let interrupter = Interrupter::default();
    let signalled = interrupter.clone();
    let (runtime, mut signals) = signals()?;
    LISTENS.store(true, Relaxed);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while signals.next().await {
                signalled.signal();
            }
        });
    })?;
    Ok(interrupter)
}

/// Registers the signals in a runtime that waits for them.
fn signals() -> io::Result<(Runtime, Signals)> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    Ok((runtime, signals))
}
