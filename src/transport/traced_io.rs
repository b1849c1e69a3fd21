//! Sockets that stamp every read and write.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::client::TlsStream;

use crate::units::{Clock, Nanos};

/// Most bytes taken by one read.
const READ_SIZE: usize = 16 << 10;

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
    pub(super) last_read: Cell<Option<Nanos>>,
    pub(super) writes: Cell<u64>,
    pub(super) written: Cell<u64>,
    pub(super) reads: Cell<u64>,
    pub(super) read: Cell<u64>,
    /// Every write and read with its size, when they are kept.
    pub(super) chunks: Option<RefCell<ChunkLog>>,
    /// Told when all that there was to write has been written.
    pub(super) on_sent: RefCell<Option<oneshot::Sender<Nanos>>>,
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

    /// Forgets everything: a new exchange begins.
    pub(super) fn reset(&self) {
        for stamp in [&self.first_write, &self.first_write_done, &self.last_write, &self.last_read]
        {
            stamp.set(None);
        }
        for count in [&self.writes, &self.written, &self.reads, &self.read] {
            count.set(0);
        }
        if let Some(chunks) = &self.chunks {
            *chunks.borrow_mut() = ChunkLog::default();
        }
    }

    fn before_write(&self) {
        if self.first_write.get().is_none() {
            self.first_write.set(Some(Clock::now()));
        }
    }

    fn after_write(&self) {
        let now = Some(Clock::now());
        if self.first_write_done.get().is_none() {
            self.first_write_done.set(now);
        }
        self.last_write.set(now);
    }

    /// hyper flushes once it has nothing left to write.
    fn flushed(&self) {
        if let Some(at) = self.last_write.get()
            && let Some(on_sent) = self.on_sent.take()
        {
            // Whoever wanted to know may have lost interest.
            let _ = on_sent.send(at);
        }
    }

    fn count_write(&self, bytes: usize) {
        self.writes.set(self.writes.get() + 1);
        self.written.set(self.written.get() + bytes as u64);
        if let (Some(chunks), Some(at)) = (&self.chunks, self.last_write.get()) {
            chunks.borrow_mut().writes.push((at, bytes as u64));
        }
    }

    fn count_read(&self, bytes: usize) {
        self.reads.set(self.reads.get() + 1);
        self.read.set(self.read.get() + bytes as u64);
        if let (Some(chunks), Some(at)) = (&self.chunks, self.last_read.get()) {
            chunks.borrow_mut().reads.push((at, bytes as u64));
        }
    }
}

/// A TCP socket that stamps reads and writes into its log.
#[derive(Debug)]
pub(super) struct TracedTcp {
    stream: TcpStream,
    log: Rc<IoLog>,
    quick_ack: bool,
}

impl TracedTcp {
    pub(super) const fn new(stream: TcpStream, log: Rc<IoLog>, quick_ack: bool) -> Self {
        Self { stream, log, quick_ack }
    }

    /// Linux clears quick ACK by itself, so it is set again after every read.
    #[cfg(target_os = "linux")]
    fn acknowledge_at_once(&self) {
        if self.quick_ack {
            // A socket that cannot do it is measured without.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.stream, true);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge_at_once(&self) {
        let _ = self.quick_ack;
    }
}

impl AsyncRead for TracedTcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.log.last_read.set(Some(Clock::now()));
            self.acknowledge_at_once();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TracedTcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.before_write();
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.log.after_write();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.log.before_write();
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        self.log.after_write();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection's byte stream, with TLS or without.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TracedTcp),
    Tls(Box<TlsStream<TracedTcp>>),
}

/// What hyper reads from and writes to: counts HTTP's bytes.
#[derive(Debug)]
pub(super) struct TracedIo {
    stream: Stream,
    log: Rc<IoLog>,
    scratch: Box<[u8]>,
}

impl TracedIo {
    pub(super) fn new(stream: Stream, log: Rc<IoLog>) -> Self {
        Self { stream, log, scratch: vec![0; READ_SIZE].into_boxed_slice() }
    }
}

/// Runs `$call` on whichever stream there is.
macro_rules! on_stream {
    ($stream:expr, $method:ident ( $($argument:expr),* )) => {
        match &mut $stream {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl hyper::rt::Read for TracedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let room = this.scratch.len().min(cursor.remaining());
        let mut buf = ReadBuf::new(&mut this.scratch[..room]);
        ready!(on_stream!(this.stream, poll_read(cx, &mut buf)))?;
        let filled = buf.filled();
        if !filled.is_empty() {
            this.log.count_read(filled.len());
        }
        // Through a buffer of our own: reading into hyper's would need unsafe
        // code for a copy of a few hundred bytes.
        cursor.put_slice(filled);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for TracedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(on_stream!(self.stream, poll_write(cx, buf)))?;
        self.log.count_write(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(on_stream!(self.stream, poll_write_vectored(cx, bufs)))?;
        self.log.count_write(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(on_stream!(self.stream, poll_flush(cx)))?;
        self.log.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.stream, poll_shutdown(cx))
    }
}
