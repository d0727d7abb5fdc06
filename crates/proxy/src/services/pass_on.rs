//! Methods that are passed on to a member as they are. Those that only read are retried, as by
//! etcd's client.

use grpc::{RequestBody, Status};
use http::Response;
use proto::etcdserverpb::{self, AuthEnableRequest, AuthEnableResponse, SnapshotRequest};
use proto::v3electionpb::{self, LeaderRequest};
use proto::v3lockpb;
use tonic::Streaming;

use super::{GrpcBody, admit, admit_stream};
use crate::context::{Call, Context, Replies};
use crate::methods::Rpc;
use crate::upstream::from_tonic;

/// Passes a unary call on to a member.
macro_rules! pass_on {
    ($call:ident to $client:ident.$method:ident($request:ty)) => {{
        let pass = async |cx: $crate::context::Context, request: $request| {
            let request = cx.request(request)?;
            let answer = cx.upstream().$client().$method(request).await;
            answer.map(tonic::Response::into_inner).map_err($crate::upstream::from_tonic)
        };
        $call.unary($crate::services::admit, pass).await
    }};
}

/// Passes a unary call that only reads on to a member, and again while no member can answer it.
macro_rules! read_from {
    ($call:ident from $client:ident.$method:ident($request:ty)) => {{
        let read = async |cx: $crate::context::Context, request: $request| {
            let attempt = async || {
                let request = cx.request(<$request>::clone(&request))?;
                let answer = cx.upstream().$client().$method(request).await;
                answer.map(tonic::Response::into_inner).map_err($crate::upstream::from_tonic)
            };
            cx.upstream().retry_read(attempt).await
        };
        $call.unary($crate::services::admit, read).await
    }};
}

pub(super) async fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> Response<GrpcBody> {
    match rpc {
        Rpc::MemberAdd => pass_on!(call to cluster.member_add(etcdserverpb::MemberAddRequest)),
        Rpc::MemberRemove => {
            pass_on!(call to cluster.member_remove(etcdserverpb::MemberRemoveRequest))
        }
        Rpc::MemberUpdate => {
            pass_on!(call to cluster.member_update(etcdserverpb::MemberUpdateRequest))
        }
        Rpc::MemberPromote => {
            pass_on!(call to cluster.member_promote(etcdserverpb::MemberPromoteRequest))
        }
        Rpc::Alarm => pass_on!(call to maintenance.alarm(etcdserverpb::AlarmRequest)),
        Rpc::Status => read_from!(call from maintenance.status(etcdserverpb::StatusRequest)),
        Rpc::Defragment => {
            pass_on!(call to maintenance.defragment(etcdserverpb::DefragmentRequest))
        }
        Rpc::Hash => read_from!(call from maintenance.hash(etcdserverpb::HashRequest)),
        Rpc::HashKv => read_from!(call from maintenance.hash_kv(etcdserverpb::HashKvRequest)),
        Rpc::MoveLeader => {
            pass_on!(call to maintenance.move_leader(etcdserverpb::MoveLeaderRequest))
        }
        Rpc::Downgrade => pass_on!(call to maintenance.downgrade(etcdserverpb::DowngradeRequest)),
        Rpc::Snapshot => call.server_stream(admit_stream, snapshot).await,
        Rpc::Lock => pass_on!(call to lock.lock(v3lockpb::LockRequest)),
        Rpc::Unlock => pass_on!(call to lock.unlock(v3lockpb::UnlockRequest)),
        Rpc::Campaign => pass_on!(call to election.campaign(v3electionpb::CampaignRequest)),
        Rpc::Proclaim => pass_on!(call to election.proclaim(v3electionpb::ProclaimRequest)),
        Rpc::Leader => pass_on!(call to election.leader(v3electionpb::LeaderRequest)),
        Rpc::Resign => pass_on!(call to election.resign(v3electionpb::ResignRequest)),
        Rpc::Observe => call.server_stream(admit_stream, observe).await,
        rpc => auth(rpc, call).await,
    }
}

async fn auth<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> Response<GrpcBody> {
    match rpc {
        Rpc::AuthDisable => pass_on!(call to auth.auth_disable(etcdserverpb::AuthDisableRequest)),
        Rpc::AuthStatus => read_from!(call from auth.auth_status(etcdserverpb::AuthStatusRequest)),
        Rpc::Authenticate => pass_on!(call to auth.authenticate(etcdserverpb::AuthenticateRequest)),
        Rpc::UserAdd => pass_on!(call to auth.user_add(etcdserverpb::AuthUserAddRequest)),
        Rpc::UserGet => read_from!(call from auth.user_get(etcdserverpb::AuthUserGetRequest)),
        Rpc::UserList => read_from!(call from auth.user_list(etcdserverpb::AuthUserListRequest)),
        Rpc::UserDelete => pass_on!(call to auth.user_delete(etcdserverpb::AuthUserDeleteRequest)),
        Rpc::UserChangePassword => {
            pass_on!(call to auth.user_change_password(etcdserverpb::AuthUserChangePasswordRequest))
        }
        Rpc::UserGrantRole => {
            pass_on!(call to auth.user_grant_role(etcdserverpb::AuthUserGrantRoleRequest))
        }
        Rpc::UserRevokeRole => {
            pass_on!(call to auth.user_revoke_role(etcdserverpb::AuthUserRevokeRoleRequest))
        }
        Rpc::RoleAdd => pass_on!(call to auth.role_add(etcdserverpb::AuthRoleAddRequest)),
        Rpc::RoleGet => read_from!(call from auth.role_get(etcdserverpb::AuthRoleGetRequest)),
        Rpc::RoleList => read_from!(call from auth.role_list(etcdserverpb::AuthRoleListRequest)),
        Rpc::RoleDelete => pass_on!(call to auth.role_delete(etcdserverpb::AuthRoleDeleteRequest)),
        Rpc::RoleGrantPermission => {
            pass_on!(call to auth.role_grant_permission(etcdserverpb::AuthRoleGrantPermissionRequest))
        }
        Rpc::RoleRevokePermission => {
            pass_on!(call to auth.role_revoke_permission(etcdserverpb::AuthRoleRevokePermissionRequest))
        }
        // `serve` handles all others.
        _ => call.unary(admit, auth_enable).await,
    }
}

/// Enables authentication. What was readable by all until now may no longer be.
async fn auth_enable(
    cx: Context,
    request: AuthEnableRequest,
) -> Result<AuthEnableResponse, Status> {
    let request = cx.request(request)?;
    let answer = cx.upstream().auth().auth_enable(request).await.map_err(from_tonic)?;
    cx.shared().kv.forget();
    Ok(answer.into_inner())
}

async fn snapshot(cx: Context, request: SnapshotRequest, replies: Replies) -> Result<(), Status> {
    let request = cx.request(request)?;
    let parts = cx.upstream().maintenance().snapshot(request).await.map_err(from_tonic)?;
    copy(parts.into_inner(), replies).await
}

async fn observe(cx: Context, request: LeaderRequest, replies: Replies) -> Result<(), Status> {
    let request = cx.request(request)?;
    let leaders = cx.upstream().election().observe(request).await.map_err(from_tonic)?;
    copy(leaders.into_inner(), replies).await
}

/// Copies a stream. The next message is read when the client has taken the one before.
async fn copy<M: prost::Message + Default>(
    mut from: Streaming<M>,
    to: Replies,
) -> Result<(), Status> {
    while let Some(message) = from.message().await.map_err(from_tonic)? {
        to.send(&message).await?;
    }
    Ok(())
}
