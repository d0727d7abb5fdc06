//! A model of the state that clients can see, and of the effect of requests on it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::mvccpb::KeyValue;
use server::StateMachine;

use crate::op::{Branch, Op};

/// A key-value pair at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kv {
    pub(crate) value: String,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
}

pub(crate) type Keys = BTreeMap<String, Kv>;

/// The state that clients can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) keys: Keys,
    /// The granted TTLs in seconds, by lease id.
    pub(crate) leases: BTreeMap<i64, i64>,
    pub(crate) learners: BTreeSet<u64>,
}

impl Model {
    /// Returns the state of a new cluster.
    pub(crate) fn new() -> Model {
        let (keys, leases, learners) = (Keys::new(), BTreeMap::new(), BTreeSet::new());
        Model { revision: 1, compacted: mvcc::NEVER_COMPACTED, keys, leases, learners }
    }

    /// Reads the state of a member.
    pub(crate) fn of(state: &StateMachine) -> Model {
        let (store, lessor, cluster) = (state.store(), state.lessor(), state.cluster());
        let (revision, compacted) = (store.current(), store.compacted());
        let granted = |id| lessor.time_to_live(id, Duration::ZERO).unwrap().granted;
        let leases = lessor.leases().into_iter().map(|id| (id.0, granted(id))).collect();
        let now = cluster.now();
        let learners = now.ids().filter(|id| now.is_learner(*id)).map(|id| id.0).collect();
        Model { revision, compacted, keys: keys_at(state, revision), leases, learners }
    }

    /// Returns the keys that are attached to a lease.
    pub(crate) fn attached(&self, lease: i64) -> impl Iterator<Item = &[u8]> {
        let attached = self.keys.iter().filter(move |(_, kv)| kv.lease == lease);
        attached.map(|(key, _)| key.as_bytes())
    }

    /// Applies a request. Returns false if it is refused.
    pub(crate) fn apply(&mut self, op: &Op) -> bool {
        match op {
            Op::Put { key, value, lease } => {
                let known = *lease == 0 || self.leases.contains_key(lease);
                if known {
                    self.revision += 1;
                    self.put(key, value, *lease);
                }
                known
            }
            Op::Delete { from, to } => {
                self.delete(|key, _| (from.as_str()..to.as_str()).contains(&key));
                true
            }
            Op::Txn { key, version, then, or_else } => {
                let found = self.keys.get(key).map_or(0, |kv| kv.version);
                self.branch(if found == *version { then } else { or_else });
                true
            }
            Op::Grant { id, ttl } => {
                let is_new = !self.leases.contains_key(id);
                self.leases.entry(*id).or_insert(*ttl);
                is_new
            }
            Op::Revoke { id } => {
                let was_there = self.leases.remove(id).is_some();
                if was_there {
                    self.delete(|_, kv| kv.lease == *id);
                }
                was_there
            }
            Op::Compact { revision } => {
                let is_possible = (self.compacted + 1..=self.revision).contains(revision);
                if is_possible {
                    self.compacted = *revision;
                }
                is_possible
            }
            Op::Join { learner } => self.learners.insert(*learner),
            Op::Leave { learner } => self.learners.remove(learner),
        }
    }

    fn branch(&mut self, branch: &Branch) {
        if !branch.puts.is_empty() {
            self.revision += 1;
        }
        branch.puts.iter().for_each(|(key, value)| self.put(key, value, 0));
    }

    fn put(&mut self, key: &str, value: &str, lease: i64) {
        let modified = self.revision;
        let before = self.keys.get(key);
        let (created, version) = before.map_or((modified, 1), |kv| (kv.created, kv.version + 1));
        let kv = Kv { value: value.to_owned(), created, modified, version, lease };
        self.keys.insert(key.to_owned(), kv);
    }

    fn delete(&mut self, which: impl Fn(&str, &Kv) -> bool) {
        let before = self.keys.len();
        self.keys.retain(|key, kv| !which(key, kv));
        self.revision += i64::from(self.keys.len() < before);
    }
}

/// Reads all keys at a revision.
pub(crate) fn keys_at(state: &StateMachine, revision: i64) -> Keys {
    let everything = vec![0];
    let request = pb::RangeRequest {
        key: everything.clone().into(),
        range_end: everything.into(),
        revision,
        ..pb::RangeRequest::default()
    };
    let range = state.store().range(&request).unwrap();
    range.kvs.iter().map(|kv| key_value(KeyValue::decode(kv).unwrap())).collect()
}

fn key_value(kv: KeyValue) -> (String, Kv) {
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.into()).unwrap();
    let KeyValue { key, create_revision, mod_revision, version, value, lease } = kv;
    let (created, modified) = (create_revision, mod_revision);
    (text(key), Kv { value: text(value), created, modified, version, lease })
}
