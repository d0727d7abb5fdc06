//! Requests about keys: put, delete, transaction, range, compaction, quota.

use mvcc::OpResult;
use pb::request_op::Request;
use proto::etcdserverpb as pb;
use server::{Error, Refusal};

use super::{
    ANONYMOUS, TestMember, block_on, keys, put, put_repeatedly, put_request, range_request,
};

fn refused(error: mvcc::Error) -> Error {
    Error::Refused(Refusal::Keys(error))
}

fn txn_of(ops: impl IntoIterator<Item = Request>) -> pb::TxnRequest {
    let success = ops.into_iter().map(|op| pb::RequestOp { request: Some(op) }).collect();
    pb::TxnRequest { success, ..Default::default() }
}

fn compact(revision: i64, physical: bool) -> pb::CompactionRequest {
    pb::CompactionRequest { revision, physical }
}

#[test]
fn a_key_is_readable_from_its_put_to_its_deletion() {
    let running = TestMember::builder().start();
    let server = running.server();
    assert_eq!(put(&server, "a", "1"), 2);
    assert_eq!(put(&server, "b", "1"), 3);
    let again = pb::PutRequest { prev_kv: true, ..put_request("a", "2") };
    let again = block_on(server.put(ANONYMOUS, again)).unwrap();
    assert!(again.revision == 4 && again.prev_kv.is_some());
    assert_eq!(keys(&server, "a", "z"), ["a", "b"]);
    let delete = pb::DeleteRangeRequest { key: "a".into(), ..Default::default() };
    let deleted = block_on(server.delete_range(ANONYMOUS, delete)).unwrap();
    assert_eq!((deleted.revision, deleted.deleted), (5, 1));
    assert_eq!(keys(&server, "a", "z"), ["b"]);
}

#[test]
fn a_writing_transaction_is_proposed_and_a_reading_one_is_not() {
    let running = TestMember::builder().start();
    let server = running.server();
    let write = txn_of([Request::RequestPut(put_request("a", "1"))]);
    let written = block_on(server.txn(ANONYMOUS, write.clone())).unwrap();
    assert!(written.succeeded && written.revision == 2);
    let reading = block_on(server.read(ANONYMOUS, true)).unwrap();
    let read = reading.txn(&txn_of([Request::RequestRange(range_request("a", ""))])).unwrap();
    assert!(matches!(&read.responses[..], [OpResult::Range(range)] if range.count == 1));
    assert!(
        matches!(reading.txn(&write), Err(Error::Fault(_))),
        "a read cannot execute a writing transaction"
    );
    assert_eq!(server.state().store().current(), 2, "the read wrote to the store");
}

#[test]
fn refusals_of_the_state_machine_reach_the_client() {
    let running = TestMember::builder().start();
    let server = running.server();
    let orphan = pb::PutRequest { lease: 7, ..put_request("a", "1") };
    let error = block_on(server.put(ANONYMOUS, orphan)).unwrap_err();
    assert_eq!(error, refused(mvcc::Error::LeaseNotFound));
    let future = pb::RangeRequest { revision: 9, ..range_request("a", "") };
    let reading = block_on(server.read(ANONYMOUS, false)).unwrap();
    assert_eq!(reading.range(&future).unwrap_err(), refused(mvcc::Error::FutureRevision));
}

#[test]
fn a_request_above_the_maximum_size_is_refused() {
    let running = TestMember::builder().config(|config| config.max_request_bytes = 1000).start();
    let server = running.server();
    let large = put_request("a", &"x".repeat(1000));
    assert_eq!(block_on(server.put(ANONYMOUS, large)).unwrap_err(), Error::RequestTooLarge);
    assert_eq!(put(&server, "a", &"x".repeat(900)), 2);
}

#[test]
fn a_stopped_member_refuses_all_requests() {
    let mut running = TestMember::builder().start();
    let server = running.server();
    put(&server, "a", "1");
    running.stop();
    assert_eq!(block_on(server.put(ANONYMOUS, put_request("a", "1"))), Err(Error::Stopped));
    assert_eq!(block_on(server.read(ANONYMOUS, true)).unwrap_err(), Error::Stopped);
    assert_eq!(block_on(server.lease_renew(ANONYMOUS, 1)), Err(Error::Stopped));
    assert_eq!(block_on(server.defragment(ANONYMOUS)), Err(Error::Stopped));
}

#[test]
fn a_physical_compaction_returns_after_the_deletion() {
    let running = TestMember::builder().config(|config| config.compaction_batch_limit = 10).start();
    let server = running.server();
    put_repeatedly(&server, "a", 100, "x");
    let compacted = block_on(server.compact(ANONYMOUS, compact(100, true))).unwrap();
    assert_eq!(compacted.header.unwrap().revision, 101);
    let state = server.state();
    let store = state.store();
    assert!(store.is_compacted(store.last_compaction()));
    assert_eq!(store.compacted(), 100);
    for physical in [false, true] {
        let error = block_on(server.compact(ANONYMOUS, compact(100, physical))).unwrap_err();
        assert_eq!(error, refused(mvcc::Error::Compacted));
        let error = block_on(server.compact(ANONYMOUS, compact(500, physical))).unwrap_err();
        assert_eq!(error, refused(mvcc::Error::FutureRevision));
    }
}

#[test]
fn a_full_quota_raises_the_nospace_alarm_once() {
    let running = TestMember::builder().config(|config| config.quota_backend_bytes = 1).start();
    let server = running.server();
    assert_eq!(
        block_on(server.check_quota(&pb::TxnRequest::default())),
        Ok(()),
        "a request without cost fits"
    );
    let put = put_request("a", "1");
    let full = Err(Error::Refused(Refusal::NoSpace));
    assert_eq!(block_on(server.check_quota(&put)), full);
    assert!(
        server.state().alarms().is_active(pb::AlarmType::Nospace),
        "the check returned before the alarm was raised"
    );
    assert_eq!(block_on(server.check_quota(&put)), full, "with the alarm raised");
    assert_eq!(
        block_on(server.put(ANONYMOUS, put_request("a", "1"))),
        Err(Error::Refused(Refusal::NoSpace)),
        "refused at apply, too"
    );
}
