//! Reports of the storage: durable and applied entries.

use types::Index;

use crate::entry::{Entry, EntryId, EntryType, encoded_bytes, payload_bytes};
use crate::message::Message;
use crate::storage::Storage;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Handles a response of the current term: everything handed out up to it is durable, and no
    /// write in progress can replace it.
    pub(super) fn on_append_stored(&mut self, message: &Message) {
        if message.index != Index::ZERO {
            let id = EntryId { term: message.log_term, index: message.index };
            self.log.unstable_mut().stable_to(id);
        }
        self.on_snapshot_stored(message);
    }

    /// Handles a durable and applied snapshot. Its state is committed, whatever the current term
    /// is.
    pub(super) fn on_snapshot_stored(&mut self, message: &Message) {
        if let Some(snapshot) = &message.snapshot {
            let index = snapshot.metadata.index;
            self.log.unstable_mut().stable_snapshot_to(index);
            self.applied_to(index, 0);
        }
    }

    /// Handles entries that the state machine has applied.
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

    /// Proposes to leave a joint configuration with `auto_leave`, once this leader certainly knows
    /// the latest configuration.
    fn maybe_leave_joint(&mut self) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        if !self.tracker.config.auto_leave || self.log.applied() < leader.pending_conf_index {
            return;
        }
        // Empty data is an empty conf change; without payload it exceeds no limit.
        let leave = Entry { kind: EntryType::ConfChangeV2, ..Entry::default() };
        match self.propose(self.id(), vec![leave]) {
            Ok(()) => tracing::info!(member = %self.id(), "leaving the joint configuration"),
            // A leader transfer is in progress; the next applied entry retries.
            Err(error) => {
                tracing::debug!(member = %self.id(), %error, reason = ?error.reason, "could not leave the joint configuration");
            }
        }
    }
}
