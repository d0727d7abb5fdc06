//! A member of a cluster whose peers the test simulates: it inspects the messages that the member
//! sends, and makes up the responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use env::{SimClock, SimDisk};
use membership::{Member, Membership};
use mvcc::{KeyValueHash, PutResult};
use parking_lot::Mutex;
use proto::etcdserverpb as pb;
use raft::{Message, MessageType};
use server::stages::{Stage, Stages};
use server::{
    AppliedReply, OutgoingSnapshot, PeerHash, PeerResponse, Proposal, Server, ServerConfig,
    Transport,
};
use simkit::poll_once;
use testkit::waiting::{step_until, wait_until};
use types::{Index, MemberId, Term};

use crate::scenario::small;
use crate::single_member::SimPlatform;

/// A transport that records messages and returns prepared answers.
#[derive(Debug, Default)]
struct RecordingTransport {
    sent: Mutex<Vec<Message>>,
    active: Mutex<BTreeMap<MemberId, Duration>>,
    /// The hash that all peers report, once it is set.
    hash: Arc<Mutex<Option<PeerHash>>>,
}

impl Transport for RecordingTransport {
    fn send(&self, messages: Vec<Message>) {
        self.sent.lock().extend(messages);
    }

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, member: MemberId) -> Option<Duration> {
        self.active.lock().get(&member).copied()
    }

    fn set_members(&self, _: &Membership) {}

    fn request_hash(&self, _: &Member, _: i64, _: Duration) -> PeerResponse<PeerHash> {
        let hash = Arc::clone(&self.hash);
        Box::pin(std::future::poll_fn(move |_| match *hash.lock() {
            Some(hash) => Poll::Ready(Ok(hash)),
            None => Poll::Pending,
        }))
    }
}

/// A member and its transport.
pub(crate) struct MemberWithPeers {
    pub(crate) stages: Stages,
    pub(crate) clock: SimClock,
    pub(crate) disk: SimDisk,
    /// The ids of the peers, in order.
    pub(crate) peers: Vec<MemberId>,
    wire: Arc<RecordingTransport>,
    log_hangs: bool,
}

impl MemberWithPeers {
    /// Returns member `number`, counted from one, of a new cluster of `of` members.
    pub(crate) fn new(
        number: usize,
        of: usize,
        change: impl FnOnce(&mut ServerConfig),
    ) -> MemberWithPeers {
        let url = |number| vec![format!("http://10.0.0.{number}:2380")];
        let name = |number| format!("m{number}");
        let mut config = small();
        (config.name, config.peer_urls) = (name(number), url(number));
        config.initial_cluster = (1..=of).map(|it| (name(it), url(it))).collect();
        change(&mut config);
        let platform = SimPlatform { disk: SimDisk::new(0), clock: SimClock::default() };
        let wire = Arc::new(RecordingTransport::default());
        let stages = Stages::boot(config, platform.to_platform(), Arc::clone(&wire) as _).unwrap();
        let local = stages.server().local();
        let members = stages.server().membership();
        let peers = members.ids().filter(|id| *id != local).collect();
        let SimPlatform { disk, clock } = platform;
        MemberWithPeers { stages, clock, disk, peers, wire, log_hangs: false }
    }

    pub(crate) fn server(&self) -> Server {
        self.stages.server().clone()
    }

    /// Makes all peers report a hash.
    pub(crate) fn set_peer_hash(&self, hash: KeyValueHash) {
        *self.wire.hash.lock() = Some(PeerHash { revision: hash.revision, hash });
    }

    /// Reports a peer as connected since a time.
    pub(crate) fn connect(&self, member: MemberId, since: Duration) {
        self.wire.active.lock().insert(member, since);
    }

    pub(crate) fn disconnect(&self, member: MemberId) {
        self.wire.active.lock().remove(&member);
    }

    /// Takes the messages that were sent since the last call.
    pub(crate) fn sent(&self) -> Vec<Message> {
        std::mem::take(&mut *self.wire.sent.lock())
    }

    /// Delivers a message from a peer.
    pub(crate) fn deliver(&self, from: MemberId, message: Message) {
        let message = Message { from, to: self.stages.server().local(), ..message };
        self.stages.server().receive(message).unwrap();
    }

