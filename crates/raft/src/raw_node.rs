//! The API of the core: inputs as methods, output as [`Ready`].

use bytes::Bytes;
use types::{Index, MemberId};

use crate::bootstrap::{BootstrapError, Peer};
use crate::conf::{AnyConfChange, ConfChangeV2, ConfState};
use crate::confchange::ConfChangeError;
use crate::config::Config;
use crate::entry::{Entry, encoded_bytes};
use crate::message::{LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, MessageType};
use crate::raft::{DropReason, ProposeError, Raft, StartError, StepError};
use crate::ready::Ready;
use crate::snapshot::Snapshot;
use crate::state::{HardState, SoftState, must_sync};
use crate::status::{BasicStatus, Status};
use crate::storage::Storage;
use crate::wire;

/// A member of a cluster, without I/O.
///
/// Feed it ticks, messages and proposals. Whenever [`RawNode::has_ready`] returns true, take a
/// [`Ready`] and process it. One loop owns the node; it is not shared between threads.
pub struct RawNode<S> {
    raft: Raft<S>,
    /// The states in the last `Ready`; the next one contains only changes.
    prev_soft_state: SoftState,
    prev_hard_state: HardState,
    /// The acknowledgements to step in [`RawNode::advance`].
    steps_on_advance: Vec<Message>,
    /// Whether a `Ready` awaits [`RawNode::advance`].
    awaits_advance: bool,
}

impl<S: Storage> RawNode<S> {
    /// Creates a member that continues from its storage.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid or contradicts the storage.
    pub fn new(config: Config, storage: S) -> Result<RawNode<S>, StartError> {
        let raft = Raft::new(config, storage)?;
        Ok(RawNode {
            prev_soft_state: raft.soft_state(),
            prev_hard_state: raft.hard_state(),
            raft,
            steps_on_advance: Vec::new(),
            awaits_advance: false,
        })
    }

    /// Returns the storage.
    pub fn storage(&self) -> &S {
        &self.raft.log.storage
    }

