//! The reference client: it stamps what it reads and does nothing else. Its errors are those of the
//! machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use base::units::{Clock, Nanos};

use super::client::{Countings, Definition, End};
use super::figure::{Figure, Figures, Statistic};
use super::hazard::{Arrivals, Load};

/// Maximum duration of a request.
const TIMEOUT: Duration = Duration::from_mins(1);

/// How the reference client defines its figures.
pub(crate) fn definition() -> Definition {
    Definition {
        end: End::Stream,
        last_token: Some(End::Content),
        output_tokens: Countings::default(),
        ..Definition::default()
    }
}

/// The server and what is sent to it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Its host and port.
    pub(crate) authority: String,
    /// The certificate of its authority as PEM, if it uses TLS.
    pub(crate) authority_pem: Option<String>,
    /// The body of each request.
    pub(crate) body: String,
}

/// The observations of one request, as times since its start in seconds.
#[derive(Debug, Clone, Default)]
struct Observed {
    failed: bool,
    start: Nanos,
    end: Nanos,
    contents: Vec<Nanos>,
    words: u64,
    usage: Option<u64>,
}

/// Puts a load on the server and returns the figures by [`definition`].
///
/// # Errors
///
/// If the runtime or the certificate cannot be used. Requests that fail are counted instead.
pub(crate) fn run(target: &Target, load: &Load) -> anyhow::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Arc::new(Client::new(target)?);
    let observed = runtime.block_on(async {
        match load.arrivals {
            Arrivals::Closed(streams) => closed(&client, streams, load.requests).await,
            Arrivals::Open(rate) => open(&client, rate, load.requests).await,
        }
    });
    Ok(figures(&observed))
}

