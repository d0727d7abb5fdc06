//! Whether a change of members would cost the cluster its quorum: `--strict-reconfig-check`.
//!
//! ```text
//!   q(n) = n/2 + 1                                       voters   started   connected
//!   add a voter      started ≥ q(n+1), connected ≥ q(n+1)     3      3 ≥ 3       3 ≥ 3     (1 → 2 always, if it has started)
//!   add a learner                      connected ≥ q(n+1)     3                  3 ≥ 3     (1 → 2 always)
//!   promote          started+1 ≥ q(n+1)                       3      3 ≥ 3
//!   remove a voter   others started ≥ q(n-1),                 3      2 ≥ 2
//!                    connected-1 ≥ 1 + (n-1)/2                                   2 ≥ 2     (or nobody hears of it anyway)
//!   remove a learner                                          always
//! ```
//!
//! A member has started once it has a name, and is connected if it has been for [`HEALTH_INTERVAL`]; this member is connected to itself.
//!
//! These ask before a change is proposed, on the member that a client asked. What holds when its turn comes is
//! [`Cluster::check`](crate::Cluster::check)'s to decide.

use std::time::Duration;

use types::{Index, MemberId};

use crate::membership::Membership;

/// How long a member must have been connected to count.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// How much of the leader's log a learner must have to be promoted, in percent.
const LEARNER_READY_PERCENT: u128 = 90;

/// Why a change of members is not proposed. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// Of the voters there would be, too few have ever started.
    #[error("etcdserver: re-configuration failed due to not enough started members")]
    NotEnoughStarted,
    /// Of the voters there are, too few are connected.
    #[error("etcdserver: unhealthy cluster")]
    Unhealthy,
    /// The learner has too little of the log.
    #[error("etcdserver: can only promote a learner member which is in sync with leader")]
    LearnerNotReady,
}

/// The cluster as seen from a member, and for how long it has been connected to each of the others: none if it is not.
#[derive(Debug)]
pub struct Health<'a, F> {
    /// Who is in the cluster.
    pub membership: &'a Membership,
    /// Who looks.
    pub local: MemberId,
    /// For how long it has been connected to another.
    pub connected_for: F,
}

impl<F: Fn(MemberId) -> Option<Duration>> Health<'_, F> {
    /// Whether a member may be added. It counts as one that is not there yet.
    pub fn may_add(&self, is_learner: bool) -> Result<(), Unsafe> {
        let voters = self.voters();
        if !is_learner && !may_add_voter(self.membership) {
            return Err(Unsafe::NotEnoughStarted);
        }
        if voters != 1 && self.connected() < quorum(voters + 1) {
            return Err(Unsafe::Unhealthy);
        }
        Ok(())
    }

    /// Whether a member may be removed.
    pub fn may_remove(&self, id: MemberId) -> Result<(), Unsafe> {
        if self.membership.is_learner(id) {
            return Ok(());
        }
        if !may_remove_voter(self.membership, id) {
            return Err(Unsafe::NotEnoughStarted);
        }
        // Whoever is not heard of is no part of the quorum that there is.
        if id != self.local && (self.connected_for)(id).is_none() {
            return Ok(());
        }
        if self.connected() < 2 + self.voters().saturating_sub(1) / 2 {
            return Err(Unsafe::Unhealthy);
        }
        Ok(())
    }

    fn voters(&self) -> usize {
        self.membership.voters().count()
    }

    /// How many voters have been connected for long enough.
    fn connected(&self) -> usize {
        let is_connected = |id| (self.connected_for)(id).is_some_and(|time| time > HEALTH_INTERVAL);
        let voters = self.membership.voters();
        voters.filter(|member| member.id == self.local || is_connected(member.id)).count()
    }
}

/// Whether a learner may be promoted, as far as the other members are concerned. It counts as one that has started.
pub fn may_promote(membership: &Membership) -> Result<(), Unsafe> {
    let (voters, started) = voters_and_started(membership, None);
    if started + 1 < quorum(voters + 1) { Err(Unsafe::NotEnoughStarted) } else { Ok(()) }
}

