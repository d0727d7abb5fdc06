//! A leader sends its log, and hears how far it got.

use types::{Index, MemberId, Term};

use crate::entry::{EntryId, payload_bytes};
use crate::message::{Message, MessageType};
use crate::storage::{SnapshotError, Storage};
use crate::tracker::ProgressState;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Sends everybody what they lack, or at least the commit index.
    pub(super) fn broadcast_append(&mut self) {
        self.for_each_peer(|raft, to| {
            raft.maybe_send_append(to, true);
        });
    }

    /// Sends heartbeats, with the position of the newest read that waits for a quorum.
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
            // Never beyond what the member is known to hold: it may have something else there.
            let commit = progress.matched.min(committed);
            progress.sent_commit(commit);
            let context = context.clone();
            raft.send(Message { commit, context, ..Message::new(MessageType::MsgHeartbeat, to) });
        });
    }

    /// Calls `act` for every other member, in the order of ids.
    pub(super) fn for_each_peer(&mut self, mut act: impl FnMut(&mut Self, MemberId)) {
        for position in 0..self.tracker.progress.len() {
            match self.tracker.progress.id_at(position) {
                Some(id) if id != self.id() => act(self, id),
                _ => {}
            }
        }
    }

    /// Sends a member the entries it lacks, if it may be sent to; whether anything was sent. Without
    /// entries, an append still carries the commit index; `send_if_empty` says whether that is wanted.
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
        // A full window lets only empty appends through: were all that fill it lost, their answers
        // would be what opens it again.
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

    /// Sends a snapshot to a member that needs what is no longer in the log; whether it was sent.
    fn maybe_send_snapshot(&mut self, to: MemberId) -> bool {
        let Some(progress) = self.tracker.progress.get_mut(to) else {
            return false;
        };
        // Expensive, so only to those who are there.
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
        tracing::info!(member = %self.id(), %to, %index, "sends a snapshot");
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

    /// Looks for the place where the logs meet. The member sent the last index where its own term is
    /// not above that of the append refused, with the term there. Where this leader's terms are above
    /// *that*, they cannot meet either:
    ///
    /// ```text
    /// index      1 2 3 4 5 6 7 8
    /// leader     2 2 4 4 4 7 7 7      refused at 8; the hint is 5 with term 3
    /// follower   2 2 3 3 3            4, 4 and 4 are all above 3: try 2
    /// ```
    ///
    /// So there is at most one round trip for each term in which the logs differ.
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
        if !self.note_acknowledged(from, message.index) {
            return;
        }
        if self.maybe_commit() {
            // Something of this term is committed now: reads that waited for that can go on.
            self.release_pending_reads();
            self.broadcast_append();
        } else if from != self.id() && self.can_bump_commit(from) {
            self.maybe_send_append(from, true);
        }
        if from == self.id() {
            return;
        }
        // The window may have opened for several messages at once.
        while self.maybe_send_append(from, false) {}
        self.maybe_finish_transfer(from);
    }

    /// Takes an acknowledgement into the progress; whether that changed anything.
    fn note_acknowledged(&mut self, from: MemberId, acked: Index) -> bool {
        let first = self.log.first_index();
        let Some(progress) = self.tracker.progress.get_mut(from) else {
            return false;
        };
        let news = progress.maybe_update(acked);
        // Also an old acknowledgement ends a probe, if it is where the logs are known to match.
        let confirms = progress.matched == acked && progress.state == ProgressState::Probe;
        if !news && !confirms {
            return false;
        }
        match progress.state {
            ProgressState::Probe => progress.become_replicate(),
            // Whatever snapshot it got, and from wherever: the log reaches it again.
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

    /// Commits what a quorum holds, if that reaches into this leader's term; whether it did.
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
            // A member that lacks nothing but is being probed needs an empty append to answer.
            if progress.matched < last || progress.state == ProgressState::Probe {
                self.maybe_send_append(message.from, true);
            }
        }
        self.on_read_confirmed(message.from, &message.context);
    }

    /// The transport could not reach a member: what was streamed to it is probably lost.
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

    /// The sending of a snapshot ended. Either way the next append waits: after success for the
    /// member's own answer, after failure for a heartbeat.
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
