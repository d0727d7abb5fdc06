//! Cipher suites by their names.
//!
//! ```text
//!   --cipher-suites                                   TLS 1.2                                        TLS 1.3
//!   (none)                                            all six that are sound                         all three
//!   TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256             that one                                       all three
//!   the same, and TLS_RSA_WITH_AES_128_CBC_SHA        that one; the other is not spoken here         all three
//!   TLS_RSA_WITH_AES_128_CBC_SHA                      refused, as by etcd: HTTP/2 wants one with AES_128_GCM
//! ```
//!
//! The names are those that Go knows, so whatever etcd takes is taken. What rests on RSA key exchange, CBC, RC4 or 3DES is not spoken here: the
//! library has none of it. The suites of TLS 1.3 cannot be chosen, as in Go.

use rustls::{CipherSuite, SupportedCipherSuite};

use crate::info::{Version, Versions};

/// The cipher suites that were named; none leaves the choice to us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CipherSuites {
    names: Vec<String>,
}

/// Why cipher suites cannot be used. The texts are etcd's, or Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherSuiteError {
    /// No such suite.
    #[error("unexpected TLS cipher suite {0:?}")]
    Unknown(String),
    /// HTTP/2 wants one of two.
    #[error(
        "http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher \
         (need at least one of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)"
    )]
    Http2,
}

/// What stands behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Tls13,
    Tls12(CipherSuite),
    /// Go has it, and we do not.
    Lacking,
}

impl CipherSuites {
    /// The suites of these names.
    pub fn named(names: &[String]) -> Result<CipherSuites, CipherSuiteError> {
        match names.iter().find(|name| meaning(name).is_none()) {
            Some(name) => Err(CipherSuiteError::Unknown(name.clone())),
            None => Ok(CipherSuites { names: names.to_vec() }),
        }
    }

    /// The names, as they were given.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Those that were named and are not spoken here.
    pub fn lacking(&self) -> Vec<&str> {
        let lacks = |name: &&str| meaning(name) == Some(Meaning::Lacking);
        self.names.iter().map(String::as_str).filter(lacks).collect()
    }

    /// What remains of `all`.
    pub(crate) fn select(
        &self,
        versions: Versions,
        needs_http2: bool,
        all: &[SupportedCipherSuite],
    ) -> Result<Vec<SupportedCipherSuite>, CipherSuiteError> {
        if self.names.is_empty() || versions.min == Version::Tls13 {
            return Ok(all.to_vec());
        }
        let meanings: Vec<Meaning> = self.names.iter().filter_map(|name| meaning(name)).collect();
        // Compat: Go's server of HTTP/2 insists, and nobody else does.
        let required = [
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ];
        let has_required =
            || required.iter().any(|suite| meanings.contains(&Meaning::Tls12(*suite)));
        if needs_http2 && !has_required() {
            return Err(CipherSuiteError::Http2);
        }
        let chosen = |suite: &&SupportedCipherSuite| {
            suite.tls13().is_some() || meanings.contains(&Meaning::Tls12(suite.suite()))
        };
        Ok(all.iter().filter(chosen).copied().collect())
    }
}

fn meaning(name: &str) -> Option<Meaning> {
    if LACKING.contains(&name) {
        return Some(Meaning::Lacking);
    }
    if ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
        .contains(&name)
    {
        return Some(Meaning::Tls13);
    }
    USABLE.iter().find(|(known, _)| *known == name).map(|(_, suite)| Meaning::Tls12(*suite))
}

/// Those of TLS 1.2 that are spoken here; two have another name from earlier times.
const USABLE: [(&str, CipherSuite); 8] = [
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

/// Those that Go has beside them.
const LACKING: [&str; 16] = [
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
        CipherSuites::named(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .unwrap()
    }

    fn count(names: &[&str], versions: Versions) -> Result<usize, CipherSuiteError> {
        suites(names).select(versions, true, ALL_CIPHER_SUITES).map(|suites| suites.len())
    }

    #[test]
    fn what_is_named_remains_with_all_of_tls_13() {
        let all = Versions::default();
        assert_eq!(count(&[], all), Ok(9));
        assert_eq!(count(&[REQUIRED], all), Ok(4));
        assert_eq!(count(&[REQUIRED, "TLS_RSA_WITH_AES_128_CBC_SHA"], all), Ok(4));
        assert_eq!(count(&[REQUIRED, "TLS_AES_128_GCM_SHA256"], all), Ok(4));
        assert_eq!(count(&[REQUIRED, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"], all), Ok(5));
    }

    #[test]
    fn what_leaves_nothing_is_refused() {
        let all = Versions::default();
        let cbc = "TLS_RSA_WITH_AES_128_CBC_SHA";
        assert_eq!(suites(&[cbc, REQUIRED]).lacking(), [cbc]);
        assert_eq!(count(&[cbc], all), Err(CipherSuiteError::Http2));
        assert_eq!(
            count(&["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"], all),
            Err(CipherSuiteError::Http2)
        );
        let unknown = CipherSuites::named(&["TLS_NOPE".to_owned()]).unwrap_err();
        assert_eq!(unknown.to_string(), "unexpected TLS cipher suite \"TLS_NOPE\"");
    }

    #[test]
    fn every_usable_name_is_a_suite_of_the_library() {
        for (name, suite) in USABLE {
            assert!(ALL_CIPHER_SUITES.iter().any(|known| known.suite() == suite), "{name}");
        }
    }
}
