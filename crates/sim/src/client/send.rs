//! Converts a recorded request to etcd's form and sends it to a member.

use std::pin::Pin;

use history::record::{
    Body, Compare, Delete, Op, Put, Range, Relation, Request, Response, Span, Target, Txn,
};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op;
use server::{Credentials, Error, Server};

use super::observed;

/// A response in flight.
pub(crate) type ResponseFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

/// Credentials without a user.
pub(crate) fn anonymous() -> Credentials {
    Credentials::default()
}

/// Sends a request to a member. `is_physical` concerns compactions only.
pub(crate) fn send(
    server: Server,
    request: &Request,
    is_physical: bool,
) -> ResponseFuture<Response> {
    match request {
        Request::Put(put) => {
            let put = to_put(put);
            Box::pin(async move { Ok(observed::put(&server.put(&anonymous(), put).await?)) })
        }
        Request::Delete(delete) => {
            let delete = to_delete(delete);
            Box::pin(async move {
                Ok(observed::delete(&server.delete_range(&anonymous(), delete).await?))
            })
        }
        Request::Range(range) => {
            let range = to_range(range);
            Box::pin(async move {
                let view = server.read_range(&anonymous(), &range).await?;
                Ok(observed::range(&view.range(&range)?))
            })
        }
        Request::Txn(txn) => send_txn(server, to_txn(txn)),
        Request::Grant { lease, ttl_s } => {
            let grant = pb::LeaseGrantRequest { id: *lease, ttl: *ttl_s };
            Box::pin(async move {
                Ok(observed::granted(&server.lease_grant(&anonymous(), grant).await?))
            })
        }
        Request::Revoke { lease } => {
            let revoke = pb::LeaseRevokeRequest { id: *lease };
            Box::pin(async move {
                let revoked = server.lease_revoke(&anonymous(), revoke).await?;
                Ok(Response { revision: observed::revision(revoked.header), body: Body::Revoke })
            })
        }
        Request::KeepAlive { lease } => {
            let lease = *lease;
            Box::pin(async move {
                // The API, too, takes the revision of the header before it renews the lease.
                let revision = server.state().store().current();
                let ttl_s = server.lease_renew(&anonymous(), lease).await?;
                Ok(Response { revision, body: Body::KeepAlive { ttl_s } })
            })
        }
        Request::Compact { revision } => {
            let compact = pb::CompactionRequest { revision: *revision, physical: is_physical };
            Box::pin(async move {
                let compacted = server.compact(&anonymous(), compact).await?;
                Ok(Response { revision: observed::revision(compacted.header), body: Body::Compact })
            })
        }
    }
}

/// Sends a transaction. A read-only one does not go through the log, as in the API.
fn send_txn(server: Server, txn: pb::TxnRequest) -> ResponseFuture<Response> {
    Box::pin(async move {
        let result = if mvcc::txn::is_read_only(&txn) {
            let is_linearizable = !mvcc::txn::is_serializable(&txn);
            server.read(&anonymous(), is_linearizable).await?.txn(&txn)?
        } else {
            server.txn(&anonymous(), txn).await?
        };
        Ok(observed::txn(&result))
    })
}

fn to_put(put: &Put) -> pb::PutRequest {
    pb::PutRequest {
        key: put.key.clone().into(),
        value: put.value.clone().into(),
        lease: put.lease,
        prev_kv: put.prev_kv,
        ..pb::PutRequest::default()
    }
}

fn to_delete(delete: &Delete) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: delete.span.key.clone().into(),
        range_end: range_end(&delete.span),
        prev_kv: delete.prev_kv,
    }
}

fn to_range(range: &Range) -> pb::RangeRequest {
    pb::RangeRequest {
        key: range.span.key.clone().into(),
        range_end: range_end(&range.span),
        revision: range.revision,
        limit: range.limit,
        count_only: range.count_only,
        serializable: range.serializable,
        ..pb::RangeRequest::default()
    }
}

fn to_txn(txn: &Txn) -> pb::TxnRequest {
    let ops = |ops: &[Op]| ops.iter().map(to_op).collect();
    pb::TxnRequest {
        compare: txn.compares.iter().map(to_compare).collect(),
        success: ops(&txn.then),
        failure: ops(&txn.otherwise),
    }
}

fn to_op(op: &Op) -> pb::RequestOp {
    let request = match op {
        Op::Put(put) => request_op::Request::RequestPut(to_put(put)),
        Op::Delete(delete) => request_op::Request::RequestDeleteRange(to_delete(delete)),
        Op::Range(range) => request_op::Request::RequestRange(to_range(range)),
    };
    pb::RequestOp { request: Some(request) }
}

fn to_compare(compare: &Compare) -> pb::Compare {
    let result = match compare.is {
        Relation::Equal => CompareResult::Equal,
        Relation::NotEqual => CompareResult::NotEqual,
        Relation::Greater => CompareResult::Greater,
        Relation::Less => CompareResult::Less,
    };
    let (target, to) = match &compare.to {
        Target::Value(value) => (CompareTarget::Value, TargetUnion::Value(value.clone().into())),
        Target::Version(to) => (CompareTarget::Version, TargetUnion::Version(*to)),
        Target::Create(to) => (CompareTarget::Create, TargetUnion::CreateRevision(*to)),
        Target::Mod(to) => (CompareTarget::Mod, TargetUnion::ModRevision(*to)),
        Target::Lease(to) => (CompareTarget::Lease, TargetUnion::Lease(*to)),
    };
    pb::Compare {
        result: result.into(),
        target: target.into(),
        key: compare.span.key.clone().into(),
        range_end: range_end(&compare.span),
        target_union: Some(to),
    }
}

/// Returns the `range_end` of a span: empty for a single key.
pub(super) fn range_end(span: &Span) -> bytes::Bytes {
    span.end.clone().unwrap_or_default().into()
}
