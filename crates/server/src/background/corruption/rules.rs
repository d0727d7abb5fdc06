//! Decides which members are corrupt, given the hashes of all members. Pure functions, except for
//! log lines.

use std::collections::BTreeMap;

use mvcc::KeyValueHash;
use types::MemberId;

use super::PeerHash;

/// The member id of an alarm when the corrupt members cannot be identified.
pub(super) const WHOLE_CLUSTER: MemberId = MemberId(0);

/// Hashes of this member before and after it caught up with every answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalHashes {
    pub(super) local: MemberId,
    pub(super) before: KeyValueHash,
    pub(super) after: KeyValueHash,
    /// The revision of the store when `after` was computed.
    pub(super) revision: i64,
}

impl LocalHashes {
    /// Returns whether the hash changed at the same revision and compaction.
    fn changed_at_same_revision(&self) -> bool {
        let LocalHashes { before, after, .. } = self;
        before.revision == after.revision
            && before.compact_revision == after.compact_revision
            && before.hash != after.hash
    }
}

/// Returns the first member that is corrupt. The next check finds others.
pub(super) fn corrupt_member(own: &LocalHashes, peers: &[PeerHash]) -> Option<MemberId> {
    let LocalHashes { before, after, .. } = own;
    if own.changed_at_same_revision() {
        tracing::warn!(
            revision_1 = before.revision,
            compact_revision_1 = before.compact_revision,
            hash_1 = before.hash,
            revision_2 = after.revision,
            compact_revision_2 = after.compact_revision,
            hash_2 = after.hash,
            "found hash mismatch"
        );
        return Some(own.local);
    }
    peers.iter().find(|peer| is_corrupt(own, peer)).map(|peer| peer.member)
}

/// Compares one answer with the leader. A peer cannot be ahead of the leader in revisions or
/// compactions, and must have the leader's hash if it has the same compaction.
fn is_corrupt(own: &LocalHashes, peer: &PeerHash) -> bool {
    let Ok(answer) = &peer.answer else { return false };
    let (id, own_compacted) = (peer.member, own.after.compact_revision);
    let (hash, compacted) = (answer.hash.hash, answer.hash.compact_revision);
    if answer.revision > own.revision {
        tracing::warn!(
            leader_revision = own.revision,
            follower_revision = answer.revision,
            follower_peer_id = %id,
            "revision from follower must be less than or equal to leader's"
        );
    } else if compacted > own_compacted {
        tracing::warn!(
            leader_compact_revision = own_compacted,
            follower_compact_revision = compacted,
            follower_peer_id = %id,
            "compact revision from follower must be less than or equal to leader's"
        );
    } else if compacted == own.before.compact_revision && hash != own.before.hash {
        tracing::warn!(
            leader_compact_revision = own_compacted,
            leader_hash = own.before.hash,
            follower_compact_revision = compacted,
            follower_hash = hash,
            follower_peer_id = %id,
            "same compact revision then hashes must match"
        );
    } else {
        return false;
    }
    true
}

/// The result of comparing the hashes of one compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// All members agree.
    Same,
    /// All comparable answers agree, but some peers did not answer or had another compaction.
    Incomplete,
    /// The members that differ from the majority, or `WHOLE_CLUSTER` if there is no majority.
    Differ(Vec<MemberId>),
}

/// Compares the hash of a compaction on this member with the peers'.
pub(super) fn compare(local: MemberId, own: &KeyValueHash, peers: &[PeerHash]) -> Compared {
    let mut members = BTreeMap::from([(own.hash, vec![local])]);
    let comparable: Vec<_> =
        peers.iter().filter_map(|peer| Some((peer.member, comparable(own, peer)?))).collect();
    for (member, hash) in &comparable {
        members.entry(*hash).or_default().push(*member);
    }
    if members.len() == 1 {
        return if comparable.len() == peers.len() { Compared::Same } else { Compared::Incomplete };
    }
    let members_total = peers.len() + 1;
    let quorum = members_total / 2 + 1;
    let majority = members.iter().find(|(_, ids)| ids.len() >= quorum).map(|(hash, _)| *hash);
    log_mismatch(local, own, &members, majority);
    match majority {
        None => Compared::Differ(vec![WHOLE_CLUSTER]),
        Some(right) => {
            members.remove(&right);
            Compared::Differ(members.into_values().flatten().collect())
        }
    }
}

