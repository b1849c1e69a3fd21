//! TLS by rustls: whom we trust, and who we are.

use std::sync::Arc;

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

/// TLS cannot be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The system has no usable root certificates.
    #[error(
        "no root certificates found on this system; install ca-certificates or set SSL_CERT_FILE"
    )]
    NoRoots,
    /// A file of certificates has none.
    #[error("it has no certificate in PEM form (`-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    /// A file of a key has none.
    #[error("it has no private key in PEM form, or one with a password; give it without")]
    NoKey,
    /// A certificate is not what it should be.
    #[error("its certificate cannot be used: {0}")]
    Certificate(RustlsError),
    /// A key is not what it should be, or belongs to another certificate.
    #[error("its key cannot be used with the certificate: {0}")]
    Key(RustlsError),
    /// rustls refused the configuration.
    #[error("TLS cannot be set up: {0}")]
    Config(#[from] RustlsError),
}

/// Whom we trust, and who we are.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// Whether the server's certificate is checked (`--ssl-verify`).
    pub verify: bool,
    /// Who may have signed it, in place of the system's roots (`--ssl-ca-cert`).
    pub authorities: Option<Arc<RootCertStore>>,
    /// Our own certificate, for servers that want one (`--ssl-cert`).
    pub identity: Option<Identity>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { verify: true, authorities: None, identity: None }
    }
}

/// A certificate, those that vouch for it, and its key.
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
    /// The identity whose certificates are in the PEM text `chain` and whose key
    /// is in `key`.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &ring::default_provider())
            .map_err(TlsError::Key)?;
        Ok(Self { chain, key: Arc::new(key) })
    }
}

/// The authorities whose certificates are in a PEM text.
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
    /// What rustls needs for connections to any server. Sessions are resumed
    /// where the server allows it.
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

/// Takes every certificate: for test servers, on the user's word
/// (`--no-ssl-verify`). Signatures are still checked.
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
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tls");
        std::fs::read(format!("{directory}/{name}")).unwrap()
    }

    #[test]
    fn files_that_are_none_are_told() {
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            let error = authorities(text.as_bytes()).unwrap_err();
            assert!(matches!(error, TlsError::NoCertificate), "{error}");
        }
        // A key is no certificate, and the other way round.
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
