//! Rules that keep a conf change from costing the quorum: `--strict-reconfig-check`.
//!
//! ```text
//!   q(n) = n/2 + 1                                       n = 3: started  connected
//!   add a voter      started ≥ q(n+1), connected ≥ q(n+1)       3 ≥ 3    3 ≥ 3      (1)
//!   add a learner    connected ≥ q(n+1)                                  3 ≥ 3      (1)
//!   promote          started+1 ≥ q(n+1)                         3 ≥ 3
//!   remove a voter   others started ≥ q(n-1),                   2 ≥ 2
//!                    connected-1 ≥ 1 + (n-1)/2                           2 ≥ 2      (2)
//!   remove a learner always
//!   (1) always from 1 to 2 members, if the one has started   (2) not for a disconnected voter
//! ```
//!
//! A member has started once it has a name. It is connected if it has been for [`HEALTH_INTERVAL`];
//! the local member counts as connected.
//!
//! The member that receives the request applies these rules before it proposes a change.
//! [`Cluster::check`](crate::Cluster::check) decides again when the change is applied.

use std::time::Duration;

use types::{Index, MemberId};

use crate::membership::Membership;

/// The time for which a member must have been connected.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// The part of the leader's log that a learner needs for promotion, in percent.
const LEARNER_READY_PERCENT: u128 = 90;

/// The reason why a conf change is not proposed. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeReconfig {
    /// Too few of the resulting voters have ever started.
    #[error("etcdserver: re-configuration failed due to not enough started members")]
    NotEnoughStarted,
    /// Too few voters are connected.
    #[error("etcdserver: unhealthy cluster")]
    Unhealthy,
    /// The learner is too far behind.
    #[error("etcdserver: can only promote a learner member which is in sync with leader")]
    LearnerNotReady,
}

/// The cluster from the view of one member, with the time for which it has been connected to each
/// other.
#[derive(Debug)]
pub struct Health<'a, F> {
    /// The members.
    pub membership: &'a Membership,
    /// The local member.
    pub local: MemberId,
    /// Returns for how long a member has been connected; `None` if it is not.
    pub connected_for: F,
}

impl<F: Fn(MemberId) -> Option<Duration>> Health<'_, F> {
    /// Checks whether a member may be added. The new member counts as not started.
    pub fn may_add(&self, is_learner: bool) -> Result<(), UnsafeReconfig> {
        let voters = self.voters();
        if !is_learner && !may_add_voter(self.membership) {
            return Err(UnsafeReconfig::NotEnoughStarted);
        }
        if voters != 1 && self.connected() < quorum(voters + 1) {
            return Err(UnsafeReconfig::Unhealthy);
        }
        Ok(())
    }

    /// Checks whether a member may be removed.
    pub fn may_remove(&self, id: MemberId) -> Result<(), UnsafeReconfig> {
        if self.membership.is_learner(id) {
            return Ok(());
        }
        if !may_remove_voter(self.membership, id) {
            return Err(UnsafeReconfig::NotEnoughStarted);
        }
        // A disconnected member is not part of the current quorum.
        if id != self.local && (self.connected_for)(id).is_none() {
            return Ok(());
        }
        if self.connected() < 2 + self.voters().saturating_sub(1) / 2 {
            return Err(UnsafeReconfig::Unhealthy);
        }
        Ok(())
    }

    fn voters(&self) -> usize {
        self.membership.voters().count()
    }

    /// Counts the voters that have been connected for long enough.
    fn connected(&self) -> usize {
        let is_connected = |id| (self.connected_for)(id).is_some_and(|time| time > HEALTH_INTERVAL);
        let voters = self.membership.voters();
        voters.filter(|member| member.id == self.local || is_connected(member.id)).count()
    }
}

/// Checks whether enough voters have started for a promotion. The learner counts as started.
pub fn may_promote(membership: &Membership) -> Result<(), UnsafeReconfig> {
    let (voters, started) = voters_and_started(membership, None);
    if started + 1 < quorum(voters + 1) { Err(UnsafeReconfig::NotEnoughStarted) } else { Ok(()) }
}

/// Checks whether a learner has enough of the leader's log for promotion.
pub fn learner_is_ready(learner: Index, leader: Index) -> Result<(), UnsafeReconfig> {
    let (learner, leader) = (u128::from(learner.0), u128::from(leader.0));
    if learner * 100 < leader * LEARNER_READY_PERCENT {
        return Err(UnsafeReconfig::LearnerNotReady);
    }
    Ok(())
}

fn may_add_voter(membership: &Membership) -> bool {
    let (voters, started) = voters_and_started(membership, None);
    // A single member restored from a backup must be able to grow its cluster.
    (voters == 1 && started == 1) || started >= quorum(voters + 1)
}

fn may_remove_voter(membership: &Membership, id: MemberId) -> bool {
    let (voters, started) = voters_and_started(membership, Some(id));
    started >= quorum(voters)
}

fn voters_and_started(membership: &Membership, without: Option<MemberId>) -> (usize, usize) {
    let voters = || membership.voters().filter(|member| Some(member.id) != without);
    (voters().count(), voters().filter(|member| member.is_started()).count())
}

