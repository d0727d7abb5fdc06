//! `etcdserverpb.Maintenance`: what administrators ask of a member.
//!
//! Any user may ask for its status and for alarms; all else takes the role root. A member without a vote gives its status and a snapshot.
//!
//! Compat: as in etcd, the answers to Defragment and MoveLeader have no header.

use http::Response;
use proto::etcdserverpb as pb;

use super::auth::pass_on;
use super::call::{Call, Context, Replies};
use super::message::RequestBody;
use super::rpc::Maintenance;
use super::snapshot::Snapshot;
use super::status::Status;
use crate::body::Body;

pub(super) async fn serve<B: RequestBody>(rpc: Maintenance, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Maintenance::Alarm => pass_on!(call to alarm),
        Maintenance::Status => call.unary_for_learners(|_: &pb::StatusRequest| true, status).await,
        Maintenance::Defragment => call.unary(defragment).await,
        Maintenance::Hash => call.unary(hash).await,
        Maintenance::HashKV => call.unary(hash_kv).await,
        Maintenance::Snapshot => call.server_stream(true, snapshot).await,
        Maintenance::MoveLeader => call.unary(move_leader).await,
        Maintenance::Downgrade => pass_on!(call to downgrade),
    }
}

async fn status(cx: Context, _: pb::StatusRequest) -> Result<pb::StatusResponse, Status> {
    Ok(cx.server().status(&cx.who).await?)
}

/// Goes on to the end even if whoever asked for it does not wait: what health says of it has to be true.
async fn defragment(
    cx: Context,
    _: pb::DefragmentRequest,
) -> Result<pb::DefragmentResponse, Status> {
    cx.server().check_admin(&cx.who).await?;
    let work = tokio::spawn(async move {
        let _defragments = cx.shared().health.defragments();
        cx.server().defragment(&cx.who).await
    });
    match work.await {
        Ok(done) => Ok(done.map(|()| pb::DefragmentResponse::default())?),
        Err(error) => Err(Status::unknown(&error)),
    }
}

async fn hash(cx: Context, _: pb::HashRequest) -> Result<pb::HashResponse, Status> {
    Ok(cx.server().hash(&cx.who).await?)
}

async fn hash_kv(cx: Context, request: pb::HashKvRequest) -> Result<pb::HashKvResponse, Status> {
    Ok(cx.server().hash_kv(&cx.who, request.revision).await?)
}

async fn snapshot(cx: Context, _: pb::SnapshotRequest, replies: Replies) -> Result<(), Status> {
    cx.server().check_admin(&cx.who).await?;
    let mut snapshot = Snapshot::begin(cx.server(), &cx.shared().snapshots)?;
    while let Some(piece) = snapshot.next().await? {
        replies.send(&piece).await?;
    }
    Ok(())
}

async fn move_leader(
    cx: Context,
    request: pb::MoveLeaderRequest,
) -> Result<pb::MoveLeaderResponse, Status> {
    cx.server().move_leader(&cx.who, request.target_id).await?;
    Ok(pb::MoveLeaderResponse::default())
}
