//! `etcdserverpb.Auth`: users, roles and what they may do. All of it is done by the server.
//!
//! Who may ask is decided where it is done: only the role root changes anything or lists everything; users may look at themselves and at the roles they have;
//! whether users are asked for at all, and how to become one, is told to anybody.

use http::Response;
use proto::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};

use super::call::{Call, Context};
use super::message::RequestBody;
use super::rpc::Auth;
use super::status::Status;
use crate::body::Body;

/// Answers a call with what the server makes of it.
macro_rules! pass_on {
    ($call:ident to $request:ident) => {
        $call
            .unary(async |cx: Context, asked| Ok(cx.server().$request(&cx.who, asked).await?))
            .await
    };
}
pub(super) use pass_on;

pub(super) async fn serve<B: RequestBody>(rpc: Auth, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Auth::AuthEnable => pass_on!(call to auth_enable),
        Auth::AuthDisable => pass_on!(call to auth_disable),
        Auth::AuthStatus => pass_on!(call to auth_status),
        Auth::Authenticate => call.unary(authenticate).await,
        Auth::UserAdd => pass_on!(call to user_add),
        Auth::UserGet => pass_on!(call to user_get),
        Auth::UserList => pass_on!(call to user_list),
        Auth::UserDelete => pass_on!(call to user_delete),
        Auth::UserChangePassword => pass_on!(call to user_change_password),
        Auth::UserGrantRole => pass_on!(call to user_grant_role),
        Auth::UserRevokeRole => pass_on!(call to user_revoke_role),
        Auth::RoleAdd => pass_on!(call to role_add),
        Auth::RoleGet => pass_on!(call to role_get),
        Auth::RoleList => pass_on!(call to role_list),
        Auth::RoleDelete => pass_on!(call to role_delete),
        Auth::RoleGrantPermission => pass_on!(call to role_grant_permission),
        Auth::RoleRevokePermission => pass_on!(call to role_revoke_permission),
    }
}

/// Whoever asks for a token has none yet.
async fn authenticate(
    cx: Context,
    request: AuthenticateRequest,
) -> Result<AuthenticateResponse, Status> {
    Ok(cx.server().authenticate(request).await?)
}
