//! `Auth` through the generated client, and the permissions of other methods.

use proto::authpb::Permission;
use proto::authpb::permission::Type;
use proto::etcdserverpb as pb;
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::cluster_client::ClusterClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use tonic::{Code, Request, Status};

use crate::support::{Channel, Fixture, message};

fn client(member: &Fixture) -> AuthClient<Channel> {
    AuthClient::new(member.channel())
}

/// Adds a token to a request.
fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("token", token.parse().unwrap());
    request
}

fn status_of(error: &Status) -> (Code, &str) {
    (error.code(), error.message())
}

async fn add_user(member: &Fixture, name: &str, role: &str) {
    let mut client = client(member);
    let (user, password) = (name.to_owned(), format!("{name}'s"));
    let add = pb::AuthUserAddRequest { name: user.clone(), password, ..Default::default() };
    client.user_add(add).await.unwrap();
    // The role root exists without being added, but may be added.
    client.role_add(pb::AuthRoleAddRequest { name: role.to_owned() }).await.unwrap();
    let grant = pb::AuthUserGrantRoleRequest { user, role: role.to_owned() };
    client.user_grant_role(grant).await.unwrap();
}

async fn token(member: &Fixture, name: &str) -> String {
    let password = format!("{name}'s");
    let request = pb::AuthenticateRequest { name: name.to_owned(), password };
    client(member).authenticate(request).await.unwrap().into_inner().token
}

/// Starts a member with auth enabled and the users root and alice, whose role may read `a`.
async fn with_auth() -> Fixture {
    let member = Fixture::start();
    add_user(&member, "root", "root").await;
    add_user(&member, "alice", "reader").await;
    let perm = Permission { perm_type: Type::Read.into(), key: "a".into(), ..Default::default() };
    let grant = pb::AuthRoleGrantPermissionRequest { name: "reader".to_owned(), perm: Some(perm) };
    client(&member).role_grant_permission(grant).await.unwrap();
    client(&member).auth_enable(pb::AuthEnableRequest {}).await.unwrap();
    member
}

#[tokio::test]
async fn users_and_roles_are_added_read_and_deleted() {
    let member = Fixture::start();
    add_user(&member, "bob", "writer").await;
    let mut client = client(&member);
    let status = client.auth_status(pb::AuthStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.enabled, status.auth_revision), (false, 4));
    assert_eq!(status.header, Some(member.server().header(1)));

    let bob = || "bob".to_owned();
    let user = client.user_get(pb::AuthUserGetRequest { name: bob() }).await.unwrap();
    assert_eq!(user.into_inner().roles, ["writer"]);
    let users = client.user_list(pb::AuthUserListRequest {}).await.unwrap().into_inner();
    assert_eq!(users.users, ["bob"]);
    let roles = client.role_list(pb::AuthRoleListRequest {}).await.unwrap().into_inner();
    assert_eq!(roles.roles, ["writer"]);

    let perm = Permission { perm_type: Type::Write.into(), key: "k".into(), ..Default::default() };
    let writer = || "writer".to_owned();
    let grant = pb::AuthRoleGrantPermissionRequest { name: writer(), perm: Some(perm.clone()) };
    client.role_grant_permission(grant).await.unwrap();
    let role = client.role_get(pb::AuthRoleGetRequest { role: writer() }).await.unwrap();
    assert_eq!(role.into_inner().perm, [perm]);
    let revoke = pb::AuthRoleRevokePermissionRequest {
        role: writer(),
        key: "k".into(),
        ..Default::default()
    };
    client.role_revoke_permission(revoke.clone()).await.unwrap();
    let error = client.role_revoke_permission(revoke).await.unwrap_err();
    let text = "etcdserver: permission is not granted to the role";
    assert_eq!(status_of(&error), (Code::FailedPrecondition, text));

    let password = "other".to_owned();
    let change = pb::AuthUserChangePasswordRequest { name: bob(), password, ..Default::default() };
    client.user_change_password(change).await.unwrap();
    let revoke = pb::AuthUserRevokeRoleRequest { name: bob(), role: writer() };
    client.user_revoke_role(revoke).await.unwrap();
    client.role_delete(pb::AuthRoleDeleteRequest { role: writer() }).await.unwrap();
    client.user_delete(pb::AuthUserDeleteRequest { name: bob() }).await.unwrap();
    let error = client.user_delete(pb::AuthUserDeleteRequest { name: bob() }).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::FailedPrecondition, "etcdserver: user name not found"));
}

