//! Operations of a connection's socket during an exchange.

use std::cell::{Cell, RefCell};

use tokio::sync::oneshot;

use base::units::{Clock, Nanos};

use super::stamps::{Inbound, ReadArrival, SocketRead, WallClock};

/// Operations of a connection's socket since the log was last [reset](IoLog::reset).
///
/// Timestamps are taken at the socket, below TLS. Bytes and operations are counted above TLS, where
/// the bytes are those of HTTP.
#[derive(Debug, Default)]
pub(super) struct IoLog {
    /// Just before the first write.
    pub(super) first_write: Cell<Option<Nanos>>,
    /// Just after the first write.
    pub(super) first_write_done: Cell<Option<Nanos>>,
    /// Just after the last write.
    pub(super) last_write: Cell<Option<Nanos>>,
    /// Arrival of the last read that returned bytes.
    pub(super) last_read: Cell<Option<ReadArrival>>,
    /// Number of socket reads that returned bytes.
    pub(super) socket_reads: Cell<u64>,
    /// Number of those reads whose arrival comes from the kernel.
    pub(super) kernel_stamps: Cell<u64>,
    pub(super) writes: Cell<u64>,
    pub(super) written: Cell<u64>,
    pub(super) reads: Cell<u64>,
    pub(super) read: Cell<u64>,
    /// Every write and read with its size, if they are kept.
    pub(super) chunks: Option<RefCell<ChunkLog>>,
    /// Notified when everything has been written.
    pub(super) on_sent: RefCell<Option<oneshot::Sender<Nanos>>>,
    /// Whether bytes were read since the last [call](IoLog::take_new_bytes).
    has_new_bytes: Cell<bool>,
    inbound: Cell<Inbound>,
}

/// Individual reads and writes.
#[derive(Debug, Default)]
pub(super) struct ChunkLog {
    pub(super) writes: Vec<(Nanos, u64)>,
    pub(super) reads: Vec<(Nanos, u64)>,
}

impl IoLog {
    /// Creates an empty log, which keeps individual reads and writes if requested.
    pub(super) fn new(keep_chunks: bool) -> Self {
        Self { chunks: keep_chunks.then(RefCell::default), ..Self::default() }
    }

    /// Clears the data of the previous exchange, and keeps the state of the socket.
    pub(super) fn reset(&self) {
        for stamp in [&self.first_write, &self.first_write_done, &self.last_write] {
            stamp.set(None);
        }
        self.last_read.set(None);
        self.has_new_bytes.set(false);
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

    /// Records that a write is about to start.
    pub(super) fn before_write(&self) {
        if self.first_write.get().is_none() {
            let now = Clock::now();
            self.first_write.set(Some(now));
            self.update_inbound(|inbound| inbound.send(now));
        }
    }

    /// Records that the socket accepted bytes.
    pub(super) fn after_write(&self) {
        let now = Some(Clock::now());
        if self.first_write_done.get().is_none() {
            self.first_write_done.set(now);
        }
        self.last_write.set(now);
    }

    /// Records that the whole request has been written.
    pub(super) fn flushed(&self) {
        if let Some(at) = self.last_write.get()
            && let Some(on_sent) = self.on_sent.take()
        {
            // The receiver may have been dropped.
            let _ = on_sent.send(at);
        }
    }

    /// Records that the socket returned bytes.
    pub(super) fn after_read(&self, read: SocketRead, wall: &WallClock) {
        let arrival = self.update_inbound(|inbound| inbound.arrival(read, wall));
        self.last_read.set(Some(arrival));
        self.has_new_bytes.set(true);
        add(&self.socket_reads, 1);
        add(&self.kernel_stamps, u64::from(arrival.is_kernel));
    }

    /// Returns whether the socket returned bytes since the last call.
    pub(super) fn take_new_bytes(&self) -> bool {
        self.has_new_bytes.take()
    }

    /// Counts written bytes of HTTP.
    pub(super) fn count_write(&self, bytes: usize) {
        add(&self.writes, 1);
        add(&self.written, bytes as u64);
        if let (Some(chunks), Some(at)) = (&self.chunks, self.last_write.get()) {
            chunks.borrow_mut().writes.push((at, bytes as u64));
        }
    }

    /// Counts read bytes of HTTP.
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
