//! `--force-new-cluster`: this member goes on alone, with all that it has.
//!
//! ```text
//!   the log         … 41 42 43 | 44           43 is known to be committed; of 44 only those who are gone could say
//!   goes on as      … 41 42 43   44   45 46   45: remove b, 46: remove c; committed, because this member says so
//! ```
//!
//! etcd drops 44. But how far the log is committed reaches the disk later than the entries do, so 44 may well have been acknowledged, and this is the last copy
//! of it. If it was not, its client never heard how it ended, and either end is right. Unless 44 takes this member's vote: then there would be nobody left, and it goes, with
//! all that is behind it.
//!
//! A member that is none yet is added, and one that only learns is promoted, before all others go: somebody has to vote at all times.
//!
//! It keeps its id, and that of the cluster. Whoever else is left of the cluster must never run again.

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

/// Where a member that nobody knows is reached.
const UNKNOWN_PEER_URL: &str = "http://localhost:2380";

/// Commits all that there is, and that all others go. `voters` is as of what is applied.
///
/// # Errors
/// It is known that this member was removed, or the log cannot be written.
pub(super) fn go_on_alone(
    log: &mut Log,
    local: MemberId,
    mut voters: Voters,
    applied: Index,
) -> Result<(), StartError> {
    let known = Index(log.state.commit()).max(applied);
    let behind = log.entries.iter().filter(|entry| entry.index > applied);
    for (index, change) in behind.filter_map(conf_change) {
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

/// An entry that would leave nobody, and what is behind it.
fn drop_from(log: &mut Log, index: Index) {
    let kept = log.entries.iter().take_while(|entry| entry.index < index).count();
    tracing::warn!(
        entry_index = index.0,
        commit_index_from_wal = log.state.commit(),
        number_of_discarded_entries = log.entries.len() - kept,
        "discarding uncommitted WAL entries, the first of which removes this member"
    );
    log.entries.truncate(kept);
}

fn conf_change(entry: &Entry) -> Option<(Index, ConfChange)> {
    let is_change = entry.kind == EntryType::ConfChange;
    let change = is_change.then(|| ConfChange::decode(entry.data.clone()).ok()).flatten()?;
    Some((entry.index, change))
}

/// This member votes, if it did not; and everybody else goes.
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

/// A member that the cluster does not know.
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
    fn all_others_go() {
        let conf = ConfState { voters: vec![1, 2, 3], learners: vec![4], ..ConfState::default() };
        let entries = changes(&conf.into(), MemberId(2), Term(7), Index(43));
        assert_eq!(shown(&entries), [(44, 1, true), (45, 3, true), (46, 4, true)]);
        assert!(entries.iter().all(|entry| entry.term == Term(7)));
    }

    #[test]
    fn one_that_is_no_member_becomes_one() {
        let conf = ConfState { voters: vec![1], ..ConfState::default() };
        let entries = changes(&conf.into(), MemberId(2), Term(7), Index(3));
        assert_eq!(shown(&entries), [(4, 2, false), (5, 1, true)], "somebody votes at all times");
    }

    #[test]
    fn one_that_only_learns_becomes_a_voter_first() {
        let conf = ConfState { voters: vec![1], learners: vec![2], ..ConfState::default() };
        let entries = changes(&conf.into(), MemberId(2), Term(7), Index(3));
        assert_eq!(shown(&entries), [(4, 2, false), (5, 1, true)]);
        let (_, promotes) = conf_change(&entries[0]).unwrap();
        assert_eq!(Change::decode(&promotes).unwrap(), Change::Promote(MemberId(2)));
    }

    /// A log of three entries, of which the first is known to be committed.
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
    fn what_may_have_removed_this_member_is_not_kept() {
        let disk = Arc::new(SimDisk::new(7)) as Arc<dyn Disk>;
        let removed = Change::Remove(MemberId(2)).to_conf_change(Some(9));
        let removal = Entry {
            kind: EntryType::ConfChange,
            data: Bytes::from(removed.encode_to_vec()),
            ..entry(3)
        };
        let mut log = log(&disk, vec![entry(1), entry(2), removal, entry(4)]);
        let conf = ConfState { voters: vec![1, 2, 3], ..ConfState::default() };
        go_on_alone(&mut log, MemberId(2), conf.into(), Index::ZERO).unwrap();
        assert_eq!(shown(&log.entries[2..]), [(3, 1, true), (4, 3, true)]);
        drop(log);
        let start = walpb::Snapshot::default();
        let read = wal::read_all(&*disk, Path::new("/wal"), &start).unwrap();
        let kept: Vec<Entry> = read.entries.into_iter().map(|it| it.try_into().unwrap()).collect();
        assert_eq!(shown(&kept[2..]), [(3, 1, true), (4, 3, true)]);
        assert_eq!(read.state.commit(), 4);
    }

    /// How far a log is committed is written with what comes next: three entries may be acknowledged where it speaks of one.
    #[test]
    fn what_may_have_been_acknowledged_is_kept() {
        let shared = Arc::new(SimDisk::new(7)) as Arc<dyn Disk>;
        let mut log = log(&shared, (1..=3).map(entry).collect());
        let conf = ConfState { voters: vec![1, 2, 3], ..ConfState::default() };
        go_on_alone(&mut log, MemberId(2), conf.into(), Index::ZERO).unwrap();

        let indexes = |found: &[Entry]| found.iter().map(|it| it.index.0).collect::<Vec<_>>();
        assert_eq!(indexes(&log.entries), [1, 2, 3, 4, 5]);
        assert_eq!(shown(&log.entries[3..]), [(4, 1, true), (5, 3, true)]);
        drop(log);
        let read = wal::read_all(&*shared, Path::new("/wal"), &walpb::Snapshot::default()).unwrap();
        assert_eq!(read.entries.len(), 5);
        assert_eq!((read.state.term(), read.state.vote(), read.state.commit()), (2, 1, 5));
    }
}
