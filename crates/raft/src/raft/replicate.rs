//! Replication on a leader.

use types::{Index, MemberId, Term};

use crate::entry::{EntryId, payload_bytes};
use crate::message::{Message, MessageType};
use crate::storage::{SnapshotError, Storage};
use crate::tracker::ProgressState;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Sends each peer its missing entries, or at least the commit index.
    pub(super) fn broadcast_append(&mut self) {
        self.for_each_peer(|raft, to| {
            raft.maybe_send_append(to, true);
        });
    }

    /// Sends heartbeats with the position of the last read that waits for a quorum.
    pub(super) fn broadcast_heartbeat(&mut self) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let context = leader.reads.heartbeat_context();
        let committed = self.log.committed();
        self.for_each_peer(|raft, to| {
            let Some(progress) = raft.tracker.progress.get_mut(to) else {
                return;
            };
            // Never beyond the match index: the follower's log may differ there.
            let commit = progress.matched.min(committed);
            progress.sent_commit(commit);
            let context = context.clone();
            raft.send(Message { commit, context, ..Message::new(MessageType::MsgHeartbeat, to) });
        });
    }

    /// Calls `act` for every peer, in id order.
    pub(super) fn for_each_peer(&mut self, mut act: impl FnMut(&mut Self, MemberId)) {
        for position in 0..self.tracker.progress.len() {
            match self.tracker.progress.id_at(position) {
                Some(id) if id != self.id() => act(self, id),
                _ => {}
            }
        }
    }

    /// Sends a peer its missing entries, unless it is paused; returns whether a message was sent.
    /// An append without entries still carries the commit index; `send_if_empty` decides whether to
    /// send one.
    pub(super) fn maybe_send_append(&mut self, to: MemberId, send_if_empty: bool) -> bool {
        let Some(progress) = self.tracker.progress.get(to) else {
            return false;
        };
        if progress.is_paused() {
            return false;
        }
        let (next, prev) = (progress.next, progress.next.prev());
        let Ok(prev_term) = self.log.term(prev) else {
            return self.maybe_send_snapshot(to);
        };
        // A full window only lets empty appends through. If all appends in the window were lost,
        // the responses to these open it again.
        let throttled = progress.state == ProgressState::Replicate && progress.inflights.is_full();
        let entries = if throttled {
            Ok(Vec::new())
        } else {
            self.log.entries(next, self.config.max_message_bytes)
        };
        if !send_if_empty && entries.as_ref().map_or(true, Vec::is_empty) {
            return false;
        }
        let Ok(entries) = entries else {
            return self.maybe_send_snapshot(to);
        };
        let commit = self.log.committed();
        if let Some(progress) = self.tracker.progress.get_mut(to) {
            progress.sent_entries(entries.len(), payload_bytes(&entries));
            progress.sent_commit(commit);
        }
        let append = Message::new(MessageType::MsgApp, to);
        self.send(Message { index: prev, log_term: prev_term, entries, commit, ..append });
        true
    }

    /// Sends a snapshot to a peer that needs compacted entries; returns whether it was sent.
    fn maybe_send_snapshot(&mut self, to: MemberId) -> bool {
        let Some(progress) = self.tracker.progress.get_mut(to) else {
            return false;
        };
        // A snapshot is expensive, so it is sent only to active peers.
        if !progress.recent_active {
            return false;
        }
        let snapshot = match self.log.snapshot() {
            Ok(snapshot) => snapshot,
            Err(SnapshotError::TemporarilyUnavailable) => return false,
        };
        assert!(!snapshot.is_empty(), "a compacted log has a snapshot");
        let index = snapshot.metadata.index;
        progress.become_snapshot(index);
        tracing::info!(member = %self.id(), %to, %index, "sending a snapshot");
        let snapshot = Some(Box::new(snapshot));
        self.send(Message { snapshot, ..Message::new(MessageType::MsgSnap, to) });
        true
    }

    pub(super) fn on_append_response(&mut self, message: &Message) {
        if let Some(progress) = self.tracker.progress.get_mut(message.from) {
            progress.recent_active = true;
        }
        if message.reject {
            self.on_append_refused(message);
        } else {
            self.on_append_accepted(message);
        }
    }

    /// Finds the index at which the two logs may match. The rejection carries the last index whose
    /// term on the follower is not above the term of the rejected append, with that term. The
    /// leader skips its own entries of higher terms, which cannot match either:
    ///
    /// ```text
    /// index      1 2 3 4 5 6 7 8
    /// leader     2 2 4 4 4 7 7 7      refused at 8; the hint is 5 with term 3
    /// follower   2 2 3 3 3            4, 4 and 4 are all above 3: try 2
    /// ```
    ///
    /// So each term in which the logs differ takes at most one round trip.
    fn on_append_refused(&mut self, message: &Message) {
        let hint = if message.log_term > Term::ZERO {
            self.log.find_conflict_by_term(message.reject_hint, message.log_term).index
        } else {
            message.reject_hint
        };
        let Some(progress) = self.tracker.progress.get_mut(message.from) else {
            return;
        };
        if progress.maybe_decrease_to(message.index, hint) {
            if progress.state == ProgressState::Replicate {
                progress.become_probe();
            }
            self.maybe_send_append(message.from, true);
        }
    }

    fn on_append_accepted(&mut self, message: &Message) {
        let from = message.from;
        if !self.record_ack(from, message.index) {
            return;
        }
        if self.maybe_commit() {
            // An entry of this term is committed: answer the reads that waited for it.
            self.release_pending_reads();
            self.broadcast_append();
        } else if from != self.id() && self.can_bump_commit(from) {
            self.maybe_send_append(from, true);
        }
        if from == self.id() {
            return;
        }
        // The window may have room for several messages.
        while self.maybe_send_append(from, false) {}
        self.maybe_finish_transfer(from);
    }

    /// Applies an acknowledgement to the progress; returns whether it changed anything.
    fn record_ack(&mut self, from: MemberId, acked: Index) -> bool {
        let first = self.log.first_index();
        let Some(progress) = self.tracker.progress.get_mut(from) else {
            return false;
        };
        let news = progress.maybe_update(acked);
        // A stale acknowledgement also ends a probe if it is at the match index.
        let confirms = progress.matched == acked && progress.state == ProgressState::Probe;
        if !news && !confirms {
            return false;
        }
        match progress.state {
            ProgressState::Probe => progress.become_replicate(),
            // Whichever snapshot the follower restored: the log of the leader reaches it again.
            ProgressState::Snapshot { .. } if progress.matched.next() >= first => {
                progress.become_probe();
                progress.become_replicate();
            }
            ProgressState::Snapshot { .. } => {}
            ProgressState::Replicate => progress.inflights.free_le(acked),
        }
        true
    }

    fn can_bump_commit(&self, to: MemberId) -> bool {
        let committed = self.log.committed();
        self.tracker.progress.get(to).is_some_and(|progress| progress.can_bump_commit(committed))
    }

    /// Commits up to the highest index that a quorum holds, if its term is the current one; returns
    /// whether the commit index advanced.
    pub(super) fn maybe_commit(&mut self) -> bool {
        let index = self.tracker.committed();
        #[cfg(feature = "planted-bugs")]
        if self.has_planted(crate::config::PlantedBug::CommitOlderTerm) {
            let term = self.log.term(index).unwrap_or(self.term);
            return self.log.maybe_commit(EntryId { term, index });
        }
        self.log.maybe_commit(EntryId { term: self.term, index })
    }

    pub(super) fn on_heartbeat_response(&mut self, message: &Message) {
        let last = self.log.last_index();
        if let Some(progress) = self.tracker.progress.get_mut(message.from) {
            progress.recent_active = true;
            progress.append_paused = false;
            // A peer being probed needs an empty append to respond to, even if no entry is missing.
            if progress.matched < last || progress.state == ProgressState::Probe {
                self.maybe_send_append(message.from, true);
            }
        }
        self.on_read_confirmed(message.from, &message.context);
    }

    /// Handles a report that a peer is unreachable: appends in flight are probably lost.
    pub(crate) fn report_unreachable(&mut self, id: MemberId) {
        if !self.is_leader() {
            return;
        }
        if let Some(progress) = self.tracker.progress.get_mut(id)
            && progress.state == ProgressState::Replicate
        {
            progress.become_probe();
        }
    }

    /// Handles the result of sending a snapshot. In both cases the next append waits: after a
    /// success for the follower's response, after a failure for a heartbeat response.
    pub(crate) fn report_snapshot(&mut self, id: MemberId, arrived: bool) {
        if !self.is_leader() {
            return;
        }
        let Some(progress) = self.tracker.progress.get_mut(id) else {
            return;
        };
        if !matches!(progress.state, ProgressState::Snapshot { .. }) {
            return;
        }
        if arrived {
            progress.become_probe();
        } else {
            progress.become_probe_after_failed_snapshot();
        }
        progress.append_paused = true;
    }
}