#[tokio::test]
async fn enabling_auth_needs_root_and_only_root_disables_it() {
    let member = Fixture::start();
    let error = client(&member).auth_enable(pb::AuthEnableRequest {}).await.unwrap_err();
    assert_eq!(
        status_of(&error),
        (Code::FailedPrecondition, "etcdserver: root user does not exist")
    );

    let member = with_auth().await;
    let mut client = client(&member);
    let error = client.auth_disable(pb::AuthDisableRequest {}).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::InvalidArgument, "etcdserver: user name is empty"));
    let alice = token(&member, "alice").await;
    let error = client.auth_disable(with(&alice, pb::AuthDisableRequest {})).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::PermissionDenied, "etcdserver: permission denied"));
    let root = token(&member, "root").await;
    client.auth_disable(with(&root, pb::AuthDisableRequest {})).await.unwrap();
    client.user_list(pb::AuthUserListRequest {}).await.unwrap();
}

#[tokio::test]
async fn a_token_needs_the_password() {
    let member = with_auth().await;
    let wrong = pb::AuthenticateRequest { name: "alice".to_owned(), password: "guess".to_owned() };
    let error = client(&member).authenticate(wrong).await.unwrap_err();
    let text = "etcdserver: authentication failed, invalid user ID or password";
    assert_eq!(status_of(&error), (Code::InvalidArgument, text));

    let range = |key: &'static str| pb::RangeRequest { key: key.into(), ..Default::default() };
    let mut kv = KvClient::new(member.channel());
    let error = kv.range(with("unknown.1", range("a"))).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::Unauthenticated, "etcdserver: invalid auth token"));
    let alice = token(&member, "alice").await;
    kv.range(with(&alice, range("a"))).await.unwrap();
    let error = kv.range(with(&alice, range("b"))).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::PermissionDenied, "etcdserver: permission denied"));
}

#[tokio::test]
async fn auth_status_needs_no_user() {
    let member = with_auth().await;
    let status = client(&member).auth_status(pb::AuthStatusRequest {}).await.unwrap();
    assert!(status.into_inner().enabled);
}

/// Calls a method without a user, as alice and as root. Returns the codes of the refusals.
macro_rules! call_as_all {
    ($member:expr, $client:ident, $method:ident, $request:expr) => {{
        let mut codes = Vec::new();
        for name in ["", "alice", "root"] {
            let request = match name {
                "" => Request::new($request),
                name => with(&token($member, name).await, $request),
            };
            let response = $client::new($member.channel()).$method(request).await;
            codes.push(response.err().map(|error| error.code()));
        }
        codes
    }};
}

#[tokio::test]
async fn maintenance_needs_root_except_for_reads() {
    let member = with_auth().await;
    let member = &member;
    let users = [Some(Code::InvalidArgument), None, None];
    let admins = [Some(Code::InvalidArgument), Some(Code::PermissionDenied), None];
    let status = pb::StatusRequest {};
    assert_eq!(call_as_all!(member, MaintenanceClient, status, status), users);
    let alarms = pb::AlarmRequest::default();
    assert_eq!(call_as_all!(member, MaintenanceClient, alarm, alarms), users);
    let list = pb::MemberListRequest::default();
    assert_eq!(call_as_all!(member, ClusterClient, member_list, list), users);

    let clear = pb::AlarmRequest { action: 2, member_id: 1, alarm: 1 };
    assert_eq!(call_as_all!(member, MaintenanceClient, alarm, clear), admins);
    let defragment = pb::DefragmentRequest {};
    assert_eq!(call_as_all!(member, MaintenanceClient, defragment, defragment), admins);
    let hash = pb::HashRequest {};
    assert_eq!(call_as_all!(member, MaintenanceClient, hash, hash), admins);
    let hash_kv = pb::HashKvRequest::default();
    assert_eq!(call_as_all!(member, MaintenanceClient, hash_kv, hash_kv), admins);
    let to = pb::MoveLeaderRequest { target_id: member.server().local().0 };
    assert_eq!(call_as_all!(member, MaintenanceClient, move_leader, to), admins);
    let update = pb::MemberUpdateRequest {
        id: member.server().local().0,
        peer_urls: vec!["http://localhost:2382".to_owned()],
    };
    assert_eq!(call_as_all!(member, ClusterClient, member_update, update.clone()), admins);
}

#[tokio::test]
async fn a_snapshot_needs_root() {
    let member = with_auth().await;
    let mut client = MaintenanceClient::new(member.channel());
    let alice = token(&member, "alice").await;
    let refused = client.snapshot(with(&alice, pb::SnapshotRequest {})).await;
    let error = refused.map(|_| ()).unwrap_err();
    assert_eq!(status_of(&error), (Code::PermissionDenied, "etcdserver: permission denied"));
    let root = token(&member, "root").await;
    let mut sent = client.snapshot(with(&root, pb::SnapshotRequest {})).await.unwrap().into_inner();
    assert!(message(&mut sent).await.unwrap().is_some());
}
