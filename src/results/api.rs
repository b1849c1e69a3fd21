//! An HTTP API for the progress and the results of a run, while it goes on (`--api-port`).
//!
//! A thread of its own serves what the live view shows ([`Status`]); workers do nothing for it.
//! Connections, sizes and times are limited, and each connection serves one request.

mod body;
mod prometheus;
mod routes;
mod socket;
mod token;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use base::interrupt::Interrupter;
use base::lock::Lock;
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::redact::Secret;
use base::units::{Clock, Nanos};
use telemetry::MetricSet;

use self::routes::Service;
use self::socket::Socket;
use self::token::Token;
use crate::follow::{Delivered, Follower};
use crate::status::Status;

/// Maximum number of connections; more of them wait to be accepted.
const MAX_CONNECTIONS: usize = 100;

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Maximum time of a connection before its response starts, and of a response that is not a stream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that a client may take for the next part of a stream.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after failing to accept a connection, for example without file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Maximum time to wait for streams to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the API listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The port, 0 for a free one (`--api-port`); absent without an API.
    pub port: Option<u16>,
    /// The address or name of this machine to listen on (`--api-host`).
    pub host: String,
    /// The token of requests that need one (`--api-token`); by default, a random one.
    pub token: Option<Secret>,
    /// The metrics under `/metrics` (`--otel-metrics`).
    pub metric_set: MetricSet,
    /// How long the API answers after the files are written
    /// (`AIPERF_API_SERVER_POST_COMPLETE_GRACE`).
    pub grace: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: None,
            host: "127.0.0.1".to_owned(),
            token: None,
            metric_set: MetricSet::default(),
            grace: Nanos(5_000_000_000),
        }
    }
}

/// The API cannot be started.
#[derive(Debug, Error)]
pub enum ApiError {
    /// The address is in use, or does not belong to this machine.
    #[error(
        "--api-port: cannot listen on {host}:{port}: {why}; choose another port, or 0 for a free one"
    )]
    Listen { host: String, port: u16, why: io::Error },
    /// The thread or its event queue cannot be created.
    #[error("cannot start the thread of the HTTP API: {0}; close files or programs and try again")]
    Start(#[from] io::Error),
}

/// The reserved address, which is not served yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    token: Option<Secret>,
    metric_set: MetricSet,
}

impl Listener {
    /// Reserves the address of `config`, if it has one.
    pub fn bind(config: &Config) -> Result<Option<Self>, ApiError> {
        let Some(port) = config.port else { return Ok(None) };
        let failure = |why| ApiError::Listen { host: config.host.clone(), port, why };
        let host = config.host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(failure)?.collect();
        let listener = TcpListener::bind(&*addresses).map_err(failure)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (token, metric_set) = (config.token.clone(), config.metric_set);
        Ok(Some(Self { socket: listener, address, token, metric_set }))
    }

    /// Serves `status` until the [`Api`] is dropped, and for the time `grace` after the files are
    /// written; a request to end the run is a signal of `interrupter`.
    pub fn serve(
        self,
        status: Arc<Status>,
        interrupter: Interrupter,
        grace: Nanos,
    ) -> Result<Api, ApiError> {
        let Self { socket, address, token, metric_set } = self;
        let (token, generated) = Token::new_or_given(token);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let (stop, stopped) = watch::channel(false);
        let (alive, ended) = channel::<()>();
        let signals = interrupter.clone();
        let stopped_too = stopped.clone();
        let service =
            Service { status, interrupter, address, token, metric_set, stopped: stopped_too };
        let serve = move || {
            yield_to_measurement(Background::Timely);
            run(&runtime, listener, Arc::new(service), stopped);
            drop(runtime);
            drop(alive);
        };
        let thread = thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        let ended = Lock::new(ended);
        let interrupter = signals;
        Ok(Api { address, generated, interrupter, grace, stop, ended, thread: Some(thread) })
    }
}

/// The API while it is served. Dropping it ends it, within two seconds.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
    /// The token, if the user did not choose it.
    generated: Option<Secret>,
    interrupter: Interrupter,
    /// How long it answers after the files are written.
    grace: Nanos,
    stop: watch::Sender<bool>,
    /// Disconnected once the thread has ended; nothing is sent.
    ended: Lock<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Api {
    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the random token, to be printed and written nowhere; `None` if the user chose it.
    pub const fn generated_token(&self) -> Option<&Secret> {
        self.generated.as_ref()
    }
}

impl Follower for Api {
    /// Answers for a while, or until a signal.
    fn delivered(&self, _command: &Delivered<'_>) {
        let interrupt = self.interrupter.interrupt().since_now();
        interrupt.sleep_until(Clock::now() + self.grace);
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let is_over = self.ended.lock().recv_timeout(STOP_TIMEOUT);
        if is_over == Err(RecvTimeoutError::Disconnected)
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Serves until `stopped`, and then gives streams a moment for their last event.
fn run(
    runtime: &Runtime,
    listener: tokio::net::TcpListener,
    service: Arc<Service>,
    mut stopped: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let all = Arc::clone(&slots);
    runtime.block_on(async move {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = accept(listener, service, slots) => {}
        }
        let most = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(STOP_TIMEOUT / 2, all.acquire_many(most)).await;
    });
}

async fn accept(listener: tokio::net::TcpListener, service: Arc<Service>, slots: Arc<Semaphore>) {
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, Arc::clone(&service), slot))),
            Err(error) => {
                tracing::warn!("the HTTP API cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Serves one request.
async fn converse(stream: TcpStream, service: Arc<Service>, _slot: OwnedSemaphorePermit) {
    let (streams, mut is_stream) = watch::channel(false);
    let streams = Arc::new(streams);
    let answer = service_fn(move |request| {
        let (service, streams) = (Arc::clone(&service), Arc::clone(&streams));
        async move { service.answer(request, &streams) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(MAX_HEAD);
    let connection = http.serve_connection(Socket::new(stream), answer);
    let limit = async {
        tokio::time::sleep(REQUEST_TIMEOUT).await;
        if *is_stream.borrow_and_update() {
            // Streams have their own limits.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        served = connection => if let Err(error) = served {
            tracing::debug!("a connection to the HTTP API ended: {error}");
        },
        () = limit => tracing::debug!("a connection to the HTTP API took too long"),
    }
}
