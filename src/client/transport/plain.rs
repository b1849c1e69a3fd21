//! A client for requests that are not measured.

use reqwest::ClientBuilder;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

use base::platform::lookup::Lookup;
use base::redact::Secret;

use super::{Connections, TlsError};

impl Connections {
    /// Creates a client for requests to `urls` that are not measured. It uses the TLS options and
    /// the proxies of the run, but its own sockets and connection pool.
    pub fn plain_client<'a>(
        &self,
        urls: impl IntoIterator<Item = &'a Secret<Url>>,
    ) -> Result<ClientBuilder, TlsError> {
        // Fails only if another part of the program was first.
        let _ = ring::default_provider().install_default();
        let needs_tls = urls.into_iter().any(|url| url.expose().scheme() == "https");
        // Most of the time to create a client is spent on reading the system's root certificates,
        // of which a system may have none. Connections to proxies do not use TLS either.
        let tls = if needs_tls { self.tls.client_config()? } else { trusting_nobody() };
        let mut client = ClientBuilder::new().tls_backend_preconfigured(tls).dns_resolver(Lookup);
        if !self.proxies.are_used() {
            client = client.no_proxy();
        }
        Ok(client)
    }
}

/// Returns a TLS configuration for clients whose connections use no TLS.
fn trusting_nobody() -> ClientConfig {
    ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}
