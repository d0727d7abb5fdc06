//! Dispatch of a `Ready`, and of the acknowledgements that follow it.

use std::time::Duration;

use bytes::Bytes;
use failpoint::failpoint;
use raft::{
    ConfChangeV2, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, Ready, RoleKind, SoftState,
    Storage as _,
};
use types::Index;

use super::RaftLoop;
use crate::pipeline::applier::ApplyWork;
use crate::pipeline::log_writer::LogWork;
use crate::propose::stage_timings::RequestStage;

impl RaftLoop {
    /// Dispatches one `Ready`: entries to the log, commits to apply, messages to peers.
    pub(super) fn dispatch(&mut self, ready: Ready, now: Duration) {
        // The commit index is published first: no entry may be seen applied before it is seen
        // committed, locally or through a message to a peer.
        self.publish_commit_index();
        if let Some(soft_state) = ready.soft_state {
            self.on_soft_state(soft_state, now);
        }
        for read in ready.read_states {
            let context = &read.request_context;
            if !self.reads.on_read_state(context, read.index, &self.applied, now) {
                self.context.metrics.slow_read_indexes.inc();
            }
        }
        // As in etcd, for every `Ready`: a sleep stalls the loop even if there is nothing to save.
        failpoint!("raftBeforeSave");
        let mut to_peers = Vec::new();
        for message in ready.messages {
            match message.to {
                LOCAL_APPEND_THREAD => self.append(message),
                LOCAL_APPLY_THREAD => self.apply(message),
                _ => to_peers.push(message),
            }
        }
        self.check_heartbeats(&to_peers, now);
        if self.raft.progress.is_leader() {
            failpoint!("raftBeforeLeaderSend");
        } else {
            failpoint!("raftBeforeFollowerSend");
        }
        self.send(to_peers);
    }

    /// Hands an append message to the log writer.
    ///
    /// A commit index need not be durable, because it is learned anew. A message with nothing else
    /// is acknowledged at once and written with the next append. But an acknowledgement also covers
    /// all earlier appends, so this holds only while none is in flight.
    fn append(&mut self, message: Message) {
        if self.appends_in_flight == 0
            && self.has_only_commit_index(&message)
            && let Some(state) = message.hard_state()
        {
            self.log.push_deferred(LogWork::State(state.into()));
            return self.on_appended(message);
        }
        self.appends_in_flight += 1;
        self.proposals.timed.record_logged(&message.entries, || self.context.now());
        self.log.push(LogWork::Append(Box::new(message)));
    }

    fn has_only_commit_index(&self, append: &Message) -> bool {
        let saved = self.node.storage().hard_state();
        append.entries.is_empty()
            && append.snapshot.is_none()
            && (append.term, append.vote) == (saved.term, saved.vote)
    }

    /// Hands committed entries to the applier.
    fn apply(&self, message: Message) {
        if let Some(last) = message.entries.last() {
            let timed = &self.proposals.timed;
            timed.record_up_to(RequestStage::Committed, last.index, || self.context.now());
        }
        // A closed queue means that the member is stopping.
        let _ = self.apply.push(ApplyWork::Apply(Box::new(message)));
    }

    /// Handles a durable append: consensus may read the entries back, and only now may the
    /// acknowledgement be sent.
    pub(super) fn on_appended(&mut self, append: Message) {
        let hard_state = append.hard_state();
        let storage = self.node.storage_mut();
        let has_snapshot = append.snapshot.is_some();
        if has_snapshot {
            failpoint!("raftBeforeApplySnap");
        }
        let snapshot = append.snapshot.map_or(Ok(()), |snapshot| storage.apply_snapshot(*snapshot));
        hard_state.into_iter().for_each(|state| storage.set_hard_state(state));
        if let Err(error) = snapshot.and_then(|()| storage.append(&append.entries)) {
            return self.lifecycle.fail("append to the log in memory", &error);
        }
        failpoint!("raftBeforeAdvance");
        self.deliver_responses(append.responses);
        if has_snapshot {
            failpoint!("raftAfterApplySnap");
            self.on_configuration();
        }
    }

