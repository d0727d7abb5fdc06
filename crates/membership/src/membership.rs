//! The members, removed ids and version of a cluster, as one value.
//!
//! ```text
//!   members    305d…  voter     m1   http://10.0.0.1:2380   http://10.0.0.1:2379
//!              b70d…  voter     m2   http://10.0.0.2:2380   http://10.0.0.2:2379
//!              c580…  learner   ""   http://10.0.0.4:2380          (not started yet)
//!   removed    d74b…
//!   version    3.7              none before the leader has set one
//!   downgrade  off
//! ```
//!
//! Invariants: a removed id is not a member; a member is stored under its own id. Lists are sorted
//! by id.

use std::collections::{BTreeMap, BTreeSet};

use backend::schema::cluster::Downgrade;
use backend::schema::version::Version;
use proto::raftpb::ConfState;
use types::MemberId;

use crate::error::ConfChangeRefusal;
use crate::id::ClusterId;
use crate::member::Member;

/// The members of a cluster, the removed ids, the cluster version and a downgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub(crate) members: BTreeMap<MemberId, Member>,
    pub(crate) removed: BTreeSet<MemberId>,
    pub(crate) version: Option<Version>,
    pub(crate) downgrade: Downgrade,
}

/// The reason why a cluster cannot be bootstrapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// Two members have the same peer URLs.
    #[error("member exists with identical ID {0}")]
    SameId(MemberId),
    /// The id zero, which stands for no member.
    #[error("cannot use 0 as member id")]
    ZeroId,
}

impl Membership {
    /// Computes the id and the initial members of a new cluster from names and peer URLs.
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

    /// Creates a membership from the members of a running cluster.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = Member>) -> Membership {
        let members = members.into_iter().map(|member| (member.id, member)).collect();
        Membership { members, ..Membership::default() }
    }

    /// Returns all members.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Returns the voters.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members().filter(|member| member.is_voter())
    }

    /// Looks a member up.
    #[must_use]
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// Returns the ids of all members.
    pub fn ids(&self) -> impl Iterator<Item = MemberId> {
        self.members.keys().copied()
    }

    /// Returns the ids of removed members.
    pub fn removed(&self) -> impl Iterator<Item = MemberId> {
        self.removed.iter().copied()
    }

    /// Returns whether a member was removed.
    #[must_use]
    pub fn is_removed(&self, id: MemberId) -> bool {
        self.removed.contains(&id)
    }

    /// Returns whether an id belongs to a learner.
    #[must_use]
    pub fn is_learner(&self, id: MemberId) -> bool {
        self.member(id).is_some_and(|member| member.raft.is_learner)
    }

    /// Returns the cluster version, once the leader has set one.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Returns the state of a downgrade.
    #[must_use]
    pub fn downgrade(&self) -> &Downgrade {
        &self.downgrade
    }

    /// Returns all peer URLs, sorted.
    #[must_use]
    pub fn peer_urls(&self) -> Vec<String> {
        sorted(self.members().flat_map(|member| &member.raft.peer_urls))
    }

    /// Returns all client URLs, sorted.
    #[must_use]
    pub fn client_urls(&self) -> Vec<String> {
        sorted(self.members().flat_map(|member| &member.attributes.client_urls))
    }

    /// Returns the voters and learners in Raft's form.
    #[must_use]
    pub fn conf_state(&self) -> ConfState {
        let (voters, learners): (Vec<&Member>, Vec<&Member>) =
            self.members().partition(|member| member.is_voter());
        let ids = |members: Vec<&Member>| members.into_iter().map(|member| member.id.0).collect();
        ConfState { voters: ids(voters), learners: ids(learners), ..ConfState::default() }
    }

    /// Checks that `more` learners do not exceed the maximum.
    pub fn check_learners(
        &self,
        more: usize,
        learners_max: usize,
    ) -> Result<(), ConfChangeRefusal> {
        let learners = self.members().filter(|member| !member.is_voter()).count();
        if learners + more > learners_max {
            Err(ConfChangeRefusal::TooManyLearners)
        } else {
            Ok(())
        }
    }

    /// Checks that no other member has one of the peer URLs.
    pub fn check_peer_urls(&self, of: &Member) -> Result<(), ConfChangeRefusal> {
        let others = self.members().filter(|member| member.id != of.id);
        let mut taken = others.flat_map(|member| &member.raft.peer_urls);
        if taken.any(|url| of.raft.peer_urls.contains(url)) {
            return Err(ConfChangeRefusal::PeerUrlExists);
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
    fn bootstrap_computes_the_same_ids_on_all_members() {
        let one = initial([("default", "http://localhost:2380")]);
        let (id, membership) = Membership::bootstrap("etcd-cluster", &one).unwrap();
        assert_eq!(id.to_string(), "cdf818194e3a8c32");
        assert_eq!(membership.ids().collect::<Vec<_>>(), [MemberId(0x8e9e_05c5_2164_694d)]);
        assert_eq!(membership.conf_state().voters, [0x8e9e_05c5_2164_694d]);
    }

    #[test]
    fn members_with_equal_urls_are_refused() {
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
    fn the_maximum_of_learners_is_checked() {
        let learner = Member::to_add(vec!["http://a:1".to_owned()], true, 1);
        let id = learner.id;
        let membership = Membership::of([learner]);
        assert!(membership.is_learner(id) && !membership.is_learner(MemberId(1)));
        assert_eq!(membership.conf_state().learners, [id.0]);
        assert_eq!(membership.check_learners(0, 1), Ok(()));
        assert_eq!(membership.check_learners(1, 1), Err(ConfChangeRefusal::TooManyLearners));
        assert_eq!(membership.check_learners(1, 2), Ok(()));
    }
}
