//! Bytes with timestamps: DNS, connect, TLS, write, first byte, every read.
//!
//! hyper's low-level HTTP/1.1 client over sockets of our own, so that nothing
//! between the socket and the stamp is hidden. A [`Client`] belongs to one
//! worker thread and its single-threaded runtime; all clients of a process share
//! one [`Connector`], with the addresses, the TLS sessions and the bound on
//! connections.
//! The path of a response is: read, find event boundaries, stamp, append.

mod body;
mod client;
mod connection;
mod connector;
mod exchange;
mod io_log;
mod limit;
mod plain;
mod pool;
mod proxy;
mod receive;
mod resolver;
mod socket;
mod sse;
mod stamps;
mod target;
pub mod tls;
mod traced_io;

pub use client::Client;
pub use connector::Connector;
pub use exchange::{EventWatch, Exchange, OutgoingRequest, Watch};
pub use pool::SessionConnection;
pub use proxy::{Proxies, ProxyError};
pub use socket::SocketOptions;
pub use sse::SseDecoder;
pub use target::{Target, TargetError};
pub use tls::{TlsError, TlsOptions};

use crate::units::Nanos;

/// How requests are exchanged.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bound on a whole request, connect included (`--request-timeout-seconds`).
    pub request_timeout: Nanos,
    /// How connections are made, bounded and used again.
    pub connections: Connections,
    /// Whether what is read is acknowledged at once while the response goes on.
    /// Without it delayed ACK meets a server's Nagle and the client measures itself.
    pub quick_ack: bool,
    /// Whether arrivals are the kernel's receive stamps where it gives any (Linux).
    pub kernel_timestamps: bool,
    /// Which addresses of a host are tried.
    pub ip_version: IpVersion,
    /// Keep every read and write with its size (`--export-http-trace`).
    pub keep_chunks: bool,
    /// Keep the headers of requests and responses.
    pub keep_headers: bool,
    /// Longest event, and longest body that is no event stream, in bytes.
    pub body_limit: usize,
}

/// How connections are made, bounded and used again.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Most connections of the process at once, idle ones too
    /// (`AIPERF_HTTP_CONNECTION_LIMIT`, 2500); more requests wait.
    pub limit: usize,
    /// Which requests share a connection (`--connection-reuse-strategy`).
    pub reuse: ConnectionReuse,
    /// How long a connection may be idle (`AIPERF_HTTP_KEEPALIVE_TIMEOUT`, 300 s).
    pub keepalive_timeout: Nanos,
    /// How long addresses are used again (`AIPERF_HTTP_TTL_DNS_CACHE`, 300 s);
    /// `None` never does (`AIPERF_HTTP_USE_DNS_CACHE=false`).
    pub dns_cache_ttl: Option<Nanos>,
    /// Options of the sockets.
    pub sockets: SocketOptions,
    /// Whom we trust, and who we are.
    pub tls: TlsOptions,
    /// Which servers are reached through a proxy.
    pub proxies: Proxies,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            limit: 2500,
            reuse: ConnectionReuse::Pooled,
            keepalive_timeout: Nanos::from_seconds(300.0),
            dns_cache_ttl: Some(Nanos::from_seconds(300.0)),
            sockets: SocketOptions::default(),
            tls: TlsOptions::default(),
            proxies: Proxies::default(),
        }
    }
}

/// Which requests share a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// Any request takes any idle connection to its server.
    #[default]
    Pooled,
    /// None: each has a connection of its own, closed after it.
    Never,
    /// Those of one session, which has a connection of its own until it ends.
    StickyUserSessions,
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
            connections: Connections::default(),
            quick_ack: true,
            kernel_timestamps: true,
            ip_version: IpVersion::V4,
            keep_chunks: false,
            keep_headers: false,
            body_limit: 64 << 20,
        }
    }
}
