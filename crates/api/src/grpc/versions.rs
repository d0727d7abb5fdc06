//! Which versions clients say they speak, and how often: `etcd_server_client_requests_total`.
//!
//! The version is whatever a client sends, and every one that is seen makes two series of metrics that stay. So only the first few are told apart.

use std::sync::OnceLock;

use prometheus::{IntCounter, IntCounterVec, Registry};

use super::metrics::counters;
use super::rpc::Kind;

/// Versions that are told apart. Those that come later count as [`UNKNOWN`].
const VERSIONS_MAX: usize = 32;

/// The longest version that is told apart.
const VERSION_BYTES_MAX: usize = 64;

/// What a client speaks that does not say so.
const UNKNOWN: &str = "unknown";

/// Calls, by the version that their clients say they speak.
#[derive(Debug)]
pub(crate) struct ClientVersions {
    family: IntCounterVec,
    unknown: OnceLock<Seen>,
    /// Filled from the front, so that finding a version takes no lock.
    seen: [OnceLock<Seen>; VERSIONS_MAX],
}

#[derive(Debug)]
struct Seen {
    version: Box<str>,
    unary: OnceLock<IntCounter>,
    stream: OnceLock<IntCounter>,
}

impl ClientVersions {
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<ClientVersions> {
        let name = "etcd_server_client_requests_total";
        let help = "Calls, by the version that their client says it speaks.";
        let family = counters(registry, name, help, &["type", "client_api_version"])?;
        let seen = std::array::from_fn(|_| OnceLock::new());
        Ok(ClientVersions { family, unknown: OnceLock::new(), seen })
    }

    /// Counts a call.
    pub(crate) fn count(&self, kind: Kind, version: Option<&str>) {
        let seen = version.and_then(|version| self.find(version));
        let seen = seen.unwrap_or_else(|| self.unknown.get_or_init(|| Seen::new(UNKNOWN)));
        let (counter, kind) = match kind {
            Kind::Unary => (&seen.unary, "unary"),
            Kind::ServerStream | Kind::BidiStream => (&seen.stream, "stream"),
        };
        counter.get_or_init(|| self.family.with_label_values(&[kind, &seen.version])).inc();
    }

    fn find(&self, version: &str) -> Option<&Seen> {
        if version.len() > VERSION_BYTES_MAX {
            return None;
        }
        let slots = self.seen.iter().map(|slot| slot.get_or_init(|| Seen::new(version)));
        slots.into_iter().find(|seen| *seen.version == *version)
    }
}

impl Seen {
    fn new(version: &str) -> Seen {
        Seen { version: version.into(), unary: OnceLock::new(), stream: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn lines(registry: &Registry) -> Vec<String> {
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn a_version_has_its_own_series() {
        let registry = Registry::new();
        let versions = ClientVersions::new(&registry).unwrap();
        versions.count(Kind::Unary, Some("3.7"));
        versions.count(Kind::Unary, Some("3.7"));
        versions.count(Kind::BidiStream, Some("3.7"));
        versions.count(Kind::Unary, None);
        let name = "etcd_server_client_requests_total";
        assert_eq!(
            lines(&registry),
            [
                format!("{name}{{client_api_version=\"3.7\",type=\"stream\"}} 1"),
                format!("{name}{{client_api_version=\"3.7\",type=\"unary\"}} 2"),
                format!("{name}{{client_api_version=\"unknown\",type=\"unary\"}} 1"),
            ]
        );
    }

    #[test]
    fn clients_cannot_make_series_without_end() {
        let registry = Registry::new();
        let versions = ClientVersions::new(&registry).unwrap();
        for number in 0..1000 {
            versions.count(Kind::Unary, Some(&format!("v{number}")));
        }
        versions.count(Kind::Unary, Some(&"v".repeat(VERSION_BYTES_MAX + 1)));
        assert_eq!(lines(&registry).len(), VERSIONS_MAX + 1);
    }
}
