//! A socket for hyper.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Maximum number of bytes of one read.
const READ_SIZE: usize = 4 << 10;

/// A connection of a client.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    incoming: Box<[u8]>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, incoming: vec![0; READ_SIZE].into_boxed_slice() }
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, incoming } = &mut *self;
        let size = READ_SIZE.min(into.remaining());
        let mut buffer = ReadBuf::new(&mut incoming[..size]);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        into.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
