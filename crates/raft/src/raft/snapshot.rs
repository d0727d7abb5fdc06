//! A follower starts over from its leader's snapshot.

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
        // Either way the leader learns where this member stands.
        let index =
            if self.maybe_restore(snapshot) { self.log.last_index() } else { self.log.committed() };
        self.acknowledge(message.from, index);
    }

    /// Replaces log and configuration by a snapshot, if it is of any use; whether it was.
    fn maybe_restore(&mut self, snapshot: Snapshot) -> bool {
        let (id, metadata) = (snapshot.id(), &snapshot.metadata);
        if id.index <= self.log.committed() || !metadata.conf_state.contains(self.id()) {
            return false;
        }
        assert!(self.role.kind() == RoleKind::Follower, "only followers take snapshots");
        // The log has it all: nothing to replace, but all of it is committed.
        if self.log.matches(id) {
            self.log.commit_to(id.index);
            return false;
        }
        let changed = confchange::restore(self.empty_tracker(), id.index, &metadata.conf_state)
            .expect("the configuration of a snapshot is checked when it comes in");
        tracing::info!(member = %self.id(), index = %id.index, term = %id.term, "restores a snapshot");
        self.log.restore(snapshot);
        self.switch_to_config(changed);
        self.conf_index = id.index;
        true
    }

    /// A tracker of nobody, with this member's limits.
    pub(super) fn empty_tracker(&self) -> ProgressTracker {
        ProgressTracker::new(self.config.max_inflight_messages, self.config.max_inflight_bytes)
    }

    /// Whether a message carries a snapshot this member would restore.
    pub(super) fn would_restore(&self, snapshot: &Snapshot) -> bool {
        let metadata = &snapshot.metadata;
        metadata.index > Index::ZERO
            && metadata.index > self.log.committed()
            && metadata.conf_state.contains(self.id())
    }
}
