//! A member on its own, with its storage, brought into the role to be attacked.

use std::collections::VecDeque;

use bytes::Bytes;
use raft::{
    ConfState, Config, Entry, EntryId, HardState, LOCAL_APPEND_THREAD, MemoryStorage, Message,
    MessageType, RawNode, ReadOnlyOption, Ready, Snapshot, SnapshotMetadata, StepError, Storage,
    wire,
};
use types::{Index, MemberId, Term};

/// The member under attack.
pub(crate) const ME: MemberId = MemberId(1);
/// The term it starts in.
pub(crate) const TERM: Term = Term(4);
/// Its log ends here.
pub(crate) const LAST: Index = Index(7);
/// It is committed up to here.
pub(crate) const COMMIT: Index = Index(5);
/// All of it, with the end of the snapshot before it.
pub(crate) const KNOWN_LOG: [EntryId; 6] = [
    EntryId { term: Term(1), index: Index(2) },
    EntryId { term: Term(2), index: Index(3) },
    EntryId { term: Term(2), index: Index(4) },
    EntryId { term: Term(3), index: Index(5) },
    EntryId { term: Term(3), index: Index(6) },
    EntryId { term: Term(4), index: Index(7) },
];

/// How the member is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) situation: Situation,
    pub(crate) async_storage_writes: bool,
    pub(crate) pre_vote: bool,
    pub(crate) check_quorum: bool,
    /// Needs `check_quorum`.
    pub(crate) lease_reads: bool,
    /// Limits so small that everything is cut, paused and refused all the time.
    pub(crate) tight_limits: bool,
    pub(crate) step_down_on_removal: bool,
}

/// Where the member stands when the attack begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// Has just been created: no log, no configuration, no term.
    Blank,
    /// Has restarted and heard of nobody yet.
    Leaderless,
    /// Follows member two.
    Follower,
    /// Follows member two, without a vote.
    Learner,
    /// Is in no configuration.
    Removed,
    /// Asks whether it would be elected, if pre-vote is on; otherwise asks to be.
    Campaigning,
    /// Leads members two and three, which have acknowledged part of its log.
    Leader,
    /// Leads, and has read requests and a transfer under way.
    BusyLeader,
    /// Leads members two and three of a new cluster, with one entry and no snapshot.
    NewLeader,
    /// Leads nobody but itself.
    Alone,
    /// Follows member two and has taken a snapshot that is not written yet.
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
    /// Everything optional switched off.
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

/// A member with its storage and the work under way for it.
pub(crate) struct Member {
    pub(crate) node: RawNode<MemoryStorage>,
    config: Config,
    /// With synchronous storage, a `Ready` that is not done yet.
    ready: Option<Ready>,
    /// With asynchronous storage writes, what each thread has to do.
    writes: VecDeque<Message>,
    applications: VecDeque<Message>,
}

impl Member {
    pub(crate) fn new(setup: &Setup) -> Member {
        let config = setup.config();
        let node = RawNode::new(config.clone(), storage(setup.situation)).expect("a sound storage");
        let (writes, applications) = (VecDeque::new(), VecDeque::new());
        let mut member = Member { node, config, ready: None, writes, applications };
        member.settle();
        member.take_up(setup.situation);
        member
    }

    fn take_up(&mut self, situation: Situation) {
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
        self.node.propose(Bytes::from_static(b"put a")).expect("it leads");
        self.settle();
    }

    fn take(&mut self, message: Message) {
        self.node.step(message).expect("what a correct peer sends");
    }

    /// A message, which must not panic; refused or not.
    pub(crate) fn step(&mut self, message: Message) -> Result<(), StepError> {
        self.node.step(message)
    }

    /// What can be seen of the member from outside.
    pub(crate) fn view(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let storage = self.node.storage();
        let (first, end) = (storage.first_index(), storage.last_index().next());
        let log = storage.entries(first, end, u64::MAX).expect("all that is kept");
        (format!("{:?}", self.node.status()), self.node.has_ready(), log, storage.hard_state())
    }

