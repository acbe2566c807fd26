//! A certificate for `localhost` made for this run, and TLS for peers that bring none.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_tests::peers::Failure;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A server's identity, and the file with the authority that clients have to trust.
pub(crate) struct Identity {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) authority: PathBuf,
    _folder: tempfile::TempDir,
}

impl Identity {
    pub(crate) fn generate() -> Result<Self, Failure> {
        let authority_key = rcgen::KeyPair::generate()?;
        let mut authority = rcgen::CertificateParams::new(Vec::new())?;
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(rcgen::DnType::CommonName, "interop test authority");
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = rcgen::Issuer::new(authority, authority_key);

        let key = rcgen::KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = rcgen::CertificateParams::new(names)?.signed_by(&key, &issuer)?;

        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der())?,
            )?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("authority.pem");
        fs::write(&path, authority_certificate.pem())?;
        Ok(Self {
            server: Arc::new(server),
            authority: path,
            _folder: folder,
        })
    }
}

/// A client that trusts the authority in the given file and nobody else.
pub(crate) fn client_config(authority: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A TLS client over `stream` that trusts the authority in the given file and nobody else.
pub(crate) async fn connect(
    stream: TcpStream,
    authority: &Path,
) -> Result<TlsStream<TcpStream>, Failure> {
    Ok(TlsConnector::from(client_config(authority)?)
        .connect(ServerName::try_from("localhost")?, stream)
        .await?)
}
