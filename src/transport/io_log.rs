//! What a connection's socket did during an exchange.

use std::cell::{Cell, RefCell};

use tokio::sync::oneshot;

use super::stamps::{Inbound, ReadArrival, SocketRead, WallClock};
use crate::units::{Clock, Nanos};

/// What a connection's socket did since the log was last [reset](IoLog::reset).
///
/// Stamps are taken at the socket, below TLS; bytes and operations are counted
/// above it, where HTTP's own bytes are.
#[derive(Debug, Default)]
pub(super) struct IoLog {
    /// Just before the first write.
    pub(super) first_write: Cell<Option<Nanos>>,
    /// Just after the first write.
    pub(super) first_write_done: Cell<Option<Nanos>>,
    /// Just after the last write.
    pub(super) last_write: Cell<Option<Nanos>>,
    /// Arrival of the last read that brought bytes.
    pub(super) last_read: Cell<Option<ReadArrival>>,
    /// Reads from the socket that brought bytes.
    pub(super) socket_reads: Cell<u64>,
    /// Those of them whose arrival is the kernel's.
    pub(super) kernel_stamps: Cell<u64>,
    pub(super) writes: Cell<u64>,
    pub(super) written: Cell<u64>,
    pub(super) reads: Cell<u64>,
    pub(super) read: Cell<u64>,
    /// The connection is being shut down.
    pub(super) is_closing: Cell<bool>,
    /// Every write and read with its size, when they are kept.
    pub(super) chunks: Option<RefCell<ChunkLog>>,
    /// Told when all that there was to write has been written.
    pub(super) on_sent: RefCell<Option<oneshot::Sender<Nanos>>>,
    inbound: Cell<Inbound>,
}

/// Single reads and writes.
#[derive(Debug, Default)]
pub(super) struct ChunkLog {
    pub(super) writes: Vec<(Nanos, u64)>,
    pub(super) reads: Vec<(Nanos, u64)>,
}

impl IoLog {
    /// An empty log, that keeps single reads and writes if asked.
    pub(super) fn new(keep_chunks: bool) -> Self {
        Self { chunks: keep_chunks.then(RefCell::default), ..Self::default() }
    }

    /// Forgets the exchange that was; what is known of the socket stays.
    pub(super) fn reset(&self) {
        for stamp in [&self.first_write, &self.first_write_done, &self.last_write] {
            stamp.set(None);
        }
        self.last_read.set(None);
        for count in [
            &self.socket_reads,
            &self.kernel_stamps,
            &self.writes,
            &self.written,
            &self.reads,
            &self.read,
        ] {
            count.set(0);
        }
        if let Some(chunks) = &self.chunks {
            *chunks.borrow_mut() = ChunkLog::default();
        }
    }

    /// The socket is about to be written to.
    pub(super) fn before_write(&self) {
        if self.first_write.get().is_none() {
            let now = Clock::now();
            self.first_write.set(Some(now));
            self.update_inbound(|inbound| inbound.send(now));
        }
    }

    /// The socket took bytes.
    pub(super) fn after_write(&self) {
        // TLS says goodbye: that is no part of the request.
        if self.is_closing.get() {
            return;
        }
        let now = Some(Clock::now());
        if self.first_write_done.get().is_none() {
            self.first_write_done.set(now);
        }
        self.last_write.set(now);
    }

    /// hyper flushes once it has nothing left to write.
    pub(super) fn flushed(&self) {
        if let Some(at) = self.last_write.get()
            && let Some(on_sent) = self.on_sent.take()
        {
            // Whoever wanted to know may have lost interest.
            let _ = on_sent.send(at);
        }
    }

    /// The socket gave bytes.
    pub(super) fn after_read(&self, read: SocketRead, wall: &WallClock) {
        let arrival = self.update_inbound(|inbound| inbound.arrival(read, wall));
        self.last_read.set(Some(arrival));
        add(&self.socket_reads, 1);
        add(&self.kernel_stamps, u64::from(arrival.is_kernel));
    }

    /// HTTP's bytes were written.
    pub(super) fn count_write(&self, bytes: usize) {
        add(&self.writes, 1);
        add(&self.written, bytes as u64);
        if let (Some(chunks), Some(at)) = (&self.chunks, self.last_write.get()) {
            chunks.borrow_mut().writes.push((at, bytes as u64));
        }
    }

    /// HTTP's bytes were read.
    pub(super) fn count_read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.read, bytes as u64);
        if let (Some(chunks), Some(last)) = (&self.chunks, self.last_read.get()) {
            chunks.borrow_mut().reads.push((last.arrival.at, bytes as u64));
        }
    }

    fn update_inbound<T>(&self, update: impl FnOnce(&mut Inbound) -> T) -> T {
        let mut inbound = self.inbound.get();
        let outcome = update(&mut inbound);
        self.inbound.set(inbound);
        outcome
    }
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}
