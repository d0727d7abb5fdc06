//! `etcdserverpb.Lease`: leases.

use http::Response;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};

use super::attributes;
use super::call::{Call, Context, Replies, Requests};
use super::message::RequestBody;
use super::rpc::Lease;
use super::status::{Code, Status};
use crate::body::Body;
use trace::Value;

pub(super) async fn serve<B: RequestBody>(rpc: Lease, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Lease::LeaseGrant => call.unary(grant).await,
        Lease::LeaseRevoke => call.unary(revoke).await,
        Lease::LeaseKeepAlive => call.bidi_stream(keep_alive).await,
        Lease::LeaseTimeToLive => call.unary(time_to_live).await,
        Lease::LeaseLeases => call.unary(leases).await,
    }
}

async fn grant(mut cx: Context, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
    cx.server().check_quota(membership::quota::LEASE_GRANT).await?;
    let mut part = cx.part("lease_grant", || attributes::lease_grant(&request));
    let granted = cx.server().lease_grant(&cx.who, request).await;
    let id = granted.as_ref().map_or(request.id, |granted| granted.id);
    part.iter_mut().for_each(|part| part.say("id", Value::Number(id)));
    Ok(granted?)
}

async fn revoke(
    mut cx: Context,
    request: LeaseRevokeRequest,
) -> Result<LeaseRevokeResponse, Status> {
    let _part = cx.part("lease_revoke", || attributes::lease(request.id));
    Ok(cx.server().lease_revoke(&cx.who, request).await?)
}

/// Renews leases one after the other, until the client has sent its last, or one cannot be renewed.
async fn keep_alive<B: RequestBody>(
    mut cx: Context,
    mut requests: Requests<B, LeaseKeepAliveRequest>,
    replies: Replies,
) -> Result<(), Status> {
    while let Some(LeaseKeepAliveRequest { id }) = next(&cx, &mut requests).await? {
        // From before the renewal: nobody is to see a lease alive at a revision that has its end.
        let header = Some(cx.header(cx.server().state().store.current()));
        let part = cx.part("lease_renew", || attributes::lease(id));
        let ttl = cx.server().lease_renew(&cx.who, id).await?;
        drop(part);
        replies.send(&LeaseKeepAliveResponse { header, id, ttl }).await?;
    }
    Ok(())
}

async fn next<B: RequestBody>(
    cx: &Context,
    requests: &mut Requests<B, LeaseKeepAliveRequest>,
) -> Result<Option<LeaseKeepAliveRequest>, Status> {
    let received = requests.next().await;
    if let Err(status) = &received
        && status.code != Code::Canceled
    {
        tracing::warn!(error = %status, "failed to receive lease keepalive request from gRPC stream");
        cx.shared().metrics.receive_failed("lease-keepalive");
    }
    received
}

async fn time_to_live(
    cx: Context,
    request: LeaseTimeToLiveRequest,
) -> Result<LeaseTimeToLiveResponse, Status> {
    Ok(cx.server().lease_time_to_live(&cx.who, request).await?)
}

async fn leases(cx: Context, request: LeaseLeasesRequest) -> Result<LeaseLeasesResponse, Status> {
    Ok(cx.server().lease_leases(&cx.who, request).await?)
}
