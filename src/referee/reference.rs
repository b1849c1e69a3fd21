//! The reference client: it sends, and stamps what it reads by the kernel's timestamps. Its errors are
//! those of the machine.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use memchr::memmem::find;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use base::platform::receive::{Receiver, keep_stamping};
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
struct Exchange {
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

async fn closed(client: &Arc<Client>, streams: u64, requests: u64) -> Vec<Exchange> {
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

async fn open(client: &Arc<Client>, rate: f64, requests: u64) -> Vec<Exchange> {
    let begun = tokio::time::Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..requests {
        sleep_until(begun + Duration::from_secs_f64(number as f64 / rate)).await;
        let client = client.clone();
        tasks.spawn(async move { client.send(&mut None).await });
    }
    tasks.join_all().await
}

/// A connection.
enum Connection {
    Plain(TcpStream, Receiver),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Sends a request on a new connection without TLS. Nothing else happens in between, so that many of
    /// them do not delay each other.
    fn plain(target: &Target, request: &[u8]) -> io::Result<Self> {
        let mut stream = std::net::TcpStream::connect(&target.authority)?;
        stream.set_nodelay(true)?;
        stream.write_all(request)?;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        let receiver = Receiver::new(&stream, true);
        Ok(Self::Plain(stream, receiver))
    }

    async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tls(stream) => stream.write_all(bytes).await,
            Self::Plain(stream, _) => {
                while !bytes.is_empty() {
                    match stream.try_write(bytes) {
                        Ok(written) => bytes = &bytes[written..],
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            stream.writable().await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads into `buffer`. Returns the number of bytes, and when they came.
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Nanos)> {
        match self {
            Self::Tls(stream) => {
                let bytes = stream.read(buffer).await?;
                Ok((bytes, Clock::now()))
            }
            Self::Plain(stream, receiver) => loop {
                stream.readable().await?;
                match receiver.receive(stream, buffer) {
                    Ok(read) => {
                        let at = read.stamp_ns.and_then(Clock::of_recent_wall_ns);
                        return Ok((read.bytes, at.unwrap_or_else(Clock::now)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            },
        }
    }
}

struct Client {
    target: Target,
    request: Vec<u8>,
    tls: Option<TlsConnector>,
}

impl Client {
    fn new(target: &Target) -> anyhow::Result<Self> {
        keep_stamping();
        let connector = |pem: &String| -> anyhow::Result<TlsConnector> {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots);
            Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
        };
        let tls = target.authority_pem.as_ref().map(connector).transpose()?;
        let Target { authority, body, .. } = target;
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {authority}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(Self { target: target.clone(), request: request.into_bytes(), tls })
    }

    /// Sends a request on the connection of an earlier one, or on a new one.
    async fn send(&self, kept: &mut Option<Connection>) -> Exchange {
        let start = Clock::now();
        let mut observed = Exchange { start, end: start, ..Exchange::default() };
        let exchange = async {
            let mut connection = self.sent_on(kept.take()).await?;
            read(&mut connection, &mut observed).await?;
            anyhow::Ok(connection)
        };
        match timeout(TIMEOUT, exchange).await {
            Ok(Ok(connection)) => *kept = Some(connection),
            _ => observed.failed = true,
        }
        observed
    }

    /// Sends the request; returns the connection that has it.
    async fn sent_on(&self, kept: Option<Connection>) -> anyhow::Result<Connection> {
        if let Some(mut connection) = kept
            && connection.write(&self.request).await.is_ok()
        {
            return Ok(connection);
        }
        let Some(tls) = &self.tls else {
            return Ok(Connection::plain(&self.target, &self.request)?);
        };
        let stream = TcpStream::connect(&self.target.authority).await?;
        stream.set_nodelay(true)?;
        let stream = tls.connect(ServerName::try_from("localhost")?, stream).await?;
        let mut connection = Connection::Tls(Box::new(stream));
        connection.write(&self.request).await?;
        Ok(connection)
    }
}

/// Reads a response as the mock server sends it: an event in each chunk, or a body with a length.
async fn read(connection: &mut Connection, observed: &mut Exchange) -> anyhow::Result<()> {
    let (mut buffer, mut unread) = (vec![0; 1 << 16], Vec::new());
    let mut head: Option<(bool, usize)> = None;
    loop {
        let (bytes, at) = connection.read(&mut buffer).await?;
        ensure!(bytes > 0, "the connection was closed");
        observed.end = at;
        unread.extend_from_slice(&buffer[..bytes]);
        if head.is_none()
            && let Some(end) = find(&unread, b"\r\n\r\n")
        {
            let text = String::from_utf8_lossy(&unread[..end]).to_ascii_lowercase();
            let length = text.split("content-length: ").nth(1).and_then(|it| it.lines().next());
            let length = length.and_then(|length| length.parse().ok()).unwrap_or(usize::MAX);
            head = Some((text.starts_with("http/1.1 200"), length));
            unread.drain(..end + 4);
        }
        let Some((is_ok, length)) = head else { continue };
        if unread.len() >= length {
            ensure!(is_ok, "the status is not 200");
            return Ok(());
        }
        while let Some(start) = find(&unread, b"data: ")
            && let Some(end) = find(&unread[start..], b"\n\n")
        {
            if let Ok(event) = serde_json::from_slice::<Value>(&unread[start + 6..start + end]) {
                ensure!(event.get("error").is_none(), "the stream has an error");
                observed.take(&event, at);
            }
            unread.drain(..start + end + 2);
        }
        if unread.ends_with(b"\r\n0\r\n\r\n") {
            return Ok(());
        }
    }
}

impl Exchange {
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

fn figures(observed: &[Exchange]) -> Figures {
    let percentiles = definition().percentiles;
    let successful: Vec<_> = observed.iter().filter(|one| !one.failed).collect();
    let mut figures = Figures::new();
    let mut add = |figure, value: &dyn Fn(&Exchange) -> Vec<f64>| {
        let values = successful.iter().flat_map(|one| value(one)).collect();
        percentiles.add(&mut figures, figure, values);
    };
    let first = |one: &Exchange| one.contents.first().map(|at| one.since_start(*at));
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
