//! The authentication of the fake service.
//!
//! ```text
//!   disabled               every request is accepted, and no tokens are issued
//!   require_token          requests need the last issued token
//!   refuse("put", error)   the next put fails with this error, and the token becomes invalid
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use proto::etcdserverpb::*;
use rpc::etcdserverpb::auth_server::Auth;
use tonic::codegen::async_trait;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
pub(crate) struct FakeAuth(Arc<Mutex<AuthState>>);

#[derive(Default)]
struct AuthState {
    requires_token: bool,
    /// The valid token.
    token: Option<String>,
    /// The error for the next call of a method.
    refusals: BTreeMap<&'static str, Status>,
    /// The number of calls of each method.
    calls: BTreeMap<&'static str, u32>,
}

impl FakeAuth {
    fn state(&self) -> MutexGuard<'_, AuthState> {
        self.0.lock().unwrap()
    }

    /// Requires a token: this one, or the next that is issued.
    pub(crate) fn require_token(&self, token: Option<&str>) {
        let mut state = self.state();
        (state.requires_token, state.token) = (true, token.map(str::to_owned));
    }

    pub(crate) fn refuse(&self, call: &'static str, status: Status) {
        self.state().refusals.insert(call, status);
    }

    pub(crate) fn calls(&self, call: &str) -> u32 {
        self.state().calls.get(call).copied().unwrap_or(0)
    }

    /// Checks a request as etcd does.
    pub(crate) fn admit(&self, call: &'static str, shown: &MetadataMap) -> Result<(), Status> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        if let Some(status) = state.refusals.remove(call) {
            state.token = None;
            return Err(status);
        }
        match shown.get("token").map(|token| token.to_str().unwrap()) {
            _ if !state.requires_token => Ok(()),
            None => Err(Status::invalid_argument("etcdserver: user name is empty")),
            token if token == state.token.as_deref() => Ok(()),
            Some(_) => Err(Status::unauthenticated("etcdserver: invalid auth token")),
        }
    }

    fn issue_token(&self, AuthenticateRequest { name, password }: AuthenticateRequest) -> Answer {
        let mut state = self.state();
        let calls = state.calls.entry("authenticate").or_default();
        *calls += 1;
        let token = format!("token {calls}");
        if !state.requires_token {
            let text = "etcdserver: authentication is not enabled";
            return Err(Status::failed_precondition(text));
        }
        if (name.as_str(), password.as_str()) != ("root", "secret") {
            let text = "etcdserver: authentication failed, invalid user ID or password";
            return Err(Status::invalid_argument(text));
        }
        state.token = Some(token.clone());
        Ok(Response::new(AuthenticateResponse { token, ..AuthenticateResponse::default() }))
    }
}

type Answer = Result<Response<AuthenticateResponse>, Status>;

/// Implements the auth service; all methods but one are unimplemented.
macro_rules! auth {
    ($($method:ident($request:ident) -> $answer:ident;)*) => {
        #[async_trait]
        impl Auth for FakeAuth {
            async fn authenticate(&self, request: Request<AuthenticateRequest>) -> Answer {
                self.issue_token(request.into_inner())
            }

            $(async fn $method(&self, _: Request<$request>) -> Result<Response<$answer>, Status> {
                Err(Status::unimplemented("not here"))
            })*
        }
    };
}

auth! {
    auth_enable(AuthEnableRequest) -> AuthEnableResponse;
    auth_disable(AuthDisableRequest) -> AuthDisableResponse;
    auth_status(AuthStatusRequest) -> AuthStatusResponse;
    user_add(AuthUserAddRequest) -> AuthUserAddResponse;
    user_get(AuthUserGetRequest) -> AuthUserGetResponse;
    user_list(AuthUserListRequest) -> AuthUserListResponse;
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse;
    user_change_password(AuthUserChangePasswordRequest) -> AuthUserChangePasswordResponse;
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse;
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse;
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse;
    role_get(AuthRoleGetRequest) -> AuthRoleGetResponse;
    role_list(AuthRoleListRequest) -> AuthRoleListResponse;
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse;
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse;
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse;
}
