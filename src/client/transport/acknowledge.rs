//! Acknowledges received data before the kernel does (Linux).
//!
//! The kernel delays acknowledgements by 40 ms, to send them with data. A server with Nagle's
//! algorithm delays its next small write until then, so that during a response neither side would
//! send anything.
//!
//! An acknowledgement takes longer than reading an event. It is therefore sent once no socket has
//! anything to read, so that a busy worker reads first, and acknowledges several reads of a socket
//! at once.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::net::TcpStream;
use tokio::sync::Notify;

use base::platform::socket;

/// Maximum number of acknowledgements between two looks for sockets that can be read.
const AT_ONCE: usize = 8;

/// The acknowledgements that a worker has to send.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    due: RefCell<Vec<Weak<Socket>>>,
    became_due: Notify,
    /// Number of reads of all sockets that leave a response incomplete.
    reads: Cell<u64>,
}

#[derive(Debug)]
struct Socket {
    stream: Rc<TcpStream>,
    is_due: Cell<bool>,
}

impl Acknowledgements {
    /// Sends what is due whenever there is nothing to read; never returns.
    pub(super) async fn send(&self) {
        loop {
            self.became_due.notified().await;
            while !self.due.borrow().is_empty() {
                let reads = self.reads.get();
                // All sockets that can be read are read before this continues.
                tokio::task::yield_now().await;
                if self.reads.get() == reads {
                    self.send_some();
                }
            }
        }
    }

    fn send_some(&self) {
        let mut due = self.due.borrow_mut();
        let kept = due.len().saturating_sub(AT_ONCE);
        for socket in due.drain(kept..) {
            if let Some(socket) = socket.upgrade() {
                socket.is_due.set(false);
                // If a socket does not support it, the run continues without it.
                let _ = socket::acknowledge(&socket.stream);
            }
        }
    }
}

/// Has the reads of one socket acknowledged.
#[derive(Debug)]
pub(super) struct Acknowledger {
    all: Rc<Acknowledgements>,
    socket: Option<Rc<Socket>>,
}

impl Acknowledger {
    /// Creates the acknowledger of `stream`; it does nothing if it is not wanted.
    pub(super) fn new(stream: &Rc<TcpStream>, all: &Rc<Acknowledgements>, is_wanted: bool) -> Self {
        let socket = || Rc::new(Socket { stream: Rc::clone(stream), is_due: Cell::new(false) });
        Self { all: Rc::clone(all), socket: is_wanted.then(socket) }
    }

    /// Notes a read whose acknowledgement the kernel may delay.
    pub(super) fn has_read(&self) {
        let Some(socket) = &self.socket else { return };
        self.all.reads.set(self.all.reads.get() + 1);
        if !socket.is_due.replace(true) {
            self.all.due.borrow_mut().push(Rc::downgrade(socket));
            self.all.became_due.notify_one();
        }
    }
}
