//! A client for what is not measured.

use reqwest::ClientBuilder;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

use super::{Connections, TlsError};

impl Connections {
    /// A client for `urls` whose requests are not measured: it trusts whom the run
    /// trusts, and takes the same proxies. Sockets and pool are its own.
    pub fn plain_client<'a>(
        &self,
        urls: impl IntoIterator<Item = &'a Url>,
    ) -> Result<ClientBuilder, TlsError> {
        // Fails only where another part of the program was first.
        let _ = ring::default_provider().install_default();
        let needs_tls = urls.into_iter().any(|url| url.scheme() == "https");
        // Reading the system's authorities is the better part of making a client.
        let tls = if needs_tls || self.proxies.are_used() {
            self.tls.client_config()?
        } else {
            trusting_nobody()
        };
        let mut client = ClientBuilder::new().tls_backend_preconfigured(tls);
        if !self.proxies.are_used() {
            client = client.no_proxy();
        }
        Ok(client)
    }
}

/// For connections that need no TLS.
fn trusting_nobody() -> ClientConfig {
    ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}
