//! Where the time of an HTTP exchange went.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Timing of one HTTP exchange; instants are absent where the thing did not happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpTrace {
    /// Began to wait for a connection slot.
    pub pool_wait_start: Option<Nanos>,
    /// Got the slot.
    pub pool_wait_end: Option<Nanos>,
    /// Asked for the host's addresses.
    pub dns_start: Option<Nanos>,
    /// Had them.
    pub dns_end: Option<Nanos>,
    /// The cache had them.
    pub dns_cache_hit: Option<Nanos>,
    /// The cache did not have them.
    pub dns_cache_miss: Option<Nanos>,
    /// TCP connect began.
    pub connect_start: Option<Nanos>,
    /// The connection was ready: TCP, and a proxy's tunnel and TLS where they are used.
    pub connect_end: Option<Nanos>,
    /// TLS handshake began.
    pub tls_start: Option<Nanos>,
    /// TLS handshake ended.
    pub tls_end: Option<Nanos>,
    /// An idle connection was taken.
    pub reused: Option<Nanos>,
    /// Just before the first byte was offered to the connection.
    pub send_start: Option<Nanos>,
    /// The first write was done: headers are in it.
    pub headers_sent: Option<Nanos>,
    /// The last write was done.
    pub send_end: Option<Nanos>,
    /// Response headers were complete.
    pub headers_received: Option<Nanos>,
    /// First read that bore body bytes.
    pub receive_start: Option<Nanos>,
    /// Last read of the response.
    pub receive_end: Option<Nanos>,
    /// When the exchange failed.
    pub error_at: Option<Nanos>,
    /// Writes to the connection.
    pub request_chunks: u64,
    /// Bytes written, headers and framing included.
    pub request_bytes: u64,
    /// Reads from the connection.
    pub response_chunks: u64,
    /// Bytes read, headers and framing included.
    pub response_bytes: u64,
    /// Reads from the socket, below TLS.
    pub socket_reads: u64,
    /// Those of them that the kernel stamped; the others bear the program's own time.
    pub kernel_stamps: u64,
    /// Each write and its size, when they are kept.
    pub request_chunk_log: Vec<(Nanos, u64)>,
    /// Each read and its size, when they are kept.
    pub response_chunk_log: Vec<(Nanos, u64)>,
    /// Our end.
    pub local_addr: Option<SocketAddr>,
    /// The server's end.
    pub remote_addr: Option<SocketAddr>,
    /// Request headers, secrets redacted; kept when they will be written.
    pub request_headers: Vec<(String, String)>,
    /// Response headers, secrets redacted; kept when they will be written.
    pub response_headers: Vec<(String, String)>,
    /// Reason phrase of the response: the server's own where it is not the standard one.
    pub reason: Option<Cow<'static, str>>,
}

impl HttpTrace {
    /// Whose stamps the arrivals are; absent where nothing was read.
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

/// Whose stamps the arrivals of a response are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrivalClock {
    /// The kernel's, taken as segments came.
    Kernel,
    /// The program's, taken when it had read the bytes.
    User,
    /// The kernel's for some reads, the program's for others.
    Mixed,
}

impl ArrivalClock {
    /// As artifacts write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Mixed => "mixed",
        }
    }
}

/// Durations of the six phases of an exchange and of their parts: absent where
/// the thing did not happen, disjoint where it did.
impl HttpTrace {
    /// The wait for a connection slot.
    #[must_use]
    pub fn blocked(&self) -> Option<Nanos> {
        between(self.pool_wait_start, self.pool_wait_end)
    }

    /// The look-up of the host's addresses.
    #[must_use]
    pub fn dns_lookup(&self) -> Option<Nanos> {
        between(self.dns_start, self.dns_end)
    }

    /// The making of the connection: TCP, a proxy's tunnel, TLS.
    #[must_use]
    pub fn connecting(&self) -> Option<Nanos> {
        between(self.connect_start, self.connect_end)
    }

    /// The TLS handshake, which is part of [`connecting`](Self::connecting).
    #[must_use]
    pub fn tls_handshaking(&self) -> Option<Nanos> {
        between(self.tls_start, self.tls_end)
    }

    /// The sending of the request.
    #[must_use]
    pub fn sending(&self) -> Option<Nanos> {
        between(self.send_start, self.sent())
    }

    /// From the request's last byte to the first bytes of the response's body.
    #[must_use]
    pub fn waiting(&self) -> Option<Nanos> {
        between(self.sent(), self.receive_start)
    }

    /// From the first bytes of the response's body to its last; zero where one
    /// read held them all.
    #[must_use]
    pub fn receiving(&self) -> Option<Nanos> {
        between(self.receive_start, self.receive_end)
    }

    /// The exchange without the making of its connection: sending, waiting and
    /// receiving together.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        between(self.send_start, self.receive_end)
    }

    /// When the request had been sent. An answer that begins before that ends
    /// the sending: phases do not overlap.
    #[must_use]
    pub fn sent(&self) -> Option<Nanos> {
        self.send_end.map(|end| self.receive_start.map_or(end, |answer| end.min(answer)))
    }
}

fn between(from: Option<Nanos>, to: Option<Nanos>) -> Option<Nanos> {
    Some(to?.since(from?))
}
