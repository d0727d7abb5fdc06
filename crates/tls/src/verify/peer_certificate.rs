//! The certificate of the remote end, and the reasons to reject one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::files::crl::{RevokedSerials, strip_leading_zeros};
use crate::files::identity::Role;
use crate::verify::host_match;

/// The relevant parts of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name of the subject; empty if there is none.
    pub common_name: String,
    /// The host names that it is for.
    pub dns_names: Vec<String>,
    /// The IP addresses that it is for.
    pub addresses: Vec<IpAddr>,
    /// The beginning of its validity, in seconds since 1970.
    pub(crate) not_before: i64,
    /// The end of its validity, in seconds since 1970.
    pub(crate) not_after: i64,
}

/// The reason a client is rejected after a successful handshake. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The certificate is revoked.
    #[error("transport: certificate serial {0} revoked")]
    Revoked(String),
    /// The certificate has expired since the resumed session began.
    #[error("tls: failed to verify certificate: x509: certificate has expired or is not yet valid")]
    Expired,
    /// The certificate is not for the client's address.
    #[error("x509: certificate is valid for {valid}, not {host}")]
    Address {
        /// The addresses that it is for.
        valid: String,
        /// The client's address.
        host: String,
    },
    /// The certificate is not for the client's host.
    #[error("tls: {host:?} does not match any of DNSNames {names}")]
    Host {
        /// The client's address.
        host: String,
        /// The host names that it is for, quoted.
        names: String,
    },
    /// The certificate cannot be parsed.
    #[error("tls: failed to parse certificate from client: {0}")]
    Malformed(String),
}

/// A rejected client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedClient {
    /// The reason.
    pub reason: Rejection,
    /// The client's certificate, as far as it could be parsed.
    pub certificate: PeerCertificate,
}

impl PeerCertificate {
    /// Parses a certificate.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(der: &CertificateDer<'_>) -> Result<PeerCertificate, Rejection> {
        let certificate = parse(der)?;
        let mut peer = PeerCertificate {
            common_name: common_name(&certificate),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            ..PeerCertificate::default()
        };
        let names = certificate.subject_alternative_name().ok().flatten();
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => peer.dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => peer.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(peer)
    }

    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        self.addresses.iter().any(|address| address.to_canonical() == canonical)
    }

    /// Checks that the certificate is for the client's address, if it names any host or address.
    /// Resolves names, which may take long; `name_of` resolves an address.
    pub(crate) fn check_origin(
        &self,
        from: IpAddr,
        name_of: impl Fn(IpAddr) -> Option<String>,
    ) -> Result<(), Rejection> {
        if self.addresses.is_empty() && self.dns_names.is_empty() || self.has_address(from) {
            return Ok(());
        }
        let host = from.to_canonical().to_string();
        if self.dns_names.is_empty() {
            let valid: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
            return Err(Rejection::Address { valid: valid.join(", "), host });
        }
        let mut hosts = self.dns_names.iter();
        let is_match = hosts.clone().any(|host| !host.starts_with("*.") && resolves_to(host, from))
            || name_of(from).is_some_and(|name| hosts.any(|host| name_matches(&name, host)));
        if is_match {
            return Ok(());
        }
        Err(Rejection::Host { host, names: gocompat::quote_list(&self.dns_names) })
    }

    /// Returns whether the certificate is valid at a time, in seconds since 1970.
    pub(crate) fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Returns the hosts and addresses that it is for.
    pub(crate) fn all_names(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        addresses.chain(self.dns_names.iter().cloned()).collect()
    }

    /// Returns whether it is for this name or address.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        host_match::certificate_matches(self, host)
    }
}

/// Returns whether a host name equals that of a certificate, or is below it if that begins with
/// `*.`.
///
/// Compat: in Go an address may have several names. The C library returns one.
fn name_matches(name: &str, host: &str) -> bool {
    let name = name.trim_end_matches('.');
    match host.strip_prefix('*') {
        Some(above) if above.starts_with('.') => name.ends_with(above),
        _ => name == host,
    }
}

fn resolves_to(name: &str, address: IpAddr) -> bool {
    let canonical = address.to_canonical();
    let found = (name, 0).to_socket_addrs();
    found.is_ok_and(|mut found| found.any(|found| found.ip().to_canonical() == canonical))
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Rejection> {
    let parsed = X509Certificate::from_der(der);
    Ok(parsed.map_err(|error| Rejection::Malformed(error.to_string()))?.1)
}

/// Returns the serial number of a certificate.
pub(crate) fn serial(der: &CertificateDer<'_>) -> Result<Vec<u8>, Rejection> {
    Ok(strip_leading_zeros(parse(der)?.raw_serial()).to_vec())
}

/// Rejects a revoked certificate.
pub(crate) fn check_revoked(
    certificate: &CertificateDer<'_>,
    revoked: &RevokedSerials,
) -> Result<(), Rejection> {
    let serial = serial(certificate)?;
    if !revoked.contains(&serial) {
        return Ok(());
    }
    let hex: Vec<String> = serial.iter().map(|byte| format!("{byte:02x}")).collect();
    Err(Rejection::Revoked(hex.concat()))
}

/// Checks the validity and key usage of a certificate that is itself a trust anchor.
///
/// Compat: as in Go. rustls requires a CA that differs from the certificate.
pub(crate) fn check_self_trusted(
    certificate: &CertificateDer<'_>,
    role: Role,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let parsed = parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let peer = PeerCertificate::parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if !peer.is_valid_at(now) {
        return Err(CertificateError::Expired);
    }
    if role.is_allowed_by(&parsed) { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

/// Compat: of several common names, Go uses the last.
fn common_name(certificate: &X509Certificate<'_>) -> String {
    let name = certificate.subject().iter_common_name().last();
    name.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|v6| Ipv6Addr::from(v6).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_check_accepts_the_name_of_an_address() {
        let from = "192.0.2.7".parse().unwrap();
        let check = |host: &str, name: Option<&str>| {
            let peer =
                PeerCertificate { dns_names: vec![host.to_owned()], ..PeerCertificate::default() };
            peer.check_origin(from, |_| name.map(str::to_owned)).is_ok()
        };
        assert!(check("*.example.invalid", Some("m1.example.invalid")));
        assert!(check("*.example.invalid", Some("m1.east.example.invalid.")));
        assert!(check("m1.example.invalid", Some("m1.example.invalid.")));
        assert!(!check("*.example.invalid", Some("example.invalid")));
        assert!(!check("*.example.invalid", Some("m1.example.invalid.elsewhere")));
        assert!(!check("m1.example.invalid", Some("m2.example.invalid")));
        assert!(!check("*.example.invalid", None));
    }
}
