//! Storage reports what is durable and what is applied.

use types::Index;

use crate::entry::{Entry, EntryId, EntryType, encoded_bytes, payload_bytes};
use crate::message::Message;
use crate::storage::Storage;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Everything handed out up to this response is durable, and nothing that could replace it is
    /// under way: the response is of the current term.
    pub(super) fn on_append_stored(&mut self, message: &Message) {
        if message.index != Index::ZERO {
            let id = EntryId { term: message.log_term, index: message.index };
            self.log.unstable_mut().stable_to(id);
        }
        self.on_snapshot_stored(message);
    }

    /// A snapshot is durable and applied. Its state is committed, whatever the term is now.
    pub(super) fn on_snapshot_stored(&mut self, message: &Message) {
        if let Some(snapshot) = &message.snapshot {
            let index = snapshot.metadata.index;
            self.log.unstable_mut().stable_snapshot_to(index);
            self.applied_to(index, 0);
        }
    }

    /// The state machine has these entries.
    pub(super) fn on_applied(&mut self, entries: &[Entry]) {
        let Some(last) = entries.last() else {
            return;
        };
        self.applied_to(last.index, encoded_bytes(entries));
        if let Role::Leader(leader) = &mut self.role {
            let applied = payload_bytes(entries);
            leader.uncommitted_bytes = leader.uncommitted_bytes.saturating_sub(applied);
        }
    }

    fn applied_to(&mut self, index: Index, bytes: u64) {
        let index = index.max(self.log.applied());
        self.log.applied_to(index, bytes);
        self.maybe_leave_joint();
    }

    /// Proposes to leave a joint configuration that asks for it, once it is certain that this leader
    /// knows the newest one.
    fn maybe_leave_joint(&mut self) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        if !self.tracker.config.auto_leave || self.log.applied() < leader.pending_conf_index {
            return;
        }
        // No data is an empty change, and no payload is never refused for its size.
        let leave = Entry { kind: EntryType::ConfChangeV2, ..Entry::default() };
        match self.propose(self.id(), vec![leave]) {
            Ok(()) => tracing::info!(member = %self.id(), "leaves the joint configuration"),
            // While leadership is handed over. It is tried again with the next entry applied.
            Err(error) => {
                tracing::debug!(member = %self.id(), %error, reason = ?error.reason, "stays joint");
            }
        }
    }
}
