//! Keys.

use mvcc::OpResult;
use pb::request_op::Request;
use proto::etcdserverpb as pb;
use server::quota;
use server::{Error, Refusal};

use super::{NOBODY, Running, block_on, keys, put, put_often, put_request, range_request};

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
fn what_is_put_is_there_until_it_is_deleted() {
    let running = Running::start();
    let server = running.server();
    assert_eq!(put(&server, "a", "1"), 2);
    assert_eq!(put(&server, "b", "1"), 3);
    let again = pb::PutRequest { prev_kv: true, ..put_request("a", "2") };
    let again = block_on(server.put(NOBODY, again)).unwrap();
    assert!(again.revision == 4 && again.prev_kv.is_some());
    assert_eq!(keys(&server, "a", "z"), ["a", "b"]);
    let delete = pb::DeleteRangeRequest { key: "a".into(), ..Default::default() };
    let deleted = block_on(server.delete_range(NOBODY, delete)).unwrap();
    assert_eq!((deleted.revision, deleted.deleted), (5, 1));
    assert_eq!(keys(&server, "a", "z"), ["b"]);
}

#[test]
fn a_transaction_writes_through_the_log_and_reads_beside_it() {
    let running = Running::start();
    let server = running.server();
    let write = txn_of([Request::RequestPut(put_request("a", "1"))]);
    let written = block_on(server.txn(NOBODY, write.clone())).unwrap();
    assert!(written.succeeded && written.revision == 2);
    let reading = block_on(server.read(NOBODY, true)).unwrap();
    let read = reading.txn(&txn_of([Request::RequestRange(range_request("a", ""))])).unwrap();
    assert!(matches!(&read.responses[..], [OpResult::Range(range)] if range.count == 1));
    assert!(matches!(reading.txn(&write), Err(Error::Fault(_))), "not what a reading is for");
    assert_eq!(server.state().store.current(), 2, "and nothing was written");
}

#[test]
fn what_the_state_machine_refuses_is_passed_on() {
    let running = Running::start();
    let server = running.server();
    let orphan = pb::PutRequest { lease: 7, ..put_request("a", "1") };
    let error = block_on(server.put(NOBODY, orphan)).unwrap_err();
    assert_eq!(error, refused(mvcc::Error::LeaseNotFound));
    let future = pb::RangeRequest { revision: 9, ..range_request("a", "") };
    let reading = block_on(server.read(NOBODY, false)).unwrap();
    assert_eq!(reading.range(&future).unwrap_err(), refused(mvcc::Error::FutureRevision));
}

#[test]
fn a_request_has_a_largest_size() {
    let running = Running::start_with(|config| config.max_request_bytes = 1000);
    let server = running.server();
    let large = put_request("a", &"x".repeat(1000));
    assert_eq!(block_on(server.put(NOBODY, large)).unwrap_err(), Error::RequestTooLarge);
    assert_eq!(put(&server, "a", &"x".repeat(900)), 2);
}

#[test]
fn a_stopped_member_answers_nobody() {
    let mut running = Running::start();
    let server = running.server();
    put(&server, "a", "1");
    running.stop();
    assert_eq!(block_on(server.put(NOBODY, put_request("a", "1"))), Err(Error::Stopped));
    assert_eq!(block_on(server.read(NOBODY, true)).unwrap_err(), Error::Stopped);
    assert_eq!(block_on(server.lease_renew(NOBODY, 1)), Err(Error::Stopped));
    assert_eq!(block_on(server.defragment(NOBODY)), Err(Error::Stopped));
}

#[test]
fn a_physical_compaction_returns_when_all_is_gone() {
    let running = Running::start_with(|config| config.compaction_batch_limit = 10);
    let server = running.server();
    put_often(&server, "a", 100, "x");
    let compacted = block_on(server.compact(NOBODY, compact(100, true))).unwrap();
    assert_eq!(compacted.header.unwrap().revision, 101);
    let store = &server.state().store;
    assert!(store.is_compacted(store.last_compaction()));
    assert_eq!(store.compacted(), 100);
    for physical in [false, true] {
        let error = block_on(server.compact(NOBODY, compact(100, physical))).unwrap_err();
        assert_eq!(error, refused(mvcc::Error::Compacted));
        let error = block_on(server.compact(NOBODY, compact(500, physical))).unwrap_err();
        assert_eq!(error, refused(mvcc::Error::FutureRevision));
    }
}

#[test]
fn a_member_that_is_full_says_so_once() {
    let running = Running::start_with(|config| config.quota_backend_bytes = 1);
    let server = running.server();
    assert_eq!(block_on(server.check_quota(0)), Ok(()), "what costs nothing has room");
    let cost = quota::put_cost(&put_request("a", "1"));
    let full = Err(Error::Refused(Refusal::NoSpace));
    assert_eq!(block_on(server.check_quota(cost)), full);
    assert!(server.state().alarms.is_active(pb::AlarmType::Nospace), "it was waited for");
    assert_eq!(block_on(server.check_quota(cost)), full, "all know already");
    assert_eq!(
        block_on(server.put(NOBODY, put_request("a", "1"))),
        Err(Error::Refused(Refusal::NoSpace)),
        "as it is applied, too"
    );
}
