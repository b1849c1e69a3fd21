//! How the test of a client uses the server: it starts one with a script, sends a request, and looks
//! at the response and at what the server recorded.
//!
//! ```sh
//! cargo run -p aiperf-mock-server --example client_test
//! ```

#![expect(clippy::disallowed_methods, reason = "a client of another project has its own clock")]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use aiperf_mock_server::{Config, MockServer, Nanos, Script};

/// Sends a chat request as the client under test would, and returns the whole response.
fn send(server: &MockServer) -> Result<String, Box<dyn Error>> {
    let body = r#"{"model":"any","messages":[{"role":"user","content":"Hello"}],"stream":true}"#;
    let length = body.len();
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

fn main() -> Result<(), Box<dyn Error>> {
    let script = Script {
        ttft: Nanos::from_seconds(0.2),
        itl: Nanos::from_seconds(0.05),
        output_tokens: 4,
        // The second request fails.
        faults: vec!["requests=2:status=503,overloaded".parse()?],
        ..Script::default()
    };
    let server = MockServer::start(Config { script, ..Config::default() })?;

    let start = Instant::now();
    let response = send(&server)?;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    // A role, four tokens and the end marker; the last token is due 3 gaps after the first one.
    assert!(start.elapsed() >= Duration::from_millis(350));

    let response = send(&server)?;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    assert!(response.contains("overloaded"), "{response}");
    assert_eq!(server.requests_served(), 2);
    Ok(())
}
