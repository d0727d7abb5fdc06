//! A member among others, whose part the test plays: what it sends is there to be looked at, and what they say is what the test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use env::{SeededRandom, SimClock, SimDisk};
use membership::{Member, Membership};
use mvcc::{KeyValueHash, PutResult};
use proto::etcdserverpb as pb;
use raft::{Message, MessageType};
use types::{Index, MemberId, Term};

use super::clients::poll;
use super::stages::Stage;
use super::story::small;
use crate::config::ServerConfig;
use crate::pipeline::voters::raft_conf_state;
use crate::propose::pending::Proposal;
use crate::propose::typed::AppliedReply;
use crate::server::Server;
use crate::stages::Stages;
use crate::transport::{OutgoingSnapshot, PeerHash, PeerResponse, Transport};

/// The way to the others.
#[derive(Debug, Default)]
struct Wire {
    sent: Mutex<Vec<Message>>,
    active: Mutex<BTreeMap<MemberId, Duration>>,
    /// What all others hold, once they say so.
    hash: Arc<Mutex<Option<PeerHash>>>,
}

impl Transport for Wire {
    fn send(&self, messages: Vec<Message>) {
        self.sent.lock().unwrap().extend(messages);
    }

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, member: MemberId) -> Option<Duration> {
        self.active.lock().unwrap().get(&member).copied()
    }

    fn set_members(&self, _: &Membership) {}

    fn request_hash(&self, _: &Member, _: i64, _: Duration) -> PeerResponse<PeerHash> {
        let hash = Arc::clone(&self.hash);
        Box::pin(std::future::poll_fn(move |_| match *hash.lock().unwrap() {
            Some(hash) => Poll::Ready(Ok(hash)),
            None => Poll::Pending,
        }))
    }
}

/// A member, and what is between it and the others.
pub(super) struct Among {
    pub(super) stages: Stages,
    pub(super) clock: SimClock,
    pub(super) disk: SimDisk,
    /// The other members, by their ids.
    pub(super) others: Vec<MemberId>,
    wire: Arc<Wire>,
    log_hangs: bool,
}

impl Among {
    /// The member of a number, from one, of a new cluster of so many.
    pub(super) fn new(number: usize, of: usize, change: impl FnOnce(&mut ServerConfig)) -> Among {
        let url = |number| vec![format!("http://10.0.0.{number}:2380")];
        let name = |number| format!("m{number}");
        let mut config = small();
        (config.name, config.peer_urls) = (name(number), url(number));
        config.initial_cluster = (1..=of).map(|it| (name(it), url(it))).collect();
        change(&mut config);
        let (clock, wire) = (SimClock::default(), Arc::new(Wire::default()));
        let disk = SimDisk::new(0);
        let machine = crate::Platform {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(clock.clone()),
            random: Box::new(SeededRandom::new(0)),
        };
        let stages = Stages::boot(config, machine, Arc::clone(&wire) as _).unwrap();
        let local = stages.server().local();
        let members = stages.server().state().cluster.now();
        let others = members.ids().filter(|id| *id != local).collect();
        Among { stages, clock, disk, others, wire, log_hangs: false }
    }

    pub(super) fn server(&self) -> Server {
        self.stages.server().clone()
    }

    /// All others say what they hold.
    pub(super) fn tell_hash(&self, hash: KeyValueHash) {
        *self.wire.hash.lock().unwrap() = Some(PeerHash { revision: hash.revision, hash });
    }

    /// Connected to another for as long as that.
    pub(super) fn connect(&self, member: MemberId, since: Duration) {
        self.wire.active.lock().unwrap().insert(member, since);
    }

    pub(super) fn disconnect(&self, member: MemberId) {
        self.wire.active.lock().unwrap().remove(&member);
    }

    /// What was sent since the last time.
    pub(super) fn sent(&self) -> Vec<Message> {
        std::mem::take(&mut *self.wire.sent.lock().unwrap())
    }

    /// Another member says something.
    pub(super) fn hear(&self, from: MemberId, message: Message) {
        let message = Message { from, to: self.stages.server().local(), ..message };
        self.stages.server().receive(message).unwrap();
    }

    /// The disk of the log does not answer from here on.
    pub(super) fn hang_log(&mut self) {
        self.log_hangs = true;
        self.stages.hang_log(true);
    }

