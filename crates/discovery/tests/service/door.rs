//! Who is let in to a service, and who is told to show something else first.
//!
//! ```text
//!   open                   everybody, and there are no tokens to be had
//!   locked                 whoever shows the token that was handed out last
//!   refuse("put", old)     the next put is told that, and no token counts until another is handed out
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use proto::etcdserverpb::*;
use rpc::etcdserverpb::auth_server::Auth;
use tonic::codegen::async_trait;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
pub(crate) struct Door(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_locked: bool,
    /// What must be shown.
    token: Option<String>,
    /// What is told to the next who does this.
    refusals: BTreeMap<&'static str, Status>,
    /// How often somebody did this, let in or not.
    calls: BTreeMap<&'static str, u32>,
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// From now on somebody has to show a token: this, or the next that is handed out.
    pub(crate) fn lock(&self, token: Option<&str>) {
        let mut state = self.state();
        (state.is_locked, state.token) = (true, token.map(str::to_owned));
    }

    pub(crate) fn refuse(&self, call: &'static str, status: Status) {
        self.state().refusals.insert(call, status);
    }

    pub(crate) fn calls(&self, call: &str) -> u32 {
        self.state().calls.get(call).copied().unwrap_or(0)
    }

    /// As etcd answers.
    pub(crate) fn admit(&self, call: &'static str, shown: &MetadataMap) -> Result<(), Status> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        if let Some(status) = state.refusals.remove(call) {
            state.token = None;
            return Err(status);
        }
        match shown.get("token").map(|token| token.to_str().unwrap()) {
            _ if !state.is_locked => Ok(()),
            None => Err(Status::invalid_argument("etcdserver: user name is empty")),
            token if token == state.token.as_deref() => Ok(()),
            Some(_) => Err(Status::unauthenticated("etcdserver: invalid auth token")),
        }
    }

    fn hand_out(&self, AuthenticateRequest { name, password }: AuthenticateRequest) -> Answer {
        let mut state = self.state();
        let calls = state.calls.entry("authenticate").or_default();
        *calls += 1;
        let token = format!("token {calls}");
        if !state.is_locked {
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

/// The service of tokens, with what nobody asks for left out.
macro_rules! auth {
    ($($method:ident($ask:ident) -> $answer:ident;)*) => {
        #[async_trait]
        impl Auth for Door {
            async fn authenticate(&self, ask: Request<AuthenticateRequest>) -> Answer {
                self.hand_out(ask.into_inner())
            }

            $(async fn $method(&self, _: Request<$ask>) -> Result<Response<$answer>, Status> {
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
