//! The way to the collector: one connection and one runtime, which everything
//! that is exported shares.
//!
//! The SDK's reader has a bare thread, on which asynchronous clients find no
//! runtime; and the application's runtime ends before the final flush. So one
//! thread here drives connections and timers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use http::HeaderMap;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use url::Url;

use super::TelemetryError;
use super::settings::{Destination, Protocol};
use crate::background::yield_to_measurement;

/// Connecting takes less than this where there is a collector at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A collector, and all that is needed to send to it.
pub(super) struct Connection {
    /// The collector's URL; it bears no secrets.
    pub(super) url: Url,
    /// Sent with every request; values are secrets.
    pub(super) headers: HeaderMap,
    /// Whether requests are compressed.
    pub(super) gzip: bool,
    /// What one request may take.
    pub(super) timeout: Duration,
    /// Connects by itself, and again where a connection is lost.
    pub(super) client: Client,
    runtime: Arc<ExportRuntime>,
    has_complained: Arc<AtomicBool>,
}

/// A client for either transport; a clone shares its connections.
#[derive(Clone)]
pub(super) enum Client {
    /// OTLP over gRPC.
    Grpc(Channel),
    /// OTLP over HTTP, with protobuf bodies.
    Http(reqwest::Client),
}

impl Connection {
    /// Sets the way up; nothing is sent or connected yet.
    pub(super) fn open(to: Destination) -> Result<Arc<Self>, TelemetryError> {
        // TLS needs a process-wide provider; another module may have set it.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let runtime = ExportRuntime::start()?;
        let client = {
            let _context = runtime.handle.enter();
            match to.protocol {
                Protocol::Grpc => channel(&to).map(Client::Grpc),
                Protocol::Http => http_client(&to).map(Client::Http),
            }
        };
        let client = client
            .map_err(|reason| TelemetryError::Exporter { endpoint: to.url.to_string(), reason })?;
        let (runtime, has_complained) = (Arc::new(runtime), Arc::default());
        Ok(Arc::new(Self::with(to, client, runtime, has_complained)))
    }

    /// The way to another destination that is reached like this one.
    pub(super) fn beside(&self, to: Destination) -> Arc<Self> {
        let (runtime, complained) = (Arc::clone(&self.runtime), Arc::clone(&self.has_complained));
        Arc::new(Self::with(to, self.client.clone(), runtime, complained))
    }

    fn with(
        to: Destination,
        client: Client,
        runtime: Arc<ExportRuntime>,
        has_complained: Arc<AtomicBool>,
    ) -> Self {
        let Destination { url, headers, gzip, timeout, .. } = to;
        Self { url, headers, gzip, timeout, client, runtime, has_complained }
    }

    /// Where the client's connections and timers live.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime.handle
    }

    /// Warns that the collector does not do what it should: once in a run,
    /// whoever noticed, since one cause has many effects.
    pub(super) fn complain(&self, complaint: fmt::Arguments<'_>) {
        if !self.has_complained.swap(true, Ordering::AcqRel) {
            tracing::warn!("the collector at {} {complaint}", self.url);
        }
    }
}

impl fmt::Debug for Connection {
    /// Shows no headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// A channel over gRPC. It is ours because the exporter's own neither bounds
/// connecting nor reads certificates.
fn channel(to: &Destination) -> Result<Channel, String> {
    let mut endpoint = Endpoint::from_shared(to.url.to_string())
        .and_then(|endpoint| endpoint.user_agent(user_agent()))
        .map_err(described)?
        .connect_timeout(CONNECT_TIMEOUT.min(to.timeout))
        .timeout(to.timeout);
    if to.url.scheme() == "https" {
        endpoint = endpoint.tls_config(client_tls(to)).map_err(described)?;
    }
    Ok(endpoint.connect_lazy())
}

fn client_tls(to: &Destination) -> ClientTlsConfig {
    let tls = match &to.authorities {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match &to.client {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    }
}

fn http_client(to: &Destination) -> Result<reqwest::Client, String> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT.min(to.timeout))
        .timeout(to.timeout)
        // A redirect would take the headers' secrets elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(user_agent());
    if let Some(pem) = &to.authorities {
        let authorities = reqwest::Certificate::from_pem_bundle(pem).map_err(described)?;
        client = client.tls_certs_only(authorities);
    }
    if let Some((certificate, key)) = &to.client {
        let both = [certificate.as_slice(), b"\n", key].concat();
        client = client.identity(reqwest::Identity::from_pem(&both).map_err(described)?);
    }
    client.build().map_err(described)
}

fn user_agent() -> &'static str {
    concat!("aiperf/", env!("CARGO_PKG_VERSION"))
}

/// An error with its causes: the outermost alone often says nothing.
pub(super) fn described(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A runtime on a thread of its own, which ends when this is dropped.
struct ExportRuntime {
    handle: Handle,
    /// Dropping it wakes the thread.
    _stop: oneshot::Sender<()>,
}

impl ExportRuntime {
    fn start() -> Result<Self, TelemetryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("aiperf-otlp".into()).spawn(move || {
            yield_to_measurement();
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }
}
