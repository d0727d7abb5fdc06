//! The edge of the core: everything that goes in, and [`Ready`] out.

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

/// One member of a cluster, without I/O.
///
/// Feed it ticks, messages and proposals; whenever [`RawNode::has_ready`] says so, take a [`Ready`] and
/// do what it asks. Not to be shared between threads: one loop owns it.
pub struct RawNode<S> {
    raft: Raft<S>,
    /// What the last `Ready` told, so that the next one tells only what changed.
    told_soft_state: SoftState,
    told_hard_state: HardState,
    /// The acknowledgements that [`RawNode::advance`] stands for.
    steps_on_advance: Vec<Message>,
    /// Whether a `Ready` waits for [`RawNode::advance`].
    awaits_advance: bool,
}

impl<S: Storage> RawNode<S> {
    /// A member that goes on from what its storage holds.
    ///
    /// # Errors
    ///
    /// If the configuration makes no sense or contradicts the storage.
    pub fn new(config: Config, storage: S) -> Result<RawNode<S>, StartError> {
        let raft = Raft::new(config, storage)?;
        Ok(RawNode {
            told_soft_state: raft.soft_state(),
            told_hard_state: raft.hard_state(),
            raft,
            steps_on_advance: Vec::new(),
            awaits_advance: false,
        })
    }

    /// The storage.
    pub fn storage(&self) -> &S {
        &self.raft.log.storage
    }

