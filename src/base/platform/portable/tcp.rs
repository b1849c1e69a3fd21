//! TCP options that only Linux has.

use std::io;

use tokio::net::{TcpSocket, TcpStream};

/// Has no effect: the system decides how long sent data may remain unacknowledged.
pub const fn set_user_timeout(_socket: &TcpSocket, _milliseconds: u32) -> io::Result<()> {
    Ok(())
}

/// Has no effect: the system decides when to acknowledge.
pub const fn acknowledge(_stream: &TcpStream) -> io::Result<()> {
    Ok(())
}
