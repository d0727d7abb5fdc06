//! Behaviors of a store, one per test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::sync::Arc;

use backend::Backend;
use bytes::{Bytes, BytesMut};
use mvcc::{Changes, CompactionTurn, Config, Error, NoLeases, RangeResult, Response, Store};
use prost::Message as _;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, TxnRequest, TxnResponse,
};
use testkit::waiting::step_until;

struct Fixture {
    backend: Backend,
    store: Store,
}

/// The key, value and revisions of a row.
type Row = (String, String, i64, i64, i64);

fn open(disk: &Arc<env::SimDisk>) -> Fixture {
    let clock = Arc::new(env::SimClock::default());
    let disk: Arc<env::SimDisk> = Arc::clone(disk);
    let backend = Backend::open(disk, clock, "db".as_ref(), backend::Config::default()).unwrap();
    let store = Store::open(backend.clone(), &NoLeases, Config::default()).unwrap();
    Fixture { backend, store }
}

fn new() -> Fixture {
    open(&Arc::new(env::SimDisk::new(0)))
}

impl Fixture {
    fn write<T>(
        &self,
        f: impl FnOnce(&mut mvcc::WriteTxn<'_, '_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut tx = self.backend.begin();
        let mut txn = self.store.write(&mut tx, &NoLeases);
        let result = f(&mut txn)?;
        let changes: Changes = txn.finish();
        tx.commit().unwrap();
        self.store.publish(&changes);
        Ok(result)
    }

    fn put(&self, key: &str, value: &str) -> i64 {
        self.write(|txn| txn.put(&put(key, value))).unwrap().revision
    }

    fn delete(&self, key: &str) -> i64 {
        self.write(|txn| txn.delete_range(&delete(key))).unwrap().deleted
    }

    fn compact(&self, at: i64) -> Result<(), Error> {
        let mut tx = self.backend.begin();
        self.store.compact(&mut tx, at)?;
        tx.commit().unwrap();
        self.finish_compaction();
        Ok(())
    }

    fn finish_compaction(&self) {
        let is_idle = || self.store.turn_compaction().unwrap() == CompactionTurn::Idle;
        step_until("the compaction is finished", is_idle);
    }

    fn all(&self, revision: i64) -> Result<Vec<Row>, Error> {
        let request =
            RangeRequest { key: b("\0"), range_end: b("\0"), revision, ..RangeRequest::default() };
        Ok(message(&self.store.range(&request)?)
            .kvs
            .into_iter()
            .map(|kv| {
                let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
                (text(kv.key), text(kv.value), kv.create_revision, kv.mod_revision, kv.version)
            })
            .collect())
    }
}

fn b(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: b(key), value: b(value), ..PutRequest::default() }
}

fn delete(key: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: b(key), ..DeleteRangeRequest::default() }
}

fn message(result: &RangeResult) -> RangeResponse {
    let mut out = BytesMut::new();
    let header = ResponseHeader { revision: result.revision, ..ResponseHeader::default() };
    result.encode(&header, &mut out);
    assert_eq!(out.len(), result.encoded_len(&header));
    RangeResponse::decode(out.freeze()).unwrap()
}

fn row(key: &str, value: &str, create: i64, modified: i64, version: i64) -> Row {
    (key.to_owned(), value.to_owned(), create, modified, version)
}

#[test]
fn a_store_begins_at_revision_one_and_each_write_creates_a_revision() {
    let it = new();
    assert_eq!((it.store.current(), it.store.compacted()), (1, -1));
    assert_eq!(it.put("a", "1"), 2);
    assert_eq!(it.put("a", "2"), 3);
    assert_eq!(it.delete("b"), 0);
    assert_eq!(it.store.current(), 3, "nothing was deleted");
    assert_eq!(it.delete("a"), 1);
    assert_eq!(it.put("a", "3"), 5);
    assert_eq!(it.all(2).unwrap(), [row("a", "1", 2, 2, 1)]);
    assert_eq!(it.all(3).unwrap(), [row("a", "2", 2, 3, 2)]);
    assert_eq!(it.all(4).unwrap(), []);
    assert_eq!(it.all(0).unwrap(), [row("a", "3", 5, 5, 1)]);
    assert_eq!(it.all(6), Err(Error::FutureRevision));
}

