//! Members in one thread that replicate to each other, with instant storage.
//!
//! Storage writes are asynchronous, as in the server, but both storage threads run inline. So
//! benchmarks measure the core with its messages and little else.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use raft::{
    ConfState, Config, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, MemoryStorage, Message, RawNode,
    RoleKind, Storage,
};
use testkit::waiting::step_until;
use types::{Index, MemberId};

/// Entries kept in storage after they were applied, for slow followers.
const CATCH_UP_ENTRIES: u64 = 4096;

/// A cluster whose first member leads.
pub(crate) struct Cluster {
    members: Vec<Member>,
    /// Messages in flight, in order.
    network: VecDeque<Message>,
    payload: Bytes,
}

struct Member {
    node: RawNode<MemoryStorage>,
    applied: Index,
}

impl Cluster {
    /// Creates members one to `size` with proposals of `payload_bytes`, and elects the first.
    pub(crate) fn new(size: u64, payload_bytes: usize) -> Cluster {
        let members = (1..=size).map(|id| Member::new(MemberId(id), size)).collect();
        let payload = Bytes::from(vec![b'x'; payload_bytes]);
        let mut cluster = Cluster { members, network: VecDeque::new(), payload };
        cluster.members[0].node.campaign();
        cluster.settle();
        let status = cluster.members[0].node.basic_status();
        assert_eq!(status.soft_state.role, RoleKind::Leader);
        cluster
    }

    /// Commits and applies a batch of proposals on every member.
    pub(crate) fn commit(&mut self, count: usize) {
        let before = self.members[0].applied;
        let batch = self.batch(count);
        self.members[0].node.propose_batch(batch).expect("the leader accepts proposals");
        self.settle();
        assert_eq!(self.members[0].applied, before + count as u64);
    }

    /// Returns proposals as a server gets them: slices of one buffer.
    fn batch(&self, count: usize) -> Vec<Bytes> {
        let mut read = BytesMut::with_capacity(count * self.payload.len());
        (0..count).for_each(|_| read.extend_from_slice(&self.payload));
        let cut = |_| read.split_to(self.payload.len()).freeze();
        (0..count).map(cut).collect()
    }

    /// Passes a tick on all members, with the heartbeats and responses.
    pub(crate) fn tick(&mut self) {
        self.members.iter_mut().for_each(|member| member.node.tick());
        self.settle();
    }

    /// Returns the applied index, which is equal on all members once settled.
    pub(crate) fn applied(&self) -> Index {
        let applied = self.members[0].applied;
        assert!(self.members.iter().all(|member| member.applied == applied));
        applied
    }

    /// Returns the number of entries of the longest log.
    pub(crate) fn kept(&self) -> u64 {
        let kept = |member: &Member| {
            let storage = member.node.storage();
            storage.last_index().next() - storage.first_index()
        };
        self.members.iter().map(kept).max().unwrap_or(0)
    }

    /// Delivers messages and performs storage work until there is none left.
    fn settle(&mut self) {
        step_until("no message is in flight", || {
            for member in &mut self.members {
                member.turn(&mut self.network);
            }
            let is_settled = self.network.is_empty();
            while let Some(message) = self.network.pop_front() {
                let position = usize::try_from(message.to.0 - 1).expect("a known member");
                self.members[position]
                    .node
                    .step(message)
                    .expect("messages of correct members are accepted");
            }
            is_settled
        });
    }
}

impl Member {
    fn new(id: MemberId, size: u64) -> Member {
        let voters = ConfState::of_voters((1..=size).map(MemberId));
        let config = Config { async_storage_writes: true, ..Config::new(id) };
        let node = RawNode::new(config, MemoryStorage::with_conf_state(voters));
        Member { node: node.expect("valid configuration"), applied: Index::ZERO }
    }

    /// Processes `Ready`s until there are none left.
    fn turn(&mut self, network: &mut VecDeque<Message>) {
        step_until("the member has nothing left to do", || {
            if !self.node.has_ready() {
                return true;
            }
            for message in self.node.ready().messages {
                match message.to {
                    LOCAL_APPEND_THREAD => self.append(message, network),
                    LOCAL_APPLY_THREAD => self.apply(message),
                    _ => network.push_back(message),
                }
            }
            false
        });
    }

    fn append(&mut self, message: Message, network: &mut VecDeque<Message>) {
        let hard_state = message.hard_state();
        let storage = self.node.storage_mut();
        storage.append(&message.entries).expect("entries leave no gap");
        if let Some(state) = hard_state {
            storage.set_hard_state(state);
        }
        let id = self.node.basic_status().id;
        for response in message.responses {
            if response.to == id {
                self.node.step_local(response).expect("a known member");
            } else {
                network.push_back(response);
            }
        }
    }

    fn apply(&mut self, message: Message) {
        if let Some(last) = message.entries.last() {
            self.applied = last.index;
        }
        for response in message.responses {
            self.node.step_local(response).expect("a known member");
        }
        self.compact();
    }

    /// Keeps memory flat: compacts half of the log when it has twice the entries to keep.
    fn compact(&mut self) {
        let first = self.node.storage().first_index();
        if self.applied.0 >= first.0 + 2 * CATCH_UP_ENTRIES {
            let up_to = Index(self.applied.0 - CATCH_UP_ENTRIES);
            self.node.storage_mut().compact(up_to).expect("the entries are stored");
        }
    }
}
