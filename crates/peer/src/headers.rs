//! The headers of every request between members: sender, cluster and version.
//!
//! ```text
//!   X-Server-From: 8e9e05c52164694d           X-Etcd-Cluster-ID: cdf818194e3a8c32
//!   X-Server-Version: 3.7.0                   X-Min-Cluster-Version: 3.0.0
//!   X-PeerURLs: http://10.0.0.1:2380          X-Raft-To: ade526bd7e29dfd (streams only)
//! ```

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use membership::ClusterId;
use server::SERVER_VERSION;
use types::MemberId;

pub(crate) const SERVER_FROM: HeaderName = HeaderName::from_static("x-server-from");
pub(crate) const SERVER_VERSION_NAME: HeaderName = HeaderName::from_static("x-server-version");
pub(crate) const MIN_CLUSTER_VERSION: HeaderName = HeaderName::from_static("x-min-cluster-version");
pub(crate) const CLUSTER_ID: HeaderName = HeaderName::from_static("x-etcd-cluster-id");
pub(crate) const PEER_URLS: HeaderName = HeaderName::from_static("x-peerurls");
pub(crate) const RAFT_TO: HeaderName = HeaderName::from_static("x-raft-to");

/// The oldest cluster version that this release supports.
const MIN_VERSION: &str = "3.0.0";
/// The version assumed for senders without a version header.
const VERSION_UNSET: &str = "2.0.0";

/// The reason a request of a member is refused. The texts are etcd's, and members compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub(crate) enum Incompatible {
    Version,
    ClusterId,
}

impl Incompatible {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Incompatible::Version => "incompatible version",
            Incompatible::ClusterId => "cluster ID mismatch",
        }
    }
}

/// The part of a version that decides compatibility: `3.7` of `3.7.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u64,
    minor: u64,
}

impl Release {
    pub(crate) const fn new(major: u64, minor: u64) -> Release {
        Release { major, minor }
    }

    /// Parses `3.7.2` or `3.7.0-rc.1`.
    pub(crate) fn parse(text: &str) -> Option<Release> {
        let number = |text: &str| -> Option<u64> {
            if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
        };
        let (numbers, _) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
        let mut parts = numbers.splitn(3, '.').map(number);
        let (major, minor, _patch) = (parts.next()??, parts.next()??, parts.next()??);
        Some(Release { major, minor })
    }

    /// Returns the release of the local member.
    pub(crate) fn local() -> Release {
        Release::parse(SERVER_VERSION).unwrap_or(Release::new(3, 7))
    }

    /// Returns whether the release supports the two kinds of stream.
    pub(crate) fn has_streams(self) -> bool {
        match self.major {
            2 => (1..=3).contains(&self.minor),
            3 => self.minor <= Release::local().minor,
            _ => false,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.0", self.major, self.minor)
    }
}

/// Returns the text of a header, unless missing or empty.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}

/// Returns the release in a header; `None` if it is malformed.
pub(crate) fn release(headers: &HeaderMap, name: &HeaderName) -> Option<Release> {
    Release::parse(text(headers, name).unwrap_or(VERSION_UNSET))
}

/// Returns the member id in a header.
pub(crate) fn member(headers: &HeaderMap, name: &HeaderName) -> Option<MemberId> {
    id(text(headers, name)?).map(MemberId)
}

/// Parses an id: hexadecimal, without a sign.
pub(crate) fn id(text: &str) -> Option<u64> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { u64::from_str_radix(text, 16).ok() } else { None }
}

/// Parses an id in decimal, without a sign.
pub(crate) fn decimal_id(text: &str) -> Option<u64> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal { text.parse().ok() } else { None }
}

/// Checks that the sender belongs to this cluster and runs a compatible release.
pub(crate) fn check(
    headers: &HeaderMap,
    local: MemberId,
    cluster: ClusterId,
) -> Result<(), Incompatible> {
    let from = text(headers, &SERVER_FROM).unwrap_or_default();
    let server = release(headers, &SERVER_VERSION_NAME);
    let min_cluster_version = release(headers, &MIN_CLUSTER_VERSION);
    let is_compatible = server.is_some_and(|server| server >= Release::new(3, 0))
        && min_cluster_version.is_some_and(|version| version <= Release::local());
    if !is_compatible {
        tracing::warn!(
            local_member_id = %local, local_member_cluster_id = %cluster,
            local_member_server_version = SERVER_VERSION,
            local_member_server_minimum_cluster_version = MIN_VERSION,
            remote_peer_server_name = from,
            remote_peer_server_version = text(headers, &SERVER_VERSION_NAME),
            remote_peer_server_minimum_cluster_version = text(headers, &MIN_CLUSTER_VERSION),
            "failed version compatibility check"
        );
        return Err(Incompatible::Version);
    }
    let theirs = text(headers, &CLUSTER_ID).unwrap_or_default();
    if theirs != cluster.to_string() {
        tracing::warn!(
            local_member_id = %local, local_member_cluster_id = %cluster,
            remote_peer_server_name = from, remote_peer_cluster_id = theirs,
            "request cluster ID mismatch"
        );
        return Err(Incompatible::ClusterId);
    }
    Ok(())
}

