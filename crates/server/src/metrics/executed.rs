//! Counts operations on keys as etcd counts them.
//!
//! A storage transaction consists of ranges, puts and deletions; with more than one of them it also
//! counts as a transaction. A lookup by a put or a deletion counts as a range, and so does every
//! compare. A request that writes in a transaction is two storage transactions: one that compares
//! and one that writes.
//!
//! ```text
//!   put a=1                                    puts 1
//!   put a=1, prev_kv                           puts 1  ranges 1  txns 1
//!   txn if mod(a)=3 then put a=1               puts 1  ranges 1
//!   txn if mod(a)=3 then put a=1; get b        puts 1  ranges 2  txns 1
//!   revoke a lease with 3 keys                 deletes 3  txns 1
//!   compact                                    ranges 1
//! ```
//!
//! Refused requests do not count, unless they were executed nevertheless, as without space.

use mvcc::{OpResult, TxnResult};
use prometheus::IntCounter;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, TxnRequest};

use super::Metrics;

/// The operations that one request executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    ranges: u64,
    puts: u64,
    deletes: u64,
    /// Storage transactions of more than one operation.
    txns: u64,
    put_bytes: usize,
}

impl Executed {
    /// Counts a put.
    #[must_use]
    pub fn put(request: &PutRequest) -> Executed {
        let mut executed = Executed::default();
        executed.add_put(request);
        executed.end()
    }

    /// Counts the deletion of a range.
    #[must_use]
    pub fn delete_range(request: &DeleteRangeRequest) -> Executed {
        let mut executed = Executed::default();
        executed.add_delete_range(request);
        executed.end()
    }

    /// Counts a read-only transaction.
    #[must_use]
    pub fn read_txn(request: &TxnRequest, result: &TxnResult) -> Executed {
        let mut executed = Executed::default();
        executed.add_checks(request, result);
        executed.add_branch(request, result, false);
        executed.end()
    }

    /// Counts a transaction of the log, without its ranges if they were skipped.
    #[must_use]
    pub fn txn(request: &TxnRequest, result: &TxnResult, skipped_ranges: bool) -> Executed {
        let (mut read, mut written) = (Executed::default(), Executed::default());
        read.add_checks(request, result);
        written.add_branch(request, result, skipped_ranges);
        read.end().and(written.end())
    }

    /// Counts the revocation of a lease with a number of keys.
    #[must_use]
    pub fn revoke(keys: usize) -> Executed {
        Executed { deletes: keys as u64, ..Executed::default() }.end()
    }

    /// Counts a range.
    #[must_use]
    pub fn range() -> Executed {
        Executed { ranges: 1, ..Executed::default() }
    }

    /// Ends the storage transaction.
    fn end(self) -> Executed {
        let txns = u64::from(self.ranges + self.puts + self.deletes > 1);
        Executed { txns, ..self }
    }

    /// Adds two storage transactions.
    fn and(self, other: Executed) -> Executed {
        Executed {
            ranges: self.ranges + other.ranges,
            puts: self.puts + other.puts,
            deletes: self.deletes + other.deletes,
            txns: self.txns + other.txns,
            put_bytes: self.put_bytes + other.put_bytes,
        }
    }

    fn add_put(&mut self, request: &PutRequest) {
        self.puts += 1;
        // Without the value kept by `ignore_value`, whose size is not known here.
        self.put_bytes += request.key.len() + request.value.len();
        self.ranges += u64::from(reads_previous(request));
    }

    fn add_delete_range(&mut self, request: &DeleteRangeRequest) {
        self.deletes += 1;
        self.ranges += u64::from(request.prev_kv);
    }

    /// Adds the operations of the executed branch.
    fn add_branch(&mut self, request: &TxnRequest, result: &TxnResult, skipped_ranges: bool) {
        let branch = if result.succeeded { &request.success } else { &request.failure };
        for (op, result) in branch.iter().zip(&result.responses) {
            match (&op.request, result) {
                (Some(Request::RequestRange(_)), _) => self.ranges += u64::from(!skipped_ranges),
                (Some(Request::RequestPut(put)), _) => self.add_put(put),
                (Some(Request::RequestDeleteRange(delete)), _) => self.add_delete_range(delete),
                (Some(Request::RequestTxn(txn)), OpResult::Txn(result)) => {
                    self.add_branch(txn, result, skipped_ranges);
                }
                (Some(Request::RequestTxn(_)) | None, _) => {}
            }
        }
    }

