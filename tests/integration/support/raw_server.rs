//! A server with plain sockets, whose responses are specified byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// Serves each connection with `answer` on its own thread; `answer` receives the number of the
/// connection, counted from 0.
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

/// Reads one request: its head, with header names in lower case, and the body of the announced
/// length. `None` if the client has closed the connection.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<String> {
    let request = read_as_sent(stream)?;
    let (head, body) = request.split_once("\r\n\r\n")?;
    let lower = |line: &str| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
        None => line.to_owned(),
    };
    let head: Vec<String> = head.split("\r\n").map(lower).collect();
    Some(format!("{}\r\n\r\n{body}", head.join("\r\n")))
}

/// Likewise, with unchanged names.
pub(crate) fn read_as_sent(stream: &mut impl Read) -> Option<String> {
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

/// Writes all of `bytes`; a client that has closed the connection is not an error.
pub(crate) fn write(stream: &mut impl Write, bytes: &[u8]) {
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
}

/// A connection with TLS.
pub(crate) type Tls = StreamOwned<ServerConnection, TcpStream>;

/// Returns the path of a file in `tests/golden/tls/`.
pub(crate) fn tls_file(name: &str) -> String {
    format!("{}/tests/golden/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Performs the server's side of a handshake as `localhost`; with `wants_certificate`, only clients
/// with a certificate of the tests' authority are accepted.
pub(crate) fn accept_tls(stream: &TcpStream, wants_certificate: bool) -> io::Result<Tls> {
    let mut stream = stream.try_clone()?;
    let mut connection = ServerConnection::new(tls_config(wants_certificate)).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

fn tls_config(wants_certificate: bool) -> Arc<ServerConfig> {
    let pem = |name| fs::read(tls_file(name)).unwrap();
    let certificate = |name| CertificateDer::from_pem_slice(&pem(name)).unwrap();
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if wants_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca.pem")).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(clients.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_slice(&pem("server.key")).unwrap();
    Arc::new(builder.with_single_cert(vec![certificate("server.pem")], key).unwrap())
}