/// Returns the hash of a peer that made the same compaction after the same previous one.
fn comparable(own: &KeyValueHash, peer: &PeerHash) -> Option<u32> {
    let reason = match &peer.answer {
        Ok(answer) if answer.hash.compact_revision == own.compact_revision => {
            return Some(answer.hash.hash);
        }
        Ok(answer) => format!(
            "the peer's CompactRevision {} doesn't match leader's CompactRevision {}",
            answer.hash.compact_revision, own.compact_revision
        ),
        Err(_) => "no response".to_owned(),
    };
    tracing::warn!(peer_id = %peer.member, reason, "Skipped peer's hash");
    None
}

fn log_mismatch(
    leader: MemberId,
    own: &KeyValueHash,
    members: &BTreeMap<u32, Vec<MemberId>>,
    majority: Option<u32>,
) {
    if majority.is_none() {
        tracing::error!(
            leader_id = %leader,
            leader_revision = own.revision,
            leader_compact_revision = own.compact_revision,
            leader_hash = own.hash,
            "Detected compaction hash mismatch but cannot identify the corrupted members, so intentionally set the memberID as 0"
        );
    }
    for (hash, ids) in members.iter().filter(|(hash, _)| Some(**hash) != majority) {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        tracing::error!(
            leader_id = %leader,
            leader_revision = own.revision,
            leader_compact_revision = own.compact_revision,
            leader_hash = own.hash,
            peer_hash = hash,
            peer_ids = ids.join(","),
            quorum_exist = majority.is_some(),
            "Detected compaction hash mismatch"
        );
    }
}

/// Returns whether a starting member differs from any peer at the same revision and compaction.
pub(super) fn differs_at_start(local: MemberId, own: &KeyValueHash, peers: &[PeerHash]) -> bool {
    let differing = peers.iter().filter(|peer| differs(local, own, peer));
    differing.count() > 0
}

