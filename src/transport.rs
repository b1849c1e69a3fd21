//! Bytes with timestamps: DNS, connect, TLS, write, first byte, every read.
//!
//! hyper's low-level HTTP/1.1 client over sockets of our own, so that nothing
//! between the socket and the stamp is hidden. A [`Client`] belongs to one
//! worker thread and its single-threaded runtime; nothing in it is shared.
//! The path of a response is: read, find event boundaries, stamp, append.

mod client;
mod connection;
mod connector;
mod exchange;
mod sse;
mod target;
mod tls;
mod traced_io;

pub use client::{Client, ClientStats};
pub use exchange::{EventWatch, Exchange, OutgoingRequest, Watch};
pub use sse::SseDecoder;
pub use target::{Target, TargetError};
pub use tls::TlsError;

use crate::units::Nanos;

/// How connections are made and bounded.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bound on a whole request, connect included (`--request-timeout-seconds`).
    pub request_timeout: Nanos,
    /// Most connections at once in a worker; more requests wait for a slot.
    pub connection_limit: usize,
    /// Whether certificates are checked.
    pub tls_verify: bool,
    /// Whether quick ACK is set again after every read. Without it delayed ACK
    /// meets a server's Nagle and the client measures itself.
    pub quick_ack: bool,
    /// Which addresses of a host are tried.
    pub ip_version: IpVersion,
    /// Keep every read and write with its size (`--export-http-trace`).
    pub keep_chunks: bool,
    /// Keep the headers of requests and responses.
    pub keep_headers: bool,
    /// Longest event, and longest body that is no event stream, in bytes.
    pub body_limit: usize,
}

/// Which addresses of a host are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4 only.
    #[default]
    V4,
    /// IPv6 only.
    V6,
    /// As the resolver orders them.
    Any,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            request_timeout: Nanos::from_seconds(21_600.0),
            connection_limit: 2500,
            tls_verify: true,
            quick_ack: true,
            ip_version: IpVersion::V4,
            keep_chunks: false,
            keep_headers: false,
            body_limit: 64 << 20,
        }
    }
}
