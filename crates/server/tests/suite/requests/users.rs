//! Authentication and permissions: users, roles, passwords and tokens.

use std::time::Duration;

use pb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest,
    AuthRoleGetRequest, AuthRoleGrantPermissionRequest, AuthRoleListRequest,
    AuthRoleRevokePermissionRequest, AuthStatusRequest, AuthUserAddRequest,
    AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGetRequest,
    AuthUserGrantRoleRequest, AuthUserListRequest, AuthUserRevokeRoleRequest, AuthenticateRequest,
};
use proto::authpb::permission::Type;
use proto::authpb::{Permission, UserAddOptions};
use proto::etcdserverpb as pb;
use server::{Credentials, Error, Refusal, Server};
use simkit::poll_once;

use super::{
    ANONYMOUS, TestMember, block_on, put_request, range_request, start_with_clock, wait_until,
};

fn refused(error: auth::Error) -> Error {
    Error::Refused(Refusal::Auth(error))
}

fn add_user(server: &Server, credentials: &Credentials, name: &str, password: &str) {
    let (name, password) = (name.to_owned(), password.to_owned());
    let add = AuthUserAddRequest { name, password, ..Default::default() };
    block_on(server.user_add(credentials, add)).unwrap();
}

fn grant_role(server: &Server, credentials: &Credentials, user: &str, role: &str) {
    let (user, role) = (user.to_owned(), role.to_owned());
    block_on(server.user_grant_role(credentials, AuthUserGrantRoleRequest { user, role })).unwrap();
}

fn token(server: &Server, name: &str, password: &str) -> Result<Credentials, Error> {
    let (name, password) = (name.to_owned(), password.to_owned());
    let response = block_on(server.authenticate(AuthenticateRequest { name, password }))?;
    Ok(Credentials { token: Some(response.token), ..Credentials::default() })
}

fn put(server: &Server, credentials: &Credentials, key: &str) -> Result<i64, Error> {
    Ok(block_on(server.put(credentials, put_request(key, "x")))?.revision)
}

/// Enables auth with the users root and alice, who may read and write `[a, c)`. Returns the tokens
/// of both.
pub(super) fn enable(server: &Server) -> (Credentials, Credentials) {
    add_user(server, ANONYMOUS, "root", "rootpw");
    grant_role(server, ANONYMOUS, "root", "root");
    add_user(server, ANONYMOUS, "alice", "alicepw");
    let web = AuthRoleAddRequest { name: "web".to_owned() };
    block_on(server.role_add(ANONYMOUS, web)).unwrap();
    let (key, range_end) = ("a".into(), "c".into());
    let perm = Some(Permission { perm_type: Type::Readwrite.into(), key, range_end });
    let grant = AuthRoleGrantPermissionRequest { name: "web".to_owned(), perm };
    block_on(server.role_grant_permission(ANONYMOUS, grant)).unwrap();
    grant_role(server, ANONYMOUS, "alice", "web");
    block_on(server.auth_enable(ANONYMOUS, AuthEnableRequest {})).unwrap();
    (token(server, "root", "rootpw").unwrap(), token(server, "alice", "alicepw").unwrap())
}

#[test]
fn a_put_needs_a_valid_token_and_permission() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    assert_eq!(put(&server, &alice, "a"), Ok(2));
    assert_eq!(put(&server, &root, "x"), Ok(3));
    assert_eq!(put(&server, &alice, "x"), Err(refused(auth::Error::PermissionDenied)));
    assert_eq!(put(&server, ANONYMOUS, "a"), Err(refused(auth::Error::UserEmpty)));
    let bearer = alice.token.as_ref().map(|token| format!("Bearer {token}"));
    assert_eq!(put(&server, &Credentials { token: bearer, ..alice.clone() }, "b"), Ok(4));
    let unknown =
        Credentials { token: Some("abcdefghijklmnop.1".to_owned()), ..Credentials::default() };
    assert_eq!(put(&server, &unknown, "a"), Err(refused(auth::Error::InvalidAuthToken)));
    let header = server.state().auth().revision();
    let info = block_on(server.auth_info(&alice)).unwrap().unwrap();
    assert_eq!((info.username.as_str(), info.revision), ("alice", header));
}

