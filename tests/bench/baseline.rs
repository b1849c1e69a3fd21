//! The limits of the machine: a loop around the same HTTP stack that does not measure anything, and
//! wrk.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::machine::Side;

/// The load: the request, its number and its concurrency.
pub(crate) struct Load<'a> {
    pub(crate) url: &'a str,
    pub(crate) concurrency: usize,
    pub(crate) duration: Duration,
    pub(crate) body: String,
}

const PATH: &str = "/v1/chat/completions";

/// A request with a prompt of about 100 tokens and a limit of `output_tokens`.
pub(crate) fn body(output_tokens: u64, stream: bool) -> String {
    let mut prompt = String::new();
    for number in 0..50 {
        // Writing to a string cannot fail.
        let _ = write!(prompt, "word {number} ");
    }
    serde_json::json!({
        "model": "mock-model",
        "messages": [{"role": "user", "content": prompt}],
        "max_completion_tokens": output_tokens,
        "stream": stream,
    })
    .to_string()
}

/// Requests per second of hyper on one thread.
pub(crate) fn hyper(load: &Load<'_>) -> anyhow::Result<f64> {
    std::thread::scope(|scope| {
        let looping = scope.spawn(|| {
            Side::Client.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, rate(load))
        });
        looping.join().map_err(|_| anyhow::anyhow!("the loop panicked"))?
    })
}

async fn rate(load: &Load<'_>) -> anyhow::Result<f64> {
    let address = load.url.strip_prefix("http://").context("a URL of the mock server")?.to_owned();
    let body = Bytes::from(load.body.clone());
    let start = Instant::now();
    let end = start + load.duration;
    let mut clients = Vec::new();
    for _ in 0..load.concurrency {
        let client = client(address.clone(), body.clone(), end);
        clients.push(tokio::task::spawn_local(client));
    }
    let mut requests = 0;
    for client in clients {
        requests += client.await??;
    }
    Ok(requests as f64 / start.elapsed().as_secs_f64())
}

async fn client(address: String, body: Bytes, end: Instant) -> anyhow::Result<u64> {
    let stream = TcpStream::connect(&address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(connection);
    let mut requests = 0;
    while Instant::now() < end {
        ask(&mut sender, &address, body.clone()).await?;
        requests += 1;
    }
    Ok(requests)
}

async fn ask(sender: &mut SendRequest<Full<Bytes>>, host: &str, body: Bytes) -> anyhow::Result<()> {
    let request = http::Request::post(PATH)
        .header("host", host)
        .header("content-type", "application/json")
        .body(Full::new(body))?;
    let mut response = sender.send_request(request).await?;
    while let Some(frame) = response.frame().await {
        frame?;
    }
    sender.ready().await?;
    Ok(())
}

/// Requests per second of wrk on one thread; `None` if it is not installed.
pub(crate) fn wrk(load: &Load<'_>) -> anyhow::Result<Option<f64>> {
    if Command::new("wrk").arg("--version").output().is_err() {
        return Ok(None);
    }
    let seconds = load.duration.as_secs().max(1);
    let output = Side::Client
        .command("wrk")
        .args(["--threads", "1", "--connections", &load.concurrency.to_string()])
        .args(["--duration", &format!("{seconds}s"), "--script"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/post.lua"))
        .arg(format!("{}{PATH}", load.url))
        .env("BODY", &load.body)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    Ok(Some(rate.context("wrk told no rate")?.trim().parse()?))
}