#[test]
fn compaction_discards_older_revisions_and_keeps_a_tombstone_at_its_revision() {
    let it = new();
    it.put("a", "1");
    it.put("b", "1");
    it.put("a", "2");
    it.delete("a"); // 5
    it.put("c", "1");
    assert_eq!(it.compact(7), Err(Error::FutureRevision));
    it.compact(5).unwrap();
    assert_eq!(it.compact(5), Err(Error::Compacted));
    assert_eq!(it.all(4), Err(Error::Compacted));
    assert_eq!(it.all(5).unwrap(), [row("b", "1", 3, 3, 1)]);
    let stored = |it: &Fixture| {
        use backend::Read as _;
        it.backend.view().all(backend::schema::Bucket::Key).unwrap().count()
    };
    assert_eq!(stored(&it), 3, "b, the tombstone at 5, c");
    it.compact(6).unwrap();
    assert_eq!(stored(&it), 2);
}

#[test]
fn a_restart_restores_all_revisions() {
    let disk = Arc::new(env::SimDisk::new(0));
    let it = open(&disk);
    for round in 0..3 {
        for key in ["a", "b", "c"] {
            it.put(key, &format!("{round}"));
        }
        it.delete("b");
    }
    it.compact(8).unwrap();
    let before: Vec<_> = (8..=it.store.current()).map(|at| it.all(at).unwrap()).collect();
    let hash = it.store.hash_kv(0).unwrap();
    it.backend.force_commit().unwrap();
    drop(it);
    let it = open(&disk);
    assert_eq!((it.store.current(), it.store.compacted()), (13, 8));
    let after: Vec<_> = (8..=it.store.current()).map(|at| it.all(at).unwrap()).collect();
    assert_eq!(after, before);
    assert_eq!(it.store.hash_kv(0).unwrap(), hash);
}

/// etcd bug 17780: the last revision was a tombstone, the compaction deleted it, and the power was
/// cut before the compaction was recorded as finished.
#[test]
fn bug_17780_an_unfinished_compaction_does_not_lower_the_revision() {
    let disk = Arc::new(env::SimDisk::new(0));
    let it = open(&disk);
    it.put("a", "1");
    it.delete("a");
    it.put("b", "1");
    it.delete("b"); // 5
    let mut tx = it.backend.begin();
    it.store.compact(&mut tx, 5).unwrap();
    // As if a release that discards tombstones had executed all but the last step of the
    // compaction.
    use backend::Read as _;
    use backend::schema::Bucket;
    let keys: Vec<_> = it
        .backend
        .view()
        .all(Bucket::Key)
        .unwrap()
        .map(|item| item.unwrap().key.into_bytes())
        .collect();
    for key in keys {
        tx.delete(Bucket::Key, key);
    }
    tx.commit().unwrap();
    it.backend.force_commit().unwrap();
    drop(it);
    let it = open(&disk);
    assert_eq!((it.store.current(), it.store.compacted()), (5, 5));
    it.finish_compaction();
    assert_eq!(it.put("c", "1"), 6);
}

