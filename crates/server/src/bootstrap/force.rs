//! `--force-new-cluster`: this member goes on alone, with all that it has.
//!
//! ```text
//!   the log         … 41 42 43 | 44           43 is known to be committed; of 44 only those who are gone could say
//!   goes on as      … 41 42 43   44   45 46   45: remove b, 46: remove c; committed, because this member says so
//! ```
//!
//! etcd drops 44. But how far the log is committed reaches the disk later than the entries do, so 44 may well have been acknowledged, and this is the last copy
//! of it. If it was not, its client never heard how it ended, and either end is right.
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
use crate::voters::Voters;

/// Where a member that nobody knows is reached.
const UNKNOWN_PEER_URLS: [&str; 2] = ["http://localhost:2380", "http://localhost:7001"];

/// Commits all that there is, and that all others go. `voters` is as of what is applied.
pub(super) fn go_on_alone(
    log: &mut Log,
    local: MemberId,
    mut voters: Voters,
    applied: Index,
) -> Result<(), StartError> {
    let known = Index(log.state.commit()).max(applied);
    let last = log.entries.last().map_or(known, |entry| entry.index.max(known));
    if last > known {
        tracing::warn!(
            commit_index_from_wal = known.0,
            number_of_kept_entries = last.0 - known.0,
            "keeping WAL entries that are not known to be committed"
        );
    }
    let behind = log.entries.iter().filter(|entry| entry.index > applied);
    behind.filter_map(conf_change).for_each(|change| drop(voters.apply(Index::ZERO, &change)));
    let entries = changes(&voters, local, Term(log.state.term()), last);
    log.state.commit = Some(entries.last().map_or(last, |entry| entry.index).0);
    log.wal.save(&log.state, &entries.iter().cloned().map(Into::into).collect::<Vec<_>>(), true)?;
    log.entries.extend(entries);
    tracing::info!(local_member_id = %local, commit_index = log.state.commit(), "forcing restart member");
    Ok(())
}

fn conf_change(entry: &Entry) -> Option<ConfChange> {
    let is_change = entry.kind == EntryType::ConfChange;
    is_change.then(|| ConfChange::decode(entry.data.clone()).ok()).flatten()
}

/// Everybody else goes; and this member comes, if it is none.
fn changes(voters: &Voters, local: MemberId, term: Term, last: Index) -> Vec<Entry> {
    let conf = voters.conf_state();
    let ids: Vec<_> = conf.voters.into_iter().chain(conf.learners).map(MemberId).collect();
    let mut changes: Vec<_> =
        ids.iter().filter(|id| **id != local).map(|id| Change::Remove(*id)).collect();
    if !ids.contains(&local) {
        let peer_urls = UNKNOWN_PEER_URLS.map(str::to_owned).to_vec();
        let raft = RaftAttributes { peer_urls, is_learner: false };
        changes.push(Change::Add(Member { id: local, raft, ..Member::default() }));
    }
    let entry = |(index, change): (u64, Change)| Entry {
        kind: EntryType::ConfChange,
        term,
        index: Index(index),
        data: Bytes::from(change.to_conf_change(None).encode_to_vec()),
        ..Entry::default()
    };
    (last.0 + 1..).zip(changes).map(entry).collect()
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
            let change = conf_change(entry).unwrap();
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
        assert_eq!(shown(&entries), [(4, 1, true), (5, 2, false)]);
    }

    /// How far a log is committed is written with what comes next: three entries may be acknowledged where it speaks of one.
    #[test]
    fn what_may_have_been_acknowledged_is_kept() {
        let (disk, dir) = (SimDisk::new(7), Path::new("/wal"));
        let shared = Arc::new(disk) as Arc<dyn Disk>;
        let mut wal =
            Wal::create(Arc::clone(&shared), dir, Bytes::new(), wal::Config::default()).unwrap();
        let entry = |index| Entry { term: Term(2), index: Index(index), ..Entry::default() };
        let entries: Vec<_> = (1..=3).map(entry).collect();
        let state = HardState { term: Some(2), vote: Some(1), commit: Some(1) };
        let written: Vec<_> = entries.iter().cloned().map(Into::into).collect();
        wal.save(&state, &written, true).unwrap();
        let mut log = Log { wal, metadata: Metadata::default(), state, entries };

        let conf = ConfState { voters: vec![1, 2, 3], ..ConfState::default() };
        go_on_alone(&mut log, MemberId(2), conf.into(), Index::ZERO).unwrap();

        let indexes = |found: &[Entry]| found.iter().map(|it| it.index.0).collect::<Vec<_>>();
        assert_eq!(indexes(&log.entries), [1, 2, 3, 4, 5]);
        assert_eq!(shown(&log.entries[3..]), [(4, 1, true), (5, 3, true)]);
        drop(log);
        let read = wal::read_all(&*shared, dir, &walpb::Snapshot::default()).unwrap();
        assert_eq!(read.entries.len(), 5);
        assert_eq!((read.state.term(), read.state.vote(), read.state.commit()), (2, 1, 5));
    }
}
