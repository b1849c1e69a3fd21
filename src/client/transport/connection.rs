//! One HTTP/1.1 connection, driven by the request that uses it.
//!
//! The bytes of a read are passed on before the socket is read again, so that the timestamp of the
//! last read is that of the bytes. It is also known when the rest of a response is awaited.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use tokio_rustls::rustls;

use super::acknowledge::Acknowledger;
use super::http1::{Progress, ResponseDecoder, ResponseSink};
use super::io_log::IoLog;
use super::limit::Slot;
use super::traced_io::TracedIo;
use crate::record::{ErrorKind, RequestError};

/// Maximum number of bytes per read.
const READ_SIZE: usize = 64 << 10;

/// The buffer into which all connections of a client read. It keeps nothing between two reads.
#[derive(Debug)]
pub(super) struct ReadBuffer(RefCell<Box<[u8]>>);

impl Default for ReadBuffer {
    fn default() -> Self {
        Self(RefCell::new(vec![0; READ_SIZE].into_boxed_slice()))
    }
}

/// A connection and the log of its socket.
#[derive(Debug)]
pub(super) struct Connection {
    io: TracedIo,
    log: Rc<IoLog>,
    acknowledger: Acknowledger,
    slot: Slot,
    local_addr: Option<SocketAddr>,
    remote_addr: Option<SocketAddr>,
    /// Whether the next request may be sent.
    is_free: bool,
}

/// The bytes of a request that have not been written.
struct Unsent<'a> {
    head: &'a [u8],
    body: &'a [u8],
}

impl Connection {
    pub(super) const fn new(
        io: TracedIo,
        log: Rc<IoLog>,
        acknowledger: Acknowledger,
        slot: Slot,
        local_addr: Option<SocketAddr>,
        remote_addr: Option<SocketAddr>,
    ) -> Self {
        Self { io, log, acknowledger, slot, local_addr, remote_addr, is_free: true }
    }

    pub(super) const fn log(&self) -> &Rc<IoLog> {
        &self.log
    }

    /// Closes the connection and returns its slot.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }

    /// Returns the local and the remote address.
    pub(super) const fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (self.local_addr, self.remote_addr)
    }

    /// Returns whether another request can be sent; checks whether the server has closed the idle
    /// connection, or has sent what nobody requested.
    pub(super) fn is_usable(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        self.is_free = self.is_free && self.io.poll_read(&mut cx, &mut byte).is_pending();
        self.is_free
    }

    /// Closes the connection after the last response.
    pub(super) fn close(mut self) {
        // The server may be gone; this is only a courtesy.
        let _ = self.io.poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }

    /// Sends a request and passes the parts of the response to `sink`.
    pub(super) async fn exchange(
        &mut self,
        head: &[u8],
        body: &[u8],
        mut decoder: ResponseDecoder,
        buffer: &ReadBuffer,
        sink: &mut impl ResponseSink,
    ) -> Result<(), RequestError> {
        self.is_free = false;
        let mut unsent = Unsent { head, body };
        let mut write_error = None;
        poll_fn(|cx| {
            if write_error.is_none()
                && let Poll::Ready(Err(error)) = self.poll_send(cx, &mut unsent)
            {
                if !is_closed(&error) {
                    return Poll::Ready(Err(connection_error(&error)));
                }
                // The server may have sent a response before it closed the connection. If not,
                // the next read says that it is closed.
                write_error = Some(connection_error(&error));
            }
            let outcome = ready!(self.poll_receive(cx, &mut decoder, buffer, sink));
            Poll::Ready(match (outcome, write_error.take()) {
                (Err(_), Some(error)) if self.log.read.get() == 0 => Err(error),
                (outcome, _) => outcome,
            })
        })
        .await?;
        self.is_free &= decoder.keeps_alive() && unsent.is_empty();
        Ok(())
    }

    /// Writes what the socket accepts of a request; ready once everything is written.
    fn poll_send(&mut self, cx: &mut Context<'_>, unsent: &mut Unsent<'_>) -> Poll<io::Result<()>> {
        if unsent.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !unsent.is_empty() {
            let bufs = [IoSlice::new(unsent.head), IoSlice::new(unsent.body)];
            match ready!(self.io.poll_write(cx, &bufs))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => unsent.advance(written),
            }
        }
        self.io.poll_flush(cx)
    }

    /// Reads and decodes until the response is complete.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        decoder: &mut ResponseDecoder,
        buffer: &ReadBuffer,
        sink: &mut impl ResponseSink,
    ) -> Poll<Result<(), RequestError>> {
        let buffer = &mut *buffer.0.borrow_mut();
        loop {
            let read = match self.io.poll_read(cx, buffer) {
                Poll::Ready(Ok(0)) => return Poll::Ready(decoder.close()),
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(connection_error(&error))),
                Poll::Pending => {
                    self.acknowledge();
                    return Poll::Pending;
                }
            };
            if let Progress::Complete { rest } = decoder.decode(&buffer[..read], sink)? {
                self.is_free = rest == 0;
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Has the received data acknowledged while the response continues. The end of a response is
    /// acknowledged by the next request.
    fn acknowledge(&self) {
        if self.log.take_new_bytes() {
            self.acknowledger.has_read();
        }
    }
}

impl Unsent<'_> {
    const fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }

    /// Removes the first `written` bytes.
    fn advance(&mut self, written: usize) {
        let of_head = written.min(self.head.len());
        self.head = &self.head[of_head..];
        self.body = &self.body[written - of_head..];
    }
}

/// Returns whether the server has closed the connection, which reads detect too.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Returns the error of a request whose connection failed.
fn connection_error(error: &io::Error) -> RequestError {
    let is_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some();
    let (kind, name) = match error.kind() {
        _ if is_tls => (ErrorKind::Other, "TlsError"),
        io::ErrorKind::TimedOut => (ErrorKind::Timeout, "ConnectionTimeout"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            (ErrorKind::Other, "ConnectionReset")
        }
        io::ErrorKind::UnexpectedEof => (ErrorKind::Other, "IncompleteResponse"),
        _ => (ErrorKind::Other, "ConnectionFailed"),
    };
    let cause = error.to_string();
    let message = match name {
        // rustls adds a page of its manual on what the server should have done.
        "IncompleteResponse" => {
            "the connection was closed before the response was complete".to_owned()
        }
        _ => format!("the connection failed: {cause}"),
    };
    RequestError { cause: Some(cause), ..RequestError::new(kind, name, message) }
}