    /// Takes the next `Ready`, if there is one and none is being worked on.
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

    /// Does some of the storage work handed out, writing first; whether there was any.
    pub(crate) fn work(&mut self) -> bool {
        self.finish_ready() || self.write() || self.apply_committed()
    }

    /// The same, applying first.
    pub(crate) fn work_backwards(&mut self) -> bool {
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

    /// The append thread's turn.
    fn write(&mut self) -> bool {
        let Some(mut write) = self.writes.pop_front() else {
            return false;
        };
        let snapshot = write.snapshot.take().map(|snapshot| *snapshot);
        self.save(&write.entries, write.hard_state(), snapshot);
        self.deliver(write.responses);
        true
    }

    /// The apply thread's turn.
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
            // A member that was removed meanwhile is not told by itself what it has voted or saved.
            match self.node.step_local(response) {
                Ok(()) | Err(StepError::PeerNotFound) => {}
                Err(error) => panic!("its own storage was refused: {error}"),
            }
        }
    }

    fn save(&mut self, entries: &[Entry], state: Option<HardState>, snapshot: Option<Snapshot>) {
        let storage = self.node.storage_mut();
        if let Some(snapshot) = snapshot {
            storage.apply_snapshot(snapshot).expect("a snapshot goes forward");
        }
        storage.append(entries).expect("entries follow what is saved");
        if let Some(state) = state {
            storage.set_hard_state(state);
        }
    }

    fn apply(&mut self, entries: &[Entry]) {
        for entry in entries.iter().filter(|entry| entry.kind.is_conf_change()) {
            let change = wire::decode_conf_change(entry.kind, &entry.data)
                .expect("what cannot be read does not get into the log");
            // One that makes no sense is refused by every member alike.
            let _ = self.node.apply_conf_change(entry.index, &change);
        }
    }

    /// Does everything there is to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.take_ready().is_none() && !self.work() {
                return;
            }
        }
        panic!("there is always something to do");
    }

    /// Makes a snapshot of everything applied, and drops the log up to there. The commit index on disk may lie
    /// behind that, when storage is asynchronous.
    pub(crate) fn compact(&mut self) {
        let applied = self.node.basic_status().applied;
        let conf_state = self.node.status().config.to_conf_state();
        let storage = self.node.storage_mut();
        if storage.create_snapshot(applied, Some(conf_state), Bytes::new()).is_ok() {
            // Nothing to drop is fine.
            let _ = storage.compact(applied);
        }
    }

    /// The same member after a crash now: storage is all it keeps.
    pub(crate) fn restart(&self) {
        let restarted = RawNode::new(self.config.clone(), self.node.storage().clone());
        assert!(restarted.is_ok(), "cannot restart: {:?}", restarted.err());
    }
}

/// A message to the member under attack, in its term.
pub(crate) fn from(from: MemberId, kind: MessageType) -> Message {
    assert!(from != LOCAL_APPEND_THREAD, "a peer");
    Message { from, term: TERM, ..Message::new(kind, ME) }
}

/// The log behind a snapshot, except in the situations before there is one.
fn storage(situation: Situation) -> MemoryStorage {
    if matches!(situation, Situation::Blank | Situation::NewLeader) {
        return MemoryStorage::with_conf_state(situation.conf_state());
    }
    let [EntryId { term, index }, log @ ..] = KNOWN_LOG;
    let mut storage = MemoryStorage::new();
    let metadata = SnapshotMetadata { conf_state: situation.conf_state(), index, term };
    storage.apply_snapshot(Snapshot { data: Bytes::new(), metadata }).expect("the first one");
    let payload = || Entry::normal(Bytes::from_static(b"put a"));
    let entries = log.map(|EntryId { term, index }| Entry { term, index, ..payload() });
    storage.append(&entries).expect("right behind the snapshot");
    storage.set_hard_state(HardState { term: TERM, vote: None, commit: COMMIT });
    storage
}