/// Returns the size of a quorum.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Attributes, Member, RaftAttributes};

    const LONG: Option<Duration> = Some(Duration::from_secs(6));
    const SHORT: Option<Duration> = Some(Duration::from_secs(5));

    /// Builds members 1, 2, ...: `s` a started voter, `v` a voter that has not started, `l` a
    /// learner.
    fn cluster(members: &str) -> Membership {
        Membership::of(members.chars().zip(1..).map(|(kind, id)| Member {
            id: MemberId(id),
            raft: RaftAttributes { peer_urls: Vec::new(), is_learner: kind == 'l' },
            attributes: Attributes {
                name: if kind == 's' { format!("m{id}") } else { String::new() },
                client_urls: Vec::new(),
            },
        }))
    }

    /// Returns the view of member 1, with the connection times of the others.
    fn health<'a>(
        membership: &'a Membership,
        others: &'a [Option<Duration>],
    ) -> Health<'a, impl Fn(MemberId) -> Option<Duration> + 'a> {
        let connected_for = |id: MemberId| {
            let at = usize::try_from(id.0).unwrap() - 2;
            others.get(at).copied().flatten()
        };
        Health { membership, local: MemberId(1), connected_for }
    }

    #[test]
    fn adding_a_voter_needs_started_voters() {
        let add = |members| {
            let membership = cluster(members);
            health(&membership, &[LONG; 4]).may_add(false)
        };
        assert_eq!(add("s"), Ok(()), "one grows to two");
        assert_eq!(add("v"), Err(UnsafeReconfig::NotEnoughStarted));
        assert_eq!(add("ss"), Ok(()));
        assert_eq!(add("sv"), Err(UnsafeReconfig::NotEnoughStarted));
        assert_eq!(add("sss"), Ok(()));
        assert_eq!(add("ssv"), Err(UnsafeReconfig::NotEnoughStarted));
        assert_eq!(add("ssl"), Ok(()), "learners do not count");
        assert_eq!(add("sssv"), Ok(()));
    }

    #[test]
    fn adding_needs_connected_voters() {
        let membership = cluster("sss");
        let add = |others: &[_], learner| health(&membership, others).may_add(learner);
        for learner in [false, true] {
            assert_eq!(add(&[LONG, LONG], learner), Ok(()));
            assert_eq!(add(&[LONG, SHORT], learner), Err(UnsafeReconfig::Unhealthy), "not yet");
            assert_eq!(add(&[LONG, None], learner), Err(UnsafeReconfig::Unhealthy));
        }
        let alone = cluster("s");
        assert_eq!(health(&alone, &[]).may_add(true), Ok(()));
    }

    #[test]
    fn a_learner_may_be_added_beside_voters_that_never_started() {
        let membership = cluster("sv");
        assert_eq!(health(&membership, &[LONG]).may_add(true), Ok(()));
    }

    #[test]
    fn removing_needs_started_voters_to_be_left() {
        let remove = |members, id| {
            let membership = cluster(members);
            health(&membership, &[LONG; 4]).may_remove(MemberId(id))
        };
        assert_eq!(remove("s", 1), Err(UnsafeReconfig::NotEnoughStarted), "the last one stays");
        assert_eq!(remove("sss", 2), Ok(()));
        assert_eq!(remove("ssv", 2), Err(UnsafeReconfig::NotEnoughStarted));
        assert_eq!(remove("ssv", 3), Ok(()));
        assert_eq!(remove("sl", 2), Ok(()), "a learner may always go");
    }

    #[test]
    fn removing_needs_connected_voters_to_be_left() {
        let membership = cluster("sss");
        let remove = |others: &[_], id| health(&membership, others).may_remove(MemberId(id));
        assert_eq!(remove(&[LONG, LONG], 2), Ok(()));
        assert_eq!(remove(&[LONG, LONG], 1), Ok(()));
        assert_eq!(remove(&[LONG, None], 2), Err(UnsafeReconfig::Unhealthy));
        assert_eq!(remove(&[LONG, None], 3), Ok(()), "it is not connected");
        assert_eq!(
            remove(&[LONG, SHORT], 3),
            Err(UnsafeReconfig::Unhealthy),
            "connected too briefly"
        );
        let two = cluster("ss");
        assert_eq!(health(&two, &[LONG]).may_remove(MemberId(2)), Ok(()));
        assert_eq!(health(&two, &[SHORT]).may_remove(MemberId(2)), Err(UnsafeReconfig::Unhealthy));
        assert_eq!(health(&two, &[None]).may_remove(MemberId(2)), Ok(()));
    }

    #[test]
    fn promoting_counts_the_learner_as_started() {
        assert_eq!(may_promote(&cluster("sl")), Ok(()));
        assert_eq!(may_promote(&cluster("svl")), Ok(()));
        assert_eq!(may_promote(&cluster("svvl")), Err(UnsafeReconfig::NotEnoughStarted));
    }

    #[test]
    fn a_learner_is_ready_with_nine_tenths() {
        assert_eq!(learner_is_ready(Index(9), Index(10)), Ok(()));
        assert_eq!(learner_is_ready(Index(899), Index(1000)), Err(UnsafeReconfig::LearnerNotReady));
        assert_eq!(learner_is_ready(Index(0), Index(0)), Ok(()));
        assert_eq!(learner_is_ready(Index::MAX, Index::MAX), Ok(()));
    }
}
