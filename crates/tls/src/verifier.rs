//! Which clients are let in: those with a certificate of an authority that is trusted, and of them those that are allowed.

use std::sync::Arc;

use gocompat::quote_list;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::error::LoadError;
use crate::identity::Role;
use crate::info::Info;
use crate::peer::{PeerCertificate, check_alone};
use crate::trust::Anchors;

/// Who is allowed of those that are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    All,
    CommonNames(Vec<String>),
    Hosts(Vec<String>),
}

impl Allowed {
    pub(crate) fn new(info: &Info) -> Result<Allowed, LoadError> {
        match (info.allowed_cns.is_empty(), info.allowed_hostnames.is_empty()) {
            (true, true) => Ok(Allowed::All),
            (false, true) => Ok(Allowed::CommonNames(info.allowed_cns.clone())),
            (true, false) => Ok(Allowed::Hosts(info.allowed_hostnames.clone())),
            (false, false) => Err(LoadError::BothAllowed {
                cns: quote_list(&info.allowed_cns),
                hostnames: quote_list(&info.allowed_hostnames),
            }),
        }
    }

    pub(crate) fn allows(&self, certificate: &PeerCertificate) -> bool {
        match self {
            Allowed::All => true,
            Allowed::CommonNames(names) => names.contains(&certificate.common_name),
            Allowed::Hosts(hosts) => hosts.iter().any(|host| certificate.is_for(host)),
        }
    }
}

/// Judges clients at their handshake.
pub(crate) fn verifier(
    anchors: Anchors,
    allowed: Allowed,
    tells_names: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let roots = Arc::new(anchors.roots.clone());
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    // Compat: Go does not tell clients all the authorities of the system.
    let builder = if tells_names { builder } else { builder.clear_root_hint_subjects() };
    let trusted = builder.build().map_err(|error| Error::General(error.to_string()))?;
    Ok(Arc::new(Choosy { trusted, anchors, allowed }))
}

/// Lets in some of those that are trusted.
#[derive(Debug)]
struct Choosy {
    trusted: Arc<dyn ClientCertVerifier>,
    anchors: Anchors,
    allowed: Allowed,
}

impl ClientCertVerifier for Choosy {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trusted.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.anchors.has(end_entity) {
            check_alone(end_entity, Role::Client, now)?;
        } else {
            self.trusted.verify_client_cert(end_entity, intermediates, now)?;
        }
        let certificate =
            PeerCertificate::parse(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        if self.allowed.allows(&certificate) {
            return Ok(ClientCertVerified::assertion());
        }
        // The client hears "bad certificate", as from Go.
        Err(CertificateError::NotValidForName.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.supported_verify_schemes()
    }
}
