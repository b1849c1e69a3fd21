//! TLS with rustls: trusted authorities and client certificates.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore, SignatureScheme,
};

use base::setting;

/// Error of the TLS setup.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The system does not have usable root certificates.
    #[error(
        "no root certificates found on this system; install ca-certificates or set SSL_CERT_FILE"
    )]
    NoRoots,
    /// A certificate file contains no certificate.
    #[error("no PEM certificate found (`-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    /// A key file contains no key.
    #[error("no PEM private key found, or it is encrypted; use an unencrypted key")]
    NoKey,
    /// A certificate is invalid.
    #[error("the certificate cannot be used: {0}")]
    Certificate(RustlsError),
    /// A key is invalid, or belongs to another certificate.
    #[error("the key cannot be used with the certificate: {0}")]
    Key(RustlsError),
    /// rustls rejected the configuration.
    #[error("cannot set up TLS: {0}")]
    Config(#[from] RustlsError),
}

/// Trusted authorities and the client certificate.
#[derive(Debug, Clone, Serialize)]
pub struct TlsOptions {
    /// Whether the server's certificate is verified (`--ssl-verify`).
    pub verify: bool,
    /// Authorities to trust instead of the system's root certificates (`--ssl-ca-cert`).
    #[serde(skip)]
    pub authorities: Option<Arc<RootCertStore>>,
    /// The file that the authorities were read from.
    #[serde(serialize_with = "setting::optional_path")]
    pub authorities_file: Option<PathBuf>,
    /// Client certificate, for servers that require one (`--ssl-cert`).
    #[serde(skip)]
    pub identity: Option<Identity>,
    /// The file that the client certificate was read from.
    #[serde(serialize_with = "setting::optional_path")]
    pub certificate_file: Option<PathBuf>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            verify: true,
            authorities: None,
            authorities_file: None,
            identity: None,
            certificate_file: None,
        }
    }
}

/// A certificate with its chain and its key.
#[derive(Clone)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// Creates an identity from the PEM text `chain` with the certificates and `key` with the key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &ring::default_provider())
            .map_err(TlsError::Key)?;
        Ok(Self { chain, key: Arc::new(key) })
    }
}

/// Parses the certificates of authorities in a PEM text.
pub fn authorities(pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(TlsError::Certificate)?;
    }
    Ok(Arc::new(roots))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or(TlsError::NoCertificate)
}

impl TlsOptions {
    /// Returns the rustls configuration for connections to any server. Sessions are resumed if the
    /// server supports it.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = if self.verify {
            let roots = self.authorities.clone().map_or_else(system_roots, Ok)?;
            builder.with_root_certificates(roots)
        } else {
            let any = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(any)
        };
        let mut config = match &self.identity {
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain.clone(), key.clone_key())?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn system_roots() -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 { Err(TlsError::NoRoots) } else { Ok(Arc::new(roots)) }
}

/// Accepts every certificate, for test servers, at the user's request (`--no-ssl-verify`).
/// Signatures are still verified.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(name: &str) -> Vec<u8> {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/tls");
        std::fs::read(format!("{directory}/{name}")).unwrap()
    }

    #[test]
    fn files_that_are_none_are_told() {
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            let error = authorities(text.as_bytes()).unwrap_err();
            assert!(matches!(error, TlsError::NoCertificate), "{error}");
        }
        // A key is not a certificate, and vice versa.
        assert!(matches!(authorities(&pem("client.key")), Err(TlsError::NoCertificate)));
        let swapped = Identity::from_pem(&pem("client.pem"), &pem("ca.pem"));
        assert!(matches!(swapped, Err(TlsError::NoKey)));
        let stranger = Identity::from_pem(&pem("client.pem"), &pem("server.key"));
        assert!(matches!(stranger, Err(TlsError::Key(_))));
        let bytes = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let error = authorities(bytes.as_bytes()).unwrap_err();
        assert!(matches!(error, TlsError::Certificate(_)), "{error}");
    }

    #[test]
    fn what_is_given_is_used() {
        let identity = Identity::from_pem(&pem("client.pem"), &pem("client.key")).unwrap();
        assert_eq!(format!("{identity:?}"), "Identity { .. }");
        let options = TlsOptions {
            authorities: Some(authorities(&pem("ca.pem")).unwrap()),
            identity: Some(identity),
            ..TlsOptions::default()
        };
        let config = options.client_config().unwrap();
        assert!(config.client_auth_cert_resolver.has_certs());
        assert!(
            !TlsOptions::default().client_config().unwrap().client_auth_cert_resolver.has_certs()
        );
    }
}
