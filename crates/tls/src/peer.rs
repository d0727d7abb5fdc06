//! The certificate of whoever is at the other end, and why one is turned away.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::crl::plain;
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
    /// Until when, in seconds since 1970.
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

    /// Whether it is for where the client comes from, if it says at all where it is for. Names are looked up, which may take long.
    ///
    /// Compat: etcd also asks which names the address has, and only so can a name with a `*` match. Here it never does.
    pub(crate) fn check_origin(&self, from: IpAddr) -> Result<(), Rejection> {
        if self.addresses.is_empty() && self.dns_names.is_empty() || self.has_address(from) {
            return Ok(());
        }
        let host = from.to_canonical().to_string();
        if self.dns_names.is_empty() {
            let valid: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
            return Err(Rejection::Address { valid: valid.join(", "), host });
        }
        if self.dns_names.iter().any(|name| leads_to(name, from)) {
            return Ok(());
        }
        Err(Rejection::Host { host, names: quoted(&self.dns_names) })
    }

    /// Whether it is for this name or address.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        names::is_for(self, host)
    }
}

/// `["a" "b"]`, as Go prints a list of texts.
pub(crate) fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
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
