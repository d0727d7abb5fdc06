//! Sends a recorded request to a member, as one of etcd's requests.

use std::pin::Pin;

use history::record::{
    Body, Compare, Delete, Op, Put, Range, Relation, Request, Response, Span, Target, Txn,
};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op;
use server::{Credentials, Error, Server};

use super::observed;

/// A pending response.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

/// Credentials without a user.
pub(crate) fn anonymous() -> Credentials {
    Credentials::default()
}

/// Sends a request to a member.
pub(crate) fn ask(server: Server, request: &Request, is_physical: bool) -> Answer<Response> {
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
                let reading = server.read_range(&anonymous(), &range).await?;
                Ok(observed::range(&reading.range(&range)?))
            })
        }
        Request::Txn(txn) => ask_txn(server, to_txn(txn)),
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
                // Takes the header before the response, as the API does.
                let revision = server.state().store.current();
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

/// Read-only transactions do not go through the log, as in the API.
fn ask_txn(server: Server, txn: pb::TxnRequest) -> Answer<Response> {
    Box::pin(async move {
        let done = if mvcc::txn::is_read_only(&txn) {
            let is_linearizable = !mvcc::txn::is_serializable(&txn);
            server.read(&anonymous(), is_linearizable).await?.txn(&txn)?
        } else {
            server.txn(&anonymous(), txn).await?
        };
        Ok(observed::txn(&done))
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
        range_end: end(&delete.span),
        prev_kv: delete.prev_kv,
    }
}

fn to_range(range: &Range) -> pb::RangeRequest {
    pb::RangeRequest {
        key: range.span.key.clone().into(),
        range_end: end(&range.span),
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
        range_end: end(&compare.span),
        target_union: Some(to),
    }
}

/// The end of a range in etcd's form: empty for a single key.
pub(super) fn end(span: &Span) -> bytes::Bytes {
    span.end.clone().unwrap_or_default().into()
}
