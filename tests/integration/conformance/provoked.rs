//! Servers and interruptions that cause telemetry which an ordinary run does not.

use std::net::SocketAddr;

use rustix::process::Signal;

use super::{Exports, command, server};
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::raw_server::{self, accept_tls, read_request, tls_file, write};
use crate::support::run::signal;

/// A usage with all counts that any vendor reports, which do not match the response.
const USAGE: &str = r#"{"prompt_tokens":900,"completion_tokens":700,"total_tokens":1600,
    "prompt_cache_miss_tokens":5,"toolUsePromptTokenCount":3,"prompt_audio_seconds":1.5,
    "prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":6,"audio_tokens":7},
    "completion_tokens_details":{"reasoning_tokens":2,"audio_tokens":8,
    "accepted_prediction_tokens":9,"rejected_prediction_tokens":4}}"#;

/// One word, with [`USAGE`].
fn answer() -> String {
    let usage = USAGE.replace('\n', "");
    let body = format!(
        "data: {{\"id\":\"a\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\
         \"hi\"}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{\"id\":\"a\",\"model\":\"m\",\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
    );
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A server whose first connection is closed on its second request.
pub(super) fn strange_server() -> SocketAddr {
    let answer = answer();
    raw_server::serve(move |number, stream| {
        for answered in 0.. {
            if read_request(stream).is_none() || number == 0 && answered == 1 {
                return;
            }
            write(stream, answer.as_bytes());
        }
    })
}

/// Returns the telemetry of a run whose requests resolve a name, wait for a connection and open it
/// with TLS.
pub(super) fn secured(collector: &OtlpReceiver) -> Exports {
    let answer = answer();
    let address = raw_server::serve(move |_, stream| {
        let Ok(mut stream) = accept_tls(stream, false) else { return };
        while read_request(&mut stream).is_some() {
            write(&mut stream, answer.as_bytes());
        }
    });
    let (url, authority) = (format!("https://localhost:{}", address.port()), tls_file("ca.pem"));
    let flags = ["--ssl-ca-cert", &authority, "--no-server-metrics"];
    let load = ["--request-count", "6", "--concurrency", "2"];
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(collector, &[&url], directory.path(), &[&flags[..], &load].concat());
    let output = command.env("AIPERF_HTTP_CONNECTION_LIMIT", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Exports::of(collector)
}

/// Returns the telemetry of a run that the user interrupts in the middle of its sessions.
pub(super) fn interrupted(collector: &OtlpReceiver) -> Exports {
    let server = server(&[]);
    let directory = tempfile::tempdir().unwrap();
    let flags = "--concurrency 4 --num-sessions 100000 --session-turns-mean 50 --num-prompts 20";
    let flags: Vec<&str> = flags.split(' ').collect();
    let url = server.url();
    let child = command(collector, &[&url], directory.path(), &flags).spawn().unwrap();
    while server.requests_received() < 40 {
        std::thread::yield_now();
    }
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    Exports::of(collector)
}
