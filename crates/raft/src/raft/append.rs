//! Appends and heartbeats on a follower.

use types::{Index, MemberId};

use crate::entry::EntryId;
use crate::message::{Message, MessageType};
use crate::storage::Storage;

use super::Raft;

impl<S: Storage> Raft<S> {
    pub(super) fn on_append(&mut self, message: Message) {
        let (from, prev) = (message.from, EntryId { term: message.log_term, index: message.index });
        // A stale append: committed entries are known to match.
        if prev.index < self.log.committed() {
            return self.acknowledge(from, self.log.committed());
        }
        match self.log.maybe_append(prev, message.entries, message.commit) {
            Some(last) => self.acknowledge(from, last),
            None => self.refuse_append(from, prev),
        }
    }

    pub(super) fn acknowledge(&mut self, to: MemberId, index: Index) {
        self.send(Message { index, ..Message::new(MessageType::MsgAppResp, to) });
    }

    /// Rejects an append with a hint: the last index at which the term of this log is not above the
    /// term of the append. Above it the logs cannot match, because terms never decrease along a
    /// log.
    fn refuse_append(&mut self, to: MemberId, prev: EntryId) {
        let upper = prev.index.min(self.log.last_index());
        let hint = self.log.find_conflict_by_term(upper, prev.term);
        self.send(Message {
            index: prev.index,
            reject: true,
            reject_hint: hint.index,
            log_term: hint.term,
            ..Message::new(MessageType::MsgAppResp, to)
        });
    }

    pub(super) fn on_heartbeat(&mut self, message: Message) {
        self.log.commit_to(message.commit);
        let context = message.context;
        let response = Message::new(MessageType::MsgHeartbeatResp, message.from);
        self.send(Message { context, ..response });
    }
}
