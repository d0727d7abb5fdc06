//! The model: the keys at every revision, and the list of all changes.
//!
//! ```text
//!   revision   keys                          changes
//!      1       -
//!      2       a = x (created 2, version 1)  put a
//!      3       a = x, b = y                  put b
//!      4       b = y                         delete a
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use mvcc::{Error, KeyValueHash};
use prost::Message as _;
use proto::mvccpb::KeyValue;
use types::Revision;

/// The keys at a revision.
pub(crate) type Keys = BTreeMap<Bytes, KeyValue>;

/// The leases that exist at first. An id may be negative.
pub(crate) const LEASES: [i64; 3] = [1, 2, -7];
/// A lease that never exists.
pub(crate) const UNKNOWN_LEASE: i64 = 99;

/// A change of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) revision: Revision,
    pub(crate) key: Bytes,
    /// The new `KeyValue`, or `None` for a delete.
    pub(crate) kv: Option<KeyValue>,
}

/// An unfinished compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) at: i64,
    /// The previous compacted revision.
    pub(crate) previous: i64,
    /// Whether the previous compaction was finished when this one was scheduled.
    pub(crate) leaves_hash: bool,
}

/// A store as a list of revisions.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// The keys at revisions 1, 2, ..
    revisions: Vec<Keys>,
    /// All changes.
    pub(crate) log: Vec<Change>,
    /// The content of the database if only finished compactions delete revisions.
    pub(crate) stored: BTreeMap<Revision, Change>,
    pub(crate) compacted: i64,
    pub(crate) scheduled: Option<i64>,
    pub(crate) finished: Option<i64>,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) hashes: Vec<(KeyValueHash, bool)>,
    pub(crate) leases: BTreeSet<i64>,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model {
            revisions: vec![Keys::new()],
            log: Vec::new(),
            stored: BTreeMap::new(),
            compacted: -1,
            scheduled: None,
            finished: None,
            jobs: VecDeque::new(),
            hashes: Vec::new(),
            leases: LEASES.into(),
        }
    }

    pub(crate) fn current(&self) -> i64 {
        i64::try_from(self.revisions.len()).unwrap()
    }

    /// Returns the current keys.
    pub(crate) fn keys(&self) -> &Keys {
        self.revisions.last().unwrap()
    }

    /// Returns the keys at a revision; at the latest for zero and below.
    pub(crate) fn keys_at(&self, revision: i64) -> Keys {
        let place = usize::try_from(revision - 1).ok();
        place.and_then(|place| self.revisions.get(place)).cloned().unwrap_or_default()
    }

    /// Adds the next revision, if it has changes.
    pub(crate) fn add(&mut self, keys: Keys, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        self.revisions.push(keys);
        for change in changes {
            self.stored.insert(change.revision, change.clone());
            self.log.push(change);
        }
    }

    /// Returns the revision that a range reads at.
    pub(crate) fn readable(&self, revision: i64) -> Result<i64, Error> {
        match revision {
            future if future > self.current() => Err(Error::FutureRevision),
            newest if newest <= 0 => Ok(self.current()),
            past if past < self.compacted => Err(Error::Compacted),
            past => Ok(past),
        }
    }

    /// Returns the lease of each attached key.
    pub(crate) fn attached(&self) -> BTreeMap<Bytes, i64> {
        let leased = self.keys().values().filter(|kv| kv.lease != 0);
        leased.map(|kv| (kv.key.clone(), kv.lease)).collect()
    }

    /// Returns the model after a restart, which drops everything but the database.
    pub(crate) fn restart(&mut self) {
        self.hashes.clear();
        self.jobs.clear();
        self.compacted = self.finished.unwrap_or(-1);
        if let Some(at) = self.scheduled.filter(|at| *at > self.compacted) {
            let previous = std::mem::replace(&mut self.compacted, at);
            self.jobs.push_back(Job { at, previous, leaves_hash: false });
        }
    }
}

impl Change {
    /// Returns the pair in the database.
    pub(crate) fn encode(&self) -> (Bytes, Bytes) {
        let Revision { main, sub } = self.revision;
        let mut key = [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes()[..]].concat();
        if self.kv.is_none() {
            key.push(b't');
        }
        let tombstone = KeyValue { key: self.key.clone(), ..KeyValue::default() };
        let value = self.kv.as_ref().unwrap_or(&tombstone).encode_to_vec();
        (key.into(), value.into())
    }

    /// Returns the `KeyValue` of the event.
    pub(crate) fn event_kv(&self) -> KeyValue {
        self.kv.clone().unwrap_or_else(|| KeyValue {
            key: self.key.clone(),
            mod_revision: self.revision.main,
            ..KeyValue::default()
        })
    }
}
