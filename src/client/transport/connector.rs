//! Establishes connections: addresses, TCP, a proxy's tunnel and TLS, with a timestamp for each
//! step.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::header::{AUTHORIZATION, CONNECTION, HOST, PROXY_AUTHORIZATION};
use http::{HeaderName, Uri};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::InvalidMessage;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

use base::platform::exhaustion::Exhausted;
use base::platform::receive::keep_stamping;
use base::redact::Secret;
use base::units::Clock;

use super::acknowledge::{Acknowledgements, Acknowledger};
use super::budget::{self, Budget};
use super::connection::Connection;
use super::exchange::RequestHeaders;
use super::exhaustion;
use super::io_log::IoLog;
use super::limit::{ConnectionLimit, Slot};
use super::proxy::Proxy;
use super::resolver::Resolver;
use super::traced_io::{Stream, TracedIo, TracedTcp};
use super::{Config, ConnectionReuse, Target, TlsError};
use crate::record::{ErrorKind, HttpTrace, RequestError};

/// Establishes the connections of all clients of a process, and holds the state that they share.
#[derive(Debug)]
pub struct Connector {
    pub(super) config: Config,
    pub(super) limit: Arc<ConnectionLimit>,
    routes: Vec<Route>,
    resolver: Resolver,
    tls: Option<Arc<ClientConfig>>,
    has_connected: AtomicBool,
    /// Memory budget of the responses.
    pub(super) budget: Budget,
}

/// The route to a target.
#[derive(Debug)]
pub(super) struct Route {
    target: Target,
    proxy: Option<Proxy>,
    /// Request target: the path, or the whole URL if a proxy forwards plain HTTP.
    request_target: Secret<String>,
}

impl Connector {
    /// Creates a connector for `targets`. TLS is set up only if one of them needs it.
    pub fn new(config: Config, targets: &[Target]) -> Result<Self, TlsError> {
        if config.kernel_timestamps {
            keep_stamping();
        }
        let options = &config.connections;
        let tls = if targets.iter().any(|target| target.tls) {
            Some(Arc::new(options.tls.client_config()?))
        } else {
            None
        };
        let route = |target: &Target| Route::new(target, options.proxies.on_the_way_to(target));
        Ok(Self {
            limit: Arc::new(ConnectionLimit::new(options.limit)),
            routes: targets.iter().map(route).collect(),
            resolver: Resolver::new(config.ip_version, options.dns_cache_ttl),
            tls,
            has_connected: AtomicBool::new(false),
            budget: Budget::new(config.response_budget.unwrap_or_else(budget::of_this_machine)),
            config,
        })
    }

    /// Returns whether any connection has ever been ready.
    #[must_use]
    pub(crate) fn has_connected(&self) -> bool {
        self.has_connected.load(Relaxed)
    }

    pub(super) const fn targets(&self) -> usize {
        self.routes.len()
    }

    pub(super) fn route(&self, target: usize) -> Option<&Route> {
        self.routes.get(target)
    }

    pub(super) const fn reuse(&self) -> ConnectionReuse {
        self.config.connections.reuse
    }

    /// Connects along `route` and records the steps in `trace`. What is read from the connection is
    /// acknowledged by `acknowledgements`.
    pub(super) async fn connect(
        &self,
        route: &Route,
        slot: Slot,
        trace: &mut HttpTrace,
        acknowledgements: &Rc<Acknowledgements>,
    ) -> Result<Connection, RequestError> {
        let addresses = self.resolver.addresses(route.next_hop().0, trace).await?;
        trace.connect_start = Some(Clock::now());
        let mut stream = self.first_that_connects(&addresses, route).await?;
        trace.local_addr = stream.local_addr().ok();
        trace.remote_addr = stream.peer_addr().ok();
        if let Some(proxy) = route.tunnel() {
            proxy.tunnel(&mut stream, &route.target).await?;
        }
        let log = Rc::new(IoLog::new(self.config.keep_chunks));
        let stream = Rc::new(stream);
        let acknowledger = Acknowledger::new(&stream, acknowledgements, self.config.quick_ack);
        let stream = TracedTcp::new(stream, Rc::clone(&log), self.config.kernel_timestamps);
        let stream = self.secure(stream, &route.target, trace).await?;
        trace.connect_end = Some(Clock::now());
        // Written only once, because all workers share it.
        if !self.has_connected() {
            self.has_connected.store(true, Relaxed);
        }
        let io = TracedIo::new(stream, Rc::clone(&log));
        let (local_addr, remote_addr) = (trace.local_addr, trace.remote_addr);
        Ok(Connection::new(io, log, acknowledger, slot, local_addr, remote_addr))
    }

