//! Sockets that record the time of every read and write.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use base::platform::receive::Receiver;
use base::platform::socket;
use base::units::{Clock, Nanos};

use super::io_log::IoLog;
use super::stamps::{Reading, SocketRead, WallClock};

thread_local! {
    /// Offset of the clocks at this thread's last read.
    static WALL: WallClock = WallClock::new(Reading::now());

    /// When this thread's last sleep ended.
    static SLEPT: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// Records that this thread slept until the instant `at` because none of its sockets had anything to
/// read.
pub(crate) fn slept_until(at: Nanos) {
    SLEPT.set(at);
}

/// A TCP socket that records reads and writes in its log.
#[derive(Debug)]
pub(super) struct TracedTcp {
    stream: Rc<TcpStream>,
    receiver: Receiver,
    log: Rc<IoLog>,
}

impl TracedTcp {
    /// `kernel_timestamps` is described at
    /// [`Config::kernel_timestamps`](super::Config::kernel_timestamps).
    pub(super) fn new(stream: Rc<TcpStream>, log: Rc<IoLog>, kernel_timestamps: bool) -> Self {
        // The clocks are read before the first read, so that it detects a step.
        WALL.with(|_| ());
        let receiver = Receiver::new(&stream, kernel_timestamps);
        Self { stream, receiver, log }
    }

    /// Reads the available bytes into `buf`; returns their number.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let begun = Clock::now();
        let received = self.receiver.receive(&self.stream, buf)?;
        if received.bytes > 0 {
            let has_drained = received.bytes < buf.len();
            let stamp_ns = received.stamp_ns;
            WALL.with(|wall| {
                let slept_until = SLEPT.get();
                let done = both_clocks(wall);
                let read = SocketRead { slept_until, begun, done, stamp_ns, has_drained };
                self.log.after_read(read, wall);
            });
        }
        Ok(received.bytes)
    }

    /// Writes with `write` once the socket accepts bytes.
    fn poll_write_by(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.log.before_write();
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => {
                    if outcome.is_ok() {
                        self.log.after_write();
                    }
                    return Poll::Ready(outcome);
                }
            }
        }
    }
}

/// Reads both clocks, and again if the thread may have been interrupted between the two.
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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_by(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_by(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the kernel has all written bytes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket::shutdown_write(&self.stream))
    }
}

/// The byte stream of a connection, with or without TLS.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TracedTcp),
    Tls(Box<TlsStream<TracedTcp>>),
}

/// Calls `$method` of the current kind of stream.
macro_rules! on_stream {
    ($stream:expr, $method:ident ( $($argument:expr),* )) => {
        match &mut $stream {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

/// The byte stream of HTTP; counts its bytes.
#[derive(Debug)]
pub(super) struct TracedIo {
    stream: Stream,
    log: Rc<IoLog>,
}

impl TracedIo {
    pub(super) const fn new(stream: Stream, log: Rc<IoLog>) -> Self {
        Self { stream, log }
    }

    /// Reads the available bytes into `buf`; returns their number, which is zero at the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(on_stream!(self.stream, poll_read(cx, &mut buf)))?;
        let read = buf.filled().len();
        if read > 0 {
            self.log.count_read(read);
        }
        Poll::Ready(Ok(read))
    }

    /// Writes what the socket accepts; returns the number of bytes.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(on_stream!(self.stream, poll_write_vectored(cx, bufs)))?;
        self.log.count_write(written);
        Poll::Ready(Ok(written))
    }

    /// Ends the writes of a request.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(on_stream!(self.stream, poll_flush(cx)))?;
        self.log.flushed();
        Poll::Ready(Ok(()))
    }

    /// Announces the end of the connection to the server.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.stream, poll_shutdown(cx))
    }
}
