use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The names that every certificate is for.
const NAMES: [&str; 4] = ["localhost", "127.0.0.1", "::1", "*.servicebus.windows.net"];

/// A certificate of the emulator's own, and the authority that clients trust.
pub(super) struct Certificate {
    pub(super) ca_pem: String,
    pub(super) server: Arc<ServerConfig>,
}

impl Certificate {
    pub(super) fn generate(names: &[String]) -> Result<Self, String> {
        let text = |error: rcgen::Error| error.to_string();
        let mut ca = CertificateParams::new(Vec::new()).map_err(text)?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name = name("servicebus-emulator authority");
        let ca_key = KeyPair::generate().map_err(text)?;
        let ca_certificate = ca.self_signed(&ca_key).map_err(text)?;
        let issuer = Issuer::new(ca, ca_key);

        let names: Vec<String> = NAMES
            .map(str::to_owned)
            .into_iter()
            .chain(names.iter().cloned())
            .collect();
        let mut leaf = CertificateParams::new(names).map_err(text)?;
        leaf.distinguished_name = name("servicebus-emulator");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let leaf_key = KeyPair::generate().map_err(text)?;
        let leaf = leaf.signed_by(&leaf_key, &issuer).map_err(text)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            ca_pem: ca_certificate.pem(),
            server: Arc::new(server),
        })
    }
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}
