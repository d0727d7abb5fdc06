//! A member under script control: its storage, its pending storage work, and a state machine that
//! concatenates.

use bytes::{Bytes, BytesMut};
use raft::{
    Config, Entry, HardState, LogError, MemoryStorage, Message, RawNode, Snapshot, SnapshotError,
    Storage, wire,
};
use std::collections::VecDeque;
use types::{Index, Term};

/// Storage whose snapshot is always the newest state of the state machine.
pub(crate) struct NodeStorage {
    pub(crate) memory: MemoryStorage,
    /// The state after each applied entry, as snapshots.
    pub(crate) history: Vec<Snapshot>,
}

impl NodeStorage {
    fn newest(&self) -> &Snapshot {
        self.history.last().expect("the history starts with the first snapshot")
    }
}

impl Storage for NodeStorage {
    fn initial_state(&self) -> (HardState, raft::ConfState) {
        self.memory.initial_state()
    }

    fn entries(&self, lo: Index, hi: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError> {
        self.memory.entries(lo, hi, max_bytes)
    }

    fn term(&self, index: Index) -> Result<Term, LogError> {
        self.memory.term(index)
    }

    fn first_index(&self) -> Index {
        self.memory.first_index()
    }

    fn last_index(&self) -> Index {
        self.memory.last_index()
    }

    fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        Ok(self.newest().clone())
    }
}

pub(crate) struct Node {
    pub(crate) raw: RawNode<NodeStorage>,
    pub(crate) config: Config,
    pub(crate) append_work: VecDeque<Message>,
    pub(crate) apply_work: VecDeque<Message>,
}

impl Node {
    pub(crate) fn new(config: Config, storage: NodeStorage) -> Result<Node, String> {
        let raw = RawNode::new(config.clone(), storage).map_err(|error| error.to_string())?;
        Ok(Node { raw, config, append_work: VecDeque::new(), apply_work: VecDeque::new() })
    }

    pub(crate) fn id(&self) -> u64 {
        self.config.id.0
    }

    /// Saves the content of a `Ready` or an append message.
    pub(crate) fn process_append(
        &mut self,
        hard_state: Option<HardState>,
        entries: &[Entry],
        snapshot: Option<Snapshot>,
    ) -> Result<(), String> {
        let memory = &mut self.raw.storage_mut().memory;
        if let Some(hard_state) = hard_state {
            memory.set_hard_state(hard_state);
        }
        let result = match snapshot {
            Some(_) if !entries.is_empty() => {
                return Err("can't apply snapshot and entries at the same time".to_owned());
            }
            Some(snapshot) => memory.apply_snapshot(snapshot),
            None => memory.append(entries),
        };
        result.map_err(|error| error.to_string())
    }

    /// Applies committed entries: the state is the concatenation of all data.
    pub(crate) fn process_apply(&mut self, entries: &[Entry]) -> Result<(), String> {
        for entry in entries {
            let mut next = self.raw.storage().newest().clone();
            let update = if entry.kind.is_conf_change() {
                let change = wire::decode_conf_change(entry.kind, &entry.data)
                    .map_err(|error| error.to_string())?;
                let applied = self.raw.apply_conf_change(entry.index, &change);
                if let Some(conf_state) = applied.map_err(|error| error.to_string())? {
                    next.metadata.conf_state = conf_state;
                }
                change.context
            } else {
                entry.data.clone()
            };
            next.data = concat(&next.data, &update);
            next.metadata.index = entry.index;
            next.metadata.term = entry.term;
            self.raw.storage_mut().history.push(next);
        }
        Ok(())
    }
}

fn concat(one: &[u8], other: &[u8]) -> Bytes {
    let mut both = BytesMut::with_capacity(one.len() + other.len());
    both.extend_from_slice(one);
    both.extend_from_slice(other);
    both.freeze()
}
