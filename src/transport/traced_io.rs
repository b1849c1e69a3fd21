//! Sockets that stamp every read and write.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::io_log::IoLog;
use super::receive::Receiver;
use super::stamps::{Reading, SocketRead, WallClock};
use crate::units::Clock;

/// Most bytes taken by one read.
const READ_SIZE: usize = 16 << 10;

thread_local! {
    /// How the clocks stood at this thread's last read.
    static WALL: WallClock = WallClock::new(Reading::now());
}

/// How sockets are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOptions {
    /// See [`Config::quick_ack`](super::Config::quick_ack).
    pub(super) quick_ack: bool,
    /// See [`Config::kernel_timestamps`](super::Config::kernel_timestamps).
    pub(super) kernel_timestamps: bool,
}

/// A TCP socket that stamps reads and writes into its log.
#[derive(Debug)]
pub(super) struct TracedTcp {
    stream: TcpStream,
    receiver: Receiver,
    log: Rc<IoLog>,
    options: ReadOptions,
}

impl TracedTcp {
    pub(super) fn new(stream: TcpStream, log: Rc<IoLog>, options: ReadOptions) -> Self {
        // The clocks are looked at before the first read, so that it sees a step.
        WALL.with(|_| ());
        let receiver = Receiver::new(&stream, options.kernel_timestamps);
        Self { stream, receiver, log, options }
    }

    /// Reads what is there into `buf`; says how many bytes that were.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let begun = Clock::now();
        let received = self.receiver.receive(&self.stream, buf)?;
        if received.bytes > 0 {
            let has_drained = received.bytes < buf.len();
            let stamp_ns = received.stamp_ns;
            WALL.with(|wall| {
                let read = SocketRead { begun, done: both_clocks(wall), stamp_ns, has_drained };
                self.log.after_read(read, wall);
            });
            self.acknowledge_at_once();
        }
        Ok(received.bytes)
    }

    /// Linux clears quick ACK by itself, so it is set again after every read.
    #[cfg(target_os = "linux")]
    fn acknowledge_at_once(&self) {
        if self.options.quick_ack {
            // A socket that cannot do it is measured without.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.stream, true);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge_at_once(&self) {
        let _ = self.options.quick_ack;
    }
}

/// Both clocks, read again where the thread may have been interrupted between the
/// two.
fn both_clocks(wall: &WallClock) -> Reading {
    let reading = Reading::now();
    if wall.agrees(reading) { reading } else { Reading::now() }
}

impl AsyncRead for TracedTcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            ready!(this.stream.poll_read_ready(cx))?;
            match this.read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome.map(|bytes| buf.advance(bytes))),
            }
        }
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
        self.log.is_closing.set(true);
        on_stream!(self.stream, poll_shutdown(cx))
    }
}