    /// Returns the storage, to save the content of a [`Ready`] or an append message.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.raft.log.storage
    }

    /// Initializes the log of a new cluster on an empty storage. Every member must be given the
    /// same list of peers.
    ///
    /// # Errors
    ///
    /// Returns an error if there is a log already, or the list is invalid.
    pub fn bootstrap(&mut self, peers: &[Peer]) -> Result<(), BootstrapError> {
        self.raft.bootstrap(peers)?;
        // Nothing has been saved yet: the first `Ready` must contain all of it.
        self.prev_hard_state = HardState::default();
        Ok(())
    }

    /// Advances time by one tick.
    pub fn tick(&mut self) {
        self.raft.tick();
    }

    /// Starts a campaign without waiting for the election timeout.
    pub fn campaign(&mut self) {
        self.raft.campaign();
    }

    /// Proposes to append data to the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the proposal was dropped. Without an error it may still be lost: only
    /// its application confirms it.
    pub fn propose(&mut self, data: Bytes) -> Result<(), ProposeError> {
        self.propose_batch([data])
    }

    /// Proposes to append several pieces of data together. Either all of them are accepted or none.
    ///
    /// # Errors
    ///
    /// As for [`RawNode::propose`].
    pub fn propose_batch(
        &mut self,
        batch: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), ProposeError> {
        let entries: Vec<Entry> = batch.into_iter().map(Entry::normal).collect();
        if entries.is_empty() { Ok(()) } else { self.raft.propose(self.raft.id(), entries) }
    }

    /// Proposes a conf change. If another one is not applied yet, or this one does not fit the
    /// configuration, an empty entry is committed in its place.
    ///
    /// # Errors
    ///
    /// As for [`RawNode::propose`].
    pub fn propose_conf_change(
        &mut self,
        change: impl Into<AnyConfChange>,
    ) -> Result<(), ProposeError> {
        let change = change.into();
        if change.targets_local_thread() {
            return Err(ProposeError { reason: DropReason::ReservedId });
        }
        self.raft.propose(self.raft.id(), vec![wire::encode_conf_change(change)])
    }

    /// Applies a committed conf change and returns the configuration to save with the next
    /// snapshot. The caller calls this for every conf change entry that it applies, with its index,
    /// in order.
    ///
    /// Returns `None` and changes nothing if the current configuration already includes the change:
    /// a snapshot has overtaken the entry on its way through the state machine. That snapshot is
    /// about to replace the state machine; take no snapshot of it before.
    ///
    /// # Errors
    ///
    /// Returns an error if the change does not lead to a valid configuration; nothing has changed
    /// then. The result is the same on every member.
    pub fn apply_conf_change(
        &mut self,
        index: Index,
        change: &ConfChangeV2,
    ) -> Result<Option<ConfState>, ConfChangeError> {
        self.raft.apply_conf_change(index, change)
    }

    /// Steps a message from another member.
    ///
    /// # Errors
    ///
    /// Returns an error if the message was refused; nothing has changed then.
    pub fn step(&mut self, message: Message) -> Result<(), StepError> {
        self.raft.check_from_peer(&message)?;
        self.raft.step(message)
    }

    /// Steps a response of a local storage thread: one that was attached to a message to that
    /// thread and is addressed to this member.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is no such response, or this member has been removed
    /// meanwhile.
    pub fn step_local(&mut self, message: Message) -> Result<(), StepError> {
        self.raft.check_from_storage(&message)?;
        self.raft.step(message)
    }

    /// Requests a read index. The result appears in [`Ready::read_states`] with the same context,
    /// or never; the caller then retries.
    pub fn read_index(&mut self, context: Bytes) {
        self.raft.read_index(context);
    }

    /// Transfers leadership to another member; a follower forwards the request to the leader.
    pub fn transfer_leader(&mut self, to: MemberId) {
        self.raft.transfer_leader(to);
    }

    /// Makes a follower forget its leader, so that it votes for another member at once.
    pub fn forget_leader(&mut self) {
        self.raft.forget_leader();
    }

    /// Reports that a message to this member could not be delivered.
    pub fn report_unreachable(&mut self, id: MemberId) {
        self.raft.report_unreachable(id);
    }

    /// Reports the result of sending a snapshot to this member.
    pub fn report_snapshot(&mut self, id: MemberId, arrived: bool) {
        self.raft.report_snapshot(id, arrived);
    }

    /// Reports whether [`RawNode::ready`] would return any work.
    pub fn has_ready(&self) -> bool {
        let raft = &self.raft;
        !raft.messages.is_empty()
            || !raft.messages_after_append.is_empty()
            || raft.log.has_next_committed(self.applies_unstable())
            || !raft.log.unstable().next_entries().is_empty()
            || !raft.read_states.is_empty()
            || raft.hard_state() != self.prev_hard_state
            || raft.soft_state() != self.prev_soft_state
            || raft.log.unstable().next_snapshot().is_some()
    }

    /// Returns all pending work.
    ///
    /// With asynchronous storage writes this may be called again at once. Each append message then
    /// ends with a response that names the last entry of the log and carries the current term. When
    /// it comes back, all entries up to that one are durable, but it counts only if the term is
    /// still the same: in a later term another leader may have replaced the entries, with its own
    /// writes still in progress. If the old response were trusted, a read could return entries that
    /// are about to be replaced. Every later append message names the last entry again, so that a
    /// dropped response does no harm.
    ///
    /// # Panics
    ///
    /// Panics with synchronous storage if [`RawNode::advance`] was not called after the last
    /// `Ready`.
    pub fn ready(&mut self) -> Ready {
        assert!(!self.awaits_advance, "advance must be called after each ready");
        let mut ready = self.collect();
        let log = &mut self.raft.log;
        log.unstable_mut().accept_in_progress();
        if let Some(last) = ready.committed_entries.last() {
            let bytes = encoded_bytes(&ready.committed_entries);
            log.accept_applying(last.index, bytes, !self.raft.config.async_storage_writes);
        }
        if self.raft.config.async_storage_writes {
            self.address_to_threads(&mut ready);
        } else {
            self.awaits_advance = true;
            self.keep_for_advance(&mut ready);
        }
        ready
    }

    /// Takes the pending work out of the state machine.
    fn collect(&mut self) -> Ready {
        let applies_unstable = self.applies_unstable();
        let raft = &mut self.raft;
        let (soft, hard) = (raft.soft_state(), raft.hard_state());
        let entries = raft.log.unstable().next_entries().to_vec();
        let ready = Ready {
            soft_state: (soft != self.prev_soft_state).then_some(soft),
            hard_state: (hard != self.prev_hard_state).then_some(hard),
            read_states: std::mem::take(&mut raft.read_states),
            snapshot: raft.log.unstable().next_snapshot().cloned(),
            committed_entries: raft.log.next_committed(applies_unstable),
            messages: std::mem::take(&mut raft.messages),
            must_sync: must_sync(&hard, &self.prev_hard_state, entries.len()),
            entries,
        };
        self.prev_soft_state = soft;
        self.prev_hard_state = hard;
        ready
    }

    /// Turns storage work into messages to the storage threads.
    fn address_to_threads(&mut self, ready: &mut Ready) {
        let responses = std::mem::take(&mut self.raft.messages_after_append);
        let appends = !ready.entries.is_empty()
            || ready.hard_state.is_some()
            || ready.snapshot.is_some()
            || !responses.is_empty();
        if appends {
            let append = self.storage_append(ready, responses);
            ready.messages.push(append);
        }
        if !ready.committed_entries.is_empty() {
            let entries = std::mem::take(&mut ready.committed_entries);
            let response = self.storage_apply_response(entries.clone());
            ready.messages.push(Message {
                from: self.raft.id(),
                entries,
                responses: vec![response],
                ..Message::new(MessageType::MsgStorageApply, LOCAL_APPLY_THREAD)
            });
        }
    }

    fn storage_append(&self, ready: &mut Ready, mut responses: Vec<Message>) -> Message {
        // After the acknowledgements: those are handled faster while the entries can be read from
        // memory.
        responses.extend(self.storage_append_response(ready.snapshot.as_ref()));
        let hard_state = ready.hard_state.take().unwrap_or_default();
        Message {
            from: self.raft.id(),
            entries: std::mem::take(&mut ready.entries),
            term: hard_state.term,
            vote: hard_state.vote,
            commit: hard_state.commit,
            snapshot: ready.snapshot.take().map(Box::new),
            responses,
            ..Message::new(MessageType::MsgStorageAppend, LOCAL_APPEND_THREAD)
        }
    }

    /// Returns the response that reports everything so far as durable, if there is anything to
    /// report.
    fn storage_append_response(&self, snapshot: Option<&Snapshot>) -> Option<Message> {
        let has_entries = self.raft.log.unstable().has_entries();
        if !has_entries && snapshot.is_none() {
            return None;
        }
        let last = if has_entries { self.raft.log.last_id() } else { Default::default() };
        Some(Message {
            from: LOCAL_APPEND_THREAD,
            term: self.raft.term,
            index: last.index,
            log_term: last.term,
            snapshot: snapshot.cloned().map(Box::new),
            ..Message::new(MessageType::MsgStorageAppendResp, self.raft.id())
        })
    }

    fn storage_apply_response(&self, entries: Vec<Entry>) -> Message {
        Message {
            from: LOCAL_APPLY_THREAD,
            entries,
            ..Message::new(MessageType::MsgStorageApplyResp, self.raft.id())
        }
    }

    /// Sends promises after the entries they depend on, and keeps this member's own for `advance`.
    fn keep_for_advance(&mut self, ready: &mut Ready) {
        let id = self.raft.id();
        for message in std::mem::take(&mut self.raft.messages_after_append) {
            let is_for_itself = message.to == id;
            if is_for_itself { &mut self.steps_on_advance } else { &mut ready.messages }
                .push(message);
        }
        self.steps_on_advance.extend(self.storage_append_response(ready.snapshot.as_ref()));
        if !ready.committed_entries.is_empty() {
            let response = self.storage_apply_response(ready.committed_entries.clone());
            self.steps_on_advance.push(response);
        }
    }

    /// Reports that the work of the last [`Ready`] is done.
    ///
    /// # Panics
    ///
    /// Panics with asynchronous storage writes, where responses replace this call.
    pub fn advance(&mut self) {
        assert!(
            !self.raft.config.async_storage_writes,
            "with asynchronous storage writes, responses replace advance"
        );
        self.awaits_advance = false;
        for message in std::mem::take(&mut self.steps_on_advance) {
            // A member that has just been removed ignores its own acknowledgements.
            let _ = self.raft.step(message);
        }
    }

    /// Reports whether entries may be applied before they are durable on this member. With
    /// synchronous storage the same `Ready` saves them first.
    fn applies_unstable(&self) -> bool {
        !self.raft.config.async_storage_writes
    }

    /// Returns the status of this member, without progress.
    pub fn basic_status(&self) -> BasicStatus {
        BasicStatus::of(&self.raft)
    }

    /// Returns the status of this member; on a leader with the progress of all members.
    pub fn status(&self) -> Status {
        Status::of(&self.raft)
    }

    /// Sets the current election timeout, for tests that must know it. It is drawn again with the
    /// next change of role or term.
    #[doc(hidden)]
    pub fn set_randomized_election_ticks(&mut self, ticks: u32) {
        self.raft.set_randomized_election_ticks(ticks);
    }
}