fn differs(local: MemberId, own: &KeyValueHash, peer: &PeerHash) -> bool {
    let answer = match &peer.answer {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(
                local_member_id = %local,
                local_member_revision = own.revision,
                remote_peer_id = %peer.member,
                %error,
                "cannot fetch hash from remote peer"
            );
            return false;
        }
    };
    if answer.hash.hash == own.hash {
        return false;
    }
    let same_compaction = answer.hash.compact_revision == own.compact_revision;
    tracing::warn!(
        local_member_id = %local,
        local_member_revision = own.revision,
        local_member_compact_revision = own.compact_revision,
        local_member_hash = own.hash,
        remote_peer_id = %peer.member,
        remote_peer_revision = answer.revision,
        remote_peer_compact_revision = answer.hash.compact_revision,
        remote_peer_hash = answer.hash.hash,
        "found different {} values from remote peer",
        if same_compaction { "hash" } else { "compact revision" }
    );
    same_compaction
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::corruption::tests::{hash, peer, silent};

    const LOCAL: MemberId = MemberId(1);

    fn own(before: KeyValueHash, after: KeyValueHash) -> LocalHashes {
        LocalHashes { local: LOCAL, before, after, revision: after.revision }
    }

    #[test]
    fn equal_hashes_raise_no_alarm() {
        let same = hash(7, 3, 10);
        let own = own(same, same);
        assert_eq!(corrupt_member(&own, &[]), None);
        assert_eq!(corrupt_member(&own, &[peer(2, 10, same), silent(3)]), None);
        let lagging = hash(9, 2, 10);
        assert_eq!(corrupt_member(&own, &[peer(2, 10, lagging)]), None, "another compaction");
    }

    #[test]
    fn a_hash_that_changes_at_one_revision_raises_the_alarm_for_the_local_member() {
        let (before, after) = (hash(7, 3, 10), hash(8, 3, 10));
        assert_eq!(corrupt_member(&own(before, after), &[peer(2, 10, before)]), Some(LOCAL));
        assert_eq!(corrupt_member(&own(before, hash(8, 3, 11)), &[]), None, "a write in between");
        assert_eq!(
            corrupt_member(&own(before, hash(8, 4, 10)), &[]),
            None,
            "a compaction in between"
        );
    }

    #[test]
    fn a_peer_ahead_of_the_leader_is_corrupt() {
        let same = hash(7, 3, 10);
        let own = own(same, same);
        assert_eq!(corrupt_member(&own, &[peer(2, 11, same)]), Some(MemberId(2)));
        assert_eq!(corrupt_member(&own, &[peer(2, 10, hash(1, 4, 10))]), Some(MemberId(2)));
    }

    #[test]
    fn only_the_first_corrupt_member_is_named() {
        let same = hash(7, 3, 10);
        let own = own(same, same);
        let peers = [silent(2), peer(3, 10, hash(8, 3, 10)), peer(4, 10, hash(9, 3, 10))];
        assert_eq!(corrupt_member(&own, &peers), Some(MemberId(3)));
    }

    #[test]
    fn a_follower_with_the_leaders_previous_compaction_must_have_its_hash() {
        let own = own(hash(7, 3, 10), hash(8, 5, 12));
        assert_eq!(corrupt_member(&own, &[peer(2, 10, hash(7, 3, 10))]), None);
        assert_eq!(corrupt_member(&own, &[peer(2, 10, hash(6, 3, 10))]), Some(MemberId(2)));
        assert_eq!(corrupt_member(&own, &[peer(2, 12, hash(1, 5, 12))]), None, "not comparable");
    }

    #[test]
    fn the_minority_is_named_or_the_cluster_without_a_majority() {
        let (right, wrong) = (hash(7, 3, 10), hash(8, 3, 10));
        let differ = |own, peers: &[PeerHash]| -> Vec<u64> {
            match compare(LOCAL, &own, peers) {
                Compared::Differ(members) => members.into_iter().map(|id| id.0).collect(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(differ(right, &[peer(2, 10, right), peer(3, 10, wrong)]), vec![3]);
        assert_eq!(differ(wrong, &[peer(2, 10, right), peer(3, 10, right)]), vec![1], "the leader");
        assert_eq!(differ(right, &[peer(2, 10, wrong)]), vec![0], "no majority");
        assert_eq!(
            differ(right, &[peer(2, 10, wrong), silent(3)]),
            vec![0],
            "one of three is no majority"
        );
        let three = [
            peer(2, 10, right),
            peer(3, 10, right),
            peer(4, 10, wrong),
            peer(5, 10, hash(9, 3, 10)),
        ];
        assert_eq!(differ(right, &three), vec![4, 5]);
    }

    #[test]
    fn a_missing_answer_makes_the_result_incomplete() {
        let own = hash(7, 3, 10);
        assert_eq!(compare(LOCAL, &own, &[peer(2, 10, own), peer(3, 9, own)]), Compared::Same);
        assert_eq!(compare(LOCAL, &own, &[peer(2, 10, own), silent(3)]), Compared::Incomplete);
        let other = hash(9, 2, 10);
        assert_eq!(compare(LOCAL, &own, &[peer(2, 10, other)]), Compared::Incomplete);
    }

    #[test]
    fn a_start_fails_only_where_hashes_can_be_compared() {
        let own = hash(7, 3, 10);
        assert!(!differs_at_start(LOCAL, &own, &[peer(2, 12, own), silent(3)]));
        assert!(!differs_at_start(LOCAL, &own, &[peer(2, 12, hash(8, 4, 10))]));
        assert!(differs_at_start(LOCAL, &own, &[peer(2, 12, own), peer(3, 12, hash(8, 3, 10))]));
    }
}
