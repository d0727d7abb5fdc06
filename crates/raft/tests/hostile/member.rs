//! A single member with its storage, brought into a given situation.

use std::collections::VecDeque;

use bytes::Bytes;
use raft::{
    ConfState, Config, Entry, EntryId, HardState, LOCAL_APPEND_THREAD, MemoryStorage, Message,
    MessageType, RawNode, ReadOnlyOption, Ready, Snapshot, SnapshotMetadata, StepError, Storage,
    wire,
};
use types::{Index, MemberId, Term};

/// The member under test.
pub(crate) const ME: MemberId = MemberId(1);
/// The initial term.
pub(crate) const TERM: Term = Term(4);
/// The last index of its log.
pub(crate) const LAST: Index = Index(7);
/// The commit index.
pub(crate) const COMMIT: Index = Index(5);
/// The log, preceded by the end of the snapshot before it.
pub(crate) const KNOWN_LOG: [EntryId; 6] = [
    EntryId { term: Term(1), index: Index(2) },
    EntryId { term: Term(2), index: Index(3) },
    EntryId { term: Term(2), index: Index(4) },
    EntryId { term: Term(3), index: Index(5) },
    EntryId { term: Term(3), index: Index(6) },
    EntryId { term: Term(4), index: Index(7) },
];

/// The configuration of the member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) situation: Situation,
    pub(crate) async_storage_writes: bool,
    pub(crate) pre_vote: bool,
    pub(crate) check_quorum: bool,
    /// Needs `check_quorum`.
    pub(crate) lease_reads: bool,
    /// Limits so small that messages are always split, paused and refused.
    pub(crate) tight_limits: bool,
    pub(crate) step_down_on_removal: bool,
}

/// The situation of the member when the test begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// Just created: no log, no configuration, no term.
    Blank,
    /// Restarted, without a known leader.
    Leaderless,
    /// Follower of member two.
    Follower,
    /// Learner, with member two as leader.
    Learner,
    /// In no configuration.
    Removed,
    /// Pre-candidate if pre-vote is enabled, otherwise candidate.
    Campaigning,
    /// Leader of members two and three, which have acknowledged part of its log.
    Leader,
    /// Leader with pending reads and a transfer.
    BusyLeader,
    /// Leader of members two and three of a new cluster, with one entry and no snapshot.
    NewLeader,
    /// The only member, as leader.
    Alone,
    /// Follower of member two that has received a snapshot which is not written yet.
    SnapshotPending,
}

impl Situation {
    pub(crate) const ALL: &[Situation] = &[
        Situation::Blank,
        Situation::Leaderless,
        Situation::Follower,
        Situation::Learner,
        Situation::Removed,
        Situation::Campaigning,
        Situation::Leader,
        Situation::BusyLeader,
        Situation::NewLeader,
        Situation::Alone,
        Situation::SnapshotPending,
    ];

    fn conf_state(self) -> ConfState {
        let ids = |ids: &[u64]| ids.iter().copied().map(MemberId).collect();
        match self {
            Situation::Blank => ConfState::default(),
            Situation::Learner => {
                ConfState { voters: ids(&[2, 3]), learners: vec![ME], ..ConfState::default() }
            }
            Situation::Removed => ConfState::of_voters([MemberId(2), MemberId(3), MemberId(4)]),
            Situation::Alone => ConfState::of_voters([ME]),
            _ => ConfState { voters: ids(&[1, 2, 3]), learners: ids(&[4]), ..ConfState::default() },
        }
    }
}

impl Setup {
    /// Returns a setup with all options disabled.
    pub(crate) fn plain(situation: Situation) -> Setup {
        Setup {
            situation,
            async_storage_writes: false,
            pre_vote: false,
            check_quorum: false,
            lease_reads: false,
            tight_limits: false,
            step_down_on_removal: false,
        }
    }

    fn config(&self) -> Config {
        let mut config = Config {
            async_storage_writes: self.async_storage_writes,
            pre_vote: self.pre_vote,
            check_quorum: self.check_quorum,
            step_down_on_removal: self.step_down_on_removal,
            ..Config::new(ME)
        };
        if self.lease_reads && self.check_quorum {
            config.read_only_option = ReadOnlyOption::LeaseBased;
        }
        if self.tight_limits {
            config.max_message_bytes = 40;
            config.max_uncommitted_bytes = 60;
            config.max_inflight_messages = 2;
        }
        config
    }
}