fn compare_version(key: &str, version: i64) -> Compare {
    Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Version as i32,
        key: b(key),
        target_union: Some(TargetUnion::Version(version)),
        ..Compare::default()
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

#[test]
fn comparisons_see_the_state_before_a_transaction_and_ranges_see_its_writes() {
    let it = new();
    it.put("a", "old");
    let nested = TxnRequest {
        compare: vec![compare_version("b", 0)],
        success: vec![op(Request::RequestPut(put("c", "was not there")))],
        failure: vec![],
    };
    let range = RangeRequest { key: b("b"), ..RangeRequest::default() };
    let request = TxnRequest {
        compare: vec![compare_version("a", 1)],
        success: vec![
            op(Request::RequestRange(range.clone())),
            op(Request::RequestPut(put("b", "new"))),
            op(Request::RequestRange(range)),
            op(Request::RequestTxn(nested)),
            op(Request::RequestDeleteRange(delete("a"))),
        ],
        failure: vec![],
    };
    let result = it.write(|txn| txn.txn(&request, false)).unwrap();
    let mut out = BytesMut::new();
    let header = ResponseHeader { revision: result.revision, ..ResponseHeader::default() };
    result.encode(&header, &mut out);
    assert_eq!(out.len(), result.encoded_len(&header));
    let response = TxnResponse::decode(out.freeze()).unwrap();
    use proto::etcdserverpb::response_op::Response as R;
    let got: Vec<_> = response.responses.into_iter().map(|op| op.response.unwrap()).collect();
    let revisions: Vec<_> = got
        .iter()
        .map(|op| match op {
            R::ResponseRange(range) => range.header.as_ref().unwrap().revision,
            R::ResponsePut(put) => put.header.as_ref().unwrap().revision,
            R::ResponseDeleteRange(delete) => delete.header.as_ref().unwrap().revision,
            R::ResponseTxn(txn) => txn.header.as_ref().unwrap().revision,
        })
        .collect();
    assert_eq!(revisions, [2, 3, 3, 0, 3]);
    assert_eq!((it.store.current(), response.succeeded), (3, true));
    assert_eq!(it.all(0).unwrap(), [row("b", "new", 3, 3, 1), row("c", "was not there", 3, 3, 1)]);
}

/// etcd bug 18667: a transaction that reads at a compacted revision fails as a whole, and changes
/// nothing.
#[test]
fn bug_18667_a_compacted_revision_in_a_transaction_changes_nothing() {
    let it = new();
    it.put("a", "1");
    it.put("a", "2");
    it.put("a", "3");
    it.compact(4).unwrap();
    for (revision, error) in [(2, Error::Compacted), (9, Error::FutureRevision)] {
        let range = RangeRequest { key: b("a"), revision, ..RangeRequest::default() };
        let request = TxnRequest {
            success: vec![op(Request::RequestPut(put("a", "4"))), op(Request::RequestRange(range))],
            ..TxnRequest::default()
        };
        assert_eq!(it.write(|txn| txn.txn(&request, false)).unwrap_err(), error);
        assert_eq!(it.write(|txn| txn.txn(&request, true)).unwrap_err(), error);
    }
    assert_eq!(it.all(0).unwrap(), [row("a", "3", 2, 4, 3)]);
}

/// A delete up to the end of all keys passes the duplicate check beside puts. When the revision of
/// such a transaction is compacted, etcd keeps the tombstone, discards the value, and crashes on a
/// read. Here the key exists, because it was put last.
#[test]
fn a_key_deleted_and_put_in_one_revision_survives_compaction() {
    let it = new();
    it.put("b", "old");
    let open_ended = DeleteRangeRequest { range_end: b("\0"), ..delete("a") };
    let request = TxnRequest {
        success: vec![
            op(Request::RequestDeleteRange(open_ended)),
            op(Request::RequestPut(put("b", "new"))),
        ],
        ..TxnRequest::default()
    };
    it.write(|txn| txn.txn(&request, false)).unwrap();
    it.compact(3).unwrap();
    assert_eq!(it.all(0).unwrap(), [row("b", "new", 3, 3, 1)]);

    // If the put keeps a value or a lease that the transaction deleted, it counts as empty.
    let keep = PutRequest { key: b("b"), ignore_value: true, ..PutRequest::default() };
    let open_ended = DeleteRangeRequest { range_end: b("\0"), ..delete("a") };
    let request = TxnRequest {
        success: vec![op(Request::RequestDeleteRange(open_ended)), op(Request::RequestPut(keep))],
        ..TxnRequest::default()
    };
    it.write(|txn| txn.txn(&request, false)).unwrap();
    assert_eq!(it.all(0).unwrap(), [row("b", "", 4, 4, 1)]);
}

/// Implausible content of a database is an error when the store is opened.
#[test]
fn an_implausible_database_is_refused() {
    use backend::schema::Bucket;
    use backend::schema::revision::RevisionKey;
    use mvcc::kv::KeyValueRef;
    use types::Revision;
    let kv = |create_revision: i64, version: i64| {
        KeyValueRef {
            key: b"k",
            create_revision,
            mod_revision: 5,
            version,
            ..KeyValueRef::default()
        }
        .encode()
    };
    let at = |main: i64| RevisionKey::put(Revision::new(main, 0)).encode();
    let cases = [
        (b("short"), kv(5, 1), "invalid revision length: 5"),
        (at(5), b("\x0b"), "not a KeyValue"),
        (at(5), kv(6, 1), "invalid create revision or version"),
        (at(5), kv(i64::MIN, 1), "invalid create revision or version"),
        (at(5), kv(5, 0), "invalid create revision or version"),
        (at(5), kv(0, 1), "invalid create revision or version"),
        (at(5), kv(5, i64::MAX), "revision exceeds 2^62"),
        (at(i64::MAX), kv(5, 1), "revision exceeds 2^62"),
        (RevisionKey::put(Revision::new(5, i64::MAX)).encode(), kv(5, 1), "revision exceeds 2^62"),
        (RevisionKey::tombstone(Revision::new(3, 0)).encode(), kv(0, 0), "duplicate revision"),
    ];
    for (key, value, reason) in cases {
        let disk = Arc::new(env::SimDisk::new(0));
        let it = open(&disk);
        let mut tx = it.backend.begin();
        tx.put(Bucket::Key, at(3), kv(3, 1)).unwrap();
        tx.put(Bucket::Key, key, value).unwrap();
        tx.commit().unwrap();
        let refused = Store::open(it.backend.clone(), &NoLeases, Config::default()).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}, not {reason}");
    }
}

