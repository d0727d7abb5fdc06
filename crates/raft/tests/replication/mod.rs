//! Members in one thread that replicate to each other, with storage that is instant.
//!
//! Storage writes are asynchronous, as the server does them, but both storage threads do their work
//! inline. What is measured is then the core with its messages, and next to nothing else.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use raft::{
    ConfState, Config, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, MemoryStorage, Message, RawNode,
    RoleKind, Storage,
};
use types::{Index, MemberId};

/// Entries kept in storage behind what has been applied, as for followers that lag a little.
const KEPT: u64 = 4096;

/// A cluster, of which the first member leads.
pub(crate) struct Cluster {
    members: Vec<Member>,
    /// Messages between members, in the order they were sent.
    network: VecDeque<Message>,
    payload: Bytes,
}

struct Member {
    node: RawNode<MemoryStorage>,
    applied: Index,
}

impl Cluster {
    /// Members one to `size` with proposals of `payload_bytes`, once the first has been elected.
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
        self.members[0].node.propose_batch(batch).expect("the leader takes it");
        self.settle();
        assert_eq!(self.members[0].applied, before + count as u64);
    }

    /// Proposals as a server gets them: cut from what was read at once from a connection.
    fn batch(&self, count: usize) -> Vec<Bytes> {
        let mut read = BytesMut::with_capacity(count * self.payload.len());
        (0..count).for_each(|_| read.extend_from_slice(&self.payload));
        let cut = |_| read.split_to(self.payload.len()).freeze();
        (0..count).map(cut).collect()
    }

    /// Lets a tick pass for everybody, with the heartbeats and answers that follow from it.
    pub(crate) fn tick(&mut self) {
        self.members.iter_mut().for_each(|member| member.node.tick());
        self.settle();
    }

    /// How far every member has applied; they agree once all is settled.
    pub(crate) fn applied(&self) -> Index {
        let applied = self.members[0].applied;
        assert!(self.members.iter().all(|member| member.applied == applied));
        applied
    }

    /// Entries that the member with the longest log holds.
    pub(crate) fn kept(&self) -> u64 {
        let kept = |member: &Member| {
            let storage = member.node.storage();
            storage.last_index().next() - storage.first_index()
        };
        self.members.iter().map(kept).max().unwrap_or(0)
    }

    /// Delivers messages and does storage work until there is none left.
    fn settle(&mut self) {
        loop {
            for member in &mut self.members {
                member.turn(&mut self.network);
            }
            if self.network.is_empty() {
                return;
            }
            while let Some(message) = self.network.pop_front() {
                let position = usize::try_from(message.to.0 - 1).expect("a member");
                self.members[position].node.step(message).expect("all members are sound");
            }
        }
    }
}

impl Member {
    fn new(id: MemberId, size: u64) -> Member {
        let voters = ConfState::of_voters((1..=size).map(MemberId));
        let config = Config { async_storage_writes: true, ..Config::new(id) };
        let node = RawNode::new(config, MemoryStorage::with_conf_state(voters));
        Member { node: node.expect("a sound configuration"), applied: Index::ZERO }
    }

    /// Does what the core asks for, until it asks for nothing.
    fn turn(&mut self, network: &mut VecDeque<Message>) {
        while self.node.has_ready() {
            for message in self.node.ready().messages {
                match message.to {
                    LOCAL_APPEND_THREAD => self.append(message, network),
                    LOCAL_APPLY_THREAD => self.apply(message),
                    _ => network.push_back(message),
                }
            }
        }
    }

    fn append(&mut self, message: Message, network: &mut VecDeque<Message>) {
        let hard_state = message.hard_state();
        let storage = self.node.storage_mut();
        storage.append(&message.entries).expect("entries follow what is stored");
        if let Some(state) = hard_state {
            storage.set_hard_state(state);
        }
        let id = self.node.basic_status().id;
        for response in message.responses {
            if response.to == id {
                self.node.step_local(response).expect("a member");
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
            self.node.step_local(response).expect("a member");
        }
        self.compact();
    }

    /// Keeps memory flat: drops half of the log each time it has become twice what is to be kept.
    fn compact(&mut self) {
        let first = self.node.storage().first_index();
        if self.applied.0 >= first.0 + 2 * KEPT {
            let up_to = Index(self.applied.0 - KEPT);
            self.node.storage_mut().compact(up_to).expect("all of it is stored");
        }
    }
}
