//! The gRPC services of a proxy.
//!
//! ```text
//!   KV           cache, ordering, namespace        kv
//!   Watch        coalesced                         watch
//!   Lease        keep-alives coalesced             lease
//!   Cluster      proxies as members, or passed on  cluster
//!   Maintenance, Auth, Lock, Election              passed on
//! ```

mod lease;
mod pass_on;
mod watch;

use std::sync::Arc;

use grpc::{Code, Reply, RequestBody, Status};
use http::Response;
use proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, MemberListRequest, PutRequest, RangeRequest,
    RangeResponse,
};
use proto::nested::{NestedTxn, NestedTxnResponse};

use crate::context::{Call, Context, Replies};
use crate::errors;
use crate::methods::Rpc;
use crate::observe::CallObserver;

/// The body of a gRPC response with our observer.
pub(crate) type GrpcBody = grpc::Body<CallObserver>;

/// Admits a unary call: the member decides.
fn admit<Q>(_: &Context, _: &Q) -> Result<(), Status> {
    Ok(())
}

/// Admits a stream. Returns whether it ends when the leader is lost.
fn admit_stream(cx: &Context) -> Result<bool, Status> {
    match cx.needs_leader() && cx.shared().leader.is_lost() {
        true => Err(errors::no_leader()),
        false => Ok(cx.needs_leader()),
    }
}

/// Hands a call to its handler.
pub(crate) async fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> Response<GrpcBody> {
    match rpc {
        Rpc::Range => call.unary(admit, range).await,
        Rpc::RangeStream => call.server_stream(admit_stream, range_stream).await,
        Rpc::Put => {
            let put = async |cx: Context, request: PutRequest| {
                cx.shared().kv.put(cx.metadata(), request).await
            };
            call.unary(admit, put).await
        }
        Rpc::DeleteRange => {
            let delete = async |cx: Context, request: DeleteRangeRequest| {
                cx.shared().kv.delete_range(cx.metadata(), request, cx.send_budget()).await
            };
            call.unary(admit, delete).await
        }
        Rpc::Txn => {
            let txn = async |cx: Context, NestedTxn(request): NestedTxn| {
                let kv = &cx.shared().kv;
                kv.txn(cx.metadata(), request, cx.send_budget()).await.map(NestedTxnResponse)
            };
            call.unary(admit, txn).await
        }
        Rpc::Compact => {
            let compact = async |cx: Context, request: CompactionRequest| {
                cx.shared().kv.compact(cx.metadata(), request).await
            };
            call.unary(admit, compact).await
        }
        Rpc::Watch => call.bidi_stream(admit_stream, watch::watch).await,
        Rpc::LeaseGrant => call.unary(admit, lease::grant).await,
        Rpc::LeaseRevoke => call.unary(admit, lease::revoke).await,
        Rpc::LeaseTimeToLive => call.unary(admit, lease::time_to_live).await,
        Rpc::LeaseLeases => call.unary(admit, lease::leases).await,
        Rpc::LeaseKeepAlive => call.bidi_stream(admit_stream, lease::keep_alive).await,
        Rpc::MemberList => {
            let list = async |cx: Context, request: MemberListRequest| {
                cx.shared().cluster.list(&cx, request).await
            };
            call.unary(admit, list).await
        }
        rpc => pass_on::serve(rpc, call).await,
    }
}

async fn range(cx: Context, request: RangeRequest) -> Result<CachedReply, Status> {
    let kv = &cx.shared().kv;
    kv.range(cx.metadata(), request, cx.send_budget()).await.map(CachedReply)
}

/// Compat: as in etcd.
async fn range_stream(_: Context, _: RangeRequest, _: Replies) -> Result<(), Status> {
    Err(Status::new(Code::Unimplemented, "RangeStream is not supported by the gRPC proxy"))
}

/// A response that the cache may share.
#[derive(Debug)]
struct CachedReply(Arc<RangeResponse>);

impl Reply for CachedReply {
    fn size_hint(&self) -> usize {
        prost::Message::encoded_len(&*self.0)
    }

    fn write(&self, out: &mut bytes::BytesMut) {
        self.0.write(out);
    }
}
