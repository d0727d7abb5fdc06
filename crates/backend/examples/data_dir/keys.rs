//! Writes a history of keys, as a few thousand requests would.

use std::collections::BTreeMap;

use anyhow::Context as _;
use backend::Backend;
use backend::schema::revision::RevisionKey;
use backend::schema::{Bucket, keys};
use prost::Message as _;
use proto::leasepb::Lease;
use proto::mvccpb::KeyValue;
use types::{LeaseId, Revision};

/// A lease that does not expire during a test.
const LEASE: LeaseId = LeaseId(0x1234_5678_9abc);
const LEASE_SECONDS: i64 = 1_000_000;

/// An empty store is at revision 1, so the first change has revision 2.
const FIRST_REVISION: i64 = 2;

/// Keys, each with its create revision and version.
#[derive(Default)]
struct History {
    revision: i64,
    keys: BTreeMap<String, (i64, i64)>,
}

/// Writes 3,000 keys, some more than once, some deleted, some in one transaction, some with a
/// lease.
pub(crate) fn write(backend: &Backend) -> anyhow::Result<()> {
    let lease = Lease { id: LEASE.0, ttl: LEASE_SECONDS, remaining_ttl: 0 };
    let mut tx = backend.begin();
    tx.put(Bucket::Lease, keys::lease(LEASE), lease.encode_to_vec()).context("put lease")?;
    tx.commit().context("commit")?;

    let mut history = History { revision: FIRST_REVISION, ..History::default() };
    for n in 0..3_000 {
        history.transaction(backend, &[Change::Put(n, n)])?;
    }
    for n in (0..3_000).step_by(3) {
        history.transaction(backend, &[Change::Put(n, n + 1), Change::Put(n + 1, n + 1)])?;
    }
    for n in (0..3_000).step_by(10) {
        history.transaction(backend, &[Change::Delete(n), Change::Put(n + 5, 0)])?;
    }
    for n in (0..3_000).step_by(20) {
        history.transaction(backend, &[Change::Put(n, 7)])?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Change {
    Put(usize, usize),
    Delete(usize),
}

impl History {
    fn transaction(&mut self, backend: &Backend, changes: &[Change]) -> anyhow::Result<()> {
        let mut tx = backend.begin();
        for (sub, change) in (0..).zip(changes) {
            let at = Revision::new(self.revision, sub);
            let (key, value) = match *change {
                Change::Put(n, value) => (RevisionKey::put(at), self.put(n, value)),
                Change::Delete(n) => (RevisionKey::tombstone(at), self.delete(n)),
            };
            tx.put(Bucket::Key, key.encode(), value.encode_to_vec()).context("put")?;
        }
        tx.commit().context("commit")?;
        self.revision += 1;
        Ok(())
    }

    fn put(&mut self, n: usize, value: usize) -> KeyValue {
        let (created, puts) = self.keys.entry(name(n)).or_insert((self.revision, 0));
        *puts += 1;
        KeyValue {
            key: name(n).into(),
            create_revision: *created,
            mod_revision: self.revision,
            version: *puts,
            value: format!("value {value} ").repeat(1 + n % 20).into(),
            lease: if n.is_multiple_of(100) { LEASE.0 } else { 0 },
        }
    }

    fn delete(&mut self, n: usize) -> KeyValue {
        self.keys.remove(&name(n));
        KeyValue { key: name(n).into(), ..KeyValue::default() }
    }
}

fn name(n: usize) -> String {
    format!("/registry/things/{n:05}")
}
