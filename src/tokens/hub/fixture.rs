//! A hub of scripted responses, for tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

/// Serves these responses, one per connection, and passes on the requests in lower case. Ends after
/// the last response.
pub(crate) fn serve(responses: Vec<Vec<u8>>) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = mpsc::channel();
    std::thread::spawn(move || {
        for response in responses {
            let (mut stream, _) = listener.accept().unwrap();
            let request: Vec<String> = BufReader::new(&stream)
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect();
            requests.send(request.join("\n").to_ascii_lowercase()).unwrap();
            stream.write_all(&response).unwrap();
        }
    });
    (address, received)
}

/// Returns a response with this status and header lines, and `body`.
pub(crate) fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
