//! Waiting for the end of a child process.

use std::io;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Returns a channel that is closed when `child` has ended, whose status can then be read; nothing
/// is sent. A thread waits for the end.
pub fn watch(child: &Child) -> io::Result<Receiver<()>> {
    let (running, ended) = channel();
    let id = WaitId::Pid(Pid::from_child(child));
    thread::Builder::new().name("child".to_owned()).spawn(move || {
        let _running = running;
        // `NOWAIT` leaves the status to the owner of `child`. An error means that it was read.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(id.clone(), options));
    })?;
    Ok(ended)
}