/// The identity of the local member, which every request carries.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) member: MemberId,
    pub(crate) cluster: ClusterId,
    headers: HeaderMap,
}

impl Identity {
    /// Creates the identity of a member with these advertised URLs.
    pub(crate) fn new(member: MemberId, cluster: ClusterId, urls: &[String]) -> Identity {
        let mut headers = HeaderMap::new();
        headers.insert(SERVER_FROM, value(&member));
        headers.insert(SERVER_VERSION_NAME, HeaderValue::from_static(SERVER_VERSION));
        headers.insert(MIN_CLUSTER_VERSION, HeaderValue::from_static(MIN_VERSION));
        headers.insert(CLUSTER_ID, value(&cluster));
        let urls = HeaderValue::from_str(&urls.join(","));
        if let Some(urls) = urls.ok().filter(|urls| !urls.is_empty()) {
            headers.insert(PEER_URLS, urls);
        }
        Identity { member, cluster, headers }
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }
}

/// Formats an id as a header value.
pub(crate) fn value(id: &dyn fmt::Display) -> HeaderValue {
    HeaderValue::from_str(&id.to_string()).expect("hexadecimal digits are a valid header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: MemberId = MemberId(1);
    const CLUSTER: ClusterId = ClusterId(0xabc);

    fn headers() -> HeaderMap {
        Identity::new(MemberId(2), CLUSTER, &["http://10.0.0.2:2380".to_owned()]).headers()
    }

    fn with(name: HeaderName, value: &'static str) -> HeaderMap {
        let mut headers = headers();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn compatible_members_of_the_cluster_pass() {
        assert_eq!(check(&headers(), LOCAL, CLUSTER), Ok(()));
        assert_eq!(member(&headers(), &SERVER_FROM), Some(MemberId(2)));
        assert_eq!(text(&headers(), &PEER_URLS), Some("http://10.0.0.2:2380"));
        for version in ["3.0.0", "3.4.23", "3.8.0-rc.0+x", "4.0.0"] {
            assert_eq!(check(&with(SERVER_VERSION_NAME, version), LOCAL, CLUSTER), Ok(()));
        }
    }

    #[test]
    fn other_clusters_and_incompatible_versions_are_refused() {
        for version in ["2.3.8", "", "3.7", "3.7.x", "three", "+3.7.0", "3.-7.1"] {
            let headers = with(SERVER_VERSION_NAME, version);
            assert_eq!(check(&headers, LOCAL, CLUSTER), Err(Incompatible::Version), "{version}");
        }
        let later = with(MIN_CLUSTER_VERSION, "3.8.0");
        assert_eq!(check(&later, LOCAL, CLUSTER), Err(Incompatible::Version));
        for id in ["abd", "ABC", "", "0abc"] {
            let headers = with(CLUSTER_ID, id);
            assert_eq!(check(&headers, LOCAL, CLUSTER), Err(Incompatible::ClusterId), "{id}");
        }
        // The version is checked first.
        assert_eq!(check(&HeaderMap::new(), LOCAL, CLUSTER), Err(Incompatible::Version));
    }

    #[test]
    fn ids_are_hexadecimal() {
        assert_eq!(id("8e9e05c52164694d"), Some(0x8e9e_05c5_2164_694d));
        for text in ["", "+1", "-1", "0x1", "g", "10000000000000000"] {
            assert_eq!(id(text), None, "{text}");
        }
    }

    #[test]
    fn ids_of_promotions_are_decimal() {
        assert_eq!(decimal_id("18446744073709551615"), Some(u64::MAX));
        for text in ["", "+1", "-1", "0x1", "a", "18446744073709551616"] {
            assert_eq!(decimal_id(text), None, "{text}");
        }
    }

    #[test]
    fn streams_are_supported_since_2_1() {
        let has = |text| Release::parse(text).unwrap().has_streams();
        assert!(["2.1.0", "2.3.9", "3.0.0", "3.6.4", "3.7.0"].into_iter().all(has));
        assert!(!["2.0.0", "2.4.0", "3.8.0", "1.0.0", "4.0.0"].into_iter().any(has));
    }
}
