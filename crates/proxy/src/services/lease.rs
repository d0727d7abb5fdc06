//! `etcdserverpb.Lease`.

use grpc::{RequestBody, Status};
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};

use tokio::task::JoinSet;

use crate::context::{Context, Replies, Requests, has_token, token_alone};
use crate::keep_alive::KeepAlives;
use crate::upstream::from_tonic;

pub(super) async fn grant(
    cx: Context,
    request: LeaseGrantRequest,
) -> Result<LeaseGrantResponse, Status> {
    let request = cx.request(request)?;
    let granted = cx.upstream().lease().lease_grant(request).await.map_err(from_tonic)?;
    Ok(granted.into_inner())
}

/// Revokes a lease. The cache keeps the keys that this deletes, because the proxy does not know
/// which keys are attached: serializable reads may still return them.
pub(super) async fn revoke(
    cx: Context,
    request: LeaseRevokeRequest,
) -> Result<LeaseRevokeResponse, Status> {
    let request = cx.request(request)?;
    let revoked = cx.upstream().lease().lease_revoke(request).await.map_err(from_tonic)?;
    Ok(revoked.into_inner())
}

/// Returns the remaining time and, on request, the keys of the namespace.
pub(super) async fn time_to_live(
    cx: Context,
    request: LeaseTimeToLiveRequest,
) -> Result<LeaseTimeToLiveResponse, Status> {
    let read = async |bytes_max| {
        let mut lease = cx.upstream().lease().max_decoding_message_size(bytes_max);
        lease.lease_time_to_live(cx.request(request)?).await.map_err(from_tonic)
    };
    let attempt = || cx.upstream().read(cx.send_budget(), &read);
    let mut answer = cx.upstream().retry_read(attempt).await?.into_inner();
    let namespace = &cx.shared().namespace;
    answer.keys = answer.keys.iter().filter_map(|key| namespace.strip(key)).collect();
    Ok(answer)
}

/// Lists all leases.
pub(super) async fn leases(
    cx: Context,
    request: LeaseLeasesRequest,
) -> Result<LeaseLeasesResponse, Status> {
    let read = async |bytes_max| {
        let mut lease = cx.upstream().lease().max_decoding_message_size(bytes_max);
        lease.lease_leases(cx.request(request)?).await.map_err(from_tonic)
    };
    let attempt = || cx.upstream().read(cx.send_budget(), &read);
    Ok(cx.upstream().retry_read(attempt).await?.into_inner())
}

/// Renews leases over the stream that all clients share, or over one of its own for a client with
/// credentials.
pub(super) async fn keep_alive<B: RequestBody>(
    cx: Context,
    mut requests: Requests<B, LeaseKeepAliveRequest>,
    replies: Replies,
) -> Result<(), Status> {
    // Ends its task when the call ends.
    let mut own = JoinSet::new();
    let mut renewals = if has_token(cx.metadata()) {
        let metadata = token_alone(cx.metadata());
        let (keep_alives, run) = KeepAlives::new(cx.upstream().clone(), metadata);
        own.spawn(run);
        keep_alives.client()
    } else {
        cx.shared().keep_alives.client()
    };
    let mut open = true;
    loop {
        // A client that sends more than it reads waits here.
        let reads = open && renewals.has_room();
        tokio::select! {
            biased;
            answer = renewals.next() => {
                replies.send(&answer?).await?;
            }
            request = requests.next(), if reads => match request? {
                Some(request) => renewals.renew(request.id),
                None => open = false,
            },
        }
        if !open && renewals.is_idle() {
            return Ok(());
        }
    }
}
