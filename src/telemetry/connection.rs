//! The connection to the collector, and the runtime that all exports share.
//!
//! The SDK's reader runs on a plain thread, on which asynchronous clients find no runtime, and the
//! application's runtime ends before the final flush. A dedicated thread therefore drives
//! connections and timers.

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

use base::causes::described;
use base::lock::Lock;
use base::platform::Background;
use base::platform::lookup::Lookup;
use base::platform::process::yield_to_measurement;
use base::units::{Clock, Nanos};

use super::files::{Files, Output};
use super::settings::{Destination, Protocol};
use super::{TelemetryError, resource};

/// Timeout for connecting, which is ample for a reachable collector.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest pause for which a collector is believed to ask.
const LONGEST_THROTTLE: Duration = Duration::from_hours(24);

/// A destination, with everything needed to send to it: a collector, files, or both.
pub(super) struct Connection {
    /// The collector's URL, without secrets, or that of a file.
    pub(super) url: Url,
    /// Headers of every request; their values are secret.
    pub(super) headers: HeaderMap,
    /// Whether requests are compressed.
    pub(super) gzip: bool,
    /// Timeout of a request.
    pub(super) timeout: Duration,
    /// Connects by itself, and reconnects after a connection is lost.
    pub(super) client: Client,
    /// Files to which each request is written.
    pub(super) files: Option<Arc<Files>>,
    /// The pause that the collector asked for, which all signals keep.
    pub(super) throttle: Arc<Throttle>,
    runtime: Arc<ExportRuntime>,
    has_complained: Arc<AtomicBool>,
}

/// Until when a collector asked not to be sent to.
#[derive(Default)]
pub(super) struct Throttle(Lock<Option<Nanos>>);

impl Throttle {
    /// Starts a pause of at least `after`, and at most a day.
    pub(super) fn start(&self, after: Duration) {
        let until = Clock::now() + after.min(LONGEST_THROTTLE).into();
        let mut end = self.0.lock();
        *end = (*end).max(Some(until));
    }

    /// Returns the rest of the pause; `None` if requests may be sent.
    pub(super) fn left(&self) -> Option<Duration> {
        let left: Duration = (*self.0.lock())?.since(Clock::now()).into();
        Some(left).filter(|left| !left.is_zero())
    }
}

/// A client for either transport; clones share its connections.
#[derive(Clone)]
pub(super) enum Client {
    /// OTLP over gRPC.
    Grpc(Channel),
    /// OTLP over HTTP, with protobuf bodies.
    Http(reqwest::Client),
    /// OTLP over HTTP, with JSON bodies.
    HttpJson(reqwest::Client),
    /// Without a collector, requests are only written to files.
    Files,
}

impl Connection {
    /// Prepares the connection; nothing is sent or connected yet.
    pub(super) fn open(
        to: Destination,
        files: Option<Arc<Files>>,
    ) -> Result<Arc<Self>, TelemetryError> {
        // TLS needs a process-wide provider, which another module may have installed.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let runtime = ExportRuntime::start()?;
        let client = {
            let _context = runtime.handle.enter();
            match to.protocol {
                Protocol::Grpc => channel(&to).map(Client::Grpc),
                Protocol::Http => http_client(&to).map(Client::Http),
                Protocol::HttpJson => http_client(&to).map(Client::HttpJson),
            }
        };
        let client = client
            .map_err(|reason| TelemetryError::Exporter { endpoint: to.url.to_string(), reason })?;
        let Destination { url, headers, gzip, timeout, .. } = to;
        let (throttle, runtime, has_complained) =
            (Arc::default(), Arc::new(runtime), Arc::default());
        let connection =
            Self { url, headers, gzip, timeout, client, files, throttle, runtime, has_complained };
        Ok(Arc::new(connection))
    }

