//! A server for many dialects with scripted timing, used by the demo and as ground truth in
//! tests.
//!
//! Content and timing of responses follow the [`Script`]: chunk `k` of a response is sent at
//! arrival + ttft + `k` × itl, even if an earlier chunk was late. Each word that it sends is
//! one token of the o200k vocabulary. Its `/metrics` have vLLM's format and count exactly what
//! was served; its [write log](MockServer::write_log) contains the instant at which each event
//! was handed to the kernel.
//!
//! A test of a client starts one with [`MockServer::start`]; `examples/client_test.rs` shows how.
//!
//! Endpoints: those of `docs/endpoints.md`; `GET /v1/models`, `/health`, `/version` and
//! `/metrics`. It supports HTTP/1, with or without TLS.

#![warn(missing_docs)]

mod activity;
mod connection;
mod dialect;
mod prefix_cache;
mod reply;
mod request;
mod schedule;
mod script;
mod service;
mod timing;
mod tls;
mod vocabulary;
mod write_log;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use base::lock::Lock;
use base::platform::receive::keep_stamping;
use base::timer::Timer;
use base::units::Clock;
pub use base::units::Nanos;

use self::connection::{Socket, Wire};
pub use self::prefix_cache::PrefixCacheSize;
pub use self::script::{
    FaultRule, Jitter, ReasoningPlace, Script, UsageReport, parse_duration, parse_fraction,
};
use self::service::{Connection, Service};
use self::timing::SpanSender;
pub use self::timing::{SpanExport, Timing, TimingForm};
use self::tls::Stream;
pub use self::tls::Tls;
pub use self::vocabulary::WORDS;
use self::write_log::WriteLog;
pub use self::write_log::{EventKind, EventLog, RequestLog, in_flight, read_write_log};

const JSON: &str = "application/json";

/// The settings of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The address to listen on; port 0 selects a free port.
    pub address: SocketAddr,
    /// Number of threads; 0 is treated as 1.
    pub threads: usize,
    /// Maximum number of events that the log keeps in memory, where each request counts as one
    /// more (about 70 bytes each); 0 keeps none.
    pub write_log_capacity: usize,
    /// A file to append the log to, one JSON object per request.
    pub write_log_file: Option<PathBuf>,
    /// The certificate of a server with TLS; without one, it does not use TLS.
    pub tls: Option<Tls>,
    /// Content and timing of responses.
    pub script: Script,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            write_log_capacity: 1 << 20,
            write_log_file: None,
            tls: None,
            script: Script::default(),
        }
    }
}

/// An error starting the server, or in its script.
#[derive(Debug, thiserror::Error)]
pub enum MockServerError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {why}; choose another address, or port 0 for a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        why: io::Error,
    },
    /// A thread, timer or event queue could not be created.
    #[error(
        "cannot start the mock server's threads: {source}; close files or programs and try again"
    )]
    Start {
        /// The system's error.
        #[from]
        source: io::Error,
    },
    /// The write log's file cannot be opened.
    #[error("cannot append to the write log {}: {why}; use a file in a writable \
             directory", path.display())]
    WriteLog {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// A certificate or a key cannot be used.
    #[error("cannot use {} for TLS: {why}; use a certificate and its key in PEM files", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A line of a write log is invalid.
    #[error(
        "cannot read line {line} of the write log: {why}; use the file of --write-log as it is once \
         the server has stopped"
    )]
    ReadWriteLog {
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A fault rule is invalid.
    #[error("the fault {rule:?} {problem}; expected SELECTOR:FAULT, such as every=9:status=500")]
    Fault {
        /// The rule as given.
        rule: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A duration is invalid.
    #[error(
        "{text:?} is not a valid duration; expected a number with the unit ns, us, ms or s, such \
         as 250ms"
    )]
    Duration {
        /// The text as given.
        text: String,
    },
    /// A jitter is invalid.
    #[error(
        "{text:?} is not a valid jitter; expected a percentage up to 100%, such as 10%, or a \
         standard deviation, such as 2ms"
    )]
    Jitter {
        /// The text as given.
        text: String,
    },
    /// The script is invalid.
    #[error("the mock server's script {problem}")]
    Script {
        /// What is wrong with it, and what to do about it.
        problem: &'static str,
    },
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct MockServer {
    address: SocketAddr,
    service: Arc<Service>,
    stop: watch::Sender<bool>,
    threads: Lock<Option<Threads>>,
}

