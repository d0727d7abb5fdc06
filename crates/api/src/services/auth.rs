//! `etcdserverpb.Auth`: users, roles and permissions. All requests are forwarded to the server.
//!
//! The server also checks the caller: only the role root may change or list everything; users may
//! read themselves and their roles; AuthStatus and Authenticate are open to all.

use grpc::RequestBody;
use proto::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};

use crate::body::GrpcResponse;
use crate::context::{Call, Context};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Auth;

/// Forwards a unary call to a method of the server.
macro_rules! forward {
    ($call:ident to $method:ident) => {
        $call.unary($crate::interceptor::unary, async |cx: Context, request| {
            Ok::<_, $crate::errors::CallError>(cx.server().$method(&cx.credentials, request).await?)
        })
    };
}
pub(super) use forward;

pub(super) fn serve<B: RequestBody>(rpc: Auth, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Auth::AuthEnable => forward!(call to auth_enable),
        Auth::AuthDisable => forward!(call to auth_disable),
        Auth::AuthStatus => forward!(call to auth_status),
        Auth::Authenticate => call.unary(interceptor::unary, authenticate),
        Auth::UserAdd => forward!(call to user_add),
        Auth::UserGet => forward!(call to user_get),
        Auth::UserList => forward!(call to user_list),
        Auth::UserDelete => forward!(call to user_delete),
        Auth::UserChangePassword => forward!(call to user_change_password),
        Auth::UserGrantRole => forward!(call to user_grant_role),
        Auth::UserRevokeRole => forward!(call to user_revoke_role),
        Auth::RoleAdd => forward!(call to role_add),
        Auth::RoleGet => forward!(call to role_get),
        Auth::RoleList => forward!(call to role_list),
        Auth::RoleDelete => forward!(call to role_delete),
        Auth::RoleGrantPermission => forward!(call to role_grant_permission),
        Auth::RoleRevokePermission => forward!(call to role_revoke_permission),
    }
}

/// Without credentials: a client that asks for a token has none yet.
async fn authenticate(
    cx: Context,
    request: AuthenticateRequest,
) -> Result<AuthenticateResponse, CallError> {
    Ok(cx.server().authenticate(request).await?)
}
