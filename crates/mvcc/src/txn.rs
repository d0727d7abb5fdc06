//! Transactions: compare, then execute one of two lists of operations.
//!
//! All comparisons, including those of nested transactions, are evaluated against the state before
//! the transaction. They select the operations to execute: the plan. The plan is checked as a
//! whole, and executed only if no operation in it can fail.

use backend::Read;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

use crate::error::{Error, Fault};
use crate::read_view::ReadView;
use crate::response::{Kvs, OpResult, RangeResult, TxnResult};
use crate::write::WriteTxn;

/// The operations of a transaction, after its comparisons were evaluated.
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

/// Returns whether a transaction cannot write, whatever its comparisons yield. As in etcd, a nested
/// transaction counts as a write.
#[must_use]
pub fn is_read_only(request: &TxnRequest) -> bool {
    let reads = |op: &RequestOp| matches!(op.request, Some(Request::RequestRange(_)));
    request.success.iter().chain(&request.failure).all(reads)
}

/// Returns whether the local member may execute a transaction alone: it consists of serializable
/// ranges.
#[must_use]
pub fn is_serializable(request: &TxnRequest) -> bool {
    let serializable = |op: &RequestOp| match &op.request {
        Some(Request::RequestRange(range)) => range.serializable,
        _ => false,
    };
    request.success.iter().chain(&request.failure).all(serializable)
}

/// Executes a read-only transaction.
pub(crate) fn read<R: Read>(
    view: &ReadView<'_, R>,
    request: &TxnRequest,
) -> Result<TxnResult, Error> {
    const PROPOSED: &str = "a transaction that may write has to be proposed";
    let (success, failure) = (ranges(&request.success), ranges(&request.failure));
    let (success, failure) = (success.expect(PROPOSED), failure.expect(PROPOSED));
    let succeeded = succeeds(view, request)?;
    let taken = if succeeded { success } else { failure };
    for range in &taken {
        check_revision(range.revision, view.current, view.compacted)?;
    }
    let responses = taken.into_iter().map(|range| Ok(OpResult::Range(view.range(range)?)));
    let responses = responses.collect::<Result<_, Error>>()?;
    Ok(TxnResult { revision: view.current, succeeded, responses })
}

/// Returns the ranges that a list of operations consists of; `None` if it has another operation.
fn ranges(ops: &[RequestOp]) -> Option<Vec<&RangeRequest>> {
    let mut ranges = Vec::with_capacity(ops.len());
    for op in ops {
        let Some(Request::RequestRange(range)) = &op.request else { return None };
        ranges.push(range);
    }
    Some(ranges)
}

/// Evaluates the comparisons of a transaction. The first one that fails is the last evaluated.
fn succeeds<R: Read>(view: &ReadView<'_, R>, request: &TxnRequest) -> Result<bool, Fault> {
    for compare in &request.compare {
        if !view.compare(compare)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl WriteTxn<'_, '_> {
    /// Executes a transaction. With `skip_ranges`, because no waiter wants the response, its ranges
    /// are not executed; the changes are the same.
    ///
    /// # Panics
    /// If this write transaction has changed something already: comparisons see the state at its
    /// beginning.
    pub fn txn(&mut self, request: &TxnRequest, skip_ranges: bool) -> Result<TxnResult, Error> {
        assert!(self.is_unchanged(), "a transaction has to be the first operation of its revision");
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
        let succeeded = succeeds(view, request)?;
        let taken = if succeeded { &request.success } else { &request.failure };
        let ops = taken.iter().map(|op| PlannedOp::new(view, op)).collect::<Result<_, _>>()?;
        Ok(TxnPlan { succeeded, ops })
    }

    /// Checks that every operation can succeed. Ranges are checked against the revisions before the
    /// transaction.
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

/// Compat: as in etcd, a negative revision selects the latest revision outside of a transaction,
/// and is refused as compacted inside of one.
fn check_revision(revision: i64, current: i64, compacted: i64) -> Result<(), Error> {
    match revision {
        0 => Ok(()),
        future if future > current => Err(Error::FutureRevision),
        past if past < compacted => Err(Error::Compacted),
        _ => Ok(()),
    }
}
