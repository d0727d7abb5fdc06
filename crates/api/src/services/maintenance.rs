//! `etcdserverpb.Maintenance`: administration of a member.
//!
//! Any user may call Status and Alarm; all other methods need the role root. A learner serves
//! Status and Snapshot.
//!
//! Compat: as in etcd, the responses of Defragment and MoveLeader have no header.

use grpc::RequestBody;
use proto::etcdserverpb as pb;

use super::auth::forward;
use super::snapshot::SnapshotStream;
use crate::body::GrpcResponse;
use crate::context::{Call, Context, Replies};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Maintenance;

pub(super) fn serve<B: RequestBody>(rpc: Maintenance, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Maintenance::Alarm => forward!(call to alarm),
        Maintenance::Status => {
            call.unary(interceptor::unary_on_learner(|_: &pb::StatusRequest| true), status)
        }
        Maintenance::Defragment => call.unary(interceptor::unary, defragment),
        Maintenance::Hash => call.unary(interceptor::unary, hash),
        Maintenance::HashKV => call.unary(interceptor::unary, hash_kv),
        Maintenance::Snapshot => call.server_stream(interceptor::stream_on_learner, snapshot),
        Maintenance::MoveLeader => call.unary(interceptor::unary, move_leader),
        Maintenance::Downgrade => forward!(call to downgrade),
    }
}

async fn status(cx: Context, _: pb::StatusRequest) -> Result<pb::StatusResponse, CallError> {
    Ok(cx.server().status(&cx.credentials).await?)
}

/// Defragments to the end even if the client cancels, so that the health service reports it
/// correctly.
async fn defragment(
    cx: Context,
    _: pb::DefragmentRequest,
) -> Result<pb::DefragmentResponse, CallError> {
    cx.server().check_admin(&cx.credentials).await?;
    let work = tokio::spawn(async move {
        let _guard = cx.shared().health.defragmenting();
        cx.server().defragment(&cx.credentials).await
    });
    match work.await {
        Ok(done) => Ok(done.map(|()| pb::DefragmentResponse::default())?),
        Err(error) => Err(CallError::unknown(&error)),
    }
}

async fn hash(cx: Context, _: pb::HashRequest) -> Result<pb::HashResponse, CallError> {
    Ok(cx.server().hash(&cx.credentials).await?)
}

async fn hash_kv(cx: Context, request: pb::HashKvRequest) -> Result<pb::HashKvResponse, CallError> {
    Ok(cx.server().hash_kv(&cx.credentials, request.revision).await?)
}

async fn snapshot(cx: Context, _: pb::SnapshotRequest, replies: Replies) -> Result<(), CallError> {
    cx.server().check_admin(&cx.credentials).await?;
    let mut snapshot = SnapshotStream::start(cx.server(), &cx.shared().snapshots)?;
    while let Some(chunk) = snapshot.next().await? {
        replies.send(&chunk).await?;
    }
    Ok(())
}

async fn move_leader(
    cx: Context,
    request: pb::MoveLeaderRequest,
) -> Result<pb::MoveLeaderResponse, CallError> {
    cx.server().move_leader(&cx.credentials, request.target_id).await?;
    Ok(pb::MoveLeaderResponse::default())
}
