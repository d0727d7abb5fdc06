//! Builders of requests, as members propose them.

use bytes::Bytes;
use membership::{Attributes, Change, RaftAttributes};
use prost::Message as _;
use proto::authpb::Permission;
use proto::authpb::permission::Type;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest as Request;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::request_op::Request as Op;
use proto::membershippb;
use types::MemberId;

/// An encoded password hash, as it is in the log. No test checks a password against it.
const HASHED: &str = "JDJhJDA0JHNhbHQ=";

pub(crate) fn put(key: &str, value: &[u8], lease: i64) -> Request {
    Request { put: Some(put_request(key, value, lease)), ..Request::default() }
}

pub(crate) fn put_request(key: &str, value: &[u8], lease: i64) -> pb::PutRequest {
    let (key, value) = (Bytes::from(key.to_owned()), Bytes::copy_from_slice(value));
    pb::PutRequest { key, value, lease, ..pb::PutRequest::default() }
}

pub(crate) fn range(key: &str) -> Request {
    let range = pb::RangeRequest { key: Bytes::from(key.to_owned()), ..Default::default() };
    Request { range: Some(range), ..Request::default() }
}

/// Deletes one key, or a range if `end` is not empty.
pub(crate) fn delete(key: &str, end: &str) -> Request {
    let (key, range_end) = (Bytes::from(key.to_owned()), Bytes::from(end.to_owned()));
    let delete = pb::DeleteRangeRequest { key, range_end, prev_kv: true };
    Request { delete_range: Some(delete), ..Request::default() }
}

pub(crate) fn txn(txn: pb::TxnRequest) -> Request {
    Request { txn: Some(txn), ..Request::default() }
}

/// A transaction without comparisons.
pub(crate) fn txn_of(success: Vec<Op>) -> pb::TxnRequest {
    let success = success.into_iter().map(op).collect();
    pb::TxnRequest { success, ..pb::TxnRequest::default() }
}

pub(crate) fn op(request: Op) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

pub(crate) fn compact(revision: i64) -> Request {
    let compaction = Some(pb::CompactionRequest { revision, physical: false });
    Request { compaction, ..Request::default() }
}

pub(crate) fn grant(id: i64, ttl: i64) -> Request {
    Request { lease_grant: Some(pb::LeaseGrantRequest { id, ttl }), ..Request::default() }
}

pub(crate) fn revoke(id: i64) -> Request {
    Request { lease_revoke: Some(pb::LeaseRevokeRequest { id }), ..Request::default() }
}

pub(crate) fn checkpoint(id: i64, remaining_ttl: i64) -> Request {
    let checkpoints = vec![pb::LeaseCheckpoint { id, remaining_ttl }];
    let lease_checkpoint = Some(pb::LeaseCheckpointRequest { checkpoints });
    Request { lease_checkpoint, ..Request::default() }
}

pub(crate) fn alarm(action: AlarmAction, member_id: u64, alarm: pb::AlarmType) -> Request {
    let alarm = pb::AlarmRequest { action: action.into(), member_id, alarm: alarm.into() };
    Request { alarm: Some(alarm), ..Request::default() }
}

pub(crate) fn raise(member_id: u64, kind: pb::AlarmType) -> Request {
    alarm(AlarmAction::Activate, member_id, kind)
}

pub(crate) fn clear(member_id: u64, kind: pb::AlarmType) -> Request {
    alarm(AlarmAction::Deactivate, member_id, kind)
}

pub(crate) fn auth_enable() -> Request {
    Request { auth_enable: Some(pb::AuthEnableRequest {}), ..Request::default() }
}

pub(crate) fn auth_disable() -> Request {
    Request { auth_disable: Some(pb::AuthDisableRequest {}), ..Request::default() }
}

pub(crate) fn auth_status() -> Request {
    Request { auth_status: Some(pb::AuthStatusRequest {}), ..Request::default() }
}

pub(crate) fn authenticate(name: &str, simple_token: &str) -> Request {
    let (name, simple_token) = (name.to_owned(), simple_token.to_owned());
    let password = String::new();
    let authenticate = Some(pb::InternalAuthenticateRequest { name, password, simple_token });
    Request { authenticate, ..Request::default() }
}

pub(crate) fn user_add(name: &str) -> Request {
    let (name, hashed_password) = (name.to_owned(), HASHED.to_owned());
    let add = pb::AuthUserAddRequest { name, hashed_password, ..Default::default() };
    Request { auth_user_add: Some(add), ..Request::default() }
}

