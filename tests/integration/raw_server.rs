//! A server of bare sockets: what it sends is written out byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Serves each connection with `answer` on a thread of its own; `answer` gets
/// the number of the connection, counted from 0.
pub(crate) fn serve(answer: impl Fn(usize, &mut TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let answer = answer.clone();
            thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.set_nodelay(true).unwrap();
                answer(number, &mut stream);
            });
        }
    });
    address
}

/// Reads one request: its head and the body that its length announces. `None`
/// when the client has closed.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| {
        rest.split("\r\n").next().and_then(|length| length.trim().parse::<usize>().ok())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    request.extend_from_slice(&body);
    Some(String::from_utf8_lossy(&request).into_owned())
}

/// Writes all of `bytes`; a client that has gone away is no failure of the server.
pub(crate) fn write(stream: &mut impl Write, bytes: &[u8]) {
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
}