    /// Prepares the export to files alone, of which `output` is one.
    pub(super) fn to_files(
        files: Arc<Files>,
        output: &Output,
    ) -> Result<Arc<Self>, TelemetryError> {
        let url = output.url().ok_or_else(|| {
            let reason = "is not a path that can be written as a URL; use another".to_owned();
            TelemetryError::Setting { name: "--otel-file", reason }
        })?;
        Ok(Arc::new(Self {
            url,
            headers: HeaderMap::new(),
            gzip: false,
            timeout: CONNECT_TIMEOUT,
            client: Client::Files,
            files: Some(files),
            throttle: Arc::default(),
            runtime: Arc::new(ExportRuntime::start()?),
            has_complained: Arc::default(),
        }))
    }

    /// Returns the connection to another destination that is reached like this one.
    pub(super) fn beside(&self, to: Destination) -> Arc<Self> {
        let Destination { url, headers, gzip, timeout, .. } = to;
        Arc::new(Self {
            url,
            headers,
            gzip,
            timeout,
            client: self.client.clone(),
            files: self.files.clone(),
            throttle: Arc::clone(&self.throttle),
            runtime: Arc::clone(&self.runtime),
            has_complained: Arc::clone(&self.has_complained),
        })
    }

    /// Returns whether the signal with the file `name` is written to a file next to a collector.
    pub(super) fn has_file_beside(&self, name: &str) -> bool {
        let has_file = self.files.as_ref().is_some_and(|files| files.output(name).is_some());
        has_file && !matches!(self.client, Client::Files)
    }

    /// Returns the runtime of the client's connections and timers.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime.handle
    }

    /// Warns about a failure of the collector, once per run across all callers, since one cause has
    /// many effects.
    pub(super) fn complain(&self, complaint: fmt::Arguments<'_>) {
        if !self.has_complained.swap(true, Ordering::AcqRel) {
            let what = if matches!(self.client, Client::Files) { "" } else { "the collector at " };
            tracing::warn!("{what}{} {complaint}", self.url);
        }
    }
}

impl fmt::Debug for Connection {
    /// Omits the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// Creates a gRPC channel. The exporter's own neither limits the connection time nor reads
/// certificates.
fn channel(to: &Destination) -> Result<Channel, String> {
    let mut endpoint = Endpoint::from_shared(to.url.to_string())
        .and_then(|endpoint| endpoint.user_agent(user_agent()))
        .map_err(|error| described(&error))?
        .connect_timeout(CONNECT_TIMEOUT.min(to.timeout))
        .timeout(to.timeout);
    if to.url.scheme() == "https" {
        endpoint = endpoint.tls_config(client_tls(to)).map_err(|error| described(&error))?;
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
        .dns_resolver(Lookup)
        // A redirect would send the secrets in the headers to another host.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(user_agent());
    if let Some(pem) = &to.authorities {
        let authorities =
            reqwest::Certificate::from_pem_bundle(pem).map_err(|error| described(&error))?;
        client = client.tls_certs_only(authorities);
    }
    if let Some((certificate, key)) = &to.client {
        let both = [certificate.as_slice(), b"\n", key].concat();
        client =
            client.identity(reqwest::Identity::from_pem(&both).map_err(|error| described(&error))?);
    }
    client.build().map_err(|error| described(&error))
}

/// Returns the `User-Agent` of the OTLP exporter specification, preceded by the program's name.
fn user_agent() -> String {
    let exporter = concat!("aiperf/", env!("CARGO_PKG_VERSION"), " OTel-OTLP-Exporter-Rust/");
    format!("{exporter}{}", resource::sdk_version())
}

/// A runtime on a dedicated thread, which ends when this value is dropped.
struct ExportRuntime {
    handle: Handle,
    /// Wakes the thread when dropped.
    _stop: oneshot::Sender<()>,
}

impl ExportRuntime {
    fn start() -> Result<Self, TelemetryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("aiperf-otlp".into()).spawn(move || {
            yield_to_measurement(Background::Timely);
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }
}