pub(crate) fn user_delete(name: &str) -> Request {
    let delete = Some(pb::AuthUserDeleteRequest { name: name.to_owned() });
    Request { auth_user_delete: delete, ..Request::default() }
}

/// Changes a password as etcd up to 3.4 proposes it: in plain text, so that each member hashes it.
pub(crate) fn user_change_password(name: &str, password: &str) -> Request {
    let (name, password) = (name.to_owned(), password.to_owned());
    let change = pb::AuthUserChangePasswordRequest { name, password, ..Default::default() };
    Request { auth_user_change_password: Some(change), ..Request::default() }
}

pub(crate) fn user_get(name: &str) -> Request {
    let get = Some(pb::AuthUserGetRequest { name: name.to_owned() });
    Request { auth_user_get: get, ..Request::default() }
}

pub(crate) fn user_list() -> Request {
    Request { auth_user_list: Some(pb::AuthUserListRequest {}), ..Request::default() }
}

pub(crate) fn user_grant_role(user: &str, role: &str) -> Request {
    let (user, role) = (user.to_owned(), role.to_owned());
    let grant = Some(pb::AuthUserGrantRoleRequest { user, role });
    Request { auth_user_grant_role: grant, ..Request::default() }
}

pub(crate) fn user_revoke_role(user: &str, role: &str) -> Request {
    let (name, role) = (user.to_owned(), role.to_owned());
    let revoke = Some(pb::AuthUserRevokeRoleRequest { name, role });
    Request { auth_user_revoke_role: revoke, ..Request::default() }
}

pub(crate) fn role_add(name: &str) -> Request {
    let add = Some(pb::AuthRoleAddRequest { name: name.to_owned() });
    Request { auth_role_add: add, ..Request::default() }
}

pub(crate) fn role_delete(role: &str) -> Request {
    let delete = Some(pb::AuthRoleDeleteRequest { role: role.to_owned() });
    Request { auth_role_delete: delete, ..Request::default() }
}

pub(crate) fn role_get(role: &str) -> Request {
    let get = Some(pb::AuthRoleGetRequest { role: role.to_owned() });
    Request { auth_role_get: get, ..Request::default() }
}

/// Grants permission to read and write one key, or a range if `end` is not empty.
pub(crate) fn role_grant(role: &str, key: &str, end: &str) -> Request {
    let (key, range_end) = (Bytes::from(key.to_owned()), Bytes::from(end.to_owned()));
    let perm = Some(Permission { perm_type: Type::Readwrite.into(), key, range_end });
    let grant = pb::AuthRoleGrantPermissionRequest { name: role.to_owned(), perm };
    Request { auth_role_grant_permission: Some(grant), ..Request::default() }
}

pub(crate) fn role_revoke(role: &str, key: &str, end: &str) -> Request {
    let (key, range_end) = (Bytes::from(key.to_owned()), Bytes::from(end.to_owned()));
    let revoke = pb::AuthRoleRevokePermissionRequest { role: role.to_owned(), key, range_end };
    Request { auth_role_revoke_permission: Some(revoke), ..Request::default() }
}

pub(crate) fn cluster_version(ver: &str) -> Request {
    let set = Some(membershippb::ClusterVersionSetRequest { ver: ver.to_owned() });
    Request { cluster_version_set: set, ..Request::default() }
}

pub(crate) fn downgrade(target: Option<&str>) -> Request {
    let (enabled, ver) = (target.is_some(), target.unwrap_or_default().to_owned());
    let set = Some(membershippb::DowngradeInfoSetRequest { enabled, ver });
    Request { downgrade_info_set: set, ..Request::default() }
}

pub(crate) fn attributes(member_id: u64, name: &str) -> Request {
    let client_urls = vec![format!("http://{name}:2379")];
    let attributes = membershippb::Attributes { name: name.to_owned(), client_urls };
    let member_attributes = Some(attributes);
    let set = Some(membershippb::ClusterMemberAttrSetRequest { member_id, member_attributes });
    Request { cluster_member_attr_set: set, ..Request::default() }
}

/// A member with one peer URL and no attributes.
pub(crate) fn member(id: u64, host: &str, is_learner: bool) -> membership::Member {
    let raft = RaftAttributes { peer_urls: vec![format!("http://{host}:2380")], is_learner };
    membership::Member { id: MemberId(id), raft, attributes: Attributes::default() }
}

/// Encodes the data of a conf change entry.
pub(crate) fn conf_change(change: &Change, request: u64) -> Vec<u8> {
    change.to_conf_change(Some(request)).encode_to_vec()
}