#[derive(Debug)]
struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Disconnected once all threads have ended.
    ended: Receiver<()>,
}

/// Maximum time to wait for the threads to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of connections waiting for a thread.
const HANDOVER: usize = 1024;
/// Maximum number of connections waiting to be accepted, larger than a benchmark's burst.
const BACKLOG: u32 = 4096;
/// Pause after failing to accept a connection, for example without file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

impl MockServer {
    /// Starts the server on its own threads.
    pub fn start(config: Config) -> Result<Self, MockServerError> {
        config.script.check()?;
        keep_stamping();
        let tls = config.tls.map(|tls| tls.config()).transpose()?;
        // Decoded on first use, which must not delay the first request.
        vocabulary::load();
        let runtimes =
            (0..config.threads.max(1)).map(|_| runtime()).collect::<io::Result<Vec<_>>>()?;
        let listener = listen(&runtimes[0], config.address)?;
        let address = listener.local_addr()?;
        let log = write_log(config.write_log_capacity, config.write_log_file)?;
        let spans = config.script.timing.and_then(|timing| timing.spans);
        let spans = spans.map(SpanSender::start).transpose()?.map(Arc::new);
        let service = Arc::new(Service::new(config.script, tls, log, spans));
        let (stop, stopped) = watch::channel(false);
        let threads = spawn(runtimes, listener, &service, &stopped)?;
        Ok(Self { address, service, stop, threads: Lock::new(Some(threads)) })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns its base URL, such as `http://127.0.0.1:8000`, or with `https` if it uses TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.service.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the highest number of concurrent inference requests, including waiting ones.
    #[must_use]
    pub fn peak_in_flight(&self) -> u64 {
        self.service.activity.peak_in_flight()
    }

    /// Returns the number of inference requests received, except those with an invalid body.
    #[must_use]
    pub fn requests_received(&self) -> u64 {
        self.service.activity.received()
    }

    /// Returns the number of inference requests completed, including scripted errors.
    #[must_use]
    pub fn requests_served(&self) -> u64 {
        self.service.activity.served()
    }

    /// Returns the inference requests that ended, in the order in which they ended.
    #[must_use]
    pub fn write_log(&self) -> Vec<RequestLog> {
        self.service.log.as_ref().map(|log| log.requests()).unwrap_or_default()
    }

    /// Returns the number of requests dropped from the log because memory or the file's queue was
    /// full.
    #[must_use]
    pub fn write_log_dropped(&self) -> u64 {
        self.service.log.as_ref().map_or(0, |log| log.dropped())
    }

    /// Closes all connections, stops the threads and completes the log file, within two seconds.
    /// Counters and log can still be read afterwards.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        let threads = self.threads.lock().take();
        let Some(Threads { handles, ended }) = threads else { return };
        // Nothing is ever sent: the wait ends by disconnection or by timeout.
        if ended.recv_timeout(STOP_TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
        {
            for handle in handles {
                let _ = handle.join();
            }
        }
        if let Some(log) = &self.service.log {
            log.close();
        }
        if let Some(spans) = &self.service.spans {
            spans.close();
        }
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn write_log(
    capacity: usize,
    file: Option<PathBuf>,
) -> Result<Option<Arc<WriteLog>>, MockServerError> {
    if capacity == 0 && file.is_none() {
        return Ok(None);
    }
    match WriteLog::new(capacity, file.as_deref()) {
        Ok(log) => Ok(Some(Arc::new(log))),
        Err(why) => Err(MockServerError::WriteLog { path: file.unwrap_or_default(), why }),
    }
}

fn listen(runtime: &Runtime, address: SocketAddr) -> Result<TcpListener, MockServerError> {
    let _context = runtime.enter();
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|why| MockServerError::Listen { address, why })
}

/// Starts a thread for each runtime; the first one also accepts connections for all, round-robin.
fn spawn(
    runtimes: Vec<Runtime>,
    listener: TcpListener,
    service: &Arc<Service>,
    stopped: &watch::Receiver<bool>,
) -> io::Result<Threads> {
    let (alive, ended) = channel();
    let (senders, receivers): (Vec<_>, Vec<_>) =
        runtimes.iter().map(|_| mpsc::channel(HANDOVER)).unzip();
    if let Some(first) = runtimes.first() {
        first.spawn(accept(listener, senders));
    }
    let mut handles = Vec::new();
    for (index, (runtime, connections)) in runtimes.into_iter().zip(receivers).enumerate() {
        let (service, mut stopped, alive) = (service.clone(), stopped.clone(), alive.clone());
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                    () = serve(service, connections) => {}
                }
            });
            // Its tasks, and with them the connections, end before the thread reports its end.
            drop(runtime);
            drop(alive);
        };
        handles.push(std::thread::Builder::new().name(format!("mock-{index}")).spawn(run)?);
    }
    Ok(Threads { handles, ended })
}

