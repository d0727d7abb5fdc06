//! A member that joins a running cluster finds out who is who.
//!
//! It was told names and peer URLs, and knows nobody's id. The cluster knows the ids, and perhaps not all names: who has not started yet has
//! none. They are matched by their peer URLs:
//!
//! ```text
//!   told  (--initial-cluster)          the cluster says                                  known from now on
//!   m1  http://m1.example:2380         305d…  m1   http://10.0.0.1:2380                  305d…  m1  http://m1.example:2380
//!   m2  http://10.0.0.2:2380           b70d…  ""   http://10.0.0.2:2380  (just added)    b70d…  m2  http://10.0.0.2:2380
//! ```
//!
//! Each must match: whoever was told of others than there are would wait for them in vain. Whether two lists of URLs lead to the same
//! places, names being asked for, is for the caller to say.

use std::collections::BTreeMap;

use types::MemberId;

use crate::id::ClusterId;
use crate::member::Member;
use crate::membership::Membership;

/// Whether two lists of peer URLs lead to the same places; if not, why not.
pub type SamePlaces<'a> = &'a mut dyn FnMut(&[String], &[String]) -> Result<(), String>;

/// Why a member cannot join. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// It was told of more members than there are, or of fewer.
    #[error("member count is unequal")]
    Count,
    /// It was told of others than there are.
    #[error(
        "PeerURLs: no match found for existing member ({id}, [{urls}]), last resolver error ({reason})"
    )]
    NoMatch {
        /// One of whom it was not told.
        id: MemberId,
        /// Its peer URLs, with blanks between.
        urls: String,
        /// How it differs from the last that was looked at.
        reason: String,
    },
}

/// Gives the members that one was told of, by names and peer URLs, the ids that a running cluster has for them.
///
/// # Errors
/// If they are not the same.
pub fn adopt_ids(
    told: &Membership,
    running: &Membership,
    same: SamePlaces<'_>,
) -> Result<Membership, JoinError> {
    if told.members().count() != running.members().count() {
        return Err(JoinError::Count);
    }
    let mut adopted = BTreeMap::new();
    for existing in running.members() {
        let found = matching(told, existing, same)?;
        adopted.insert(existing.id, Member { id: existing.id, ..found.clone() });
    }
    Ok(Membership::of(adopted.into_values()))
}

fn matching<'a>(
    told: &'a Membership,
    existing: &Member,
    same: SamePlaces<'_>,
) -> Result<&'a Member, JoinError> {
    let mut last = String::new();
    for member in told.members() {
        match same(&existing.raft.peer_urls, &member.raft.peer_urls) {
            Ok(()) => return Ok(member),
            Err(reason) => last = reason,
        }
    }
    let urls = existing.raft.peer_urls.join(" ");
    Err(JoinError::NoMatch { id: existing.id, urls, reason: last })
}

/// A cluster in one line, as etcd prints it when somebody cannot join.
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

    fn told(members: &[(&str, &[&str])]) -> Membership {
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

    /// Names are addresses, once asked for.
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
    fn who_is_told_of_gets_the_id_that_the_cluster_has() {
        let told = told(&[
            ("m1", &["http://m1.example:2380"]),
            ("m2", &["http://10.0.0.2:2380", "http://10.1.0.2:2380"]),
        ]);
        let running = running(&[
            (7, "", &["http://10.1.0.2:2380", "http://10.0.0.2:2380"]),
            (9, "other", &["http://10.0.0.1:2380"]),
        ]);
        let adopted = adopt_ids(&told, &running, &mut same).unwrap();
        assert_eq!(names(&adopted), [(7, "m2"), (9, "m1")]);
        let m1 = adopted.member(MemberId(9)).unwrap();
        assert_eq!(m1.raft.peer_urls, ["http://m1.example:2380"], "as it was told");
    }

    #[test]
    fn others_than_there_are_cannot_be_joined() {
        let told = told(&[("m1", &["http://10.0.0.1:2380"]), ("m2", &["http://10.0.0.2:2380"])]);
        let one = running(&[(7, "m1", &["http://10.0.0.1:2380"])]);
        assert_eq!(adopt_ids(&told, &one, &mut same), Err(JoinError::Count));
        let other = running(&[
            (0xa, "m1", &["http://10.0.0.1:2380"]),
            (0xb, "m3", &["http://10.0.0.3:2380", "http://10.0.0.4:2380"]),
        ]);
        let refused = adopt_ids(&told, &other, &mut same).unwrap_err().to_string();
        let start = "PeerURLs: no match found for existing member (b, [http://10.0.0.3:2380 http://10.0.0.4:2380]), \
                     last resolver error ([\"http://10.0.0.3:2380\"";
        assert!(refused.starts_with(start), "{refused}");
    }

    #[test]
    fn a_cluster_is_printed_as_by_etcd() {
        let mut running = running(&[(0xa, "m1", &["http://10.0.0.1:2380"])]);
        running.removed.insert(MemberId(0xc));
        assert_eq!(
            describe(ClusterId(0xcdf8), &running),
            "{ClusterID:cdf8 Members:[&{ID:a RaftAttributes:{PeerURLs:[http://10.0.0.1:2380] IsLearner:false} \
             Attributes:{Name:m1 ClientURLs:[]}}] RemovedMemberIDs:[c]}"
        );
    }
}
