//! What a member counts while it does what it is asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::TextEncoder;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::request_op::Request;
use server::{Credentials, Server};

use super::users::enable as enable_auth;
use super::{NOBODY, Running, block_on, put, put_request, range_request};

/// Interval series, with its value. What is empty is zero.
struct Counted(BTreeMap<String, f64>);

impl Counted {
    fn by(running: &Running) -> Counted {
        let text = TextEncoder::new().encode_to_string(&running.registry.gather()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
        Counted(pairs.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect())
    }

    fn get(&self, series: &str) -> f64 {
        self.0.get(series).copied().unwrap_or_default()
    }

    /// How often something was measured, which took some time.
    fn times(&self, name: &str, labels: &str) -> f64 {
        let times = self.get(&format!("{name}_count{labels}"));
        assert!(times == 0.0 || self.get(&format!("{name}_sum{labels}")) > 0.0, "{name}{labels}");
        times
    }
}

/// How often each kind of request was applied, and answered.
fn applied(counted: &Counted, op: &str, success: bool) -> f64 {
    let labels = format!(r#"{{op="{op}",success="{success}",version="v3"}}"#);
    counted.times("etcd_server_apply_duration_seconds", &labels)
}

fn answered(counted: &Counted, op: &str, success: bool) -> f64 {
    let labels = format!(r#"{{success="{success}",type="{op}"}}"#);
    counted.times("etcd_server_request_duration_seconds", &labels)
}

fn range(server: &Server, linearizable: bool) {
    let reading = block_on(server.read(NOBODY, linearizable)).unwrap();
    reading.range(&range_request("a", "z")).unwrap();
}

fn op(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn get_txn() -> pb::TxnRequest {
    let compare = vec![pb::Compare { key: "a".into(), ..Default::default() }];
    let get = op(Request::RequestRange(range_request("a", "")));
    pb::TxnRequest { compare, success: vec![get.clone()], failure: vec![get] }
}

fn lease(server: &Server, id: i64, ttl: i64) {
    block_on(server.lease_grant(NOBODY, pb::LeaseGrantRequest { id, ttl })).unwrap();
}

#[test]
fn operations_on_keys_are_counted_as_etcd_counts_them() {
    let mut running = Running::start();
    let server = running.server();
    block_on(running.member.as_ref().unwrap().published()).unwrap();
    for n in 0..3 {
        put(&server, &format!("k{n}"), "value");
    }
    let prev_kv = pb::PutRequest { prev_kv: true, ..put_request("k0", "v") };
    block_on(server.put(NOBODY, prev_kv)).unwrap();
    range(&server, true);
    range(&server, false);
    let delete = pb::DeleteRangeRequest { key: "k1".into(), ..Default::default() };
    block_on(server.delete_range(NOBODY, delete)).unwrap();
    // One comparison; then a put and a range.
    let mut txn = get_txn();
    txn.success.push(op(Request::RequestPut(put_request("t", "1"))));
    txn.failure.push(op(Request::RequestPut(put_request("t", "1"))));
    block_on(server.txn(NOBODY, txn)).unwrap();
    block_on(server.read(NOBODY, true)).unwrap().txn(&get_txn()).unwrap();
    lease(&server, 7, 3600);
    for key in ["l1", "l2"] {
        let attached = pb::PutRequest { lease: 7, ..put_request(key, "v") };
        block_on(server.put(NOBODY, attached)).unwrap();
    }
    block_on(server.lease_revoke(NOBODY, pb::LeaseRevokeRequest { id: 7 })).unwrap();
    let no_lease = pb::PutRequest { lease: 8, ..put_request("x", "v") };
    block_on(server.put(NOBODY, no_lease)).unwrap_err();

    let counted = Counted::by(&running);
    for (name, value) in [
        // Three, one with the value before it, one in a transaction, two with a lease.
        ("etcd_mvcc_put_total", 7.0),
        ("etcd_debugging_mvcc_total_put_size_in_bytes", (3 * 7 + 3 + 2 + 2 * 3).into()),
        // One, and two with a lease.
        ("etcd_mvcc_delete_total", 3.0),
        // Two; one before a put; two in each transaction.
        ("etcd_mvcc_range_total", 7.0),
        // The put with the value before it, both transactions, the lease.
        ("etcd_mvcc_txn_total", 4.0),
        ("etcd_server_proposals_pending", 0.0),
        ("etcd_server_proposals_failed_total", 0.0),
        ("etcd_debugging_lease_granted_total", 1.0),
        ("etcd_debugging_lease_revoked_total", 1.0),
    ] {
        assert_eq!(counted.get(name), value, "{name}");
    }
    // Compat: a refusal is an answer like any other, so it counts as a failure to apply alone.
    for (op, good, refused) in [("Put", 6.0, 1.0), ("DeleteRange", 1.0, 0.0), ("Txn", 1.0, 0.0)] {
        assert_eq!(applied(&counted, op, true), good, "{op}");
        assert_eq!(applied(&counted, op, false), refused, "{op}");
        assert_eq!(answered(&counted, op, true), good + refused, "{op}");
        assert_eq!(answered(&counted, op, false), 0.0, "{op}");
    }
    for op in ["LeaseGrant", "LeaseRevoke", "ClusterMemberAttrSet"] {
        assert_eq!(applied(&counted, op, true), 1.0, "{op}");
        assert_eq!(answered(&counted, op, true), 1.0, "{op}");
    }
    assert_eq!(answered(&counted, "Range", true), 2.0);
    assert_eq!(answered(&counted, "ReadonlyTxn", true), 1.0);
    let labels = r#"{success="true"}"#;
    assert_eq!(counted.times("etcd_server_range_duration_seconds", labels), 2.0, "not in txns");
    running.stop();
}

#[test]
fn work_on_files_is_measured() {
    let mut running = Running::start_with(|config| {
        config.snapshot_count = 20;
        config.unsafe_no_fsync = false;
    });
    let server = running.server();
    for n in 0..100 {
        put(&server, "a", &n.to_string());
    }
    let physical = pb::CompactionRequest { revision: 80, physical: true };
    block_on(server.compact(NOBODY, physical)).unwrap();
    block_on(server.hash(NOBODY)).unwrap();
    block_on(server.hash_kv(NOBODY, 0)).unwrap();
    block_on(server.defragment(NOBODY)).unwrap();
    running.stop();

    let counted = Counted::by(&running);
    for (name, least) in [
        ("etcd_disk_wal_fsync_duration_seconds", 100.0),
        ("etcd_disk_wal_write_duration_seconds", 100.0),
        ("etcd_disk_backend_commit_duration_seconds", 1.0),
        ("etcd_disk_backend_defrag_duration_seconds", 1.0),
        ("etcd_mvcc_hash_duration_seconds", 1.0),
        ("etcd_mvcc_hash_rev_duration_seconds", 1.0),
        ("etcd_snap_fsync_duration_seconds", 2.0),
        ("etcd_debugging_snap_save_marshalling_duration_seconds", 2.0),
        ("etcd_debugging_snap_save_total_duration_seconds", 2.0),
        ("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", 1.0),
        ("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", 1.0),
        ("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", 1.0),
    ] {
        let times = counted.times(name, "");
        assert!(times >= least, "{name}: {times}");
    }
    let bytes = counted.get("etcd_disk_wal_write_bytes_total");
    assert!((5_000.0..100_000.0).contains(&bytes), "{bytes} of about 110 entries");
    // Revisions 2 to 79 of one key: 80 stays.
    assert_eq!(counted.get("etcd_debugging_mvcc_db_compaction_keys_total"), 78.0);
    assert!(counted.get("etcd_debugging_mvcc_db_compaction_last") > 1.7e9, "since 1970");
    assert_eq!(counted.get("etcd_disk_defrag_inflight"), 0.0);
    assert_eq!(applied(&counted, "Compaction", true), 1.0);
    assert_eq!(counted.get("etcd_mvcc_range_total"), 1.0, "that of the compaction, as in etcd");
}

#[test]
fn leases_that_expire_are_counted() {
    let running = Running::start_fast(20, |config| config.heartbeat = Duration::from_millis(100));
    let server = running.server();
    lease(&server, 9, 1);
    let expired = || Counted::by(&running).get("etcd_debugging_server_lease_expired_total");
    while expired() == 0.0 {
        block_on(server.sleep(Duration::from_millis(100))).unwrap();
    }
    assert_eq!(expired(), 1.0);
    assert_eq!(answered(&Counted::by(&running), "LeaseRevoke", true), 1.0);
}

#[test]
fn what_a_caller_may_not_read_is_a_read_that_failed() {
    let running = Running::start();
    let server = running.server();
    let future = pb::RangeRequest { revision: 99, ..range_request("a", "") };
    let reading = block_on(server.read(&Credentials::default(), false)).unwrap();
    reading.range(&future).unwrap_err();
    let counted = Counted::by(&running);
    assert_eq!(answered(&counted, "Range", false), 1.0);
    let labels = r#"{success="false"}"#;
    assert_eq!(counted.times("etcd_server_range_duration_seconds", labels), 1.0);
}

#[test]
fn a_promotion_that_is_refused_is_counted_with_its_reason() {
    let running = Running::start();
    let server = running.server();
    put(&server, "a", "1");
    let promote = pb::MemberPromoteRequest { id: 0xabc };
    let error = block_on(server.member_promote(NOBODY, promote)).unwrap_err();
    let series = format!("etcd_server_learner_promote_failures{{Reason=\"{error}\"}}");
    assert_eq!(Counted::by(&running).get(&series), 1.0, "{series}");
}

/// Compat: that it is too large is an answer like any other.
#[test]
fn a_request_that_is_too_large_is_counted() {
    let running = Running::start_with(|config| config.max_request_bytes = 1000);
    let large = put_request("a", &"x".repeat(1000));
    block_on(running.server().put(NOBODY, large)).unwrap_err();
    let counted = Counted::by(&running);
    assert_eq!(answered(&counted, "Put", true), 1.0);
    assert_eq!(answered(&counted, "Put", false), 0.0);
    assert_eq!(counted.get("etcd_server_proposals_failed_total"), 0.0);
}

/// Compat: a range that cannot begin has failed; a transaction has not been.
#[test]
fn a_range_that_cannot_begin_is_counted() {
    let mut running = Running::start();
    let server = running.server();
    running.stop();
    let request = range_request("a", "");
    block_on(server.read_range(NOBODY, &request)).unwrap_err();
    block_on(server.read_as_root(true)).unwrap_err();
    block_on(server.read(NOBODY, true)).unwrap_err();
    let counted = Counted::by(&running);
    assert_eq!(answered(&counted, "Range", false), 2.0);
    assert_eq!(answered(&counted, "ReadonlyTxn", false), 0.0);
}

/// Compat: of a transaction that only reads, etcd counts what the store says, and not that it was not asked.
#[test]
fn a_transaction_that_may_not_be_read_is_no_failure() {
    let running = Running::start();
    let server = running.server();
    let (_, alice) = enable_auth(&server);
    let mut forbidden = get_txn();
    forbidden.compare[0].key = "x".into();
    block_on(server.read(&alice, true)).unwrap().txn(&forbidden).unwrap_err();
    let mut future = get_txn();
    for op in future.success.iter_mut().chain(&mut future.failure) {
        let late = pb::RangeRequest { revision: 99, ..range_request("a", "") };
        op.request = Some(Request::RequestRange(late));
    }
    block_on(server.read(&alice, true)).unwrap().txn(&future).unwrap_err();
    let counted = Counted::by(&running);
    assert_eq!(answered(&counted, "ReadonlyTxn", true), 1.0);
    assert_eq!(answered(&counted, "ReadonlyTxn", false), 1.0);
}
