//! The certificate of whoever is at the other end, and why one is turned away.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::crl::{Revoked, plain};
use crate::identity::Role;
use crate::names;

/// What matters of the certificate of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The name of whom it is for; empty if there is none.
    pub common_name: String,
    /// The hosts that it is for.
    pub dns_names: Vec<String>,
    /// The addresses that it is for.
    pub addresses: Vec<IpAddr>,
    /// From when, in seconds since 1970.
    pub(crate) not_before: i64,
    /// And until when.
    pub(crate) not_after: i64,
}

/// Why a client is turned away although its handshake went well. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It was revoked.
    #[error("transport: certificate serial {0} revoked")]
    Revoked(String),
    /// It has expired since the session began that is resumed.
    #[error("tls: failed to verify certificate: x509: certificate has expired or is not yet valid")]
    Expired,
    /// It is for other addresses than the client comes from.
    #[error("x509: certificate is valid for {valid}, not {host}")]
    Address {
        /// Those that it is for.
        valid: String,
        /// Where the client comes from.
        host: String,
    },
    /// It is for other hosts than the client comes from.
    #[error("tls: {host:?} does not match any of DNSNames {names}")]
    Host {
        /// Where the client comes from.
        host: String,
        /// Those that it is for, each in quotes.
        names: String,
    },
    /// It is none.
    #[error("tls: failed to parse certificate from client: {0}")]
    Malformed(String),
}

/// Who is turned away, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub why: Rejection,
    /// Whom the certificate is for, as far as it could be read.
    pub certificate: PeerCertificate,
}

impl PeerCertificate {
    pub(crate) fn parse(der: &CertificateDer<'_>) -> Result<PeerCertificate, Rejection> {
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
        let wanted = address.to_canonical();
        self.addresses.iter().any(|address| address.to_canonical() == wanted)
    }

    /// Whether it is for where the client comes from, if it says at all where it is for. Names are looked up, which may take long; `name_of` tells that of an
    /// address.
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
        let is_theirs = hosts.clone().any(|host| !host.starts_with("*.") && leads_to(host, from))
            || name_of(from).is_some_and(|name| hosts.any(|host| is_of(&name, host)));
        if is_theirs {
            return Ok(());
        }
        Err(Rejection::Host { host, names: gocompat::quote_list(&self.dns_names) })
    }

    /// Whether it is good at a time, in seconds since 1970.
    pub(crate) fn is_good_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// The hosts and addresses that it is for.
    pub(crate) fn all_names(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        addresses.chain(self.dns_names.iter().cloned()).collect()
    }

    /// Whether it is for this name or address.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        names::is_for(self, host)
    }
}

/// Whether a name is the one that a certificate has, or one below it if that is written with a `*`.
///
/// Compat: in Go an address may have several names. The C library tells one.
fn is_of(name: &str, host: &str) -> bool {
    let name = name.trim_end_matches('.');
    match host.strip_prefix('*') {
        Some(above) if above.starts_with('.') => name.ends_with(above),
        _ => name == host,
    }
}

fn leads_to(name: &str, address: IpAddr) -> bool {
    let wanted = address.to_canonical();
    let found = (name, 0).to_socket_addrs();
    found.is_ok_and(|mut found| found.any(|found| found.ip().to_canonical() == wanted))
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Rejection> {
    let parsed = X509Certificate::from_der(der);
    Ok(parsed.map_err(|error| Rejection::Malformed(error.to_string()))?.1)
}

/// The serial number of a certificate.
pub(crate) fn serial(der: &CertificateDer<'_>) -> Result<Vec<u8>, Rejection> {
    Ok(plain(parse(der)?.raw_serial()).to_vec())
}

/// Turns away a certificate that was revoked.
pub(crate) fn check_revoked(
    certificate: &CertificateDer<'_>,
    revoked: &Revoked,
) -> Result<(), Rejection> {
    let serial = serial(certificate)?;
    if !revoked.has(&serial) {
        return Ok(());
    }
    let hex: Vec<String> = serial.iter().map(|byte| format!("{byte:02x}")).collect();
    Err(Rejection::Revoked(hex.concat()))
}

/// A certificate that needs nobody to vouch for it has to be good for its time and for whoever shows it, like any other.
///
/// Compat: so it is in Go. The library insists on an authority that is another.
pub(crate) fn check_alone(
    certificate: &CertificateDer<'_>,
    role: Role,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let parsed = parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let peer = PeerCertificate::parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if !peer.is_good_at(now) {
        return Err(CertificateError::Expired);
    }
    if role.may_show(&parsed) { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

/// Compat: of several common names, Go takes the last.
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
    fn an_address_is_as_good_as_its_name() {
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
