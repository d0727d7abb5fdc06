//! The store under test, with a simulated disk, leases and restarts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backend::schema::Bucket;
use backend::{Backend, Read as _};
use bytes::{Bytes, BytesMut};
use env::{SimClock, SimDisk};
use mvcc::{Changes, Config, Error, Leases, Response, Store, WriteTxn};
use prost::Message;
use proto::etcdserverpb::ResponseHeader;
use types::LeaseId;

/// A lessor that fails if a key is attached twice, or detached from another lease.
#[derive(Debug, Default)]
pub(crate) struct StrictLessor {
    known: RefCell<BTreeSet<i64>>,
    keys: RefCell<BTreeMap<Bytes, i64>>,
}

impl StrictLessor {
    pub(crate) fn new(known: &BTreeSet<i64>) -> StrictLessor {
        StrictLessor { known: RefCell::new(known.clone()), keys: RefCell::default() }
    }

    pub(crate) fn keys(&self) -> BTreeMap<Bytes, i64> {
        self.keys.borrow().clone()
    }

    pub(crate) fn keys_of(&self, lease: i64) -> Vec<Bytes> {
        let keys = self.keys.borrow();
        keys.iter().filter(|(_, of)| **of == lease).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn set_known(&self, known: &BTreeSet<i64>) {
        self.known.replace(known.clone());
    }
}

impl Leases for StrictLessor {
    fn contains(&self, id: LeaseId) -> bool {
        self.known.borrow().contains(&id.0)
    }

    fn lease_of(&self, key: &[u8]) -> Option<LeaseId> {
        self.keys.borrow().get(key).map(|lease| LeaseId(*lease))
    }

    fn attach(&self, id: LeaseId, key: &[u8]) {
        let before = self.keys.borrow_mut().insert(Bytes::copy_from_slice(key), id.0);
        assert_eq!(before, None, "attaches {} to {id}", key.escape_ascii());
    }

    fn detach(&self, id: LeaseId, key: &[u8]) {
        let before = self.keys.borrow_mut().remove(key);
        assert_eq!(before, Some(id.0), "detaches {}", key.escape_ascii());
    }
}

/// The ways to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Commits everything.
    Close,
    /// Loses everything that was not committed.
    Drop,
    /// Loses everything that was not committed, and corrupts what was not synced.
    PowerCut(u64),
}

/// An open store.
pub(crate) struct Subject {
    disk: Arc<SimDisk>,
    config: Config,
    pub(crate) backend: Backend,
    pub(crate) store: Store,
    pub(crate) leases: StrictLessor,
}

impl Subject {
    pub(crate) fn new(config: Config, leases: &BTreeSet<i64>) -> Subject {
        Subject::open(Arc::new(SimDisk::new(0)), config, leases)
    }

    fn open(disk: Arc<SimDisk>, config: Config, leases: &BTreeSet<i64>) -> Subject {
        let clock = Arc::new(SimClock::default());
        let opened = Arc::clone(&disk);
        let backend =
            Backend::open(opened, clock, "db".as_ref(), backend::Config::default()).unwrap();
        let leases = StrictLessor::new(leases);
        let store = Store::open(backend.clone(), &leases, config).unwrap();
        Subject { disk, config, backend, store, leases }
    }

    /// Stops the store and opens it again.
    pub(crate) fn restart(self, stop: Stop, leases: &BTreeSet<i64>) -> Subject {
        let Subject { disk, config, backend, store, .. } = self;
        drop(store);
        let disk = match stop {
            Stop::Close => {
                backend.close().unwrap();
                disk
            }
            Stop::Drop => {
                drop(backend);
                disk
            }
            Stop::PowerCut(seed) => Arc::new(disk.power_cut(seed)),
        };
        Subject::open(disk, config, leases)
    }

    /// Returns the maximum number of revisions per compaction turn.
    pub(crate) fn limit(&self) -> usize {
        self.config.compaction_batch_limit
    }

    /// Applies one entry of the log.
    pub(crate) fn write<T>(
        &self,
        f: impl FnOnce(&mut WriteTxn<'_, '_>) -> Result<T, Error>,
    ) -> Result<(T, Changes), Error> {
        let mut tx = self.backend.begin();
        let mut txn = self.store.write(&mut tx, &self.leases);
        let result = f(&mut txn);
        let changes = txn.finish();
        if result.is_err() {
            assert!(changes.events().is_empty(), "a failed request changes nothing");
        }
        tx.commit().unwrap();
        self.store.publish(&changes);
        result.map(|result| (result, changes))
    }

    pub(crate) fn compact(&self, at: i64) -> Result<mvcc::CompactionTicket, Error> {
        let mut tx = self.backend.begin();
        let ticket = self.store.compact(&mut tx, at)?;
        tx.commit().unwrap();
        Ok(ticket)
    }

    /// Returns the pairs of the bucket `key`.
    pub(crate) fn file(&self) -> Vec<(Bytes, Bytes)> {
        let view = self.backend.view();
        let items = view.all(Bucket::Key).unwrap().map(Result::unwrap);
        items.map(|item| (item.key.into_bytes(), item.value.into_bytes())).collect()
    }
}

/// Returns the framed message of a response, without the header of the member.
pub(crate) fn message<M: Message + Default>(answer: &impl Response) -> M {
    let revision = answer.revision();
    let header = ResponseHeader { cluster_id: 11, member_id: 1 << 60, revision, raft_term: 300 };
    let mut out = BytesMut::from(&b"before"[..]);
    answer.encode(&header, &mut out);
    assert_eq!(out.len(), "before".len() + answer.encoded_len(&header));
    let (before, framed) = out.split_at("before".len());
    assert_eq!(before, b"before");
    // The header comes first; the rest does not depend on it.
    let header = header.encode_to_vec();
    let prefix = [&[0x0a, u8::try_from(header.len()).unwrap()], &header[..]].concat();
    let body = framed.strip_prefix(&prefix[..]).unwrap();
    let plain = ResponseHeader { revision, ..ResponseHeader::default() }.encode_to_vec();
    let plain = [&[0x0a, u8::try_from(plain.len()).unwrap()], &plain[..], body].concat();
    M::decode(&plain[..]).unwrap()
}
