//! Connections with and without TLS.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use base::input;
use base::platform::receive::Receiver;
use base::units::{Clock, Nanos};

use super::MockServerError;

/// The files of a server with TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and its chain, in PEM.
    pub certificate: PathBuf,
    /// The key, in PEM.
    pub key: PathBuf,
}

impl Tls {
    /// Reads the files.
    pub(super) fn config(&self) -> Result<Arc<ServerConfig>, MockServerError> {
        let failure = |path: &Path, why: String| MockServerError::Tls { path: path.into(), why };
        let read = |path| {
            input::bytes(path, input::MAX_SETTINGS_BYTES)
                .map_err(|error| failure(path, error.to_string()))
        };
        let chain = read(&self.certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| {
            failure(&self.certificate, "it does not have a PEM certificate".to_owned())
        })?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?).map_err(|_| {
            failure(&self.key, "it does not have a PEM private key without a password".to_owned())
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = builder
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| {
            let key = self.key.display();
            failure(&self.certificate, format!("it does not work with the key {key}: {error}"))
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// A client's connection.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream, Receiver),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Takes a connection without TLS.
    pub(super) fn plain(stream: TcpStream) -> Self {
        let receiver = Receiver::new(&stream, true);
        Self::Plain(stream, receiver)
    }

    /// Performs the handshake.
    pub(super) async fn accept(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let stream = TlsAcceptor::from(config.clone()).accept(stream).await?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Reads into `into`. Returns when the kernel received it, if that is known.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Option<Nanos>>> {
        match self {
            Self::Plain(stream, receiver) => loop {
                ready!(stream.poll_read_ready(cx))?;
                match receiver.receive(stream, into.initialize_unfilled()) {
                    Ok(read) => {
                        into.advance(read.bytes);
                        let at = read.stamp_ns.and_then(Clock::of_recent_wall_ns);
                        return Poll::Ready(Ok(at));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            },
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into).map_ok(|()| None),
        }
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream, _) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream, _) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream, _) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tls").join(name)
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let tls = |certificate, key| Tls { certificate: file(certificate), key: file(key) };
        let config = tls("server.pem", "server.key").config().unwrap();
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
        for (tls, named, why) in [
            (tls("missing.pem", "server.key"), "missing.pem", "missing.pem"),
            (tls("server.key", "server.key"), "server.key", "does not have a PEM certificate"),
            (tls("server.pem", "ca.pem"), "ca.pem", "does not have a PEM private key"),
            (tls("server.pem", "client.key"), "server.pem", "does not work with the key"),
        ] {
            let error = tls.config().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            let MockServerError::Tls { path, .. } = error else { panic!("{error}") };
            assert!(path.ends_with(named));
        }
    }
}