async fn closed(client: &Arc<Client>, streams: u64, requests: u64) -> Vec<Observed> {
    let sent = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..streams.min(requests) {
        let (client, sent) = (client.clone(), sent.clone());
        tasks.spawn(async move {
            let mut connection = None;
            let mut observed = Vec::new();
            while sent.fetch_add(1, Ordering::Relaxed) < requests {
                observed.push(client.send(&mut connection).await);
            }
            observed
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

async fn open(client: &Arc<Client>, rate: f64, requests: u64) -> Vec<Observed> {
    let begun = tokio::time::Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..requests {
        sleep_until(begun + Duration::from_secs_f64(number as f64 / rate)).await;
        let client = client.clone();
        tasks.spawn(async move { client.send(&mut None).await });
    }
    tasks.join_all().await
}

type Connection = SendRequest<Full<Bytes>>;

struct Client {
    target: Target,
    tls: Option<TlsConnector>,
}

impl Client {
    fn new(target: &Target) -> anyhow::Result<Self> {
        let connector = |pem: &String| -> anyhow::Result<TlsConnector> {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
            let config = ClientConfig::builder().with_root_certificates(roots);
            Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
        };
        let tls = target.authority_pem.as_ref().map(connector).transpose()?;
        Ok(Self { target: target.clone(), tls })
    }

    /// Sends a request on the connection of an earlier one, or on a new one.
    async fn send(&self, connection: &mut Option<Connection>) -> Observed {
        let start = Clock::now();
        let mut observed = Observed { start, ..Observed::default() };
        let result = timeout(TIMEOUT, self.exchange(connection, &mut observed)).await;
        if !matches!(result, Ok(Ok(()))) {
            observed.failed = true;
            *connection = None;
        }
        observed.end = Clock::now();
        observed
    }

    async fn exchange(
        &self,
        connection: &mut Option<Connection>,
        observed: &mut Observed,
    ) -> anyhow::Result<()> {
        let usable = match connection.as_mut() {
            Some(kept) => kept.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            *connection = Some(self.connect().await?);
        }
        let sender = connection.as_mut().context("there is no connection")?;
        let request = Request::post("/v1/chat/completions")
            .header(HOST, &self.target.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(self.target.body.clone()))?;
        read(sender.send_request(request).await?, observed).await
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.target.authority).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(sender);
        };
        let name = ServerName::try_from("localhost")?;
        let stream = tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Reads a stream of events.
async fn read(mut response: Response<Incoming>, observed: &mut Observed) -> anyhow::Result<()> {
    ensure!(response.status().is_success(), "the status is {}", response.status());
    let mut unread = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let at = Clock::now();
        let Ok(data) = frame?.into_data() else { continue };
        unread.extend_from_slice(&data);
        while let Some(end) = unread.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = unread.drain(..end + 2).collect();
            let Some(data) = event.strip_prefix(b"data: ") else { continue };
            if let Ok(event) = serde_json::from_slice::<Value>(data) {
                ensure!(event.get("error").is_none(), "the stream has an error");
                observed.take(&event, at);
            }
        }
    }
    Ok(())
}

impl Observed {
    fn take(&mut self, event: &Value, at: Nanos) {
        let count = event.pointer("/usage/completion_tokens").and_then(Value::as_u64);
        self.usage = count.or(self.usage);
        for choice in event["choices"].as_array().into_iter().flatten() {
            let delta = &choice["delta"];
            let call = &delta["tool_calls"][0]["function"];
            let texts = [
                &delta["content"],
                &delta["reasoning_content"],
                &delta["reasoning"],
                &call["arguments"],
            ];
            let texts = texts.into_iter().filter_map(Value::as_str);
            let words: usize = texts.clone().map(|text| text.split_whitespace().count()).sum();
            if texts.into_iter().any(|text| !text.is_empty()) || call["name"].is_string() {
                self.contents.push(at);
                self.words += words as u64;
            }
        }
    }

    fn since_start(&self, at: Nanos) -> f64 {
        at.since(self.start).as_seconds()
    }

    fn tokens(&self) -> u64 {
        self.usage.unwrap_or(self.words)
    }
}

fn figures(observed: &[Observed]) -> Figures {
    let percentiles = definition().percentiles;
    let successful: Vec<_> = observed.iter().filter(|one| !one.failed).collect();
    let mut figures = Figures::new();
    let mut add = |figure, value: &dyn Fn(&Observed) -> Vec<f64>| {
        let values = successful.iter().flat_map(|one| value(one)).collect();
        percentiles.add(&mut figures, figure, values);
    };
    let first = |one: &Observed| one.contents.first().map(|at| one.since_start(*at));
    add(Figure::TimeToFirstToken, &|one| first(one).into_iter().collect());
    add(Figure::RequestLatency, &|one| vec![one.since_start(one.end)]);
    add(Figure::InterTokenLatency, &|one| match one.contents[..] {
        [first, .., last] if one.tokens() > 1 => {
            vec![last.since(first).as_seconds() / (one.tokens() - 1) as f64]
        }
        _ => Vec::new(),
    });
    add(Figure::InterChunkLatency, &|one| {
        one.contents.windows(2).map(|pair| pair[1].since(pair[0]).as_seconds()).collect()
    });
    let tokens: u64 = successful.iter().map(|one| one.tokens()).sum();
    let mut value = |figure, value: f64| figures.insert((figure, Statistic::Value), value);
    value(Figure::RequestCount, successful.len() as f64);
    value(Figure::ErrorRequestCount, (observed.len() - successful.len()) as f64);
    value(Figure::OutputTokens, tokens as f64);
    let begun = observed.iter().map(|one| one.start).min();
    let ended = observed.iter().map(|one| one.end).max();
    if let (Some(begun), Some(ended)) = (begun, ended) {
        let seconds = ended.since(begun).as_seconds();
        value(Figure::BenchmarkDuration, seconds);
        value(Figure::OutputTokenThroughput, tokens as f64 / seconds);
        value(Figure::RequestThroughput, successful.len() as f64 / seconds);
    }
    figures
}
