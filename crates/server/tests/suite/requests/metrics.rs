//! Metrics of a member: counters and durations of requests and file operations.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::TextEncoder;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::request_op::Request;
use server::{Credentials, Server};
use testkit::waiting::TIMEOUT;

use super::users::enable as enable_auth;
use super::{
    ANONYMOUS, TestMember, block_on, put, put_request, range_request, start_with_clock, wait_until,
};

/// The value of each series. A missing one counts as 0.
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn of(running: &TestMember) -> Metrics {
        let text = TextEncoder::new().encode_to_string(&running.registry().gather()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
        Metrics(pairs.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect())
    }

    fn get(&self, series: &str) -> f64 {
        self.0.get(series).copied().unwrap_or_default()
    }

    /// Returns the count of a histogram. If it is not 0, the sum must be positive.
    fn observations(&self, name: &str, labels: &str) -> f64 {
        let count = self.get(&format!("{name}_count{labels}"));
        assert!(count == 0.0 || self.get(&format!("{name}_sum{labels}")) > 0.0, "{name}{labels}");
        count
    }
}

/// Returns how often a kind of request was applied.
fn applied(metrics: &Metrics, op: &str, success: bool) -> f64 {
    let labels = format!(r#"{{op="{op}",success="{success}",version="v3"}}"#);
    metrics.observations("etcd_server_apply_duration_seconds", &labels)
}

/// Returns how often a kind of request was answered.
fn answered(metrics: &Metrics, op: &str, success: bool) -> f64 {
    let labels = format!(r#"{{success="{success}",type="{op}"}}"#);
    metrics.observations("etcd_server_request_duration_seconds", &labels)
}

fn range(server: &Server, linearizable: bool) {
    let reading = block_on(server.read(ANONYMOUS, linearizable)).unwrap();
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
    block_on(server.lease_grant(ANONYMOUS, pb::LeaseGrantRequest { id, ttl })).unwrap();
}

#[test]
fn operations_on_keys_are_counted_as_etcd_counts_them() {
    // A proposal that times out on a busy machine counts as failed, and the member repeats its own.
    // So the timeout of requests, which follows from that of elections, is longer than any wait of
    // the test. The only voter is elected at once nevertheless.
    let mut running = TestMember::builder().config(|config| config.election_ticks = 10_000).start();
    assert!(running.server().config().request_timeout() > TIMEOUT);
    let server = running.server();
    running.wait_until_published();
    // The member also proposes the cluster version. Later requests complete after that one, so none
    // is pending when the metrics are read.
    wait_until("the cluster has a version", || server.membership().version().is_some());
    for n in 0..3 {
        put(&server, &format!("k{n}"), "value");
    }
    let prev_kv = pb::PutRequest { prev_kv: true, ..put_request("k0", "v") };
    block_on(server.put(ANONYMOUS, prev_kv)).unwrap();
    range(&server, true);
    range(&server, false);
    let delete = pb::DeleteRangeRequest { key: "k1".into(), ..Default::default() };
    block_on(server.delete_range(ANONYMOUS, delete)).unwrap();
    // One comparison, then a range and a put.
    let mut txn = get_txn();
    txn.success.push(op(Request::RequestPut(put_request("t", "1"))));
    txn.failure.push(op(Request::RequestPut(put_request("t", "1"))));
    block_on(server.txn(ANONYMOUS, txn)).unwrap();
    block_on(server.read(ANONYMOUS, true)).unwrap().txn(&get_txn()).unwrap();
    lease(&server, 7, 3600);
    for key in ["l1", "l2"] {
        let attached = pb::PutRequest { lease: 7, ..put_request(key, "v") };
        block_on(server.put(ANONYMOUS, attached)).unwrap();
    }
    block_on(server.lease_revoke(ANONYMOUS, pb::LeaseRevokeRequest { id: 7 })).unwrap();
    let no_lease = pb::PutRequest { lease: 8, ..put_request("x", "v") };
    block_on(server.put(ANONYMOUS, no_lease)).unwrap_err();

    let metrics = Metrics::of(&running);
    for (name, value) in [
        // Three plain, one with `prev_kv`, one in a transaction, two with a lease.
        ("etcd_mvcc_put_total", 7.0),
        ("etcd_debugging_mvcc_total_put_size_in_bytes", (3 * 7 + 3 + 2 + 2 * 3).into()),
        // One request, and two keys of the revoked lease.
        ("etcd_mvcc_delete_total", 3.0),
        // Two requests, one for `prev_kv`, two in each transaction.
        ("etcd_mvcc_range_total", 7.0),
        // The put with `prev_kv`, both transactions, the revoked lease.
        ("etcd_mvcc_txn_total", 4.0),
        ("etcd_server_proposals_pending", 0.0),
        ("etcd_server_proposals_failed_total", 0.0),
        ("etcd_debugging_lease_granted_total", 1.0),
        ("etcd_debugging_lease_revoked_total", 1.0),
    ] {
        assert_eq!(metrics.get(name), value, "{name}");
    }
    // Compat: as in etcd, a refused request counts as failed in the apply metric, and as successful
    // in the request metric.
    for (op, good, refused) in [("Put", 6.0, 1.0), ("DeleteRange", 1.0, 0.0), ("Txn", 1.0, 0.0)] {
        assert_eq!(applied(&metrics, op, true), good, "{op}");
        assert_eq!(applied(&metrics, op, false), refused, "{op}");
        assert_eq!(answered(&metrics, op, true), good + refused, "{op}");
        assert_eq!(answered(&metrics, op, false), 0.0, "{op}");
    }
    for op in ["LeaseGrant", "LeaseRevoke", "ClusterMemberAttrSet"] {
        assert_eq!(applied(&metrics, op, true), 1.0, "{op}");
        assert_eq!(answered(&metrics, op, true), 1.0, "{op}");
    }
    assert_eq!(answered(&metrics, "Range", true), 2.0);
    assert_eq!(answered(&metrics, "ReadonlyTxn", true), 1.0);
    let labels = r#"{success="true"}"#;
    assert_eq!(
        metrics.observations("etcd_server_range_duration_seconds", labels),
        2.0,
        "ranges in transactions do not count"
    );
    running.stop();
}

#[test]
fn file_operations_are_measured() {
    let mut running = TestMember::builder()
        .config(|config| {
            config.snapshot_count = 20;
            config.unsafe_no_fsync = false;
        })
        .start();
    let server = running.server();
    let name = "etcd_debugging_snap_save_total_duration_seconds";
    for snapshot in 1..=2 {
        for n in 0..50 {
            put(&server, "a", &n.to_string());
        }
        // Snapshots are taken in the background, one at a time.
        wait_until("a snapshot is saved", || {
            Metrics::of(&running).observations(name, "") >= f64::from(snapshot)
        });
    }
    let physical = pb::CompactionRequest { revision: 80, physical: true };
    block_on(server.compact(ANONYMOUS, physical)).unwrap();
    block_on(server.hash(ANONYMOUS)).unwrap();
    block_on(server.hash_kv(ANONYMOUS, 0)).unwrap();
    block_on(server.defragment(ANONYMOUS)).unwrap();
    running.stop();

    let metrics = Metrics::of(&running);
    for (name, least) in [
        ("etcd_disk_wal_fsync_duration_seconds", 100.0),
        ("etcd_disk_wal_write_duration_seconds", 100.0),
        ("etcd_disk_backend_commit_duration_seconds", 1.0),
        ("etcd_debugging_disk_backend_commit_rebalance_duration_seconds", 1.0),
        ("etcd_debugging_disk_backend_commit_spill_duration_seconds", 1.0),
        ("etcd_debugging_disk_backend_commit_write_duration_seconds", 1.0),
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
        let count = metrics.observations(name, "");
        assert!(count >= least, "{name}: expected at least {least}, got {count}");
    }
    let bytes = metrics.get("etcd_disk_wal_write_bytes_total");
    assert!((5_000.0..100_000.0).contains(&bytes), "{bytes} bytes for about 110 entries");
    // Deletes revisions 2 to 79 of one key and keeps 80.
    assert_eq!(metrics.get("etcd_debugging_mvcc_db_compaction_keys_total"), 78.0);
    assert!(
        metrics.get("etcd_debugging_mvcc_db_compaction_last") > 1.7e9,
        "a Unix time in seconds"
    );
    assert_eq!(metrics.get("etcd_disk_defrag_inflight"), 0.0);
    assert_eq!(applied(&metrics, "Compaction", true), 1.0);
    assert_eq!(
        metrics.get("etcd_mvcc_range_total"),
        1.0,
        "the compaction counts as a range, as in etcd"
    );
}

#[test]
fn expired_leases_are_counted() {
    let (running, clock) = start_with_clock();
    let server = running.server();
    lease(&server, 9, 1);
    clock.advance(Duration::from_secs(60));
    let expired = || Metrics::of(&running).get("etcd_debugging_server_lease_expired_total");
    wait_until("a lease has expired", || expired() > 0.0);
    assert_eq!(expired(), 1.0);
    assert_eq!(answered(&Metrics::of(&running), "LeaseRevoke", true), 1.0);
}

#[test]
fn a_range_at_a_future_revision_counts_as_failed() {
    let running = TestMember::builder().start();
    let server = running.server();
    let future = pb::RangeRequest { revision: 99, ..range_request("a", "") };
    let reading = block_on(server.read(&Credentials::default(), false)).unwrap();
    reading.range(&future).unwrap_err();
    let metrics = Metrics::of(&running);
    assert_eq!(answered(&metrics, "Range", false), 1.0);
    let labels = r#"{success="false"}"#;
    assert_eq!(metrics.observations("etcd_server_range_duration_seconds", labels), 1.0);
}

#[test]
fn a_refused_promotion_is_counted_with_its_reason() {
    let running = TestMember::builder().start();
    let server = running.server();
    put(&server, "a", "1");
    let promote = pb::MemberPromoteRequest { id: 0xabc };
    let error = block_on(server.member_promote(ANONYMOUS, promote)).unwrap_err();
    let series = format!("etcd_server_learner_promote_failures{{Reason=\"{error}\"}}");
    assert_eq!(Metrics::of(&running).get(&series), 1.0, "{series}");
}

/// Compat: as in etcd, the refusal of an oversized request counts as a successful request.
#[test]
fn an_oversized_request_counts_as_successful() {
    let running = TestMember::builder().config(|config| config.max_request_bytes = 1000).start();
    let large = put_request("a", &"x".repeat(1000));
    block_on(running.server().put(ANONYMOUS, large)).unwrap_err();
    let metrics = Metrics::of(&running);
    assert_eq!(answered(&metrics, "Put", true), 1.0);
    assert_eq!(answered(&metrics, "Put", false), 0.0);
    assert_eq!(metrics.get("etcd_server_proposals_failed_total"), 0.0);
}

/// Compat: as in etcd, a range that cannot start counts as failed, a transaction not at all.
#[test]
fn a_range_that_cannot_start_counts_as_failed() {
    let mut running = TestMember::builder().start();
    let server = running.server();
    running.stop();
    let request = range_request("a", "");
    block_on(server.read_range(ANONYMOUS, &request)).unwrap_err();
    block_on(server.read_as_root(true)).unwrap_err();
    block_on(server.read(ANONYMOUS, true)).unwrap_err();
    let metrics = Metrics::of(&running);
    assert_eq!(answered(&metrics, "Range", false), 2.0);
    assert_eq!(answered(&metrics, "ReadonlyTxn", false), 0.0);
}

/// Compat: for a read-only transaction etcd counts the result of the store. A denied permission is
/// not a failure.
#[test]
fn a_read_only_transaction_without_permission_counts_as_successful() {
    let running = TestMember::builder().start();
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
    let metrics = Metrics::of(&running);
    assert_eq!(answered(&metrics, "ReadonlyTxn", true), 1.0);
    assert_eq!(answered(&metrics, "ReadonlyTxn", false), 1.0);
}