/// `etcdutl snapshot restore --bump-revision` writes a record without a value: the store begins at
/// its revision, no read returns it, and compactions keep it.
#[test]
fn a_store_begins_at_a_bumped_revision() {
    use backend::Read as _;
    use backend::schema::Bucket;
    use backend::schema::revision::RevisionKey;
    use types::Revision;
    let it = new();
    it.put("a", "1");
    let bumped = RevisionKey::put(Revision::new(1002, 0)).encode();
    let mut tx = it.backend.begin();
    tx.put(Bucket::Key, bumped.clone(), Bytes::new()).unwrap();
    tx.commit().unwrap();
    let store = Store::open(it.backend.clone(), &NoLeases, Config::default()).unwrap();
    let it = Fixture { backend: it.backend, store };
    assert_eq!(it.store.current(), 1002);
    assert_eq!(it.all(0).unwrap(), [row("a", "1", 2, 2, 1)]);
    assert_eq!(it.put("b", "2"), 1003);
    it.compact(1003).unwrap();
    let view = it.backend.view();
    assert!(
        view.get(Bucket::Key, &bumped).unwrap().is_some(),
        "as in etcd, it is the last of its key"
    );
    assert_eq!(it.all(0).unwrap().len(), 2);
}

/// etcd hashes the revisions that a compaction has yet to delete if no key is left, so that a
/// member seems to differ from the others during a compaction.
#[test]
fn the_hash_of_an_empty_store_does_not_depend_on_compaction_progress() {
    let it = new();
    it.put("a", "1");
    it.put("a", "2");
    it.put("b", "3");
    it.delete("a");
    it.delete("b");
    let mut tx = it.backend.begin();
    it.store.compact(&mut tx, 4).unwrap();
    tx.commit().unwrap();
    let before = it.store.hash_kv(0).unwrap();
    it.finish_compaction();
    assert_eq!(it.store.hash_kv(0).unwrap(), before);
    assert_eq!(before.0.compact_revision, 4);
}

/// A member has compacted at the last revision, which deleted the last key; another has not yet.
/// As in etcd, both return a hash since the previous compaction, and the two differ. So this one is
/// not offered for comparison.
#[test]
fn the_hash_of_a_compaction_that_keeps_only_a_tombstone_is_not_compared() {
    let (done, about_to) = (new(), new());
    for it in [&done, &about_to] {
        it.put("a", "1");
        it.put("a", "2");
        it.compact(2).unwrap();
        it.delete("a");
    }
    done.compact(4).unwrap();
    let hashes = [&done, &about_to].map(|it| it.store.hash_kv(4).unwrap().0);
    assert_eq!(hashes.map(|it| it.compact_revision), [2, 2]);
    assert_ne!(hashes[0].hash, hashes[1].hash);
    assert!(done.store.compaction_hashes().iter().all(|it| it.revision != 4));
}