/// A member with its storage and its pending work.
pub(crate) struct Member {
    pub(crate) node: RawNode<MemoryStorage>,
    config: Config,
    /// Synchronous storage: the `Ready` in progress.
    ready: Option<Ready>,
    /// Asynchronous storage writes: the jobs of each thread.
    writes: VecDeque<Message>,
    applications: VecDeque<Message>,
}

impl Member {
    pub(crate) fn new(setup: &Setup) -> Member {
        let config = setup.config();
        let node = RawNode::new(config.clone(), storage(setup.situation)).expect("valid storage");
        let (writes, applications) = (VecDeque::new(), VecDeque::new());
        let mut member = Member { node, config, ready: None, writes, applications };
        member.settle();
        member.enter(setup.situation);
        member
    }

    fn enter(&mut self, situation: Situation) {
        match situation {
            Situation::Blank | Situation::Leaderless => {}
            Situation::Follower | Situation::Learner | Situation::Removed => self.follow(),
            Situation::Campaigning => self.node.campaign(),
            Situation::Alone => {
                self.node.campaign();
                self.settle();
            }
            Situation::Leader | Situation::NewLeader => self.lead(),
            Situation::BusyLeader => {
                self.lead();
                self.node.read_index(Bytes::from_static(b"read"));
                self.node.transfer_leader(MemberId(3));
            }
            Situation::SnapshotPending => {
                self.follow();
                let metadata = SnapshotMetadata {
                    conf_state: situation.conf_state(),
                    index: Index(9),
                    term: TERM,
                };
                let snapshot = Some(Box::new(Snapshot { data: Bytes::new(), metadata }));
                self.take(Message { snapshot, ..from(MemberId(2), MessageType::MsgSnap) });
            }
        }
    }

    fn follow(&mut self) {
        self.take(Message { commit: COMMIT, ..from(MemberId(2), MessageType::MsgHeartbeat) });
        self.settle();
    }

    fn lead(&mut self) {
        let before = self.node.basic_status().hard_state.term;
        let last = self.node.storage().last_index();
        let term = before.next();
        self.node.campaign();
        self.settle();
        for kind in [MessageType::MsgPreVoteResp, MessageType::MsgVoteResp] {
            self.take(Message { term, ..from(MemberId(2), kind) });
            self.settle();
        }
        for (member, index) in [(2, last.next()), (3, last)] {
            let ack = from(MemberId(member), MessageType::MsgAppResp);
            self.take(Message { term, index, ..ack });
            self.settle();
        }
        self.node.propose(Bytes::from_static(b"put a")).expect("the member is leader");
        self.settle();
    }

    fn take(&mut self, message: Message) {
        self.node.step(message).expect("a message of a correct peer is accepted");
    }

    /// Steps a message, which must not panic.
    pub(crate) fn step(&mut self, message: Message) -> Result<(), StepError> {
        self.node.step(message)
    }

    /// Returns the observable state of the member.
    pub(crate) fn view(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let storage = self.node.storage();
        let (first, end) = (storage.first_index(), storage.last_index().next());
        let log = storage.entries(first, end, u64::MAX).expect("all entries");
        (format!("{:?}", self.node.status()), self.node.has_ready(), log, storage.hard_state())
    }

    /// Takes the next `Ready`, unless one is in progress.
    pub(crate) fn take_ready(&mut self) -> Option<Ready> {
        if self.ready.is_some() || !self.node.has_ready() {
            return None;
        }
        let ready = self.node.ready();
        if self.config.async_storage_writes {
            for message in &ready.messages {
                match message.kind {
                    MessageType::MsgStorageAppend => self.writes.push_back(message.clone()),
                    MessageType::MsgStorageApply => self.applications.push_back(message.clone()),
                    _ => {}
                }
            }
        } else {
            self.ready = Some(ready.clone());
        }
        Some(ready)
    }

    /// Performs some storage work, writes first; reports whether there was any.
    pub(crate) fn work(&mut self) -> bool {
        self.finish_ready() || self.write() || self.apply_committed()
    }

    /// Performs some storage work, applying first; reports whether there was any.
    pub(crate) fn work_apply_first(&mut self) -> bool {
        self.finish_ready() || self.apply_committed() || self.write()
    }