/// A connection, and the instant when it was accepted.
type Accepted = (std::net::TcpStream, Nanos);

async fn accept(listener: TcpListener, workers: Vec<mpsc::Sender<Accepted>>) {
    for worker in workers.iter().cycle() {
        let accepted = loop {
            let accepted = listener.accept().await;
            let now = Clock::now();
            match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => break (stream, now),
                Err(error) => {
                    tracing::warn!("the mock server cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        };
        if worker.send(accepted).await.is_err() {
            return;
        }
    }
}

async fn serve(service: Arc<Service>, mut connections: mpsc::Receiver<Accepted>) {
    let timer = match Timer::new() {
        Ok(timer) => timer,
        Err(error) => {
            tracing::error!("the mock server's timer failed, so it stops: {error}");
            return;
        }
    };
    tokio::spawn(timer.clone().run());
    while let Some((stream, accepted)) = connections.recv().await {
        let stream = stream.set_nodelay(true).and_then(|()| TcpStream::from_std(stream));
        match stream {
            Ok(stream) => {
                let talk = converse(stream, accepted, service.clone(), timer.clone());
                drop(tokio::spawn(talk));
            }
            Err(error) => tracing::debug!("lost a connection to the mock server: {error}"),
        }
    }
}

async fn converse(stream: TcpStream, accepted: Nanos, service: Arc<Service>, timer: Timer) {
    let stream = match open(stream, accepted, &service, &timer).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!("a connection to the mock server failed: {error}");
            return;
        }
    };
    let wire = Arc::new(Wire::new(accepted));
    let socket = Socket::new(stream, wire.clone(), &timer);
    let connection = Connection { service, wire, timer };
    let answer = service_fn(move |request| connection.clone().answer(request));
    if let Err(error) = http1::Builder::new().serve_connection(socket, answer).await {
        tracing::debug!("a connection to the mock server ended: {error}");
    }
}

/// Waits until the script has the connection read, and performs the TLS handshake if there is one.
async fn open(
    stream: TcpStream,
    accepted: Nanos,
    service: &Service,
    timer: &Timer,
) -> io::Result<Stream> {
    let Script { accept_delay, tls_delay, .. } = service.script;
    timer.until(accepted + accept_delay).await;
    let Some(config) = &service.tls else { return Ok(Stream::plain(stream)) };
    if tls_delay > Nanos::ZERO {
        stream.readable().await?;
        timer.until(Clock::now() + tls_delay).await;
    }
    Stream::accept(stream, config).await
}
