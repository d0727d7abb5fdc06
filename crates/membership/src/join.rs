//! Matching the members of `--initial-cluster` with those of a running cluster.
//!
//! A joining member is configured with names and peer URLs and knows no ids. The cluster knows the
//! ids, but not the names of members that have not started. Peer URLs match the two:
//!
//! ```text
//!   --initial-cluster              running cluster                     result
//!   m1 http://m1.example:2380      305d… m1 http://10.0.0.1:2380       305d… m1 http://m1.example:2380
//!   m2 http://10.0.0.2:2380        b70d… "" http://10.0.0.2:2380       b70d… m2 http://10.0.0.2:2380
//! ```
//!
//! All members must match, because the joining member would wait forever for members that never
//! start. The caller decides whether two lists of URLs are equal, since that takes DNS.

use std::collections::BTreeMap;

use types::MemberId;

use crate::id::ClusterId;
use crate::member::Member;
use crate::membership::Membership;

/// Compares two lists of peer URLs; the error says how they differ.
pub type SameUrls<'a> = &'a mut dyn FnMut(&[String], &[String]) -> Result<(), String>;

/// The reason why a member cannot join. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The configuration has more or fewer members than the cluster.
    #[error("member count is unequal")]
    Count,
    /// The configuration lacks a member of the cluster.
    #[error(
        "PeerURLs: no match found for existing member ({id}, [{urls}]), last resolver error ({reason})"
    )]
    NoMatch {
        /// The member without a match.
        id: MemberId,
        /// The peer URLs of the member, separated by blanks.
        urls: String,
        /// The difference to the last configured member.
        reason: String,
    },
}

/// Returns the configured members with the ids of the running cluster.
///
/// # Errors
/// The members do not match.
pub fn adopt_ids(
    configured: &Membership,
    running: &Membership,
    same: SameUrls<'_>,
) -> Result<Membership, JoinError> {
    if configured.members().count() != running.members().count() {
        return Err(JoinError::Count);
    }
    let mut adopted = BTreeMap::new();
    for existing in running.members() {
        let found = matching(configured, existing, same)?;
        adopted.insert(existing.id, Member { id: existing.id, ..found.clone() });
    }
    Ok(Membership::of(adopted.into_values()))
}

fn matching<'a>(
    configured: &'a Membership,
    existing: &Member,
    same: SameUrls<'_>,
) -> Result<&'a Member, JoinError> {
    let mut last = String::new();
    for member in configured.members() {
        match same(&existing.raft.peer_urls, &member.raft.peer_urls) {
            Ok(()) => return Ok(member),
            Err(reason) => last = reason,
        }
    }
    let urls = existing.raft.peer_urls.join(" ");
    Err(JoinError::NoMatch { id: existing.id, urls, reason: last })
}

/// Formats a cluster in one line, as etcd does when a member cannot join.
#[must_use]
pub fn describe(id: ClusterId, membership: &Membership) -> String {
    let members: Vec<String> = membership.members().map(describe_member).collect();
    let removed: Vec<String> = membership.removed().map(|id| id.to_string()).collect();
    format!(
        "{{ClusterID:{id} Members:[{}] RemovedMemberIDs:[{}]}}",
        members.join(" "),
        removed.join(" ")
    )
}

fn describe_member(member: &Member) -> String {
    format!(
        "&{{ID:{} RaftAttributes:{{PeerURLs:[{}] IsLearner:{}}} Attributes:{{Name:{} ClientURLs:[{}]}}}}",
        member.id,
        member.raft.peer_urls.join(" "),
        member.raft.is_learner,
        member.attributes.name,
        member.attributes.client_urls.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(members: &[(&str, &[&str])]) -> Membership {
        let members = members.iter().map(|(name, urls)| {
            let urls = urls.iter().map(|url| (*url).to_owned()).collect();
            ((*name).to_owned(), urls)
        });
        Membership::bootstrap("token", &members.collect()).unwrap().1
    }

    fn running(members: &[(u64, &str, &[&str])]) -> Membership {
        Membership::of(members.iter().map(|(id, name, urls)| {
            let mut member = Member { id: MemberId(*id), ..Member::default() };
            member.attributes.name = (*name).to_owned();
            member.raft.peer_urls = urls.iter().map(|url| (*url).to_owned()).collect();
            member
        }))
    }

    /// Compares with `m1.example` resolved.
    fn same(a: &[String], b: &[String]) -> Result<(), String> {
        let resolve = |urls: &[String]| {
            let mut urls: Vec<String> =
                urls.iter().map(|url| url.replace("m1.example", "10.0.0.1")).collect();
            urls.sort();
            urls
        };
        if resolve(a) == resolve(b) { Ok(()) } else { Err(format!("{a:?} is not {b:?}")) }
    }

    fn names(membership: &Membership) -> Vec<(u64, &str)> {
        membership.members().map(|member| (member.id.0, member.attributes.name.as_str())).collect()
    }

    #[test]
    fn configured_members_get_the_ids_of_the_cluster() {
        let configured = configured(&[
            ("m1", &["http://m1.example:2380"]),
            ("m2", &["http://10.0.0.2:2380", "http://10.1.0.2:2380"]),
        ]);
        let running = running(&[
            (7, "", &["http://10.1.0.2:2380", "http://10.0.0.2:2380"]),
            (9, "other", &["http://10.0.0.1:2380"]),
        ]);
        let adopted = adopt_ids(&configured, &running, &mut same).unwrap();
        assert_eq!(names(&adopted), [(7, "m2"), (9, "m1")]);
        let m1 = adopted.member(MemberId(9)).unwrap();
        assert_eq!(m1.raft.peer_urls, ["http://m1.example:2380"], "as configured");
    }

    #[test]
    fn members_that_do_not_match_are_refused() {
        let configured =
            configured(&[("m1", &["http://10.0.0.1:2380"]), ("m2", &["http://10.0.0.2:2380"])]);
        let one = running(&[(7, "m1", &["http://10.0.0.1:2380"])]);
        assert_eq!(adopt_ids(&configured, &one, &mut same), Err(JoinError::Count));
        let other = running(&[
            (0xa, "m1", &["http://10.0.0.1:2380"]),
            (0xb, "m3", &["http://10.0.0.3:2380", "http://10.0.0.4:2380"]),
        ]);
        let refused = adopt_ids(&configured, &other, &mut same).unwrap_err().to_string();
        let start = "PeerURLs: no match found for existing member (b, [http://10.0.0.3:2380 http://10.0.0.4:2380]), \
                     last resolver error ([\"http://10.0.0.3:2380\"";
        assert!(refused.starts_with(start), "{refused}");
    }

    #[test]
    fn a_cluster_is_formatted_as_in_etcd() {
        let mut running = running(&[(0xa, "m1", &["http://10.0.0.1:2380"])]);
        running.removed.insert(MemberId(0xc));
        assert_eq!(
            describe(ClusterId(0xcdf8), &running),
            "{ClusterID:cdf8 Members:[&{ID:a RaftAttributes:{PeerURLs:[http://10.0.0.1:2380] IsLearner:false} \
             Attributes:{Name:m1 ClientURLs:[]}}] RemovedMemberIDs:[c]}"
        );
    }
}
