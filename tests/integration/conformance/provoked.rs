//! Servers and interruptions that cause telemetry which an ordinary run does not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        "data: {{\"id\":\"a\",\"model\":\"m\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\
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

/// Returns the telemetry of a run with an exporter of GPUs of both vendors.
pub(super) fn gpus(collector: &OtlpReceiver) -> Exports {
    let scrapes = Arc::new(AtomicUsize::new(0));
    let address = raw_server::serve(move |_, stream| {
        while read_request(stream).is_some() {
            let joules = 100 * scrapes.fetch_add(1, Ordering::SeqCst);
            let (nvidia, amd) = ("{gpu=\"0\",UUID=\"N\"}", "{gpu_id=\"0\",serial_number=\"A\"}");
            let body = format!(
                "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{nvidia} 300\n\
                 # TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n\
                 DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{nvidia} {joules}000\n\
                 # TYPE gpu_package_power gauge\ngpu_package_power{amd} 600\n\
                 # TYPE gpu_energy_consumed counter\ngpu_energy_consumed{amd} {joules}000000\n"
            );
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length";
            write(stream, format!("{head}: {length}\r\n\r\n{body}").as_bytes());
        }
    });
    let (server, exporter) = (server(&[]), address.to_string());
    let gpus = ["--gpu-telemetry", &exporter, "--gpu-idle-duration", "0"];
    let load = ["--request-count", "4", "--concurrency", "2", "--goodput", "request_latency:60000"];
    let directory = tempfile::tempdir().unwrap();
    let prices = ["--gpu-hour-price", "2.5", "--power-price", "0.2"];
    let flags = [&gpus[..], &load, &prices].concat();
    let output = command(collector, &[&server.url()], directory.path(), &flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Exports::of(collector)
}

/// Returns the telemetry of a run of two phases, which a tenant has for itself.
pub(super) fn shared(collector: &OtlpReceiver) -> Exports {
    let server = server(&[]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tenants.yaml");
    std::fs::write(&file, "tenants: [{name: batch, rate: 200}]").unwrap();
    let phases = ["--phase", "calm: request-count=4", "--phase", "storm: request-count=8"];
    let flags = [&["--tenants", file.to_str().unwrap()][..], &phases].concat();
    let results = directory.path().join("results");
    let output = command(collector, &[&server.url()], &results, &flags).output().unwrap();
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
