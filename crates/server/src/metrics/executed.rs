//! Counts what was carried out on keys, as etcd counts it.
//!
//! A storage transaction has ranges, puts and deletions; with more than one of them it also counts as a transaction. What a put or a deletion
//! has to look up first is a range, and so is every comparison. A transaction that writes is two of them: one that compares, one that
//! does.
//!
//! ```text
//!   put a=1                                    puts 1
//!   put a=1, prev_kv                           puts 1  ranges 1  txns 1
//!   txn if mod(a)=3 then put a=1               puts 1  ranges 1
//!   txn if mod(a)=3 then put a=1; get b        puts 1  ranges 2  txns 1
//! ```

use mvcc::{OpResult, TxnResult};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, TxnRequest};

use super::Metrics;

/// What one storage transaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Executed {
    ranges: u64,
    puts: u64,
    deletes: u64,
    put_bytes: usize,
}

impl Executed {
    fn put(&mut self, request: &PutRequest) {
        self.puts += 1;
        // With the value it had before, if that is kept: how long that is is not known here.
        self.put_bytes += request.key.len() + request.value.len();
        self.ranges += u64::from(looks_up(request));
    }

    fn delete_range(&mut self, request: &DeleteRangeRequest) {
        self.deletes += 1;
        self.ranges += u64::from(request.prev_kv);
    }

    /// The operations of the branch that was taken.
    fn branch(&mut self, request: &TxnRequest, result: &TxnResult, skipped_ranges: bool) {
        let branch = if result.succeeded { &request.success } else { &request.failure };
        for (op, result) in branch.iter().zip(&result.responses) {
            match (&op.request, result) {
                (Some(Request::RequestRange(_)), _) => self.ranges += u64::from(!skipped_ranges),
                (Some(Request::RequestPut(put)), _) => self.put(put),
                (Some(Request::RequestDeleteRange(delete)), _) => self.delete_range(delete),
                (Some(Request::RequestTxn(txn)), OpResult::Txn(result)) => {
                    self.branch(txn, result, skipped_ranges);
                }
                (Some(Request::RequestTxn(_)) | None, _) => {}
            }
        }
    }

    /// What was looked up beforehand: comparisons, and what puts would replace.
    fn checks(&mut self, request: &TxnRequest, result: &TxnResult) {
        self.ranges += compared(request, result.succeeded);
        let branch = if result.succeeded { &request.success } else { &request.failure };
        for (op, result) in branch.iter().zip(&result.responses) {
            match (&op.request, result) {
                (Some(Request::RequestPut(put)), _) => self.ranges += u64::from(looks_up(put)),
                (Some(Request::RequestTxn(txn)), OpResult::Txn(result)) => {
                    self.checks(txn, result);
                }
                _ => {}
            }
        }
    }
}

fn looks_up(put: &PutRequest) -> bool {
    put.prev_kv || put.ignore_value || put.ignore_lease
}

/// Comparisons that were made. One that fails ends them, and as a rule it is the first.
fn compared(request: &TxnRequest, succeeded: bool) -> u64 {
    let all = request.compare.len() as u64;
    if succeeded { all } else { all.min(1) }
}

impl Metrics {
    /// A range was carried out.
    pub fn count_range(&self) {
        self.ranges.inc();
    }

    /// A put was.
    pub fn count_put(&self, request: &PutRequest) {
        let mut executed = Executed::default();
        executed.put(request);
        self.count(executed);
    }

    /// The deletion of a range was.
    pub fn count_delete_range(&self, request: &DeleteRangeRequest) {
        let mut executed = Executed::default();
        executed.delete_range(request);
        self.count(executed);
    }

    /// A transaction that only reads was.
    pub fn count_read_txn(&self, request: &TxnRequest, result: &TxnResult) {
        let mut executed = Executed::default();
        executed.checks(request, result);
        executed.branch(request, result, false);
        self.count(executed);
    }

    /// A transaction from the log was; perhaps without the ranges in it, if nobody waits for the answer.
    pub fn count_txn(&self, request: &TxnRequest, result: &TxnResult, skipped_ranges: bool) {
        let (mut read, mut written) = (Executed::default(), Executed::default());
        read.checks(request, result);
        written.branch(request, result, skipped_ranges);
        self.count(read);
        self.count(written);
    }

    /// A lease was revoked, and so many keys deleted with it.
    pub fn count_revoked_keys(&self, keys: usize) {
        self.count(Executed { deletes: keys as u64, ..Executed::default() });
    }

    fn count(&self, executed: Executed) {
        let Executed { ranges, puts, deletes, put_bytes } = executed;
        self.ranges.inc_by(ranges);
        self.puts.inc_by(puts);
        self.deletes.inc_by(deletes);
        self.put_bytes.add(i64::try_from(put_bytes).unwrap_or(i64::MAX));
        self.txns.inc_by(u64::from(ranges + puts + deletes > 1));
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

    /// Ranges, puts, deletions, transactions.
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
    fn counts_are_as_drawn() {
        let one = metrics();
        one.count_put(&put(false));
        assert_eq!(counted(&one), [0, 1, 0, 0]);
        assert_eq!(one.put_bytes.get(), 3);
        let looked_up = metrics();
        looked_up.count_put(&put(true));
        assert_eq!(counted(&looked_up), [1, 1, 0, 1]);
        let if_then = TxnRequest {
            compare: vec![Compare::default()],
            success: vec![op(Request::RequestPut(put(false)))],
            failure: vec![],
        };
        let txn = metrics();
        txn.count_txn(&if_then, &done(vec![was_put()]), false);
        assert_eq!(counted(&txn), [1, 1, 0, 0]);
        let mut and_get = if_then;
        and_get.success.push(op(Request::RequestRange(RangeRequest::default())));
        let both = done(vec![was_put(), was_read()]);
        let (waited, skipped) = (metrics(), metrics());
        waited.count_txn(&and_get, &both, false);
        assert_eq!(counted(&waited), [2, 1, 0, 1]);
        skipped.count_txn(&and_get, &both, true);
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
        metrics.count_txn(&outer, &done(vec![nested]), false);
        assert_eq!(counted(&metrics), [0, 1, 0, 0]);
    }

    #[test]
    fn the_keys_of_a_lease_are_deleted_one_by_one() {
        let metrics = metrics();
        metrics.count_revoked_keys(3);
        assert_eq!(counted(&metrics), [0, 0, 3, 1]);
    }
}