/// Whether a learner has enough of the leader's log to be promoted.
pub fn learner_is_ready(learner: Index, leader: Index) -> Result<(), Unsafe> {
    let (learner, leader) = (u128::from(learner.0), u128::from(leader.0));
    if learner * 100 < leader * LEARNER_READY_PERCENT {
        return Err(Unsafe::LearnerNotReady);
    }
    Ok(())
}

fn may_add_voter(membership: &Membership) -> bool {
    let (voters, started) = voters_and_started(membership, None);
    // A single member that was started from a backup grows its cluster again.
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

/// How many of so many voters decide.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Attributes, Member, RaftAttributes};

    const LONG: Option<Duration> = Some(Duration::from_secs(6));
    const SHORT: Option<Duration> = Some(Duration::from_secs(5));

    /// Members 1, 2, ...: `s` is a voter that has started, `v` one that has not, `l` a learner.
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

    /// Member 1's view, of others that are connected or not.
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
        assert_eq!(add("v"), Err(Unsafe::NotEnoughStarted));
        assert_eq!(add("ss"), Ok(()));
        assert_eq!(add("sv"), Err(Unsafe::NotEnoughStarted));
        assert_eq!(add("sss"), Ok(()));
        assert_eq!(add("ssv"), Err(Unsafe::NotEnoughStarted));
        assert_eq!(add("ssl"), Ok(()), "learners do not count");
        assert_eq!(add("sssv"), Ok(()));
    }

    #[test]
    fn adding_needs_connected_voters() {
        let membership = cluster("sss");
        let add = |others: &[_], learner| health(&membership, others).may_add(learner);
        for learner in [false, true] {
            assert_eq!(add(&[LONG, LONG], learner), Ok(()));
            assert_eq!(add(&[LONG, SHORT], learner), Err(Unsafe::Unhealthy), "not yet");
            assert_eq!(add(&[LONG, None], learner), Err(Unsafe::Unhealthy));
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
        assert_eq!(remove("s", 1), Err(Unsafe::NotEnoughStarted), "the last one stays");
        assert_eq!(remove("sss", 2), Ok(()));
        assert_eq!(remove("ssv", 2), Err(Unsafe::NotEnoughStarted));
        assert_eq!(remove("ssv", 3), Ok(()));
        assert_eq!(remove("sl", 2), Ok(()), "a learner may always go");
    }

    #[test]
    fn removing_needs_connected_voters_to_be_left() {
        let membership = cluster("sss");
        let remove = |others: &[_], id| health(&membership, others).may_remove(MemberId(id));
        assert_eq!(remove(&[LONG, LONG], 2), Ok(()));
        assert_eq!(remove(&[LONG, LONG], 1), Ok(()));
        assert_eq!(remove(&[LONG, None], 2), Err(Unsafe::Unhealthy));
        assert_eq!(remove(&[LONG, None], 3), Ok(()), "nobody hears of it anyway");
        assert_eq!(remove(&[LONG, SHORT], 3), Err(Unsafe::Unhealthy), "just come back");
        let two = cluster("ss");
        assert_eq!(health(&two, &[LONG]).may_remove(MemberId(2)), Ok(()));
        assert_eq!(health(&two, &[SHORT]).may_remove(MemberId(2)), Err(Unsafe::Unhealthy));
        assert_eq!(health(&two, &[None]).may_remove(MemberId(2)), Ok(()));
    }

    #[test]
    fn promoting_counts_the_learner_as_started() {
        assert_eq!(may_promote(&cluster("sl")), Ok(()));
        assert_eq!(may_promote(&cluster("svl")), Ok(()));
        assert_eq!(may_promote(&cluster("svvl")), Err(Unsafe::NotEnoughStarted));
    }

    #[test]
    fn a_learner_is_ready_with_nine_tenths() {
        assert_eq!(learner_is_ready(Index(9), Index(10)), Ok(()));
        assert_eq!(learner_is_ready(Index(899), Index(1000)), Err(Unsafe::LearnerNotReady));
        assert_eq!(learner_is_ready(Index(0), Index(0)), Ok(()));
        assert_eq!(learner_is_ready(Index::MAX, Index::MAX), Ok(()));
    }
}
