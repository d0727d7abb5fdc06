//! Who is in the cluster, as one value.
//!
//! ```text
//!   members    305d…  voter     m1   http://10.0.0.1:2380   http://10.0.0.1:2379
//!              b70d…  voter     m2   http://10.0.0.2:2380   http://10.0.0.2:2379
//!              c580…  learner   ""   http://10.0.0.4:2380                           added, and not started yet
//!   removed    d74b…
//!   version    3.7              what all members speak; none before they agreed on one
//!   downgrade  off
//! ```
//!
//! Invariants: whoever is removed is no member; a member is found under its own id. Lists are sorted by id.

use std::collections::{BTreeMap, BTreeSet};

use backend::schema::cluster::Downgrade;
use backend::schema::version::Version;
use proto::raftpb::ConfState;
use types::MemberId;

use crate::error::Refused;
use crate::id::ClusterId;
use crate::member::Member;

/// Who is in the cluster, who was, and what they speak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub(crate) members: BTreeMap<MemberId, Member>,
    pub(crate) removed: BTreeSet<MemberId>,
    pub(crate) version: Option<Version>,
    pub(crate) downgrade: Downgrade,
}

/// Why a cluster cannot begin with these members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// Two have the same peer URLs.
    #[error("member exists with identical ID {0}")]
    SameId(MemberId),
    /// The one id that names nobody.
    #[error("cannot use 0 as member id")]
    ZeroId,
}

impl Membership {
    /// The members of a cluster that is about to begin, from their names and peer URLs, and the id it will have.
    pub fn bootstrap(
        token: &str,
        members: &BTreeMap<String, Vec<String>>,
    ) -> Result<(ClusterId, Membership), BootstrapError> {
        let mut membership = Membership::default();
        for (name, peer_urls) in members {
            let member = Member::at_bootstrap(name, peer_urls.clone(), token);
            if member.id == MemberId(0) {
                return Err(BootstrapError::ZeroId);
            }
            if let Some(same) = membership.members.insert(member.id, member) {
                return Err(BootstrapError::SameId(same.id));
            }
        }
        Ok((ClusterId::of(membership.ids()), membership))
    }

    /// The members of a running cluster, as one of them tells.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = Member>) -> Membership {
        let members = members.into_iter().map(|member| (member.id, member)).collect();
        Membership { members, ..Membership::default() }
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Those that vote.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members().filter(|member| member.is_voter())
    }

    /// A member.
    #[must_use]
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// The ids of all members.
    pub fn ids(&self) -> impl Iterator<Item = MemberId> {
        self.members.keys().copied()
    }

    /// The ids that are not used again.
    pub fn removed(&self) -> impl Iterator<Item = MemberId> {
        self.removed.iter().copied()
    }

    /// Whether there was such a member.
    #[must_use]
    pub fn is_removed(&self, id: MemberId) -> bool {
        self.removed.contains(&id)
    }

    /// Whether there is such a member and it only learns.
    #[must_use]
    pub fn is_learner(&self, id: MemberId) -> bool {
        self.member(id).is_some_and(|member| member.raft.is_learner)
    }

    /// The version that all members speak; none before they agreed on one.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Whether the cluster is on its way to an older version.
    #[must_use]
    pub fn downgrade(&self) -> &Downgrade {
        &self.downgrade
    }

    /// Where members reach each other, in order.
    #[must_use]
    pub fn peer_urls(&self) -> Vec<String> {
        sorted(self.members().flat_map(|member| &member.raft.peer_urls))
    }

    /// Where clients reach the members, in order.
    #[must_use]
    pub fn client_urls(&self) -> Vec<String> {
        sorted(self.members().flat_map(|member| &member.attributes.client_urls))
    }

    /// Who votes and who learns, for raft to start with.
    #[must_use]
    pub fn conf_state(&self) -> ConfState {
        let (voters, learners): (Vec<&Member>, Vec<&Member>) =
            self.members().partition(|member| member.is_voter());
        let ids = |members: Vec<&Member>| members.into_iter().map(|member| member.id.0).collect();
        ConfState { voters: ids(voters), learners: ids(learners), ..ConfState::default() }
    }

    /// Whether there are no more learners than there may be, and room for so many more.
    pub fn check_learners(&self, more: usize, learners_max: usize) -> Result<(), Refused> {
        let learners = self.members().filter(|member| !member.is_voter()).count();
        if learners + more > learners_max { Err(Refused::TooManyLearners) } else { Ok(()) }
    }

    /// Whether any other member than this has one of the peer URLs.
    pub fn check_peer_urls(&self, of: &Member) -> Result<(), Refused> {
        let others = self.members().filter(|member| member.id != of.id);
        let mut taken = others.flat_map(|member| &member.raft.peer_urls);
        if taken.any(|url| of.raft.peer_urls.contains(url)) {
            return Err(Refused::PeerUrlExists);
        }
        Ok(())
    }
}

fn sorted<'a>(urls: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut urls: Vec<String> = urls.cloned().collect();
    urls.sort_unstable();
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial<const N: usize>(members: [(&str, &str); N]) -> BTreeMap<String, Vec<String>> {
        members.map(|(name, url)| (name.to_owned(), vec![url.to_owned()])).into()
    }

    #[test]
    fn a_cluster_begins_with_ids_that_all_members_compute() {
        let one = initial([("default", "http://localhost:2380")]);
        let (id, membership) = Membership::bootstrap("etcd-cluster", &one).unwrap();
        assert_eq!(id.to_string(), "cdf818194e3a8c32");
        assert_eq!(membership.ids().collect::<Vec<_>>(), [MemberId(0x8e9e_05c5_2164_694d)]);
        assert_eq!(membership.conf_state().voters, [0x8e9e_05c5_2164_694d]);
    }

    #[test]
    fn two_members_with_the_same_urls_are_one_too_many() {
        let two = initial([("a", "http://localhost:2380"), ("b", "http://localhost:2380")]);
        let same = Membership::bootstrap("t", &two).unwrap_err();
        assert!(same.to_string().starts_with("member exists with identical ID "), "{same}");
    }

    #[test]
    fn urls_are_sorted_over_all_members() {
        let three = initial([("a", "http://c:1"), ("b", "http://a:1"), ("c", "http://b:1")]);
        let (_, membership) = Membership::bootstrap("t", &three).unwrap();
        assert_eq!(membership.peer_urls(), ["http://a:1", "http://b:1", "http://c:1"]);
        assert!(membership.client_urls().is_empty());
    }

    #[test]
    fn learners_are_counted() {
        let learner = Member::to_add(vec!["http://a:1".to_owned()], true, 1);
        let id = learner.id;
        let membership = Membership::of([learner]);
        assert!(membership.is_learner(id) && !membership.is_learner(MemberId(1)));
        assert_eq!(membership.conf_state().learners, [id.0]);
        assert_eq!(membership.check_learners(0, 1), Ok(()));
        assert_eq!(membership.check_learners(1, 1), Err(Refused::TooManyLearners));
        assert_eq!(membership.check_learners(1, 2), Ok(()));
    }
}
