//! Timing of an HTTP exchange.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use base::units::Nanos;

/// Timing of one HTTP exchange. An instant is absent if its event did not happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpTrace {
    /// Start of the wait for a connection slot.
    pub pool_wait_start: Option<Nanos>,
    /// End of the wait for a connection slot.
    pub pool_wait_end: Option<Nanos>,
    /// Start of the DNS lookup.
    pub dns_start: Option<Nanos>,
    /// End of the DNS lookup.
    pub dns_end: Option<Nanos>,
    /// When the addresses were found in the DNS cache.
    pub dns_cache_hit: Option<Nanos>,
    /// When the addresses were not found in the DNS cache.
    pub dns_cache_miss: Option<Nanos>,
    /// Start of the TCP connect.
    pub connect_start: Option<Nanos>,
    /// When the connection was ready, including TCP, and a proxy's tunnel and TLS if they are used.
    pub connect_end: Option<Nanos>,
    /// Start of the TLS handshake.
    pub tls_start: Option<Nanos>,
    /// End of the TLS handshake.
    pub tls_end: Option<Nanos>,
    /// When an idle connection was taken from the pool.
    pub reused: Option<Nanos>,
    /// Just before the first byte was offered to the connection.
    pub send_start: Option<Nanos>,
    /// End of the first write, which contains the headers.
    pub headers_sent: Option<Nanos>,
    /// End of the last write.
    pub send_end: Option<Nanos>,
    /// When the response headers were complete.
    pub headers_received: Option<Nanos>,
    /// First read that contained bytes of the body.
    pub receive_start: Option<Nanos>,
    /// Last read of the response. If the exchange failed after something had been sent, the time of
    /// the failure.
    pub receive_end: Option<Nanos>,
    /// When the exchange failed.
    pub error_at: Option<Nanos>,
    /// Number of writes to the connection.
    pub request_chunks: u64,
    /// Bytes written, including headers and framing.
    pub request_bytes: u64,
    /// Number of reads from the connection.
    pub response_chunks: u64,
    /// Bytes read, including headers and framing.
    pub response_bytes: u64,
    /// Number of reads from the socket, below TLS.
    pub socket_reads: u64,
    /// Number of socket reads with a timestamp from the kernel. The others have the program's own
    /// time.
    pub kernel_stamps: u64,
    /// Time and size of each write, if they are recorded.
    pub request_chunk_log: Vec<(Nanos, u64)>,
    /// Time and size of each read, if they are recorded.
    pub response_chunk_log: Vec<(Nanos, u64)>,
    /// Local address of the connection.
    pub local_addr: Option<SocketAddr>,
    /// Remote address of the connection.
    pub remote_addr: Option<SocketAddr>,
    /// Request headers with redacted secrets; kept only if they will be written.
    pub request_headers: Vec<(String, String)>,
    /// Response headers with redacted secrets; kept only if they will be written.
    pub response_headers: Vec<(String, String)>,
    /// Response headers in which the server reports its times or names its worker.
    pub report_headers: Vec<(String, String)>,
    /// Reason phrase of the response; the server's own if it is not the standard one.
    pub reason: Option<Cow<'static, str>>,
}

impl HttpTrace {
    /// Returns the source of the arrival timestamps; absent if nothing was read.
    #[must_use]
    pub const fn clock(&self) -> Option<ArrivalClock> {
        match (self.kernel_stamps, self.socket_reads) {
            (_, 0) => None,
            (0, _) => Some(ArrivalClock::User),
            (stamps, reads) if stamps < reads => Some(ArrivalClock::Mixed),
            _ => Some(ArrivalClock::Kernel),
        }
    }
}

/// Source of the arrival timestamps of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrivalClock {
    /// The kernel, when segments arrived.
    Kernel,
    /// The program, after it had read the bytes.
    User,
    /// The kernel for some reads and the program for others.
    Mixed,
}

impl ArrivalClock {
    /// Returns the name used in output files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Mixed => "mixed",
        }
    }
}

/// Durations of the six phases of an exchange and of their parts. A duration is absent if its phase
/// did not happen. The phases do not overlap.
impl HttpTrace {
    /// Returns the wait for a connection slot.
    #[must_use]
    pub fn blocked(&self) -> Option<Nanos> {
        between(self.pool_wait_start, self.pool_wait_end)
    }

    /// Returns the duration of the DNS lookup.
    #[must_use]
    pub fn dns_lookup(&self) -> Option<Nanos> {
        between(self.dns_start, self.dns_end)
    }

    /// Returns the time to establish the connection: TCP, a proxy's tunnel and TLS.
    #[must_use]
    pub fn connecting(&self) -> Option<Nanos> {
        between(self.connect_start, self.connect_end)
    }

    /// Returns the duration of the TLS handshake, which is part of
    /// [`connecting`](Self::connecting).
    #[must_use]
    pub fn tls_handshaking(&self) -> Option<Nanos> {
        between(self.tls_start, self.tls_end)
    }

    /// Returns the time to send the request.
    #[must_use]
    pub fn sending(&self) -> Option<Nanos> {
        between(self.send_start, self.sent())
    }

    /// Returns the time from the last byte of the request to the first bytes of the response body.
    #[must_use]
    pub fn waiting(&self) -> Option<Nanos> {
        between(self.sent(), self.receive_start)
    }

    /// Returns the time from the first bytes of the response body to the last; zero if a single
    /// read contained all of them.
    #[must_use]
    pub fn receiving(&self) -> Option<Nanos> {
        between(self.receive_start, self.receive_end)
    }

    /// Returns the duration of the exchange without connection setup: sending, waiting and
    /// receiving together. If the exchange failed, it ends with the failure.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        between(self.send_start, self.receive_end)
    }

    /// Returns whether the exchange had a connection slot or needed none.
    #[must_use]
    pub fn was_unblocked(&self) -> bool {
        self.pool_wait_end.is_some()
            || self.dns_start.is_some()
            || self.connect_start.is_some()
            || self.had_addresses()
    }

    /// Returns whether the exchange had the addresses of the host or needed none.
    #[must_use]
    pub fn had_addresses(&self) -> bool {
        self.dns_end.is_some() || self.connect_start.is_some() || self.had_connection()
    }

    /// Returns whether a connection was ready.
    #[must_use]
    pub fn had_connection(&self) -> bool {
        self.reused.is_some() || self.connect_end.is_some() || self.send_start.is_some()
    }

    /// Returns when the request had been sent. A response that begins earlier ends the sending,
    /// because phases do not overlap.
    #[must_use]
    pub fn sent(&self) -> Option<Nanos> {
        self.send_end.map(|end| self.receive_start.map_or(end, |answer| end.min(answer)))
    }
}

fn between(from: Option<Nanos>, to: Option<Nanos>) -> Option<Nanos> {
    Some(to?.since(from?))
}
