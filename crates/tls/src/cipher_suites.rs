//! Cipher suites, selected by name.
//!
//! ```text
//!   --cipher-suites                                TLS 1.2                               TLS 1.3
//!   (none)                                         all six secure ones                   all three
//!   TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256          that one                              all three
//!   .. and TLS_RSA_WITH_AES_128_CBC_SHA            the first; the other is unsupported   all three
//!   TLS_RSA_WITH_AES_128_CBC_SHA                   rejected as by etcd: HTTP/2 needs AES_128_GCM
//! ```
//!
//! Accepts all names that Go knows, and so all that etcd accepts. Suites with RSA key exchange,
//! CBC, RC4 or 3DES are not supported, because rustls has none of them. As in Go, the suites of TLS
//! 1.3 cannot be chosen.

use rustls::{CipherSuite, SupportedCipherSuite};

use crate::info::{Version, Versions};

/// The selected cipher suites; if none are named, the default ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CipherSuites {
    names: Vec<String>,
}

/// The reason cipher suites cannot be used. The texts are etcd's or Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherSuiteError {
    /// The name is unknown.
    #[error("unexpected TLS cipher suite {0:?}")]
    Unknown(String),
    /// HTTP/2 requires one of two suites.
    #[error(
        "http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher \
         (need at least one of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)"
    )]
    Http2,
}

/// The suite that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SuiteKind {
    Tls13,
    Tls12(CipherSuite),
    /// Go supports it, rustls does not.
    Unsupported,
}

impl CipherSuites {
    /// Selects suites by name.
    pub fn from_names(names: &[String]) -> Result<CipherSuites, CipherSuiteError> {
        match names.iter().find(|name| suite_kind(name).is_none()) {
            Some(name) => Err(CipherSuiteError::Unknown(name.clone())),
            None => Ok(CipherSuites { names: names.to_vec() }),
        }
    }

    /// Returns the names as given.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the selected names that rustls does not support.
    pub fn unsupported(&self) -> Vec<&str> {
        let is_unsupported = |name: &&str| suite_kind(name) == Some(SuiteKind::Unsupported);
        self.names.iter().map(String::as_str).filter(is_unsupported).collect()
    }

    /// Returns the selected suites of `all`.
    pub(crate) fn select(
        &self,
        versions: Versions,
        needs_http2: bool,
        all: &[SupportedCipherSuite],
    ) -> Result<Vec<SupportedCipherSuite>, CipherSuiteError> {
        if self.names.is_empty() || versions.min == Version::Tls13 {
            return Ok(all.to_vec());
        }
        let selected: Vec<SuiteKind> =
            self.names.iter().filter_map(|name| suite_kind(name)).collect();
        // Compat: only Go's HTTP/2 server insists on one of these.
        let required = [
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ];
        let has_required =
            || required.iter().any(|suite| selected.contains(&SuiteKind::Tls12(*suite)));
        if needs_http2 && !has_required() {
            return Err(CipherSuiteError::Http2);
        }
        let chosen = |suite: &&SupportedCipherSuite| {
            suite.tls13().is_some() || selected.contains(&SuiteKind::Tls12(suite.suite()))
        };
        Ok(all.iter().filter(chosen).copied().collect())
    }
}

fn suite_kind(name: &str) -> Option<SuiteKind> {
    if UNSUPPORTED.contains(&name) {
        return Some(SuiteKind::Unsupported);
    }
    if ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
        .contains(&name)
    {
        return Some(SuiteKind::Tls13);
    }
    SUPPORTED.iter().find(|(known, _)| *known == name).map(|(_, suite)| SuiteKind::Tls12(*suite))
}

/// The supported suites of TLS 1.2. Two of them have an older name as well.
const SUPPORTED: [(&str, CipherSuite); 8] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The suites that Go supports and rustls does not.
const UNSUPPORTED: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;

    use super::*;

    const REQUIRED: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";

    fn suites(names: &[&str]) -> CipherSuites {
        CipherSuites::from_names(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .unwrap()
    }

    fn count(names: &[&str], versions: Versions) -> Result<usize, CipherSuiteError> {
        suites(names).select(versions, true, ALL_CIPHER_SUITES).map(|suites| suites.len())
    }

    #[test]
    fn named_suites_are_selected_with_all_of_tls_13() {
        let all = Versions::default();
        assert_eq!(count(&[], all), Ok(9));
        assert_eq!(count(&[REQUIRED], all), Ok(4));
        assert_eq!(count(&[REQUIRED, "TLS_RSA_WITH_AES_128_CBC_SHA"], all), Ok(4));
        assert_eq!(count(&[REQUIRED, "TLS_AES_128_GCM_SHA256"], all), Ok(4));
        assert_eq!(count(&[REQUIRED, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"], all), Ok(5));
    }

    #[test]
    fn unknown_suites_and_selections_without_http2_are_rejected() {
        let all = Versions::default();
        let cbc = "TLS_RSA_WITH_AES_128_CBC_SHA";
        assert_eq!(suites(&[cbc, REQUIRED]).unsupported(), [cbc]);
        assert_eq!(count(&[cbc], all), Err(CipherSuiteError::Http2));
        assert_eq!(
            count(&["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"], all),
            Err(CipherSuiteError::Http2)
        );
        let unknown = CipherSuites::from_names(&["TLS_NOPE".to_owned()]).unwrap_err();
        assert_eq!(unknown.to_string(), "unexpected TLS cipher suite \"TLS_NOPE\"");
    }

    #[test]
    fn every_supported_name_is_a_suite_of_rustls() {
        for (name, suite) in SUPPORTED {
            assert!(ALL_CIPHER_SUITES.iter().any(|known| known.suite() == suite), "{name}");
        }
    }
}
