//! Verifies servers: a certificate of a trusted CA, for the dialed name, not revoked, and with an
//! allowed name.
//!
//! ```text
//!   dialed m1.example, ca.pem, --peer-cert-allowed-cn member
//!   m1.example, of ca.pem, CN member     accepted
//!   m2.example, of ca.pem, CN member     x509: certificate is valid for m2.example, not m1.example
//!   m1.example, of ca.pem, CN intruder   client certificate authentication failed
//! ```
//!
//! Compat: as in etcd, the allowed names apply to servers too. Rejecting revoked servers is our own
//! addition.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::files::crl::RevokedSerials;
use crate::files::identity::Role;
use crate::files::trust_anchors::TrustAnchors;
use crate::verify::any_usage::{Presented, or_any_usage};
use crate::verify::client_verifier::AllowedNames;
use crate::verify::peer_certificate::{PeerCertificate, check_revoked, check_self_trusted};

/// The verifier of server certificates.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) provider: Arc<CryptoProvider>,
    /// `None` trusts every server.
    pub(crate) anchors: Option<TrustAnchors>,
    pub(crate) allowed: AllowedNames,
    pub(crate) revoked: Option<RevokedSerials>,
}

impl ServerVerifier {
    /// Checks that a trusted CA issued the certificate.
    fn check_trust(
        &self,
        anchors: &TrustAnchors,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if anchors.contains(end_entity) {
            return Ok(check_self_trusted(end_entity, Role::Server, now)?);
        }
        let verdict = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &anchors.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        );
        let presented = Presented { end_entity, intermediates, now };
        or_any_usage(verdict, Role::Server, &presented, anchors, &self.provider)
    }

    fn check_revoked(&self, certificates: &[&CertificateDer<'_>]) -> Result<(), Error> {
        let Some(revoked) = &self.revoked else { return Ok(()) };
        let checked = certificates.iter().try_for_each(|one| check_revoked(one, revoked));
        checked.map_err(|why| CertificateError::Other(OtherError(Arc::new(why))).into())
    }
}

fn check_name(peer: &PeerCertificate, name: &ServerName<'_>) -> Result<(), CertificateError> {
    let host = match name {
        ServerName::DnsName(name) => name.as_ref().to_owned(),
        ServerName::IpAddress(address) => IpAddr::from(*address).to_string(),
        other => other.to_str().into_owned(),
    };
    if peer.is_for(&host) {
        return Ok(());
    }
    let presented = peer.all_names();
    Err(CertificateError::NotValidForNameContext { expected: name.to_owned(), presented })
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(anchors) = &self.anchors else { return Ok(ServerCertVerified::assertion()) };
        self.check_trust(anchors, end_entity, intermediates, now)?;
        let peer = PeerCertificate::parse(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        check_name(&peer, server_name)?;
        let all: Vec<_> = [end_entity].into_iter().chain(intermediates).collect();
        self.check_revoked(&all)?;
        match self.allowed.allows(&peer) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    verify_signatures!();
}
