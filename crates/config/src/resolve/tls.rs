//! The TLS flags.
//!
//! ```text
//!     --cert-file c --key-file k --auto-tls                 uses c and k, generates nothing
//!     --auto-tls --client-cert-auth --trusted-ca-file ca    generates a certificate; as in etcd,
//!                                                           clients need none
//!     --peer-auto-tls                                       each member generates a certificate
//!                                                           and trusts all others
//! ```

use std::path::PathBuf;

use tls::{CipherSuites, Info, Protocol, Version, Versions};

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::notice::Notice;
use crate::resolved::{AutoTls, Tls};
use crate::url::Url;

/// Parses a TLS version; empty leaves the choice open.
pub(crate) fn version(text: &str) -> Result<Option<Version>, ConfigError> {
    match text {
        "" => Ok(None),
        "TLS1.2" => Ok(Some(Version::Tls12)),
        "TLS1.3" => Ok(Some(Version::Tls13)),
        _ => Err(ConfigError::TlsVersion(text.to_owned())),
    }
}

/// Resolves the TLS flags for clients.
pub(crate) fn client(flags: &Flags, notices: &mut Vec<Notice>) -> Result<Tls, ConfigError> {
    let info = Info {
        cert_file: path(&flags.cert_file),
        key_file: path(&flags.key_file),
        client_cert_file: path(&flags.client_cert_file),
        client_key_file: path(&flags.client_key_file),
        trusted_ca_file: path(&flags.trusted_ca_file),
        client_cert_auth: flags.client_cert_auth,
        crl_file: path(&flags.client_crl_file),
        allowed_cns: flags.client_cert_allowed_cn.clone(),
        allowed_hostnames: flags.client_cert_allowed_hostname.clone(),
        suites: suites(flags)?,
        versions: versions(flags)?,
        ..Info::default()
    };
    let urls = flags.listen_client_urls.urls().iter().chain(flags.listen_client_http_urls.urls());
    let tls_flags = TlsFlags {
        info,
        auto_hosts: flags.auto_tls.then(|| hosts(urls)),
        checks_origin: !flags.client_skip_client_san_verification,
        audience: Audience::Clients,
    };
    Ok(tls_flags.resolve(flags.self_signed_cert_validity, notices))
}

/// Resolves the TLS flags for peers.
pub(crate) fn peer(flags: &Flags, notices: &mut Vec<Notice>) -> Result<Tls, ConfigError> {
    let info = Info {
        cert_file: path(&flags.peer_cert_file),
        key_file: path(&flags.peer_key_file),
        client_cert_file: path(&flags.peer_client_cert_file),
        client_key_file: path(&flags.peer_client_key_file),
        trusted_ca_file: path(&flags.peer_trusted_ca_file),
        client_cert_auth: flags.peer_client_cert_auth,
        crl_file: path(&flags.peer_crl_file),
        allowed_cns: flags.peer_cert_allowed_cn.clone(),
        allowed_hostnames: flags.peer_cert_allowed_hostname.clone(),
        protocol: Protocol::Http1,
        suites: suites(flags)?,
        versions: versions(flags)?,
        ..Info::default()
    };
    let tls_flags = TlsFlags {
        info,
        auto_hosts: flags.peer_auto_tls.then(|| hosts(flags.listen_peer_urls.urls().iter())),
        checks_origin: !flags.peer_skip_client_san_verification,
        audience: Audience::Peers,
    };
    Ok(tls_flags.resolve(flags.self_signed_cert_validity, notices))
}

/// The other end of the connections that a group of TLS flags is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Clients.
    Clients,
    /// Peers.
    Peers,
}

/// The TLS flags for one audience.
struct TlsFlags {
    info: Info,
    /// The hosts of a certificate to generate.
    auto_hosts: Option<Vec<String>>,
    checks_origin: bool,
    audience: Audience,
}

impl TlsFlags {
    fn resolve(self, validity_years: u64, notices: &mut Vec<Notice>) -> Tls {
        let TlsFlags { info, auto_hosts, checks_origin, audience } = self;
        let Some(hosts) = auto_hosts.filter(|_| info.is_empty()) else {
            return Tls { info, auto: None, checks_origin };
        };
        // Compat: as in etcd, the generated certificate replaces all other settings.
        let ignored = ignored_by_auto(&info, audience);
        if !ignored.is_empty() {
            notices.push(Notice::AutoTlsAlone { audience, ignored });
        }
        let Info { suites, versions, protocol, .. } = info;
        let info = Info { suites, versions, protocol, ..Info::default() };
        Tls { info, auto: Some(AutoTls { hosts, validity_years }), checks_origin: true }
    }
}

/// Notes auto TLS flags that are ignored because certificates were given, in etcd's order: peers
/// first.
pub(crate) fn note_ignored_auto_tls(flags: &Flags, notices: &mut Vec<Notice>) {
    let has_peer_certificate = !flags.peer_cert_file.is_empty() || !flags.peer_key_file.is_empty();
    let has_certificate = !flags.cert_file.is_empty() || !flags.key_file.is_empty();
    let all = [
        (flags.peer_auto_tls && has_peer_certificate, Audience::Peers),
        (flags.auto_tls && has_certificate, Audience::Clients),
    ];
    let ignored = all.into_iter().filter(|(is_ignored, _)| *is_ignored);
    notices.extend(ignored.map(|(_, audience)| Notice::AutoTlsIgnored(audience)));
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// Parses the cipher suites, which have Go's names.
pub(crate) fn suites(flags: &Flags) -> Result<CipherSuites, ConfigError> {
    CipherSuites::from_names(&flags.cipher_suites).map_err(|error| match error {
        tls::CipherSuiteError::Unknown(name) => ConfigError::CipherSuite(name),
        error @ tls::CipherSuiteError::Http2 => ConfigError::CipherSuites(error),
    })
}

fn versions(flags: &Flags) -> Result<Versions, ConfigError> {
    let default = Versions::default();
    Ok(Versions {
        min: version(&flags.tls_min_version)?.unwrap_or(default.min),
        max: version(&flags.tls_max_version)?.unwrap_or(default.max),
    })
}

/// Returns the given flags that `--auto-tls` or `--peer-auto-tls` makes ineffective.
fn ignored_by_auto(info: &Info, audience: Audience) -> Vec<&'static str> {
    let all = [
        ("client-cert-auth", "peer-client-cert-auth", info.client_cert_auth),
        ("trusted-ca-file", "peer-trusted-ca-file", info.trusted_ca_file.is_some()),
        ("client-crl-file", "peer-crl-file", info.crl_file.is_some()),
        (
            "client-cert-allowed-hostname",
            "peer-cert-allowed-hostname",
            !info.allowed_hostnames.is_empty(),
        ),
        ("allowed-cn", "peer-cert-allowed-cn", !info.allowed_cns.is_empty()),
        ("client-cert-file", "peer-client-cert-file", info.client_cert_file.is_some()),
        ("client-key-file", "peer-client-key-file", info.client_key_file.is_some()),
    ];
    let ignored = all.into_iter().filter(|(.., is_given)| *is_given);
    ignored
        .map(|(client, peer, _)| match audience {
            Audience::Clients => client,
            Audience::Peers => peer,
        })
        .collect()
}

/// Returns the hosts of a generated certificate: all that are listened on.
fn hosts<'a>(urls: impl Iterator<Item = &'a Url>) -> Vec<String> {
    urls.filter(|url| !url.scheme().is_unix()).map(Url::hostname).map(str::to_owned).collect()
}
