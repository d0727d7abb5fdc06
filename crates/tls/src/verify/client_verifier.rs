//! Verifies clients: a certificate of a trusted CA, and an allowed name.

use std::sync::Arc;

use gocompat::quote_list;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::error::LoadError;
use crate::files::identity::Role;
use crate::files::trust_anchors::TrustAnchors;
use crate::info::Info;
use crate::verify::any_usage::{Presented, or_any_usage};
use crate::verify::peer_certificate::{PeerCertificate, check_self_trusted};

/// The names that are allowed among trusted certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllowedNames {
    All,
    CommonNames(Vec<String>),
    Hosts(Vec<String>),
}

impl AllowedNames {
    pub(crate) fn new(info: &Info) -> Result<AllowedNames, LoadError> {
        match (info.allowed_cns.is_empty(), info.allowed_hostnames.is_empty()) {
            (true, true) => Ok(AllowedNames::All),
            (false, true) => Ok(AllowedNames::CommonNames(info.allowed_cns.clone())),
            (true, false) => Ok(AllowedNames::Hosts(info.allowed_hostnames.clone())),
            (false, false) => Err(LoadError::BothAllowed {
                cns: quote_list(&info.allowed_cns),
                hostnames: quote_list(&info.allowed_hostnames),
            }),
        }
    }

    pub(crate) fn allows(&self, certificate: &PeerCertificate) -> bool {
        match self {
            AllowedNames::All => true,
            AllowedNames::CommonNames(names) => names.contains(&certificate.common_name),
            AllowedNames::Hosts(hosts) => hosts.iter().any(|host| certificate.is_for(host)),
        }
    }
}

/// Creates the verifier of client certificates.
pub(crate) fn client_verifier(
    anchors: TrustAnchors,
    allowed: AllowedNames,
    sends_ca_names: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let roots = Arc::new(anchors.roots.clone());
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    // Compat: Go does not send the names of all system CAs to clients.
    let builder = if sends_ca_names { builder } else { builder.clear_root_hint_subjects() };
    let trusted = builder.build().map_err(|error| Error::General(error.to_string()))?;
    let provider = Arc::clone(provider);
    Ok(Arc::new(ClientVerifier { provider, trusted, anchors, allowed }))
}

/// Accepts trusted certificates with an allowed name.
#[derive(Debug)]
struct ClientVerifier {
    provider: Arc<CryptoProvider>,
    trusted: Arc<dyn ClientCertVerifier>,
    anchors: TrustAnchors,
    allowed: AllowedNames,
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trusted.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.anchors.contains(end_entity) {
            check_self_trusted(end_entity, Role::Client, now)?;
        } else {
            let verdict = self.trusted.verify_client_cert(end_entity, intermediates, now);
            let presented = Presented { end_entity, intermediates, now };
            let verdict = verdict.map(drop);
            or_any_usage(verdict, Role::Client, &presented, &self.anchors, &self.provider)?;
        }
        let certificate =
            PeerCertificate::parse(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        if self.allowed.allows(&certificate) {
            return Ok(ClientCertVerified::assertion());
        }
        // The client receives the alert "bad certificate", as from Go.
        Err(CertificateError::NotValidForName.into())
    }

    verify_signatures!();
}