#[test]
fn a_range_needs_a_valid_token_and_permission() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    put(&server, &root, "x").unwrap();
    let read = |credentials: &Credentials, key: &str, end: &str| {
        let reading = block_on(server.read(credentials, true))?;
        reading.range(&range_request(key, end)).map(|range| range.count)
    };
    assert_eq!(read(&alice, "a", "c"), Ok(0));
    assert_eq!(read(&alice, "a", "z"), Err(refused(auth::Error::PermissionDenied)));
    assert_eq!(read(&root, "a", "z"), Ok(1));
    assert_eq!(read(ANONYMOUS, "a", ""), Err(refused(auth::Error::UserEmpty)));
    let reading = block_on(server.read(&alice, true)).unwrap();
    let denied = reading.stream(range_request("a", "z")).unwrap_err();
    assert_eq!(denied, refused(auth::Error::PermissionDenied));
    let reading = block_on(server.read_as_root(false)).unwrap();
    assert_eq!(reading.range(&range_request("a", "z")).unwrap().count, 1);
}

#[test]
fn a_change_of_users_ends_reads_in_progress() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    (0..20).for_each(|n| assert!(put(&server, &alice, &format!("a{n:02}")).is_ok()));
    let reading = block_on(server.read(&alice, true)).unwrap();
    let begun = block_on(server.read(&alice, true)).unwrap();
    let mut stream = begun.stream(range_request("a", "c")).unwrap();
    stream.next().unwrap().unwrap();
    add_user(&server, &root, "bob", "bobpw");
    let old = refused(auth::Error::AuthOldRevision);
    assert_eq!(reading.range(&range_request("a", "")).unwrap_err(), old);
    assert_eq!(stream.next(), Some(Err(old)));
    assert_eq!(stream.next(), None);
    assert_eq!(put(&server, &alice, "a"), Ok(22), "a simple token is valid at any auth revision");
}

#[test]
fn authentication_fails_alike_for_unknown_users_and_wrong_passwords() {
    let running = TestMember::builder().start();
    let server = running.server();
    let disabled = token(&server, "root", "rootpw").unwrap_err();
    assert_eq!(disabled, refused(auth::Error::AuthNotEnabled));
    let (root, _) = enable(&server);
    let failed = refused(auth::Error::AuthFailed);
    assert_eq!(token(&server, "alice", "rootpw").unwrap_err(), failed);
    assert_eq!(token(&server, "bob", "rootpw").unwrap_err(), failed);
    let options = Some(UserAddOptions { no_password: true });
    let add = AuthUserAddRequest { name: "cert".to_owned(), options, ..Default::default() };
    block_on(server.user_add(&root, add)).unwrap();
    let none = refused(auth::Error::NoPasswordUser);
    assert_eq!(token(&server, "cert", "").unwrap_err(), none);
}

#[test]
fn a_changed_password_invalidates_the_tokens_of_the_user() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    let (name, password) = ("alice".to_owned(), "new".to_owned());
    let change = AuthUserChangePasswordRequest { name, password, ..Default::default() };
    block_on(server.user_change_password(&root, change)).unwrap();
    assert_eq!(put(&server, &alice, "a"), Err(refused(auth::Error::InvalidAuthToken)));
    let failed = refused(auth::Error::AuthFailed);
    assert_eq!(token(&server, "alice", "alicepw").unwrap_err(), failed);
    assert_eq!(put(&server, &token(&server, "alice", "new").unwrap(), "a"), Ok(2));
}

#[test]
fn permissions_are_checked_before_a_password_is_hashed() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    let long = || AuthUserAddRequest {
        name: "bob".to_owned(),
        password: "x".repeat(73),
        ..Default::default()
    };
    let denied = block_on(server.user_add(&alice, long())).unwrap_err();
    assert_eq!(denied, refused(auth::Error::PermissionDenied));
    let empty = block_on(server.user_add(ANONYMOUS, long())).unwrap_err();
    assert_eq!(empty, refused(auth::Error::UserEmpty));
    let error = block_on(server.user_add(&root, long())).unwrap_err();
    assert_eq!(error.to_string(), "bcrypt: password length exceeds 72 bytes");
}

#[test]
fn passwords_are_not_written_to_the_log() {
    let mut running = TestMember::builder().start();
    let server = running.server();
    let (root, _) = enable(&server);
    let (name, password) = ("alice".to_owned(), "swordfish-changed".to_owned());
    let change = AuthUserChangePasswordRequest { name, password, ..Default::default() };
    block_on(server.user_change_password(&root, change)).unwrap();
    put(&server, &root, "found-if-looked-for").unwrap();
    drop(server);
    running.stop();
    let (mut found, mut leaked) = (false, false);
    let contains = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|it| it == part);
    for entry in std::fs::read_dir(running.data_dir().join("member/wal")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let written = &bytes[..bytes.len().min(1 << 20)];
        found |= contains(written, b"found-if-looked-for");
        for password in ["rootpw", "alicepw", "swordfish-changed"] {
            leaked |= contains(written, password.as_bytes());
        }
    }
    assert!(found && !leaked);
}

