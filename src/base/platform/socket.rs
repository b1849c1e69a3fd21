//! Options of TCP sockets that tokio does not cover.

use std::io;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown, sockopt};
use tokio::net::{TcpSocket, TcpStream};

pub use super::system::tcp::{acknowledge, set_user_timeout};

/// Sets the idle time before the first keep-alive probe.
pub fn set_keepalive_idle(socket: &TcpSocket, idle: Duration) -> io::Result<()> {
    Ok(sockopt::set_tcp_keepidle(socket, idle)?)
}

/// Sets the time between probes.
pub fn set_keepalive_interval(socket: &TcpSocket, interval: Duration) -> io::Result<()> {
    Ok(sockopt::set_tcp_keepintvl(socket, interval)?)
}

/// Sets the number of unanswered probes after which the connection fails.
pub fn set_keepalive_count(socket: &TcpSocket, count: u32) -> io::Result<()> {
    Ok(sockopt::set_tcp_keepcnt(socket, count)?)
}

/// Closes the sending direction of a connection.
pub fn shutdown_write(stream: &TcpStream) -> io::Result<()> {
    Ok(shutdown(stream, Shutdown::Write)?)
}
