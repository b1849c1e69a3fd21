//! The time from the start of the program to its first request.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::machine::{AIPERF, Side};

/// Time limit for the request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Milliseconds from the start of the process until its first request has arrived, with the embedded
/// tokenizer and 100 prompts of 100 tokens.
pub(crate) fn milliseconds() -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let (arrived, arrival) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let arrived = arrived.clone();
            thread::spawn(move || look_for_request(stream, &arrived));
        }
    });
    let directory = tempfile::tempdir()?;
    let start = Instant::now();
    let mut client = Side::Client
        .command(AIPERF)
        .args(["profile", "--model", "mock-model", "--tokenizer", "builtin", "--ui", "none"])
        .args(["--isl", "100", "--osl", "16", "--num-prompts", "100", "--request-count", "1"])
        .args(["--url", &url, "--artifact-dir"])
        .arg(directory.path().join("run"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let first = arrival.recv_timeout(TIMEOUT);
    // The request gets no response.
    client.kill()?;
    client.wait()?;
    let first: Instant = first.context("no request has arrived")?;
    Ok(first.duration_since(start).as_secs_f64() * 1e3)
}

/// Sends the time at which the connection's first bytes have arrived, if they are those of a `POST`.
fn look_for_request(mut stream: TcpStream, arrived: &Sender<Instant>) {
    let mut method = [0; 4];
    if stream.read_exact(&mut method).is_ok() && method == *b"POST" {
        // Later ones are not waited for.
        let _ = arrived.send(Instant::now());
        // Until the client closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}
