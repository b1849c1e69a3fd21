//! Times TCP connects to a server, which take one round trip of the network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use base::units::{Clock, Nanos};

use super::resolver::Resolver;
use super::{IpVersion, Target};
use crate::record::{ErrorKind, HttpTrace, RequestError};

/// A server to connect to.
#[derive(Debug)]
pub(crate) struct Ping {
    host: Arc<str>,
    port: u16,
    resolver: Resolver,
    /// The address of the first connect that succeeded, which all later ones use.
    address: Option<SocketAddr>,
}

impl Ping {
    /// Creates one for the host and port of `target`.
    pub(crate) fn new(target: &Target, ip_version: IpVersion) -> Self {
        let resolver = Resolver::new(ip_version, None);
        Self { host: Arc::clone(&target.host), port: target.port, resolver, address: None }
    }

    /// Connects and closes the connection; returns how long the connect took, without the lookup of
    /// the name.
    ///
    /// # Errors
    ///
    /// Fails if the name or the connect does, or if both together take longer than `timeout`.
    pub(crate) async fn connect(&mut self, timeout: Nanos) -> Result<Nanos, RequestError> {
        let connected = tokio::time::timeout(timeout.into(), self.first_that_connects()).await;
        connected.unwrap_or_else(|_| {
            let why = format!("no connection within {} s", timeout.as_seconds());
            Err(self.error(ErrorKind::Timeout, "ConnectTimeout", &why))
        })
    }

    async fn first_that_connects(&mut self) -> Result<Nanos, RequestError> {
        let addresses = if let Some(address) = self.address {
            vec![address]
        } else {
            let found = self.resolver.addresses(&self.host, &mut HttpTrace::default()).await?;
            found.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect()
        };
        let mut last = io::Error::other("no address");
        for address in addresses {
            let start = Clock::now();
            match TcpStream::connect(address).await {
                Ok(_) => {
                    let took = Clock::now().since(start);
                    self.address = Some(address);
                    return Ok(took);
                }
                Err(error) => last = error,
            }
        }
        let name = match last.kind() {
            io::ErrorKind::ConnectionRefused => "ConnectionRefused",
            _ => "ConnectionFailed",
        };
        Err(self.error(ErrorKind::Other, name, &last.to_string()))
    }

    fn error(&self, kind: ErrorKind, name: &str, why: &str) -> RequestError {
        let message = format!("cannot connect to {}:{}: {why}", self.host, self.port);
        RequestError::new(kind, name, message)
    }
}
