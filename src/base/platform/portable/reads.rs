//! Reads without timestamps of the kernel.

use std::io;

use tokio::net::TcpStream;

use super::super::receive::Received;

/// Does nothing, since timestamps are not supported.
pub const fn keep_stamping() {}

/// The reader of one socket.
#[derive(Debug)]
pub struct Receiver;

impl Receiver {
    /// Creates a receiver without timestamps.
    #[must_use]
    pub const fn new(_: &TcpStream, _: bool) -> Self {
        Self
    }

    /// Reads the received data; `WouldBlock` if there is none.
    pub fn receive(&mut self, stream: &TcpStream, buf: &mut [u8]) -> io::Result<Received> {
        stream.try_read(buf).map(|bytes| Received { bytes, stamp_ns: None })
    }
}