#[test]
fn a_certificate_names_the_user_if_client_cert_auth_is_on() {
    for client_cert_auth in [true, false] {
        let running = TestMember::builder()
            .config(|config| config.client_cert_auth = client_cert_auth)
            .start();
        let server = running.server();
        let (root, _) = enable(&server);
        let named = Credentials { common_name: Some("alice".to_owned()), ..Credentials::default() };
        let empty = Err(refused(auth::Error::UserEmpty));
        assert_eq!(put(&server, &named, "a"), if client_cert_auth { Ok(2) } else { empty });
        let both = Credentials { token: root.token.clone(), ..named };
        let info = block_on(server.auth_info(&both)).unwrap().unwrap();
        assert_eq!(info.username, "root", "the token takes precedence");
    }
}

#[test]
fn a_token_with_an_unreachable_index_is_refused_after_a_timeout() {
    let (running, clock) = start_with_clock();
    let server = running.server();
    enable(&server);
    for index in [u64::MAX, server.applied().0 + 10] {
        let never =
            Credentials { token: Some(format!("abcdefghijklmnop.{index}")), ..ANONYMOUS.clone() };
        let (began, mut answer) = (server.now(), None);
        let mut waiting = Box::pin(server.put(&never, put_request("a", "x")));
        wait_until("the token is refused", || {
            answer = poll_once(&mut waiting);
            // In steps, so that a refusal before the timeout would be noticed.
            clock.advance(Duration::from_millis(100));
            answer.is_some()
        });
        let invalid = refused(auth::Error::InvalidAuthToken);
        assert_eq!(answer.unwrap().unwrap_err(), invalid);
        assert!(server.now() - began >= server.config().request_timeout(), "refused too early");
    }
}

#[test]
fn a_token_with_a_later_index_waits_for_its_entry() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    let token = alice.token.unwrap();
    let (letters, _) = token.split_once('.').unwrap();
    let late = format!("{letters}.{}", server.applied().0 + 3);
    let late = Credentials { token: Some(late), ..Credentials::default() };
    let asking = {
        let server = server.clone();
        std::thread::spawn(move || put(&server, &late, "a"))
    };
    (0..3).for_each(|_| assert!(put(&server, &root, "x").is_ok()));
    let unknown = asking.join().unwrap();
    assert_eq!(unknown, Err(refused(auth::Error::InvalidAuthToken)), "no user has this token");
}

#[test]
fn some_requests_need_the_role_root_and_some_any_user() {
    let running = TestMember::builder().start();
    let server = running.server();
    assert_eq!(block_on(server.check_admin(ANONYMOUS)), Ok(()), "auth is disabled");
    let (root, alice) = enable(&server);
    let empty = || Err(refused(auth::Error::UserEmpty));
    let denied = Err(refused(auth::Error::PermissionDenied));
    assert_eq!(block_on(server.check_admin(&root)), Ok(()));
    assert_eq!(block_on(server.check_admin(&alice)), denied);
    assert_eq!(block_on(server.check_admin(ANONYMOUS)), empty());
    assert_eq!(block_on(server.check_any_user(&alice)), Ok(()));
    assert_eq!(block_on(server.check_any_user(ANONYMOUS)), empty());
    let compact = pb::CompactionRequest { revision: 1, physical: false };
    assert_eq!(block_on(server.compact(&alice, compact)).map(drop), denied);
    assert_eq!(block_on(server.defragment(&alice)), denied);
    assert_eq!(block_on(server.hash(&alice)).map(drop), denied);
    assert_eq!(block_on(server.hash_kv(&alice, 0)).map(drop), denied);
    assert_eq!(block_on(server.move_leader(&alice, 1)), denied);
    assert_eq!(
        block_on(server.downgrade(&alice, pb::DowngradeRequest::default())).map(drop),
        denied
    );
    let add = pb::MemberAddRequest { peer_urls: vec!["http://a:1".to_owned()], is_learner: true };
    assert_eq!(block_on(server.member_add(&alice, add)).map(drop), denied);
    let remove = pb::MemberRemoveRequest { id: server.local().0 };
    assert_eq!(block_on(server.member_remove(&alice, remove)).map(drop), denied);
    let update = pb::MemberUpdateRequest { id: server.local().0, ..Default::default() };
    assert_eq!(block_on(server.member_update(&alice, update)).map(drop), denied);
    let promote = pb::MemberPromoteRequest { id: server.local().0 };
    assert_eq!(block_on(server.member_promote(&alice, promote)).map(drop), denied);
    let raise = pb::AlarmRequest { action: 1, member_id: 1, alarm: 1 };
    assert_eq!(block_on(server.alarm(&alice, raise)).map(drop), denied);
    assert!(
        block_on(server.alarm(&alice, pb::AlarmRequest::default())).is_ok(),
        "listing alarms needs no role"
    );
    assert!(block_on(server.status(&alice)).is_ok());
    assert_eq!(block_on(server.status(ANONYMOUS)).map(drop), empty());
    let list = pb::MemberListRequest { linearizable: true };
    assert!(block_on(server.member_list(&alice, list)).is_ok());
    assert_eq!(block_on(server.member_list(ANONYMOUS, list)).map(drop), empty());
}

