//! Makes connections: addresses, TCP, TLS, each step stamped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use hyper::client::conn::http1;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::connection::Connection;
use super::io_log::IoLog;
use super::receive::keep_stamping;
use super::traced_io::{ReadOptions, Stream, TracedIo, TracedTcp};
use super::{Config, IpVersion, Target, TlsError, tls};
use crate::record::{ErrorKind, HttpTrace, RequestError};
use crate::units::{Clock, Nanos};

/// How long resolved addresses are used again.
const DNS_TTL: Nanos = Nanos(300_000_000_000);

/// Makes connections for one worker.
pub(super) struct Connector {
    tls: Option<TlsConnector>,
    /// Addresses by host, with the time of the look-up.
    addresses: RefCell<HashMap<Arc<str>, Resolved>>,
    read_options: ReadOptions,
    ip_version: IpVersion,
    keep_chunks: bool,
}

type Resolved = (Nanos, Vec<IpAddr>);

impl Connector {
    /// A connector for `targets`; TLS is set up only where one of them needs it.
    pub(super) fn new(config: &Config, targets: &[Target]) -> Result<Self, TlsError> {
        if config.kernel_timestamps {
            keep_stamping();
        }
        let needs_tls = targets.iter().any(|target| target.tls);
        Ok(Self {
            tls: needs_tls.then(|| tls::connector(config.tls_verify)).transpose()?,
            addresses: RefCell::default(),
            read_options: ReadOptions {
                quick_ack: config.quick_ack,
                kernel_timestamps: config.kernel_timestamps,
            },
            ip_version: config.ip_version,
            keep_chunks: config.keep_chunks,
        })
    }

    /// Connects to `target`, with its steps stamped into `trace`.
    pub(super) async fn connect(
        &self,
        target: &Target,
        trace: &mut HttpTrace,
    ) -> Result<Connection, RequestError> {
        let addresses = self.resolve(target, trace).await?;
        trace.connect_start = Some(Clock::now());
        let stream = first_that_connects(&addresses, target).await?;
        // A socket that refuses the option is measured without.
        let _ = stream.set_nodelay(true);
        trace.local_addr = stream.local_addr().ok();
        trace.remote_addr = stream.peer_addr().ok();
        let log = Rc::new(IoLog::new(self.keep_chunks));
        let stream = TracedTcp::new(stream, Rc::clone(&log), self.read_options);
        let stream = self.secure(stream, target, trace).await?;
        trace.connect_end = Some(Clock::now());
        let io = TracedIo::new(stream, Rc::clone(&log));
        let (sender, driver) =
            http1::Builder::new().preserve_header_case(true).handshake(io).await.map_err(
                |error| RequestError::new(ErrorKind::Other, "ConnectionFailed", error.to_string()),
            )?;
        Ok(Connection::new(sender, driver, log, trace.local_addr, trace.remote_addr))
    }

    async fn resolve(
        &self,
        target: &Target,
        trace: &mut HttpTrace,
    ) -> Result<Vec<SocketAddr>, RequestError> {
        let with_port =
            |ips: &[IpAddr]| ips.iter().map(|ip| SocketAddr::new(*ip, target.port)).collect();
        if let Ok(ip) = target.host.parse::<IpAddr>() {
            return Ok(with_port(&[ip]));
        }
        let now = Clock::now();
        if let Some((at, ips)) = self.addresses.borrow().get(&target.host)
            && now.since(*at) < DNS_TTL
        {
            trace.dns_cache_hit = Some(now);
            return Ok(with_port(ips));
        }
        trace.dns_cache_miss = Some(now);
        trace.dns_start = Some(now);
        let ips = self.look_up(&target.host).await.map_err(|error| {
            let message = format!("cannot resolve `{}`: {error}", target.host);
            RequestError::new(ErrorKind::Other, "DnsError", message)
        })?;
        let end = Clock::now();
        trace.dns_end = Some(end);
        let addresses = with_port(&ips);
        self.addresses.borrow_mut().insert(Arc::clone(&target.host), (end, ips));
        Ok(addresses)
    }

    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut ips: Vec<IpAddr> =
            tokio::net::lookup_host((host, 0)).await?.map(|addr| addr.ip()).collect();
        ips.retain(|ip| match self.ip_version {
            IpVersion::V4 => ip.is_ipv4(),
            IpVersion::V6 => ip.is_ipv6(),
            IpVersion::Any => true,
        });
        ips.dedup();
        if ips.is_empty() {
            Err(io::Error::other("the name has no address of the IP version asked for"))
        } else {
            Ok(ips)
        }
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
        let stream = tls.connect(name, stream).await.map_err(|error| {
            tls_error(format!("TLS with {}:{}: {error}", target.host, target.port))
        })?;
        trace.tls_end = Some(Clock::now());
        Ok(Stream::Tls(Box::new(stream)))
    }
}

async fn first_that_connects(
    addresses: &[SocketAddr],
    target: &Target,
) -> Result<TcpStream, RequestError> {
    let mut last = io::Error::other("no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    let (kind, name) = match last.kind() {
        io::ErrorKind::ConnectionRefused => (ErrorKind::Other, "ConnectionRefused"),
        io::ErrorKind::TimedOut => (ErrorKind::Timeout, "ConnectTimeout"),
        _ => (ErrorKind::Other, "ConnectionFailed"),
    };
    let message = format!("cannot connect to {}:{}: {last}", target.host, target.port);
    Err(RequestError::new(kind, name, message))
}