    /// The storage, to save into what a [`Ready`] or an append message carries.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.raft.log.storage
    }

    /// Starts the log of a new cluster with the given members, on an empty storage. Every member
    /// must be given the same list.
    ///
    /// # Errors
    ///
    /// If there is a log already, or the list makes no sense.
    pub fn bootstrap(&mut self, peers: &[Peer]) -> Result<(), BootstrapError> {
        self.raft.bootstrap(peers)?;
        // Nothing of it has been saved: the first `Ready` must tell all of it.
        self.told_hard_state = HardState::default();
        Ok(())
    }

    /// Lets one tick pass.
    pub fn tick(&mut self) {
        self.raft.tick();
    }

    /// Stands for election without waiting for the timeout.
    pub fn campaign(&mut self) {
        self.raft.campaign();
    }

    /// Proposes to append data to the log.
    ///
    /// # Errors
    ///
    /// If it was dropped. If not, it may still be lost: only applying it tells.
    pub fn propose(&mut self, data: Bytes) -> Result<(), ProposeError> {
        self.propose_batch([data])
    }

    /// Proposes to append several pieces of data, which then travel together. All of them are taken or none.
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

    /// Proposes a change of membership. If another one is not applied yet, or this one does not suit
    /// the configuration, an empty entry is committed in its place.
    ///
    /// # Errors
    ///
    /// As for [`RawNode::propose`].
    pub fn propose_conf_change(
        &mut self,
        change: impl Into<AnyConfChange>,
    ) -> Result<(), ProposeError> {
        let change = change.into();
        if change.names_a_thread() {
            return Err(ProposeError { reason: DropReason::ReservedId });
        }
        self.raft.propose(self.raft.id(), vec![wire::encode_conf_change(change)])
    }

    /// Puts a committed change of membership in force, and gives the configuration to save with the
    /// next snapshot. To be called for every such entry that is applied, with its index, in order.
    ///
    /// Nothing is given, and nothing changes, if the configuration in force contains the change already: a
    /// snapshot has overtaken the entry on its way through the state machine. The state machine is about to be
    /// replaced by that snapshot; make none of it before.
    ///
    /// # Errors
    ///
    /// If the change does not lead to a valid configuration; it is the same on every member, and
    /// nothing has changed then.
    pub fn apply_conf_change(
        &mut self,
        index: Index,
        change: &ConfChangeV2,
    ) -> Result<Option<ConfState>, ConfChangeError> {
        self.raft.apply_conf_change(index, change)
    }

    /// Takes a message that another member sent.
    ///
    /// # Errors
    ///
    /// If it was refused; nothing has changed then.
    pub fn step(&mut self, message: Message) -> Result<(), StepError> {
        self.raft.check_from_peer(&message)?;
        self.raft.step(message)
    }

    /// Takes a response that this member's own storage threads deliver: one that was attached to a
    /// message they were given, and is addressed to this member.
    ///
    /// # Errors
    ///
    /// If it is no such response, or this member has been removed meanwhile.
    pub fn step_local(&mut self, message: Message) -> Result<(), StepError> {
        self.raft.check_from_storage(&message)?;
        self.raft.step(message)
    }

    /// Asks for an index from which a read is linearizable. The answer comes in
    /// [`Ready::read_states`] with the same context, or not at all: ask again then.
    pub fn read_index(&mut self, context: Bytes) {
        self.raft.read_index(context);
    }

    /// Hands leadership to another member, if this one leads; asks the leader to, if it follows.
    pub fn transfer_leader(&mut self, to: MemberId) {
        self.raft.transfer_leader(to);
    }

    /// Makes a follower forget its leader, so that it votes for another at once.
    pub fn forget_leader(&mut self) {
        self.raft.forget_leader();
    }

    /// Tells that a message to this member could not be delivered.
    pub fn report_unreachable(&mut self, id: MemberId) {
        self.raft.report_unreachable(id);
    }

    /// Tells how the sending of a snapshot to this member ended.
    pub fn report_snapshot(&mut self, id: MemberId, arrived: bool) {
        self.raft.report_snapshot(id, arrived);
    }

    /// Whether there is anything to do.
    pub fn has_ready(&self) -> bool {
        let raft = &self.raft;
        !raft.messages.is_empty()
            || !raft.messages_after_append.is_empty()
            || raft.log.has_next_committed(self.applies_unstable())
            || !raft.log.unstable().next_entries().is_empty()
            || !raft.read_states.is_empty()
            || raft.hard_state() != self.told_hard_state
            || raft.soft_state() != self.told_soft_state
            || raft.log.unstable().next_snapshot().is_some()
    }

    /// Hands out everything there is to do.
    ///
    /// With asynchronous storage writes this may be called again at once. Each append message then ends
    /// with a response that names the last entry of the log and carries the term of this moment: all
    /// entries up to it are durable when it comes back, but it counts only if the term is still the
    /// same. In a later term another leader may have replaced the entries and its own writes may be
    /// under way; were the older response believed, a read could see what is about to be replaced. Every
    /// later append message names the last entry again, so that none is waited for for ever.
    ///
    /// # Panics
    ///
    /// With synchronous storage, if the last `Ready` was not followed by [`RawNode::advance`].
    pub fn ready(&mut self) -> Ready {
        assert!(!self.awaits_advance, "advance must follow each ready");
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

    /// What there is to do, taken out of the state machine.
    fn collect(&mut self) -> Ready {
        let applies_unstable = self.applies_unstable();
        let raft = &mut self.raft;
        let (soft, hard) = (raft.soft_state(), raft.hard_state());
        let entries = raft.log.unstable().next_entries().to_vec();
        let ready = Ready {
            soft_state: (soft != self.told_soft_state).then_some(soft),
            hard_state: (hard != self.told_hard_state).then_some(hard),
            read_states: std::mem::take(&mut raft.read_states),
            snapshot: raft.log.unstable().next_snapshot().cloned(),
            committed_entries: raft.log.next_committed(applies_unstable),
            messages: std::mem::take(&mut raft.messages),
            must_sync: must_sync(&hard, &self.told_hard_state, entries.len()),
            entries,
        };
        self.told_soft_state = soft;
        self.told_hard_state = hard;
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
        // Behind the acknowledgements: those are quicker while the entries can be read from memory.
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

    /// The report that everything up to now is durable, if anything waits for it.
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

    /// Sends promises behind the entries they rest on, and keeps this member's own for `advance`.
    fn keep_for_advance(&mut self, ready: &mut Ready) {
        let id = self.raft.id();
        for message in std::mem::take(&mut self.raft.messages_after_append) {
            let own = message.to == id;
            if own { &mut self.steps_on_advance } else { &mut ready.messages }.push(message);
        }
        self.steps_on_advance.extend(self.storage_append_response(ready.snapshot.as_ref()));
        if !ready.committed_entries.is_empty() {
            let response = self.storage_apply_response(ready.committed_entries.clone());
            self.steps_on_advance.push(response);
        }
    }

    /// Tells that everything the last [`Ready`] asked for is done.
    ///
    /// # Panics
    ///
    /// With asynchronous storage writes: responses take its place.
    pub fn advance(&mut self) {
        assert!(
            !self.raft.config.async_storage_writes,
            "with asynchronous storage writes, responses take the place of advance"
        );
        self.awaits_advance = false;
        for message in std::mem::take(&mut self.steps_on_advance) {
            // Its own acknowledgements mean nothing to a member that has just been removed.
            let _ = self.raft.step(message);
        }
    }

    /// Whether entries may be applied before this member has them durably itself. In one `Ready` they
    /// are saved first anyway.
    fn applies_unstable(&self) -> bool {
        !self.raft.config.async_storage_writes
    }

    /// The state of this member, without the progress of the others.
    pub fn basic_status(&self) -> BasicStatus {
        BasicStatus::of(&self.raft)
    }

    /// The state of this member, with the progress of the others if it leads.
    pub fn status(&self) -> Status {
        Status::of(&self.raft)
    }

    /// Sets the number of ticks until the next election, for tests that must know it. Drawn anew
    /// with the next change of role or term.
    #[doc(hidden)]
    pub fn set_randomized_election_ticks(&mut self, ticks: u32) {
        self.raft.set_randomized_election_ticks(ticks);
    }
}