#[test]
fn renewing_and_revoking_a_lease_needs_permission_for_its_keys() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    let grant = pb::LeaseGrantRequest { id: 7, ttl: 60 };
    let empty = Err(refused(auth::Error::UserEmpty));
    assert_eq!(block_on(server.lease_grant(ANONYMOUS, grant)).map(drop), empty);
    block_on(server.lease_grant(&alice, grant)).unwrap();
    let put = pb::PutRequest { lease: 7, ..put_request("x", "1") };
    block_on(server.put(&root, put)).unwrap();
    let denied = Err(refused(auth::Error::PermissionDenied));
    assert_eq!(block_on(server.lease_renew(&alice, 7)).map(drop), denied);
    assert_eq!(block_on(server.lease_renew(ANONYMOUS, 7)).map(drop), empty);
    assert_eq!(block_on(server.lease_renew(&root, 7)), Ok(60));
    let revoke = pb::LeaseRevokeRequest { id: 7 };
    assert_eq!(block_on(server.lease_revoke(&alice, revoke)).map(drop), denied);
    let look = |keys| pb::LeaseTimeToLiveRequest { id: 7, keys };
    assert_eq!(block_on(server.lease_time_to_live(&alice, look(true))).map(drop), denied);
    assert!(block_on(server.lease_time_to_live(&alice, look(false))).is_ok());
    assert_eq!(block_on(server.lease_time_to_live(ANONYMOUS, look(false))).map(drop), empty);
    let leases = pb::LeaseLeasesRequest {};
    assert_eq!(block_on(server.lease_leases(&alice, leases)).map(drop), denied);
    assert_eq!(block_on(server.lease_leases(&root, leases)).unwrap().leases.len(), 1);
}

#[test]
fn users_and_roles_are_listed_changed_and_deleted() {
    let running = TestMember::builder().start();
    let server = running.server();
    let (root, alice) = enable(&server);
    let get = AuthUserGetRequest { name: "alice".to_owned() };
    assert_eq!(block_on(server.user_get(&alice, get)).unwrap().roles, ["web"]);
    let users = block_on(server.user_list(&root, AuthUserListRequest {})).unwrap();
    assert_eq!(users.users, ["alice", "root"]);
    let role = "web".to_owned();
    let perms =
        block_on(server.role_get(&root, AuthRoleGetRequest { role: role.clone() })).unwrap();
    assert_eq!(perms.perm.len(), 1);
    let (key, range_end) = ("a".into(), "c".into());
    let revoke = AuthRoleRevokePermissionRequest { role: role.clone(), key, range_end };
    block_on(server.role_revoke_permission(&root, revoke)).unwrap();
    let revoke = AuthUserRevokeRoleRequest { name: "alice".to_owned(), role: role.clone() };
    block_on(server.user_revoke_role(&root, revoke)).unwrap();
    block_on(server.role_delete(&root, AuthRoleDeleteRequest { role })).unwrap();
    let roles = block_on(server.role_list(&root, AuthRoleListRequest {})).unwrap();
    assert!(roles.roles.iter().all(|role| role == "root"), "{roles:?}");
    let delete = AuthUserDeleteRequest { name: "alice".to_owned() };
    block_on(server.user_delete(&root, delete)).unwrap();
    let status = block_on(server.auth_status(ANONYMOUS, AuthStatusRequest {})).unwrap();
    assert!(status.enabled);
    assert_eq!(status.auth_revision, server.state().auth().revision());
    block_on(server.auth_disable(&root, AuthDisableRequest {})).unwrap();
    let status = block_on(server.auth_status(ANONYMOUS, AuthStatusRequest {})).unwrap();
    let header = status.header.unwrap();
    assert!(!status.enabled);
    assert_eq!((header.cluster_id, header.revision), (server.cluster_id().0, 1));
    assert!(header.raft_term > 0);
}