    /// Whether it shows that the log is at its disk, while that hangs in the midst of a turn.
    pub(super) fn is_busy_in_a_hanging_log(&mut self) -> bool {
        let (server, disk) = (self.server(), self.disk.clone());
        disk.hang();
        let before = disk.calls().writes;
        std::thread::scope(|scope| {
            scope.spawn(|| self.stages.turn(Stage::Log));
            // What was written is synced next.
            testkit::waiting::wait_until("the disk is written", || disk.calls().writes > before);
            let is_busy = server.log_busy_for().is_some();
            disk.heal();
            is_busy
        })
    }

    /// A tick passes, and every stage has its turns.
    pub(super) fn tick(&mut self) {
        self.clock.advance(self.stages.server().config().heartbeat);
        for _ in 0..4 {
            let stages = Stage::ALL.into_iter();
            let able = stages.filter(|stage| !(self.log_hangs && *stage == Stage::Log));
            able.for_each(|stage| self.stages.turn(stage));
        }
    }

    /// The same, and others agree to some of what they are asked.
    pub(super) fn tick_agreeing(&mut self, agrees: impl Fn(&Message) -> bool) {
        self.tick();
        self.agree(agrees);
    }

    /// Others agree to some of what they were asked.
    pub(super) fn agree(&self, agrees: impl Fn(&Message) -> bool) {
        for message in self.sent().iter().filter(|message| agrees(message)) {
            if let Some(answer) = agreement(message) {
                self.hear(message.to, answer);
            }
        }
    }

    /// Is elected by all, who have all that it has.
    pub(super) fn lead(&mut self) {
        let is_settled = |server: &Server| {
            let applied = server.state().applied().unwrap();
            server.is_leader() && applied == (server.committed(), server.term())
        };
        while !(is_settled(self.stages.server()) && self.stages.is_published()) {
            self.tick_agreeing(|_| true);
        }
        self.tick_agreeing(|_| true);
    }

    /// Follows another, in a term.
    pub(super) fn follow(&mut self, leader: MemberId, term: Term) {
        self.hear(leader, heartbeat(term, Index::ZERO));
        self.tick();
        assert_eq!(self.stages.server().leader(), Some(leader));
    }

    /// Proposes to put a value of so many bytes.
    pub(super) fn put(&self, bytes: usize) -> Proposal<AppliedReply<PutResult>> {
        let put = pb::PutRequest {
            key: "key".into(),
            value: vec![b'v'; bytes].into(),
            ..pb::PutRequest::default()
        };
        self.stages.server().propose(put).unwrap()
    }

    /// The database as it is, and the message that goes before it.
    pub(super) fn snapshot(&self) -> (Message, Vec<u8>) {
        let (state, mut image) = (self.stages.server().state(), Vec::new());
        state.backend.snapshot_to(&mut image).unwrap();
        let (index, term) = state.applied().unwrap();
        let conf_state = raft_conf_state(state.cluster.now().conf_state());
        let metadata = raft::SnapshotMetadata { conf_state, index, term };
        let snapshot = raft::Snapshot { metadata, ..raft::Snapshot::default() };
        let message = Message::new(MessageType::MsgSnap, MemberId(0));
        let term = self.stages.server().term();
        (Message { term, snapshot: Some(Box::new(snapshot)), ..message }, image)
    }

    /// What consensus says of itself.
    pub(super) fn status(&mut self) -> raft::Status {
        let server = self.server();
        let mut status = Box::pin(server.raft_status());
        assert!(poll(&mut status).is_none());
        self.stages.turn(Stage::Raft);
        poll(&mut status).expect("it is told at once").unwrap()
    }
}

pub(super) fn heartbeat(term: Term, commit: Index) -> Message {
    Message { term, commit, ..Message::new(MessageType::MsgHeartbeat, MemberId(0)) }
}

/// What a member that has nothing against it answers.
fn agreement(message: &Message) -> Option<Message> {
    let kind = match message.kind {
        MessageType::MsgPreVote => MessageType::MsgPreVoteResp,
        MessageType::MsgVote => MessageType::MsgVoteResp,
        MessageType::MsgApp => MessageType::MsgAppResp,
        MessageType::MsgHeartbeat => MessageType::MsgHeartbeatResp,
        _ => return None,
    };
    let index = message.entries.last().map_or(message.index, |last| last.index);
    let (term, context) = (message.term, message.context.clone());
    Some(Message { term, index, context, ..Message::new(kind, message.from) })
}
