//! Transactions: compare, then do one thing or another.
//!
//! All comparisons, also those of nested transactions, are made against the state before anything is done. They decide which operations are to be
//! done: a plan. Then the plan is checked as a whole, and only if nothing in it can fail is it carried out.

use backend::Read;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

use crate::error::{Error, Fault};
use crate::read_view::ReadView;
use crate::response::{Kvs, OpResult, RangeResult, TxnResult};
use crate::write::WriteTxn;

/// What a transaction does, now that its comparisons are made.
struct TxnPlan<'a> {
    succeeded: bool,
    ops: Vec<PlannedOp<'a>>,
}

enum PlannedOp<'a> {
    Range(&'a RangeRequest),
    Put(&'a PutRequest),
    DeleteRange(&'a DeleteRangeRequest),
    Txn(TxnPlan<'a>),
    Nothing,
}

/// Whether a transaction cannot change anything, whichever way its comparisons go. A nested one counts as a change, as in etcd.
#[must_use]
pub fn is_read_only(request: &TxnRequest) -> bool {
    let reads = |op: &RequestOp| matches!(op.request, Some(Request::RequestRange(_)));
    request.success.iter().chain(&request.failure).all(reads)
}

/// Whether it may be answered from this member alone: all it does is read, and it says that this is enough.
#[must_use]
pub fn is_serializable(request: &TxnRequest) -> bool {
    let serializable = |op: &RequestOp| match &op.request {
        Some(Request::RequestRange(range)) => range.serializable,
        _ => false,
    };
    request.success.iter().chain(&request.failure).all(serializable)
}

/// Answers a transaction that only reads.
pub(crate) fn read<R: Read>(
    view: &ReadView<'_, R>,
    request: &TxnRequest,
) -> Result<TxnResult, Error> {
    assert!(is_read_only(request), "whoever may write goes through the log");
    let plan = TxnPlan::new(view, request)?;
    plan.check(view.current, view.compacted, &|_| Ok(()))?;
    let responses = plan.ops.iter().map(|op| match op {
        PlannedOp::Range(range) => Ok(OpResult::Range(view.range(range)?)),
        _ => unreachable!("a transaction that only reads"),
    });
    let responses = responses.collect::<Result<_, Error>>()?;
    Ok(TxnResult { revision: view.current, succeeded: plan.succeeded, responses })
}

impl WriteTxn<'_, '_> {
    /// Carries out a transaction. Nobody may be waiting for the answer (`skip_ranges`): then its ranges are not carried out, which
    /// changes nothing else.
    ///
    /// # Panics
    /// If something was changed in this write transaction before: comparisons are made against what it began with.
    pub fn txn(&mut self, request: &TxnRequest, skip_ranges: bool) -> Result<TxnResult, Error> {
        assert!(self.is_unchanged(), "a transaction is the first of its revision");
        let begin = self.revision();
        let (plan, compacted) =
            self.with(|view| Ok((TxnPlan::new(view, request)?, view.compacted)))?;
        plan.check(begin, compacted, &|put| self.check_put(put))?;
        let mut result = self.execute(&plan, skip_ranges)?;
        result.revision = self.revision();
        Ok(result)
    }

    fn execute(&mut self, plan: &TxnPlan<'_>, skip_ranges: bool) -> Result<TxnResult, Error> {
        let mut responses = Vec::with_capacity(plan.ops.len());
        for op in &plan.ops {
            responses.push(match op {
                PlannedOp::Range(_) if skip_ranges => OpResult::Range(self.skipped_range()),
                PlannedOp::Range(range) => OpResult::Range(self.range(range)?),
                PlannedOp::Put(put) => OpResult::Put(self.put_checked(put)?),
                PlannedOp::DeleteRange(delete) => {
                    OpResult::DeleteRange(self.delete_range_checked(delete)?)
                }
                PlannedOp::Txn(nested) => OpResult::Txn(self.execute(nested, skip_ranges)?),
                PlannedOp::Nothing => OpResult::Nothing,
            });
        }
        Ok(TxnResult { revision: 0, succeeded: plan.succeeded, responses })
    }

    fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        self.with(|view| Ok(view.range(request)))?
    }

    fn skipped_range(&self) -> RangeResult {
        RangeResult { revision: self.revision(), kvs: Kvs::default(), more: false, count: 0 }
    }
}

impl<'a> TxnPlan<'a> {
    fn new<R: Read>(view: &ReadView<'_, R>, request: &'a TxnRequest) -> Result<TxnPlan<'a>, Fault> {
        let mut succeeded = true;
        for compare in &request.compare {
            succeeded = succeeded && view.compare(compare)?;
        }
        let taken = if succeeded { &request.success } else { &request.failure };
        let ops = taken.iter().map(|op| PlannedOp::new(view, op)).collect::<Result<_, _>>()?;
        Ok(TxnPlan { succeeded, ops })
    }

    /// Whether all of it can be carried out. Ranges are held against the revisions from before the transaction.
    fn check(
        &self,
        current: i64,
        compacted: i64,
        check_put: &dyn Fn(&PutRequest) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for op in &self.ops {
            match op {
                PlannedOp::Range(range) => check_revision(range.revision, current, compacted)?,
                PlannedOp::Put(put) => check_put(put)?,
                PlannedOp::Txn(nested) => nested.check(current, compacted, check_put)?,
                PlannedOp::DeleteRange(_) | PlannedOp::Nothing => {}
            }
        }
        Ok(())
    }
}

impl<'a> PlannedOp<'a> {
    fn new<R: Read>(view: &ReadView<'_, R>, op: &'a RequestOp) -> Result<PlannedOp<'a>, Fault> {
        Ok(match &op.request {
            Some(Request::RequestRange(range)) => PlannedOp::Range(range),
            Some(Request::RequestPut(put)) => PlannedOp::Put(put),
            Some(Request::RequestDeleteRange(delete)) => PlannedOp::DeleteRange(delete),
            Some(Request::RequestTxn(nested)) => PlannedOp::Txn(TxnPlan::new(view, nested)?),
            None => PlannedOp::Nothing,
        })
    }
}

/// Compat: as in etcd, a negative revision means the newest outside of a transaction, and is compacted inside of one.
fn check_revision(revision: i64, current: i64, compacted: i64) -> Result<(), Error> {
    match revision {
        0 => Ok(()),
        future if future > current => Err(Error::FutureRevision),
        past if past < compacted => Err(Error::Compacted),
        _ => Ok(()),
    }
}
