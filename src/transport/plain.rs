//! A client for what is not measured.

use reqwest::ClientBuilder;
use tokio_rustls::rustls::crypto::ring;
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
        let mut client = ClientBuilder::new();
        if urls.into_iter().any(|url| url.scheme() == "https") {
            client = client.tls_backend_preconfigured(self.tls.client_config()?);
        }
        if !self.proxies.are_used() {
            client = client.no_proxy();
        }
        Ok(client)
    }
}
