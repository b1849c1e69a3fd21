//! TCP sockets and their options.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

use base::platform::socket;
use base::units::Nanos;
use serde::Serialize;

/// Options of all sockets. Zero keeps the system's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SocketOptions {
    /// Size of the receive buffer in bytes (`AIPERF_HTTP_SO_RCVBUF`, 10 MiB); the system may grant
    /// less.
    pub receive_buffer: u32,
    /// Size of the send buffer in bytes (`AIPERF_HTTP_SO_SNDBUF`, 10 MiB).
    pub send_buffer: u32,
    /// Idle time before the first keepalive probe (`AIPERF_HTTP_TCP_KEEPIDLE`, 60 s).
    pub keepalive_idle: Nanos,
    /// Time between keepalive probes (`AIPERF_HTTP_TCP_KEEPINTVL`, 30 s).
    pub keepalive_interval: Nanos,
    /// Number of unanswered probes after which the connection is dropped
    /// (`AIPERF_HTTP_TCP_KEEPCNT`, 1).
    pub keepalive_count: u32,
    /// Maximum time that sent bytes may stay unacknowledged (`AIPERF_HTTP_TCP_USER_TIMEOUT`, 30 s);
    /// Linux only.
    pub user_timeout: Nanos,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            receive_buffer: 10 << 20,
            send_buffer: 10 << 20,
            keepalive_idle: Nanos::from_seconds(60.0),
            keepalive_interval: Nanos::from_seconds(30.0),
            keepalive_count: 1,
            user_timeout: Nanos::from_seconds(30.0),
        }
    }
}

impl SocketOptions {
    /// Connects to `address`. The buffers are set before, since the window scale is negotiated in
    /// the first segment.
    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        self.apply(&socket);
        socket.connect(address).await
    }

    /// Sets the options. If a socket rejects an option, the run continues without it.
    fn apply(&self, socket: &TcpSocket) {
        let _ = socket.set_nodelay(true);
        let _ = socket.set_keepalive(true);
        if self.receive_buffer > 0 {
            let _ = socket.set_recv_buffer_size(self.receive_buffer);
        }
        if self.send_buffer > 0 {
            let _ = socket.set_send_buffer_size(self.send_buffer);
        }
        if self.keepalive_idle > Nanos::ZERO {
            let _ = socket::set_keepalive_idle(socket, self.keepalive_idle.into());
        }
        if self.keepalive_interval > Nanos::ZERO {
            let _ = socket::set_keepalive_interval(socket, self.keepalive_interval.into());
        }
        if self.keepalive_count > 0 {
            let _ = socket::set_keepalive_count(socket, self.keepalive_count);
        }
        if self.user_timeout > Nanos::ZERO {
            let _ = socket::set_user_timeout(socket, self.user_timeout.as_millis() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::sockopt;

    use super::*;

    fn connected(options: SocketOptions) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(options.connect(listener.local_addr().unwrap())).unwrap()
    }

    #[test]
    fn sockets_have_the_options_asked_for() {
        let seconds = Nanos::from_seconds;
        let stream = connected(SocketOptions {
            receive_buffer: 65_536,
            send_buffer: 32_768,
            keepalive_idle: seconds(7.0),
            keepalive_interval: seconds(3.0),
            keepalive_count: 4,
            user_timeout: seconds(12.5),
        });
        assert!(stream.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        // Linux doubles the requested size, for its own overhead.
        assert_eq!(sockopt::socket_recv_buffer_size(&stream).unwrap(), 2 * 65_536);
        assert_eq!(sockopt::socket_send_buffer_size(&stream).unwrap(), 2 * 32_768);
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), seconds(7.0).into());
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), seconds(3.0).into());
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 4);
    }

    #[test]
    fn zero_leaves_an_option_to_the_system() {
        let untouched = connected(SocketOptions {
            receive_buffer: 0,
            send_buffer: 0,
            keepalive_idle: Nanos::ZERO,
            keepalive_interval: Nanos::ZERO,
            keepalive_count: 0,
            user_timeout: Nanos::ZERO,
        });
        let ours = connected(SocketOptions::default());
        assert_eq!(sockopt::tcp_user_timeout(&untouched).unwrap(), 0);
        assert_ne!(
            sockopt::tcp_keepidle(&untouched).unwrap(),
            sockopt::tcp_keepidle(&ours).unwrap()
        );
    }
}
