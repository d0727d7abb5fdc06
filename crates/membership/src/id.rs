//! Ids of members and clusters: the first 8 bytes of a SHA-1, big-endian.
//!
//! ```text
//!   bootstrap   SHA-1("http://localhost:2380" + "etcd-cluster")     → 8e9e05c52164694d
//!                     peer URLs                 cluster token
//!   MemberAdd   SHA-1("http://localhost:2380" + "" + "1700000000")  → another
//!                     peer URLs                      seconds since 1970
//!   cluster     SHA-1(8e9e05c52164694d as 8 bytes)                  → cdf818194e3a8c32
//!                     ids of all initial members
//! ```
//!
//! Peer URLs and ids are sorted first, so that every member computes the same. A cluster keeps its
//! id when members join or leave.

use std::fmt;

use sha1::{Digest as _, Sha1};
use types::MemberId;

/// Identifies a cluster. Messages from members of another cluster are ignored.
///
/// Printed in lower-case hexadecimal, like a [`MemberId`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u64);

impl ClusterId {
    /// Computes the id of a cluster from its initial members.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = MemberId>) -> ClusterId {
        let mut ids: Vec<MemberId> = members.into_iter().collect();
        ids.sort_unstable();
        let bytes: Vec<u8> = ids.into_iter().flat_map(|id| id.0.to_be_bytes()).collect();
        ClusterId(hash(&bytes))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// Computes the id of a member. At bootstrap it depends on the cluster token and not on the time,
/// so that all members agree. For a running cluster it depends on the time, in seconds since 1970,
/// so that no id repeats; the token is then empty.
#[must_use]
pub fn member_id(peer_urls: &[String], token: &str, unix_seconds: Option<i64>) -> MemberId {
    let mut urls: Vec<&str> = peer_urls.iter().map(String::as_str).collect();
    urls.sort_unstable();
    let time = unix_seconds.map(|seconds| seconds.to_string()).unwrap_or_default();
    MemberId(hash(format!("{}{token}{time}", urls.concat()).as_bytes()))
}

fn hash(bytes: &[u8]) -> u64 {
    let digest = Sha1::digest(bytes);
    let first = digest.first_chunk().expect("a SHA-1 has 20 bytes");
    u64::from_be_bytes(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls<const N: usize>(urls: [&str; N]) -> Vec<String> {
        urls.map(str::to_owned).to_vec()
    }

    #[test]
    fn ids_with_default_flags_are_etcds() {
        let id = member_id(&urls(["http://localhost:2380"]), "etcd-cluster", None);
        assert_eq!(id.to_string(), "8e9e05c52164694d");
        assert_eq!(ClusterId::of([id]).to_string(), "cdf818194e3a8c32");
    }

    #[test]
    fn order_of_urls_and_members_does_not_matter() {
        let (one, two) = (urls(["http://a:1", "http://b:1"]), urls(["http://b:1", "http://a:1"]));
        assert_eq!(member_id(&one, "t", None), member_id(&two, "t", None));
        let (a, b) = (MemberId(7), MemberId(u64::MAX));
        assert_eq!(ClusterId::of([a, b]), ClusterId::of([b, a]));
    }

    #[test]
    fn the_time_changes_the_id_of_an_added_member() {
        let url = urls(["http://localhost:2380"]);
        let added = |seconds| member_id(&url, "", Some(seconds));
        assert_ne!(added(1_700_000_000), added(1_700_000_001));
        assert_eq!(
            added(1_700_000_000),
            member_id(&url, "1700000000", None),
            "the parts are concatenated"
        );
    }
}