    /// Makes the disk of the log hang from now on.
    pub(crate) fn hang_log(&mut self) {
        self.log_hangs = true;
        self.stages.hang_log(true);
    }

    /// Returns whether the log is reported as busy while its disk hangs during a turn.
    pub(crate) fn is_busy_in_a_hanging_log(&mut self) -> bool {
        let (server, disk) = (self.server(), self.disk.clone());
        let hung = disk.hang();
        let before = disk.calls().writes;
        std::thread::scope(|scope| {
            scope.spawn(|| self.stages.turn(Stage::Log));
            // The sync follows the write.
            wait_until("the log writer writes to the disk", || disk.calls().writes > before);
            let is_busy = server.log_busy_for().is_some();
            drop(hung);
            is_busy
        })
    }

    /// Advances time by a tick and gives every stage four turns.
    pub(crate) fn tick(&mut self) {
        self.clock.advance(self.stages.server().config().heartbeat);
        for _ in 0..4 {
            let stages = Stage::ALL.into_iter();
            let able = stages.filter(|stage| !(self.log_hangs && *stage == Stage::Log));
            able.for_each(|stage| self.stages.turn(stage));
        }
    }

    /// Advances time by a tick. Peers agree to the selected messages.
    pub(crate) fn tick_agreeing(&mut self, agrees: impl Fn(&Message) -> bool) {
        self.tick();
        self.agree(agrees);
    }

    /// Makes peers agree to the selected messages.
    pub(crate) fn agree(&self, agrees: impl Fn(&Message) -> bool) {
        for message in self.sent().iter().filter(|message| agrees(message)) {
            if let Some(answer) = agreement(message) {
                self.deliver(message.to, answer);
            }
        }
    }

    /// Lets the member be elected by all peers, which have its whole log.
    pub(crate) fn lead(&mut self) {
        let is_settled = |server: &Server| {
            let applied = server.state().applied().unwrap();
            server.is_leader() && applied == (server.committed(), server.term())
        };
        step_until("the member leads and has published its name", || {
            self.tick_agreeing(|_| true);
            is_settled(self.stages.server()) && self.stages.is_published()
        });
        self.tick_agreeing(|_| true);
    }

    /// Makes the member a follower of a peer in a term.
    pub(crate) fn follow(&mut self, leader: MemberId, term: Term) {
        self.deliver(leader, heartbeat(term, Index::ZERO));
        self.tick();
        assert_eq!(self.stages.server().leader(), Some(leader));
    }

    /// Proposes a put with a value of `bytes` bytes.
    pub(crate) fn put(&self, bytes: usize) -> Proposal<AppliedReply<PutResult>> {
        let put = pb::PutRequest {
            key: "key".into(),
            value: vec![b'v'; bytes].into(),
            ..pb::PutRequest::default()
        };
        self.stages.server().propose(put).unwrap()
    }

    /// Returns the current database with its snapshot message.
    pub(crate) fn snapshot(&self) -> (Message, Vec<u8>) {
        let (state, mut image) = (self.stages.server().state(), Vec::new());
        state.backend().snapshot_to(&mut image).unwrap();
        let (index, term) = state.applied().unwrap();
        let conf_state = state.cluster().now().conf_state().into();
        let metadata = raft::SnapshotMetadata { conf_state, index, term };
        let snapshot = raft::Snapshot { metadata, ..raft::Snapshot::default() };
        let message = Message::new(MessageType::MsgSnap, MemberId(0));
        let term = self.stages.server().term();
        (Message { term, snapshot: Some(Box::new(snapshot)), ..message }, image)
    }

    /// Returns the raft status.
    pub(crate) fn status(&mut self) -> raft::Status {
        let server = self.server();
        let mut status = Box::pin(server.raft_status());
        assert!(poll_once(&mut status).is_none());
        self.stages.turn(Stage::Raft);
        poll_once(&mut status).expect("the raft loop answers at once").unwrap()
    }
}

pub(crate) fn heartbeat(term: Term, commit: Index) -> Message {
    Message { term, commit, ..Message::new(MessageType::MsgHeartbeat, MemberId(0)) }
}

/// Returns the positive response to a message.
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
