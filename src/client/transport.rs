//! Transport with timestamps: DNS, connect, TLS, write, first byte, every read.
//!
//! It writes and reads HTTP/1.1 itself ([`http1`]), so that nothing between the socket and the
//! timestamp is hidden. A [`Client`] belongs to one worker thread and its
//! single-threaded runtime. All clients of a process share one [`Connector`], which holds the
//! addresses, the TLS sessions and the connection limit. The path of a response is: read, find
//! event boundaries, take the timestamp, append.

mod acknowledge;
mod body;
mod budget;
mod client;
mod connection;
mod connector;
mod exchange;
mod exhaustion;
pub mod http1;
mod io_log;
mod limit;
mod ping;
mod plain;
mod pool;
mod proxy;
mod receiving;
mod resolver;
mod socket;
mod sse;
mod stamps;
mod target;
pub mod tls;
mod traced_io;

pub use client::Client;
pub use connector::Connector;
pub use exchange::{EventWatch, Exchange, Notifications, OutgoingRequest, RequestHeaders};
pub(crate) use ping::Ping;
pub use pool::SessionConnection;
pub use proxy::{Proxies, ProxyError};
pub use socket::SocketOptions;
pub use sse::SseDecoder;
pub use target::Target;
pub use tls::{TlsError, TlsOptions};
pub(crate) use traced_io::slept_until;

use base::setting::named;
use base::units::Nanos;
use serde::Serialize;

/// Configuration of the transport.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// Timeout of a whole request, including the connect (`--request-timeout-seconds`).
    pub request_timeout: Nanos,
    /// How connections are established, limited and reused.
    pub connections: Connections,
    /// Whether received data is acknowledged as soon as nothing is left to read while the response continues. Otherwise
    /// delayed ACK meets Nagle's algorithm at the server, and the client measures its own delay.
    pub quick_ack: bool,
    /// Whether arrivals use the kernel's receive timestamps if available (Linux).
    pub kernel_timestamps: bool,
    /// Address families to use.
    pub ip_version: IpVersion,
    /// Whether every read and write is kept with its size (`--export-http-trace`).
    pub keep_chunks: bool,
    /// Whether the headers of requests and responses are kept.
    pub keep_headers: bool,
    /// Maximum size in bytes of an event, and of a body that is not an event stream.
    pub body_limit: usize,
    /// Maximum memory in bytes that all responses being received hold together. `None` is a quarter
    /// of the memory available to the program.
    pub response_budget: Option<usize>,
}

/// How connections are established, limited and reused.
#[derive(Debug, Clone, Serialize)]
pub struct Connections {
    /// Maximum number of connections of the process, including idle ones
    /// (`AIPERF_HTTP_CONNECTION_LIMIT`); further requests wait.
    pub limit: usize,
    /// Which requests share a connection (`--connection-reuse-strategy`).
    pub reuse: ConnectionReuse,
    /// How long a connection may be idle (`AIPERF_HTTP_KEEPALIVE_TIMEOUT`, 300 s).
    pub keepalive_timeout: Nanos,
    /// How long addresses are cached (`AIPERF_HTTP_TTL_DNS_CACHE`, 300 s). `None` disables the
    /// cache (`AIPERF_HTTP_USE_DNS_CACHE=false`).
    pub dns_cache_ttl: Option<Nanos>,
    /// Socket options.
    pub sockets: SocketOptions,
    /// Trusted authorities and the client certificate.
    pub tls: TlsOptions,
    /// Proxies and the servers that they apply to.
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
    /// A request uses any idle connection to its server.
    #[default]
    Pooled,
    /// Each request has its own connection, which is closed afterwards.
    Never,
    /// Each session has its own connection until it ends.
    StickyUserSessions,
}

named! {
    ConnectionReuse {
        "pooled" => Pooled,
        "never" => Never,
        "sticky-user-sessions" => StickyUserSessions,
    }
}

/// Address families to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4 only.
    #[default]
    V4,
    /// IPv6 only.
    V6,
    /// Both, in the order of the resolver.
    Any,
}

named! { IpVersion { "4" => V4, "6" => V6, "any" => Any, "auto" => Any } }

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
            response_budget: None,
        }
    }
}
