//! Property tests of quorums against their definition.
//!
//! The core computes by sorting; the tests enumerate all subsets of voters, which is slow and
//! simple. Each half has up to ten voters: some fit on the core's stack and some do not.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;
use raft::quorum::{JointConfig, MajorityConfig, VoteResult};
use types::{Index, MemberId};

/// The voters of one half.
type Half = BTreeSet<MemberId>;

fn half() -> impl Strategy<Value = Half> {
    btree_set((1..=12u64).prop_map(MemberId), 0..=10)
}

/// Few distinct indexes, so that voters often agree; some are missing.
fn acks() -> impl Strategy<Value = BTreeMap<MemberId, Index>> {
    btree_map((1..=12u64).prop_map(MemberId), (0..=6u64).prop_map(Index), 0..=12)
}

fn votes() -> impl Strategy<Value = BTreeMap<MemberId, bool>> {
    btree_map((1..=12u64).prop_map(MemberId), any::<bool>(), 0..=12)
}

fn joint(incoming: &Half, outgoing: &Half) -> JointConfig {
    JointConfig { incoming: majority(incoming), outgoing: majority(outgoing) }
}

fn majority(voters: &Half) -> MajorityConfig {
    voters.iter().copied().collect()
}

/// Returns every subset of some voters.
fn subsets(voters: &Half) -> impl Iterator<Item = Half> + '_ {
    (0..1u32 << voters.len()).map(|bits| {
        let chosen = |at: usize| bits & (1 << at) != 0;
        voters.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, id)| *id).collect()
    })
}

/// Reports whether more than half of the voters agree. The empty set agrees.
fn agrees(voters: &Half, yes: impl Fn(MemberId) -> bool) -> bool {
    voters.is_empty()
        || subsets(voters)
            .filter(|subset| 2 * subset.len() > voters.len())
            .any(|quorum| quorum.into_iter().all(&yes))
}

/// Returns the largest index that a quorum of the half has acknowledged, trying all from above.
fn slow_committed(voters: &Half, acks: &BTreeMap<MemberId, Index>) -> Index {
    let acked = |id| acks.get(&id).copied().unwrap_or(Index::ZERO);
    let mut candidates: Vec<Index> = acks.values().copied().chain([Index::ZERO]).collect();
    candidates.push(Index::MAX);
    candidates.sort_unstable();
    let holds = |index: &&Index| agrees(voters, |id| acked(id) >= **index);
    *candidates.iter().rev().find(holds).expect("every voter has acknowledged index zero")
}

/// Enumerates all outcomes of the missing votes.
fn slow_vote_result(halves: [&Half; 2], votes: &BTreeMap<MemberId, bool>) -> VoteResult {
    let voters: Half = halves.into_iter().flatten().copied().collect();
    let missing: Half = voters.into_iter().filter(|id| !votes.contains_key(id)).collect();
    let outcomes: BTreeSet<bool> = subsets(&missing)
        .map(|late_yes| {
            let yes = |id| votes.get(&id).copied().unwrap_or_else(|| late_yes.contains(&id));
            halves.into_iter().all(|half| agrees(half, yes))
        })
        .collect();
    match (outcomes.contains(&true), outcomes.contains(&false)) {
        (true, true) => VoteResult::Pending,
        (true, false) => VoteResult::Won,
        _ => VoteResult::Lost,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_majority_commits_what_a_quorum_has_acknowledged(voters in half(), acks in acks()) {
        let committed = majority(&voters).committed_index(|id| acks.get(&id).copied());
        prop_assert_eq!(committed, slow_committed(&voters, &acks));
    }

    #[test]
    fn a_joint_configuration_commits_what_both_halves_have_acknowledged(
        incoming in half(), outgoing in half(), acks in acks()
    ) {
        let committed = joint(&incoming, &outgoing).committed_index(|id| acks.get(&id).copied());
        let slow = slow_committed(&incoming, &acks).min(slow_committed(&outgoing, &acks));
        prop_assert_eq!(committed, slow);
    }

    /// An index is committed exactly if a quorum has acknowledged it.
    #[test]
    fn an_index_is_committed_if_a_vote_on_it_is_won(
        incoming in half(), outgoing in half(), acks in acks(), index in 0..=7u64
    ) {
        let config = joint(&incoming, &outgoing);
        let acked = |id| acks.get(&id).copied();
        let has = |id| acked(id).unwrap_or(Index::ZERO) >= Index(index);
        let committed = config.committed_index(acked) >= Index(index);
        prop_assert_eq!(committed, config.vote_result(|id| Some(has(id))) == VoteResult::Won);
    }

    #[test]
    fn an_acknowledgement_never_lowers_the_committed_index(
        incoming in half(), outgoing in half(), acks in acks(), voter in 1..=12u64, more in 0..=3u64
    ) {
        let config = joint(&incoming, &outgoing);
        let before = config.committed_index(|id| acks.get(&id).copied());
        let mut later = acks;
        *later.entry(MemberId(voter)).or_insert(Index::ZERO) += more;
        prop_assert!(config.committed_index(|id| later.get(&id).copied()) >= before);
    }

    #[test]
    fn describe_prints_a_line_for_every_voter(
        incoming in half(), outgoing in half(), acks in acks()
    ) {
        let config = joint(&incoming, &outgoing);
        let drawing = config.describe(|id| acks.get(&id).copied());
        let voters = config.ids().len();
        let lines = if voters == 0 { 1 } else { voters + 1 };
        prop_assert_eq!(drawing.lines().count(), lines);
    }
}

/// A small half for tests that enumerate all outcomes of all voters.
fn small_half() -> impl Strategy<Value = Half> {
    btree_set((1..=7u64).prop_map(MemberId), 0..=5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_vote_is_decided_when_the_missing_votes_cannot_change_it(
        incoming in small_half(), outgoing in small_half(), votes in votes()
    ) {
        let result = joint(&incoming, &outgoing).vote_result(|id| votes.get(&id).copied());
        prop_assert_eq!(result, slow_vote_result([&incoming, &outgoing], &votes));
    }

    /// The basis of consensus: any two quorums share a voter.
    #[test]
    fn any_two_quorums_overlap(incoming in small_half(), outgoing in small_half()) {
        prop_assume!(!incoming.is_empty() || !outgoing.is_empty());
        let config = joint(&incoming, &outgoing);
        let quorums: Vec<Half> = subsets(&config.ids())
            .filter(|set| config.vote_result(|id| Some(set.contains(&id))) == VoteResult::Won)
            .collect();
        for (at, one) in quorums.iter().enumerate() {
            for other in &quorums[at..] {
                prop_assert!(!one.is_disjoint(other), "{:?} and {:?}", one, other);
            }
        }
    }
}
