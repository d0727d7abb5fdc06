//! `--force-new-cluster`: restarts this member as the only one of its cluster.
//!
//! ```text
//!   log before    … 41 42 43 | 44          43 is known to be committed, 44 is not
//!   log after     … 41 42 43   44  45 46   45: remove b, 46: remove c; all committed
//! ```
//!
//! etcd discards entry 44. But the commit index reaches the disk later than the entries, so 44 may
//! have been acknowledged, and this log may hold its last copy. If it was not acknowledged, its
//! client never learned the outcome, and either one is correct. The exception is an entry that
//! removes this member's vote: it is discarded with all entries after it, since no voter would be
//! left.
//!
//! If this member is not a member yet it is added first, and a learner is promoted first, so that
//! the cluster has a voter at all times.
//!
//! The member keeps its id and the cluster id. The other members must never run again.

use bytes::Bytes;
use membership::{Change, Member, RaftAttributes};
use prost::Message as _;
use proto::raftpb::ConfChange;
use raft::{Entry, EntryType};
use types::{Index, MemberId, Term};

use super::StartError;
use super::log::Log;
use crate::apply::ConfChanges as _;
use crate::pipeline::voters::Voters;

/// The peer URL of a member that the membership does not contain.
const UNKNOWN_PEER_URL: &str = "http://localhost:2380";

/// Commits all entries of the log and appends the removal of all other members. `voters` are those
/// at the applied index.
///
/// # Errors
/// A committed entry removes this member, or the log cannot be written.
pub(super) fn force_new_cluster(
    log: &mut Log,
    local: MemberId,
    mut voters: Voters,
    applied: Index,
) -> Result<(), StartError> {
    let known = Index(log.state.commit()).max(applied);
    let rest = log.entries.iter().filter(|entry| entry.index > applied);
    for (index, change) in rest.filter_map(conf_change) {
        let had_vote = voters.contains(local);
        let before = voters.clone();
        voters.apply(Index::ZERO, &change);
        if !had_vote || voters.contains(local) {
            continue;
        }
        if index <= known {
            return Err(StartError::Removed(local));
        }
        voters = before;
        drop_from(log, index);
        break;
    }
    let last = log.entries.last().map_or(known, |entry| entry.index.max(known));
    if last > known {
        tracing::warn!(
            commit_index_from_wal = known.0,
            number_of_kept_entries = last.0 - known.0,
            "keeping WAL entries that are not known to be committed"
        );
    }
    let entries = changes(&voters, local, Term(log.state.term()), last);
    log.state.commit = Some(entries.last().map_or(last, |entry| entry.index).0);
    log.wal.save(&log.state, &entries.iter().cloned().map(Into::into).collect::<Vec<_>>(), true)?;
    log.entries.extend(entries);
    tracing::info!(local_member_id = %local, commit_index = log.state.commit(), "forcing restart member");
    Ok(())
}

/// Discards the entry that removes this member's vote, and all entries after it.
fn drop_from(log: &mut Log, index: Index) {
    let kept_len = log.entries.iter().take_while(|entry| entry.index < index).count();
    tracing::warn!(
        entry_index = index.0,
        commit_index_from_wal = log.state.commit(),
        number_of_discarded_entries = log.entries.len() - kept_len,
        "discarding uncommitted WAL entries, the first of which removes this member"
    );
    log.entries.truncate(kept_len);
}

fn conf_change(entry: &Entry) -> Option<(Index, ConfChange)> {
    let is_change = entry.kind == EntryType::ConfChange;
    let change = is_change.then(|| ConfChange::decode(entry.data.clone()).ok()).flatten()?;
    Some((entry.index, change))
}

/// Returns the conf changes that make this member a voter, if it is none, and remove all others.
fn changes(voters: &Voters, local: MemberId, term: Term, last: Index) -> Vec<Entry> {
    let conf = voters.conf_state();
    let joins = match () {
        () if conf.voters.contains(&local.0) => None,
        () if conf.learners.contains(&local.0) => Some(Change::Promote(local)),
        () => Some(Change::Add(unknown(local))),
    };
    let ids = conf.voters.into_iter().chain(conf.learners).map(MemberId);
    let others = ids.filter(|id| *id != local).map(Change::Remove);
    let changes = joins.into_iter().chain(others);
    let entry = |(index, change): (u64, Change)| Entry {
        kind: EntryType::ConfChange,
        term,
        index: Index(index),
        data: Bytes::from(change.to_conf_change(None).encode_to_vec()),
        ..Entry::default()
    };
    (last.0 + 1..).zip(changes).map(entry).collect()
}