    fn finish_ready(&mut self) -> bool {
        let Some(ready) = self.ready.take() else {
            return false;
        };
        self.save(&ready.entries, ready.hard_state, ready.snapshot);
        self.apply(&ready.committed_entries);
        self.node.advance();
        true
    }

    /// Runs one job of the append thread.
    fn write(&mut self) -> bool {
        let Some(mut write) = self.writes.pop_front() else {
            return false;
        };
        let snapshot = write.snapshot.take().map(|snapshot| *snapshot);
        self.save(&write.entries, write.hard_state(), snapshot);
        self.deliver(write.responses);
        true
    }

    /// Runs one job of the apply thread.
    fn apply_committed(&mut self) -> bool {
        let Some(application) = self.applications.pop_front() else {
            return false;
        };
        self.apply(&application.entries);
        self.deliver(application.responses);
        true
    }

    fn deliver(&mut self, responses: Vec<Message>) {
        for response in responses.into_iter().filter(|response| response.to == ME) {
            // A member that was removed meanwhile ignores its own votes and acknowledgements.
            match self.node.step_local(response) {
                Ok(()) | Err(StepError::PeerNotFound) => {}
                Err(error) => panic!("storage response refused: {error}"),
            }
        }
    }

    fn save(&mut self, entries: &[Entry], state: Option<HardState>, snapshot: Option<Snapshot>) {
        let storage = self.node.storage_mut();
        if let Some(snapshot) = snapshot {
            storage.apply_snapshot(snapshot).expect("snapshots are newer");
        }
        storage.append(entries).expect("entries leave no gap");
        if let Some(state) = state {
            storage.set_hard_state(state);
        }
    }

    fn apply(&mut self, entries: &[Entry]) {
        for entry in entries.iter().filter(|entry| entry.kind.is_conf_change()) {
            let change = wire::decode_conf_change(entry.kind, &entry.data)
                .expect("invalid conf changes are refused before the log");
            // Every member refuses an invalid change alike.
            let _ = self.node.apply_conf_change(entry.index, &change);
        }
    }

    /// Processes all pending work.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.take_ready().is_none() && !self.work() {
                return;
            }
        }
        panic!("not settled after 10,000 rounds");
    }

    /// Creates a snapshot of everything applied and compacts the log up to it. With asynchronous
    /// storage the durable commit index may be lower.
    pub(crate) fn compact(&mut self) {
        let applied = self.node.basic_status().applied;
        let conf_state = self.node.status().config.to_conf_state();
        let storage = self.node.storage_mut();
        if storage.create_snapshot(applied, Some(conf_state), Bytes::new()).is_ok() {
            // There may be nothing to drop.
            let _ = storage.compact(applied);
        }
    }

    /// Checks that the member could restart from its storage after a crash.
    pub(crate) fn restart(&self) {
        let restarted = RawNode::new(self.config.clone(), self.node.storage().clone());
        assert!(restarted.is_ok(), "cannot restart: {:?}", restarted.err());
    }
}

/// Returns a message to the member under test, in its term.
pub(crate) fn from(from: MemberId, kind: MessageType) -> Message {
    assert!(from != LOCAL_APPEND_THREAD, "the sender is a peer");
    Message { from, term: TERM, ..Message::new(kind, ME) }
}

/// Returns the log after a snapshot, or an empty storage for new members.
fn storage(situation: Situation) -> MemoryStorage {
    if matches!(situation, Situation::Blank | Situation::NewLeader) {
        return MemoryStorage::with_conf_state(situation.conf_state());
    }
    let [EntryId { term, index }, log @ ..] = KNOWN_LOG;
    let mut storage = MemoryStorage::new();
    let metadata = SnapshotMetadata { conf_state: situation.conf_state(), index, term };
    storage
        .apply_snapshot(Snapshot { data: Bytes::new(), metadata })
        .expect("the storage has no snapshot");
    let payload = || Entry::normal(Bytes::from_static(b"put a"));
    let entries = log.map(|EntryId { term, index }| Entry { term, index, ..payload() });
    storage.append(&entries).expect("entries follow the snapshot");
    storage.set_hard_state(HardState { term: TERM, vote: None, commit: COMMIT });
    storage
}
