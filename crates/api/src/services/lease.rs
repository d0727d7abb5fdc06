//! `etcdserverpb.Lease`: leases.

use grpc::{Code, RequestBody};
use prost::Message as _;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use trace::Value;

use crate::body::GrpcResponse;
use crate::context::{Call, Context, Replies, Requests};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Lease;
use crate::observe::attributes;

pub(super) fn serve<B: RequestBody>(rpc: Lease, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Lease::LeaseGrant => call.unary(interceptor::unary, grant),
        Lease::LeaseRevoke => call.unary(interceptor::unary, revoke),
        Lease::LeaseKeepAlive => call.bidi_stream(interceptor::stream, keep_alive),
        Lease::LeaseTimeToLive => call.unary(interceptor::unary, time_to_live),
        Lease::LeaseLeases => call.unary(interceptor::unary, leases),
    }
}

async fn grant(
    mut cx: Context,
    request: LeaseGrantRequest,
) -> Result<LeaseGrantResponse, CallError> {
    cx.server().check_quota(&request).await?;
    let mut span = cx.span("lease_grant", || attributes::lease_grant(&request));
    let granted = cx.server().lease_grant(&cx.credentials, request).await;
    let id = granted.as_ref().map_or(request.id, |granted| granted.id);
    span.iter_mut().for_each(|span| span.add("id", Value::Number(id)));
    Ok(granted?)
}

async fn revoke(
    mut cx: Context,
    request: LeaseRevokeRequest,
) -> Result<LeaseRevokeResponse, CallError> {
    let _span = cx.span("lease_revoke", || attributes::lease(request.id));
    Ok(cx.server().lease_revoke(&cx.credentials, request).await?)
}

/// Renews leases one after the other, until the client has sent its last request or a renewal
/// fails.
async fn keep_alive<B: RequestBody>(
    mut cx: Context,
    mut requests: Requests<B, LeaseKeepAliveRequest>,
    replies: Replies,
) -> Result<(), CallError> {
    while let Some(LeaseKeepAliveRequest { id }) = next(&cx, &mut requests).await? {
        // The revision from before the renewal: a client must not see a lease alive at a revision
        // that includes its end.
        let header = Some(cx.header(cx.server().current_revision()));
        let span = cx.span("lease_renew", || attributes::lease(id));
        let ttl = cx.server().lease_renew(&cx.credentials, id).await?;
        drop(span);
        replies.send(&LeaseKeepAliveResponse { header, id, ttl }).await?;
    }
    Ok(())
}

async fn next<B: RequestBody>(
    cx: &Context,
    requests: &mut Requests<B, LeaseKeepAliveRequest>,
) -> Result<Option<LeaseKeepAliveRequest>, CallError> {
    let received = requests.next().await;
    if let Err(status) = &received
        && status.code != Code::Canceled
    {
        tracing::warn!(error = %status, "failed to receive lease keepalive request from gRPC stream");
        cx.shared().metrics.receive_failed("lease-keepalive");
    }
    Ok(received?)
}

async fn time_to_live(
    cx: Context,
    request: LeaseTimeToLiveRequest,
) -> Result<LeaseTimeToLiveResponse, CallError> {
    let read = || cx.server().lease_time_to_live(&cx.credentials, request);
    // With its keys, a reply may be long.
    match cx.keep_if_room(request.encoded_len(), read().await?).await? {
        Some(reply) => Ok(reply),
        None => Ok(read().await?),
    }
}

async fn leases(
    cx: Context,
    request: LeaseLeasesRequest,
) -> Result<LeaseLeasesResponse, CallError> {
    let read = || cx.server().lease_leases(&cx.credentials, request);
    match cx.keep_if_room(request.encoded_len(), read().await?).await? {
        Some(reply) => Ok(reply),
        None => Ok(read().await?),
    }
}
