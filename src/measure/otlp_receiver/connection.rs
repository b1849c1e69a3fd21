//! Accepts connections and serves HTTP/1.1 and HTTP/2 on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::service::Service;

/// Maximum number of connections; more of them wait to be accepted.
const MAX_CONNECTIONS: usize = 64;

/// Maximum number of concurrent requests of a connection.
const MAX_STREAMS: u32 = 16;

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Maximum time until the first request of a connection, and for the head of each.
const IDLE: Duration = Duration::from_mins(1);

/// Interval at which an HTTP/2 connection is checked, and the time for the answer.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Pause after failing to accept a connection, for example without file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections and serves them, without end.
pub(super) async fn accept(listener: TcpListener, service: Arc<Service>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&service), slot))),
            Err(error) => {
                tracing::warn!("the receiver of spans cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Serves the requests of a connection.
async fn serve(stream: TcpStream, service: Arc<Service>, _slot: OwnedSemaphorePermit) {
    let has_asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&has_asked);
    let answer = service_fn(move |request| {
        asks.store(true, Ordering::Relaxed);
        let service = Arc::clone(&service);
        async move { Ok::<_, std::convert::Infallible>(service.answer(request).await) }
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(MAX_HEAD);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32);
    let idle = async {
        tokio::time::sleep(IDLE).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        served = http.serve_connection(TokioIo::new(stream), answer) => {
            if let Err(error) = served {
                tracing::debug!("a connection to the receiver of spans ended: {error}");
            }
        }
        () = idle => tracing::debug!("a connection to the receiver of spans did not send a request"),
    }
}