/// Returns a member without attributes.
fn unknown(id: MemberId) -> Member {
    let raft = RaftAttributes { peer_urls: vec![UNKNOWN_PEER_URL.to_owned()], is_learner: false };
    Member { id, raft, ..Member::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use env::{Disk, SimDisk};
    use proto::etcdserverpb::Metadata;
    use proto::raftpb::{ConfState, HardState};
    use proto::walpb;
    use wal::Wal;

    use super::*;

    fn shown(entries: &[Entry]) -> Vec<(u64, u64, bool)> {
        let shown = |entry: &Entry| {
            let (_, change) = conf_change(entry).unwrap();
            let removes =
                Change::decode(&change).unwrap() == Change::Remove(MemberId(change.node_id()));
            (entry.index.0, change.node_id(), removes)
        };
        entries.iter().map(shown).collect()
    }

    #[test]
    fn all_other_members_are_removed() {
        let conf = ConfState { voters: vec![1, 2, 3], learners: vec![4], ..ConfState::default() };
        let entries = changes(&conf.into(), MemberId(2), Term(7), Index(43));
        assert_eq!(shown(&entries), [(44, 1, true), (45, 3, true), (46, 4, true)]);
        assert!(entries.iter().all(|entry| entry.term == Term(7)));
    }

    #[test]
    fn an_unknown_member_is_added_first() {
        let conf = ConfState { voters: vec![1], ..ConfState::default() };
        let entries = changes(&conf.into(), MemberId(2), Term(7), Index(3));
        assert_eq!(shown(&entries), [(4, 2, false), (5, 1, true)], "there is a voter at all times");
    }

    #[test]
    fn a_learner_is_promoted_first() {
        let conf = ConfState { voters: vec![1], learners: vec![2], ..ConfState::default() };
        let entries = changes(&conf.into(), MemberId(2), Term(7), Index(3));
        assert_eq!(shown(&entries), [(4, 2, false), (5, 1, true)]);
        let (_, promotes) = conf_change(&entries[0]).unwrap();
        assert_eq!(Change::decode(&promotes).unwrap(), Change::Promote(MemberId(2)));
    }

    /// Creates a log with the given entries, of which the first is known to be committed.
    fn log(disk: &Arc<dyn Disk>, entries: Vec<Entry>) -> Log {
        let config = wal::Config::default();
        let mut wal =
            Wal::create(Arc::clone(disk), Path::new("/wal"), Bytes::new(), config).unwrap();
        let state = HardState { term: Some(2), vote: Some(1), commit: Some(1) };
        let written: Vec<_> = entries.iter().cloned().map(Into::into).collect();
        wal.save(&state, &written, true).unwrap();
        Log { wal, metadata: Metadata::default(), state, entries }
    }

    fn entry(index: u64) -> Entry {
        Entry { term: Term(2), index: Index(index), ..Entry::default() }
    }

    #[test]
    fn uncommitted_entries_are_discarded_from_the_removal_of_this_member_on() {
        let disk = Arc::new(SimDisk::new(7)) as Arc<dyn Disk>;
        let removed = Change::Remove(MemberId(2)).to_conf_change(Some(9));
        let removal = Entry {
            kind: EntryType::ConfChange,
            data: Bytes::from(removed.encode_to_vec()),
            ..entry(3)
        };
        let mut log = log(&disk, vec![entry(1), entry(2), removal, entry(4)]);
        let conf = ConfState { voters: vec![1, 2, 3], ..ConfState::default() };
        force_new_cluster(&mut log, MemberId(2), conf.into(), Index::ZERO).unwrap();
        assert_eq!(shown(&log.entries[2..]), [(3, 1, true), (4, 3, true)]);
        drop(log);
        let start = walpb::Snapshot::default();
        let read = wal::read_all(&*disk, Path::new("/wal"), &start).unwrap();
        let kept: Vec<Entry> = read.entries.into_iter().map(|it| it.try_into().unwrap()).collect();
        assert_eq!(shown(&kept[2..]), [(3, 1, true), (4, 3, true)]);
        assert_eq!(read.state.commit(), 4);
    }

    /// The commit index is written with the next entries: three entries may be acknowledged while
    /// the log records the commit of one.
    #[test]
    fn uncommitted_entries_are_kept_since_they_may_be_acknowledged() {
        let shared = Arc::new(SimDisk::new(7)) as Arc<dyn Disk>;
        let mut log = log(&shared, (1..=3).map(entry).collect());
        let conf = ConfState { voters: vec![1, 2, 3], ..ConfState::default() };
        force_new_cluster(&mut log, MemberId(2), conf.into(), Index::ZERO).unwrap();

        let indexes = |found: &[Entry]| found.iter().map(|it| it.index.0).collect::<Vec<_>>();
        assert_eq!(indexes(&log.entries), [1, 2, 3, 4, 5]);
        assert_eq!(shown(&log.entries[3..]), [(4, 1, true), (5, 3, true)]);
        drop(log);
        let read = wal::read_all(&*shared, Path::new("/wal"), &walpb::Snapshot::default()).unwrap();
        assert_eq!(read.entries.len(), 5);
        assert_eq!((read.state.term(), read.state.vote(), read.state.commit()), (2, 1, 5));
    }
}