    /// Adds the lookups before the writes: compares and previous values.
    fn add_checks(&mut self, request: &TxnRequest, result: &TxnResult) {
        self.ranges += compared(request, result.succeeded);
        let branch = if result.succeeded { &request.success } else { &request.failure };
        for (op, result) in branch.iter().zip(&result.responses) {
            match (&op.request, result) {
                (Some(Request::RequestPut(put)), _) => {
                    self.ranges += u64::from(reads_previous(put));
                }
                (Some(Request::RequestTxn(txn)), OpResult::Txn(result)) => {
                    self.add_checks(txn, result);
                }
                _ => {}
            }
        }
    }
}

fn reads_previous(put: &PutRequest) -> bool {
    put.prev_kv || put.ignore_value || put.ignore_lease
}

/// Returns the number of evaluated compares. A failed one ends them; usually it is the first.
fn compared(request: &TxnRequest, succeeded: bool) -> u64 {
    let all = request.compare.len() as u64;
    if succeeded { all } else { all.min(1) }
}

impl Metrics {
    /// Adds the operations of a request to the counters.
    pub fn count(&self, executed: Executed) {
        let Executed { ranges, puts, deletes, txns, put_bytes } = executed;
        add(&self.ranges, ranges);
        add(&self.puts, puts);
        add(&self.deletes, deletes);
        add(&self.txns, txns);
        if put_bytes > 0 {
            self.put_bytes.add(i64::try_from(put_bytes).unwrap_or(i64::MAX));
        }
    }
}

/// Adds a count. Skips zero, the most frequent count: a contended atomic addition costs more than a
/// comparison.
fn add(counter: &IntCounter, count: u64) {
    if count > 0 {
        counter.inc_by(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mvcc::{PutResult, RangeResult};
    use prometheus::Registry;
    use proto::etcdserverpb::{Compare, RangeRequest, RequestOp};

    fn metrics() -> Metrics {
        Metrics::new(&Registry::new()).unwrap()
    }

    /// Returns ranges, puts, deletions and transactions.
    fn counted(metrics: &Metrics) -> [u64; 4] {
        [&metrics.ranges, &metrics.puts, &metrics.deletes, &metrics.txns]
            .map(prometheus::IntCounter::get)
    }

    fn put(prev_kv: bool) -> PutRequest {
        PutRequest {
            key: b"a"[..].into(),
            value: b"12"[..].into(),
            prev_kv,
            ..PutRequest::default()
        }
    }

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    fn done(responses: Vec<OpResult>) -> TxnResult {
        TxnResult { revision: 2, succeeded: true, responses }
    }

    fn was_put() -> OpResult {
        OpResult::Put(PutResult { revision: 2, prev_kv: None })
    }

    fn was_read() -> OpResult {
        let kvs = mvcc::Kvs::default();
        OpResult::Range(RangeResult { revision: 2, kvs, more: false, count: 0 })
    }

    #[test]
    fn counts_are_as_documented() {
        let one = metrics();
        one.count(Executed::put(&put(false)));
        assert_eq!(counted(&one), [0, 1, 0, 0]);
        assert_eq!(one.put_bytes.get(), 3);
        let looked_up = metrics();
        looked_up.count(Executed::put(&put(true)));
        assert_eq!(counted(&looked_up), [1, 1, 0, 1]);
        let if_then = TxnRequest {
            compare: vec![Compare::default()],
            success: vec![op(Request::RequestPut(put(false)))],
            failure: vec![],
        };
        let txn = metrics();
        txn.count(Executed::txn(&if_then, &done(vec![was_put()]), false));
        assert_eq!(counted(&txn), [1, 1, 0, 0]);
        let mut and_get = if_then;
        and_get.success.push(op(Request::RequestRange(RangeRequest::default())));
        let both = done(vec![was_put(), was_read()]);
        let (waited, skipped) = (metrics(), metrics());
        waited.count(Executed::txn(&and_get, &both, false));
        assert_eq!(counted(&waited), [2, 1, 0, 1]);
        skipped.count(Executed::txn(&and_get, &both, true));
        assert_eq!(counted(&skipped), [1, 1, 0, 0]);
    }

    #[test]
    fn a_nested_transaction_counts_with_its_parent() {
        let inner = TxnRequest {
            success: vec![op(Request::RequestPut(put(false)))],
            ..TxnRequest::default()
        };
        let outer =
            TxnRequest { success: vec![op(Request::RequestTxn(inner))], ..TxnRequest::default() };
        let nested = OpResult::Txn(done(vec![was_put()]));
        let metrics = metrics();
        metrics.count(Executed::txn(&outer, &done(vec![nested]), false));
        assert_eq!(counted(&metrics), [0, 1, 0, 0]);
    }

    #[test]
    fn revoking_a_lease_counts_one_deletion_per_key() {
        let metrics = metrics();
        metrics.count(Executed::revoke(3));
        assert_eq!(counted(&metrics), [0, 0, 3, 1]);
    }
}
