use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;

use super::{BoxedStream, ByteStream};
use crate::net::ConnectError;

/// How the client side of TLS checks its peer.
///
/// By default the certificates that the platform trusts are trusted, and the certificate must name the host that is
/// connected to.
#[derive(Clone, Default)]
pub struct TlsOptions {
    extra_roots: Vec<CertificateDer<'static>>,
    config: Option<Arc<ClientConfig>>,
    server_name: Option<String>,
}

impl TlsOptions {
    /// Trusts the certificates in this PEM text as well as the platform's.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Tls`] when the text holds no certificate or a malformed one.
    pub fn add_root_pem(mut self, pem: &[u8]) -> Result<Self, ConnectError> {
        let before = self.extra_roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| ConnectError::tls(format!("the PEM text: {error}")))?;
            self.extra_roots.push(certificate);
        }
        if self.extra_roots.len() == before {
            return Err(ConnectError::tls("the PEM text holds no certificate"));
        }
        Ok(self)
    }

    /// Uses this configuration as it is. Roots added with [`add_root_pem`](Self::add_root_pem) have no effect then.
    #[must_use]
    pub fn with_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.config = Some(config);
        self
    }

    /// Expects the certificate to be for this name, instead of the host that is connected to.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Runs the TLS handshake over a stream.
    pub(in crate::net) async fn connect(
        &self,
        host: &str,
        stream: impl ByteStream + 'static,
    ) -> Result<BoxedStream, ConnectError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name =
            ServerName::try_from(name.trim_matches(['[', ']']).to_owned()).map_err(|_| {
                ConnectError::tls(format!("{name:?} is no name that a certificate can be for"))
            })?;
        let stream = TlsConnector::from(self.client_config()?)
            .connect(name, stream)
            .await
            .map_err(ConnectError::from_tls_io)?;
        Ok(Box::new(stream))
    }

    fn client_config(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        if let Some(config) = &self.config {
            return Ok(Arc::clone(config));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = self
            .verifier(&provider)
            .map_err(|error| ConnectError::tls(error.to_string()))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ConnectError::tls(error.to_string()))?
            .dangerous() // the name of rustls for "a verifier of one's own"; this one is the platform's
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Verifier, rustls::Error> {
        if self.extra_roots.is_empty() {
            Verifier::new(Arc::clone(provider))
        } else {
            Verifier::new_with_extra_roots(self.extra_roots.iter().cloned(), Arc::clone(provider))
        }
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("extra_roots", &self.extra_roots.len())
            .field("config", &self.config.is_some())
            .field("server_name", &self.server_name)
            .finish()
    }
}