    /// Handles an applied conf change. Consensus and the state machine must compute the same
    /// configuration.
    pub(super) fn on_conf_changed(
        &mut self,
        index: Index,
        change: &ConfChangeV2,
        conf_state: &raft::ConfState,
    ) {
        match self.node.apply_conf_change(index, change) {
            Ok(Some(conf)) if !conf.is_equivalent(conf_state) => {
                let error = format!("{conf:?} is not {conf_state:?}");
                let what = "consensus and the state machine differ about the configuration";
                self.lifecycle.fail(what, &error);
            }
            Ok(_) => self.on_configuration(),
            Err(error) => self.lifecycle.fail("apply a conf change", &error),
        }
    }

    /// Derives from the current configuration whether the local member is the only one.
    pub(super) fn on_configuration(&mut self) {
        let conf = self.node.status().config.to_conf_state();
        let is_sole_voter = conf.voters == [self.context.local] && conf.voters_outgoing.is_empty();
        self.is_sole_voter = is_sole_voter;
        self.is_sole_member =
            is_sole_voter && conf.learners.is_empty() && conf.learners_next.is_empty();
        // At once, before a new voter can grant a vote: see `Server::linearizable`.
        self.publish_sole_leader();
    }

    /// Compacts the in-memory log, unless a snapshot in transfer needs the entries after it.
    pub(super) fn compact_log(&mut self, applied: Index, conf_state: raft::ConfState) {
        if !self.snapshot_transfers.may_compact(self.context.now()) {
            return;
        }
        let catchup_entries = self.context.config.snapshot_catchup_entries;
        let storage = self.node.storage_mut();
        // Both refuse an index that was compacted before, which needs no action.
        let _ = storage.create_snapshot(applied, Some(conf_state), Bytes::new());
        let _ = storage.compact(Index(applied.0.saturating_sub(catchup_entries)));
    }

    /// Handles a change of the leader or of the local role.
    fn on_soft_state(&mut self, soft_state: SoftState, now: Duration) {
        let SoftState { lead, role } = soft_state;
        let is_leader = role == RoleKind::Leader;
        self.heartbeats.reset();
        let had_leader = self.raft.progress.leader().is_some();
        self.conf_change = None;
        if self.raft.progress.set_leader(lead, is_leader, now) {
            self.context.metrics.leader_changes.inc();
            if self.reads.on_leader_change(had_leader) {
                self.context.metrics.read_indexes_failed.inc();
            }
        }
        if !is_leader {
            self.publish_sole_leader();
            self.state.get().lessor.demote();
        }
    }

    /// Publishes the term and the commit index to other threads.
    pub(super) fn publish_commit_index(&mut self) {
        let status = self.node.basic_status();
        let progress = &self.raft.progress;
        progress.set_term(status.hard_state.term);
        if progress.committed() < status.hard_state.commit {
            progress.set_committed(status.hard_state.commit);
        }
    }

    /// Publishes whether the local member is the leader of a cluster without other members and has
    /// applied an entry of its term. Then it has applied every write that was ever acknowledged.
    pub(super) fn publish_sole_leader(&self) {
        let (status, applied) = (self.node.basic_status(), self.applied.get());
        let term = self.node.storage().term(applied);
        let leads = self.is_sole_member && status.soft_state.role == RoleKind::Leader;
        // A learner, also a just removed one, may apply a committed entry and answer before the
        // local member applies it. So all of the log has to be applied at first.
        let is_caught_up =
            self.raft.progress.is_sole_leader() || applied >= status.hard_state.commit;
        let is_sole_leader = leads && is_caught_up && term == Ok(status.hard_state.term);
        self.raft.progress.set_sole_leader(is_sole_leader);
    }
}
