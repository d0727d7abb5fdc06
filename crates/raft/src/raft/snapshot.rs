//! Snapshots on a follower.

use types::Index;

use crate::confchange;
use crate::message::Message;
use crate::snapshot::Snapshot;
use crate::state::RoleKind;
use crate::storage::Storage;
use crate::tracker::ProgressTracker;

use super::Raft;

impl<S: Storage> Raft<S> {
    pub(super) fn on_snapshot(&mut self, message: Message) {
        let snapshot = message.snapshot.map(|snapshot| *snapshot).unwrap_or_default();
        // In both cases the response tells the leader the position of this member.
        let index =
            if self.maybe_restore(snapshot) { self.log.last_index() } else { self.log.committed() };
        self.acknowledge(message.from, index);
    }

    /// Replaces log and configuration with a snapshot if it is newer than the log; returns whether
    /// it did.
    fn maybe_restore(&mut self, snapshot: Snapshot) -> bool {
        let (id, metadata) = (snapshot.id(), &snapshot.metadata);
        if id.index <= self.log.committed() || !metadata.conf_state.contains(self.id()) {
            return false;
        }
        assert!(self.role.kind() == RoleKind::Follower, "only followers restore snapshots");
        // The log contains everything: nothing to replace, but all of it is committed.
        if self.log.matches(id) {
            self.log.commit_to(id.index);
            return false;
        }
        let changed = confchange::restore(self.empty_tracker(), id.index, &metadata.conf_state)
            .expect("validate checks the configuration of a snapshot");
        tracing::info!(member = %self.id(), index = %id.index, term = %id.term, "restoring a snapshot");
        self.log.restore(snapshot);
        self.switch_to_config(changed);
        self.conf_index = id.index;
        true
    }

    /// Returns an empty tracker with the limits of this member.
    pub(super) fn empty_tracker(&self) -> ProgressTracker {
        ProgressTracker::new(self.config.max_inflight_messages, self.config.max_inflight_bytes)
    }

    /// Reports whether this member would restore a snapshot.
    pub(super) fn would_restore(&self, snapshot: &Snapshot) -> bool {
        let metadata = &snapshot.metadata;
        metadata.index > Index::ZERO
            && metadata.index > self.log.committed()
            && metadata.conf_state.contains(self.id())
    }
}
