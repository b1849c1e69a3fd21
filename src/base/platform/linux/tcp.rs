//! TCP options that only Linux has.

use std::io;

use rustix::net::sockopt;
use tokio::net::{TcpSocket, TcpStream};

/// Sets the time that sent data may remain unacknowledged.
pub fn set_user_timeout(socket: &TcpSocket, milliseconds: u32) -> io::Result<()> {
    Ok(sockopt::set_tcp_user_timeout(socket, milliseconds)?)
}

/// Sends the acknowledgements that the kernel delays. Linux resets the option, so it must
/// be set each time.
#[inline]
pub fn acknowledge(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(stream, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_the_timeout_asked_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _context = runtime.enter();
        let socket = TcpSocket::new_v4().unwrap();
        set_user_timeout(&socket, 12_500).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 12_500);
    }
}