    async fn first_that_connects(
        &self,
        addresses: &[IpAddr],
        route: &Route,
    ) -> Result<TcpStream, RequestError> {
        let (host, port) = route.next_hop();
        let mut last = io::Error::other("no address");
        for address in addresses {
            let address = SocketAddr::new(*address, port);
            match self.config.connections.sockets.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        if let Some(exhausted) = Exhausted::from_error(&last) {
            return Err(exhaustion::error(exhausted, &format!("cannot connect to {host}:{port}")));
        }
        let (kind, name) = match last.kind() {
            io::ErrorKind::ConnectionRefused => (ErrorKind::Other, "ConnectionRefused"),
            io::ErrorKind::TimedOut => (ErrorKind::Timeout, "ConnectTimeout"),
            _ => (ErrorKind::Other, "ConnectionFailed"),
        };
        let what = if route.proxy.is_some() { "the proxy " } else { "" };
        let message = format!("cannot connect to {what}{host}:{port}: {last}");
        Err(RequestError::new(kind, name, message))
    }

    async fn secure(
        &self,
        stream: TracedTcp,
        target: &Target,
        trace: &mut HttpTrace,
    ) -> Result<Stream, RequestError> {
        let Some(tls) = self.tls.as_ref().filter(|_| target.tls) else {
            return Ok(Stream::Plain(stream));
        };
        let tls_error = |message: String| RequestError::new(ErrorKind::Other, "TlsError", message);
        let name = ServerName::try_from(target.host.to_string())
            .map_err(|error| tls_error(format!("`{}`: {error}", target.host)))?;
        trace.tls_start = Some(Clock::now());
        let stream =
            TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(|error| {
                let remedy = remedy(&error);
                tls_error(format!("TLS with {}:{}: {error}{remedy}", target.host, target.port))
            })?;
        trace.tls_end = Some(Clock::now());
        Ok(Stream::Tls(Box::new(stream)))
    }
}

/// Returns advice on a failed handshake.
fn remedy(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "; set its CA certificate with --ssl-ca-cert, or accept any certificate with \
             --no-ssl-verify"
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "; the server does not use TLS on this port; if it uses plain HTTP, use an http:// URL"
        }
        _ => "",
    }
}

impl Route {
    fn new(target: &Target, proxy: Option<Proxy>) -> Self {
        let request_target = Secret::new(String::new());
        let mut route = Self { target: target.clone(), proxy, request_target };
        route.request_target = Secret::new(route.target_of(target.path_and_query.expose()));
        route
    }

    /// Returns the request target: `path`, or the path of the target.
    pub(super) fn request_target(&self, path: Option<&str>) -> Cow<'_, str> {
        match path {
            Some(path) => self.target_of(path).into(),
            None => self.request_target.expose().as_str().into(),
        }
    }

    fn target_of(&self, path: &str) -> String {
        let uri = if self.proxy.is_some() && !self.target.tls {
            format!("{}{path}", self.target.origin()).parse::<Uri>()
        } else {
            path.parse()
        };
        // Both come from a URL that has been parsed.
        uri.unwrap_or_default().to_string()
    }

    /// Returns the host and port of the TCP connection.
    fn next_hop(&self) -> (&Arc<str>, u16) {
        match &self.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.target.host, self.target.port),
        }
    }

    /// Returns the proxy that needs a tunnel, if any.
    fn tunnel(&self) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| self.target.tls)
    }

    /// Passes all headers of a request on this route except `Content-Length` to `each`.
    pub(super) fn visit_headers(
        &self,
        headers: &dyn RequestHeaders,
        reuse: ConnectionReuse,
        each: &mut dyn FnMut(&HeaderName, &[u8]),
    ) {
        each(&HOST, self.target.host_header.as_bytes());
        let closes = reuse == ConnectionReuse::Never;
        let proxy = self.proxy.as_ref().filter(|_| !self.target.tls);
        let proxy = proxy.and_then(|proxy| proxy.authorization.as_ref());
        let mut has_credentials = false;
        headers.visit(&mut |name, value| {
            let is_set_here = *name == HOST
                || closes && *name == CONNECTION
                || proxy.is_some() && *name == PROXY_AUTHORIZATION;
            has_credentials |= *name == AUTHORIZATION;
            if !is_set_here {
                each(name, value);
            }
        });
        let credentials = self.target.authorization.as_ref().filter(|_| !has_credentials);
        if let Some(credentials) = credentials {
            each(&AUTHORIZATION, credentials.as_bytes());
        }
        if closes {
            each(&CONNECTION, b"close");
        }
        if let Some(credentials) = proxy {
            each(&PROXY_AUTHORIZATION, credentials.as_bytes());
        }
    }
}
