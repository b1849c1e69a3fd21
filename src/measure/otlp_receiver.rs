//! Receives the spans that servers send about the requests of a run (`--otel-receiver`), and joins
//! them with the records of these requests.
//!
//! A thread of its own serves OTLP over gRPC and HTTP ([`connection`], [`service`]). Requests are
//! read span by span ([`wire`], [`json`]); a [`table`] keeps those that may be of this run. Finished
//! records wait for theirs between the queue and the processors ([`join`]). Everything is bounded,
//! and workers do nothing for it.

mod connection;
mod join;
mod json;
mod report;
mod service;
pub mod status;
mod table;
mod wire;

#[cfg(test)]
mod fixture;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use serde::Serialize;
use thiserror::Error;
use tokio::sync::oneshot;

pub use self::join::SpanJoin;
pub use self::report::ReceiverReport;
pub use self::wire::request as request_of;

use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::units::Nanos;
use client::record::TraceShare;

use self::service::Service;

/// Settings of the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// Address and port to listen on; port 0 for a free one (`--otel-receiver`).
    pub address: String,
    /// Maximum time that a record waits for the spans of its request after the request has ended
    /// (`--otel-receiver-wait`).
    pub wait: Nanos,
}

impl Config {
    /// The address without a value: a free port of the loopback interface.
    pub const LOOPBACK: &'static str = "127.0.0.1:0";

    /// The default time that records wait: a batch of five seconds, and twice its export.
    pub const WAIT: Nanos = Nanos(10_000_000_000);
}

/// The receiver cannot be started.
#[derive(Debug, Error)]
pub enum ReceiverError {
    /// The address is in use, or does not belong to this machine.
    #[error(
        "--otel-receiver: cannot listen on {address}: {why}; choose another port, or 0 for a free \
         one"
    )]
    Listen { address: String, why: io::Error },
    /// The thread or its event queue cannot be created.
    #[error(
        "cannot start the thread that receives spans: {0}; close files or programs and try again"
    )]
    Start(#[from] io::Error),
}

/// The reserved address, which is not served yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    wait: Nanos,
}

impl Listener {
    /// Reserves the address of `config`.
    pub fn bind(config: &Config) -> Result<Self, ReceiverError> {
        let failure = |why| ReceiverError::Listen { address: config.address.clone(), why };
        let addresses: Vec<_> = config.address.to_socket_addrs().map_err(failure)?.collect();
        let socket = TcpListener::bind(&*addresses).map_err(failure)?;
        let address = socket.local_addr()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address, wait: config.wait })
    }

    /// Returns the address, with the port that was chosen.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Receives spans of the requests in `share` until the [`Receiver`] is dropped.
    pub fn serve(self, share: TraceShare) -> Result<Receiver, ReceiverError> {
        let Self { socket, address, wait } = self;
        let join = Arc::new(SpanJoin::new(share, wait));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(socket)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let service = Arc::new(Service::new(Arc::clone(&join)));
        let serve = move || {
            yield_to_measurement(Background::Timely);
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = connection::accept(listener, service) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("otlp-receiver".to_owned()).spawn(serve)?;
        Ok(Receiver { address, join, stop: Some(stop), thread: Some(thread) })
    }
}

/// The receiver while it receives. Dropping it ends it.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    join: Arc<SpanJoin>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Returns where records wait for their spans.
    pub fn join(&self) -> Arc<SpanJoin> {
        Arc::clone(&self.join)
    }

    /// Returns what was received and joined so far.
    pub fn report(&self) -> ReceiverReport {
        self.join.report(self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads requests in each encoding, as the fuzz target does: any bytes must be refused or counted.
pub fn read_any_request(body: &[u8]) {
    use self::service::{Encoding, decompressed, message, receive};
    let join = SpanJoin::new(TraceShare::NONE, Nanos::ZERO);
    for coding in ["", "gzip"] {
        if let Ok(message) = message(body, coding) {
            let _ = receive(&join, &message, Encoding::Protobuf);
        }
        if let Ok(body) = decompressed(bytes::Bytes::copy_from_slice(body), coding) {
            let _ = receive(&join, &body, Encoding::Protobuf);
            let _ = receive(&join, &body, Encoding::Json);
        }
    }
}
