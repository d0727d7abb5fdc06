//! What the flags say about TLS.
//!
//! ```text
//!     --cert-file c --key-file k --auto-tls                    c and k are shown, nothing is made
//!     --auto-tls --client-cert-auth --trusted-ca-file ca       a certificate is made; clients need none, as in etcd
//! ```

use std::path::PathBuf;

use tls::{Info, Suites, Version, Versions};

use super::meant::{AutoTls, ClientTls};
use super::notice::Notice;
use super::refusal::Refusal;
use super::table::Flags;
use super::url::Url;

/// A version of TLS that one can ask for. Nothing leaves the choice to others.
pub(crate) fn version(text: &str) -> Result<Option<Version>, Refusal> {
    match text {
        "" => Ok(None),
        "TLS1.2" => Ok(Some(Version::Tls12)),
        "TLS1.3" => Ok(Some(Version::Tls13)),
        _ => Err(Refusal::TlsVersion(text.to_owned())),
    }
}

/// TLS for clients.
pub(crate) fn client(flags: &Flags, notices: &mut Vec<Notice>) -> Result<ClientTls, Refusal> {
    let given = Info {
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
    };
    let checks_origin = !flags.client_skip_client_san_verification;
    if !flags.auto_tls || !given.is_empty() {
        notices.extend(flags.auto_tls.then_some(Notice::AutoTlsIgnored));
        return Ok(ClientTls { info: given, auto: None, checks_origin });
    }
    // Compat: etcd puts what it makes in the place of all that was said.
    let ignored = ignored_by_auto(&given);
    if !ignored.is_empty() {
        notices.push(Notice::AutoTlsAlone { ignored });
    }
    let Info { suites, versions, .. } = given;
    let info = Info { suites, versions, ..Info::default() };
    let auto = AutoTls { hosts: hosts(flags), validity_years: flags.self_signed_cert_validity };
    Ok(ClientTls { info, auto: Some(auto), checks_origin: true })
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// The cipher suites that were named. Go's names, all of them.
pub(crate) fn suites(flags: &Flags) -> Result<Suites, Refusal> {
    Suites::named(&flags.cipher_suites).map_err(|error| match error {
        tls::SuiteError::Unknown(name) => Refusal::CipherSuite(name),
        error @ tls::SuiteError::Http2 => Refusal::CipherSuites(error),
    })
}

fn versions(flags: &Flags) -> Result<Versions, Refusal> {
    let default = Versions::default();
    Ok(Versions {
        min: version(&flags.tls_min_version)?.unwrap_or(default.min),
        max: version(&flags.tls_max_version)?.unwrap_or(default.max),
    })
}

/// What `--auto-tls` leaves without effect.
fn ignored_by_auto(given: &Info) -> Vec<&'static str> {
    let all = [
        ("client-cert-auth", given.client_cert_auth),
        ("trusted-ca-file", given.trusted_ca_file.is_some()),
        ("client-crl-file", given.crl_file.is_some()),
        ("client-cert-allowed-hostname", !given.allowed_hostnames.is_empty()),
        ("allowed-cn", !given.allowed_cns.is_empty()),
        ("client-cert-file", given.client_cert_file.is_some()),
        ("client-key-file", given.client_key_file.is_some()),
    ];
    all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// What a certificate has to be for: all that is listened on.
fn hosts(flags: &Flags) -> Vec<String> {
    let urls = flags.listen_client_urls.urls().iter().chain(flags.listen_client_http_urls.urls());
    urls.filter(|url| !url.scheme().is_unix()).map(Url::hostname).map(str::to_owned).collect()
}
