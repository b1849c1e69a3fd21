//! A dialect for tests only: a job that ends when its script has it end, and whose result is not
//! text.

use std::io::{Read, Write};
use std::net::TcpStream;

use base::units::{Clock, Nanos};

use super::{Call, Dialect, LookupResult, Route};
use crate::reply::Reply;
use crate::request::{self, Ask, BadRequest};
use crate::{Config, MockServer, Script};

#[derive(Debug)]
pub(super) struct Proof;

impl Dialect for Proof {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::look_up("/proof/{id}"), Route::generate("/proof")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        match call.content_type {
            Some("application/octet-stream") => Ok(Ask::from_prompts(Vec::new())),
            _ => Err(request::missing("bytes")),
        }
    }

    fn is_job(&self) -> bool {
        true
    }

    fn media_type(&self, _reply: &Reply) -> &'static str {
        "text/plain"
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        reply.ready.0.to_string().into_bytes()
    }

    fn look_up(&self, call: &Call<'_>, now: Nanos) -> Option<LookupResult> {
        let ready: u64 = call.name.as_deref()?.parse().ok()?;
        let body: &[u8] = if now.0 < ready { b"wait" } else { &[0xff, 0x00] };
        Some(LookupResult { media_type: "image/x-proof", body: body.into() })
    }
}

/// Sends a request of one line and these headers, and returns the head and the body of the
/// response.
fn ask(server: &MockServer, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    write!(stream, "{request}\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
}

#[test]
fn a_job_is_answered_at_once_and_looked_up_later() {
    let script = Script { ttft: Nanos(50_000_000), output_tokens: 1, ..Script::default() };
    let server = MockServer::start(Config { script, ..Config::default() }).unwrap();
    let refused = ask(&server, "POST /proof HTTP/1.1");
    assert!(refused.0.starts_with("HTTP/1.1 400"), "{refused:?}");

    let (head, id) = ask(&server, "POST /proof HTTP/1.1\r\ncontent-type: application/octet-stream");
    assert!(head.contains("content-type: text/plain"), "{head}");
    let id = String::from_utf8(id).unwrap();
    let ready = Nanos(id.parse().unwrap());
    let look = || ask(&server, &format!("GET /proof/{id} HTTP/1.1"));
    let before = look();
    // If the first lookup was late, it proves nothing about the wait.
    if Clock::now() < ready {
        assert_eq!(before.1, b"wait");
        assert_eq!(server.requests_served(), 0);
    }
    while Clock::now() < ready {
        std::thread::yield_now();
    }
    let (head, body) = look();
    assert!(head.contains("content-type: image/x-proof"), "{head}");
    assert_eq!(body, [0xff, 0x00]);
    assert_eq!(server.requests_received(), 1);
    assert!(ask(&server, "GET /proof/x HTTP/1.1").0.starts_with("HTTP/1.1 404"));
}
