//! The model: every revision as a whole, and the list of all changes.
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

/// The keys at some revision.
pub(crate) type Keys = BTreeMap<Bytes, KeyValue>;

/// Leases that there are at first. None has to be positive.
pub(crate) const LEASES: [i64; 3] = [1, 2, -7];
/// A lease that never is.
pub(crate) const UNKNOWN_LEASE: i64 = 99;

/// A change of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) revision: Revision,
    pub(crate) key: Bytes,
    /// None: it was deleted.
    pub(crate) kv: Option<KeyValue>,
}

/// A compaction that is not finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) at: i64,
    /// The compacted revision before it.
    pub(crate) previous: i64,
    /// Whether that one was finished when this one was asked for.
    pub(crate) leaves_hash: bool,
}

/// A store, as it is described.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// The keys at revision 1, 2, and so on.
    revisions: Vec<Keys>,
    /// All changes that ever were.
    pub(crate) log: Vec<Change>,
    /// What is in the file if nothing is dropped but by compactions that are finished.
    pub(crate) stored: BTreeMap<Revision, Change>,
    pub(crate) compacted: i64,
    pub(crate) scheduled: Option<i64>,
    pub(crate) finished: Option<i64>,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) hashes: Vec<KeyValueHash>,
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

    /// The keys as they are now.
    pub(crate) fn keys(&self) -> &Keys {
        self.revisions.last().unwrap()
    }

    /// The keys at a revision that was, zero and before included.
    pub(crate) fn keys_at(&self, revision: i64) -> Keys {
        let place = usize::try_from(revision - 1).ok();
        place.and_then(|place| self.revisions.get(place)).cloned().unwrap_or_default()
    }

    /// The next revision, if there is anything in it.
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

    /// Where a range reads.
    pub(crate) fn readable(&self, revision: i64) -> Result<i64, Error> {
        match revision {
            future if future > self.current() => Err(Error::FutureRevision),
            newest if newest <= 0 => Ok(self.current()),
            past if past < self.compacted => Err(Error::Compacted),
            past => Ok(past),
        }
    }

    /// Which key is attached to which lease.
    pub(crate) fn attached(&self) -> BTreeMap<Bytes, i64> {
        let leased = self.keys().values().filter(|kv| kv.lease != 0);
        leased.map(|kv| (kv.key.clone(), kv.lease)).collect()
    }

    /// What it is after a restart: the file, and nothing that was only in memory.
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
    /// The pair in the file.
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

    /// What watchers are told of the key.
    pub(crate) fn told(&self) -> KeyValue {
        self.kv.clone().unwrap_or_else(|| KeyValue {
            key: self.key.clone(),
            mod_revision: self.revision.main,
            ..KeyValue::default()
        })
    }
}
