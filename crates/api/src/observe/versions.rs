//! Calls by client API version: `etcd_server_client_requests_total`.
//!
//! Clients choose the version freely, and each one adds two series that stay. The number of
//! versions is therefore bounded.

use std::sync::OnceLock;

use grpc::Kind;
use prometheus::{IntCounter, IntCounterVec, Registry};

use super::metrics::counters;

/// The number of versions with a series of their own. Later ones count as [`UNKNOWN`].
const VERSIONS_MAX: usize = 32;

/// The longest version with a series of its own.
const VERSION_BYTES_MAX: usize = 64;

/// The version of clients that send none.
const UNKNOWN: &str = "unknown";

/// Counts calls by client API version.
#[derive(Debug)]
pub(crate) struct ClientVersions {
    family: IntCounterVec,
    unknown: OnceLock<VersionCounters>,
    /// Filled from the front, so that a lookup takes no lock.
    known: [OnceLock<VersionCounters>; VERSIONS_MAX],
}

#[derive(Debug)]
struct VersionCounters {
    version: Box<str>,
    unary: OnceLock<IntCounter>,
    stream: OnceLock<IntCounter>,
}

impl ClientVersions {
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<ClientVersions> {
        let name = "etcd_server_client_requests_total";
        let help = "Calls, by client API version.";
        let family = counters(registry, name, help, &["type", "client_api_version"])?;
        let known = std::array::from_fn(|_| OnceLock::new());
        Ok(ClientVersions { family, unknown: OnceLock::new(), known })
    }

    /// Counts a call.
    pub(crate) fn count(&self, kind: Kind, version: Option<&str>) {
        let known = version.and_then(|version| self.find(version));
        let unknown = || self.unknown.get_or_init(|| VersionCounters::new(UNKNOWN));
        let counters = known.unwrap_or_else(unknown);
        let (counter, kind) = match kind {
            Kind::Unary => (&counters.unary, "unary"),
            Kind::ServerStream | Kind::BidiStream => (&counters.stream, "stream"),
        };
        counter.get_or_init(|| self.family.with_label_values(&[kind, &counters.version])).inc();
    }

    fn find(&self, version: &str) -> Option<&VersionCounters> {
        if version.len() > VERSION_BYTES_MAX {
            return None;
        }
        let new = || VersionCounters::new(version);
        let mut slots = self.known.iter().map(|slot| slot.get_or_init(new));
        slots.find(|counters| *counters.version == *version)
    }
}

impl VersionCounters {
    fn new(version: &str) -> VersionCounters {
        let version = version.into();
        VersionCounters { version, unary: OnceLock::new(), stream: OnceLock::new() }
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
    fn each_version_has_its_own_series() {
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
    fn the_number_of_series_is_bounded() {
        let registry = Registry::new();
        let versions = ClientVersions::new(&registry).unwrap();
        for number in 0..1000 {
            versions.count(Kind::Unary, Some(&format!("v{number}")));
        }
        versions.count(Kind::Unary, Some(&"v".repeat(VERSION_BYTES_MAX + 1)));
        assert_eq!(lines(&registry).len(), VERSIONS_MAX + 1);
    }
}
