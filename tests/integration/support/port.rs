//! Ports that no other test takes.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::TcpSocket;

/// An address at which connections are refused. Its socket is bound, so that the address is not given
/// to a server of another test, and does not listen.
pub(crate) struct Refusing {
    _socket: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = socket.local_addr().unwrap();
        Self { _socket: socket, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Returns a port for a program that is about to listen: below those that the system gives to sockets
/// that ask for any.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let mut ports =
        std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed)).take(1000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}
