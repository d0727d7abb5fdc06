//! Every method of etcd's API exists: in the descriptors, and in the generated servers and clients.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

/// Methods with their request, response and gateway routes. `stream` marks the side that sends many
/// messages.
const METHODS: &str = "
etcdserverpb.KV/Range RangeRequest RangeResponse /v3/kv/range
etcdserverpb.KV/RangeStream RangeRequest stream:RangeStreamResponse
etcdserverpb.KV/Put PutRequest PutResponse /v3/kv/put
etcdserverpb.KV/DeleteRange DeleteRangeRequest DeleteRangeResponse /v3/kv/deleterange
etcdserverpb.KV/Txn TxnRequest TxnResponse /v3/kv/txn
etcdserverpb.KV/Compact CompactionRequest CompactionResponse /v3/kv/compaction
etcdserverpb.Watch/Watch stream:WatchRequest stream:WatchResponse /v3/watch
etcdserverpb.Lease/LeaseGrant LeaseGrantRequest LeaseGrantResponse /v3/lease/grant
etcdserverpb.Lease/LeaseRevoke LeaseRevokeRequest LeaseRevokeResponse /v3/lease/revoke /v3/kv/lease/revoke
etcdserverpb.Lease/LeaseKeepAlive stream:LeaseKeepAliveRequest stream:LeaseKeepAliveResponse /v3/lease/keepalive
etcdserverpb.Lease/LeaseTimeToLive LeaseTimeToLiveRequest LeaseTimeToLiveResponse /v3/lease/timetolive /v3/kv/lease/timetolive
etcdserverpb.Lease/LeaseLeases LeaseLeasesRequest LeaseLeasesResponse /v3/lease/leases /v3/kv/lease/leases
etcdserverpb.Cluster/MemberAdd MemberAddRequest MemberAddResponse /v3/cluster/member/add
etcdserverpb.Cluster/MemberRemove MemberRemoveRequest MemberRemoveResponse /v3/cluster/member/remove
etcdserverpb.Cluster/MemberUpdate MemberUpdateRequest MemberUpdateResponse /v3/cluster/member/update
etcdserverpb.Cluster/MemberList MemberListRequest MemberListResponse /v3/cluster/member/list
etcdserverpb.Cluster/MemberPromote MemberPromoteRequest MemberPromoteResponse /v3/cluster/member/promote
etcdserverpb.Maintenance/Alarm AlarmRequest AlarmResponse /v3/maintenance/alarm
etcdserverpb.Maintenance/Status StatusRequest StatusResponse /v3/maintenance/status
etcdserverpb.Maintenance/Defragment DefragmentRequest DefragmentResponse /v3/maintenance/defragment
etcdserverpb.Maintenance/Hash HashRequest HashResponse /v3/maintenance/hash
etcdserverpb.Maintenance/HashKV HashKVRequest HashKVResponse /v3/maintenance/hashkv
etcdserverpb.Maintenance/Snapshot SnapshotRequest stream:SnapshotResponse /v3/maintenance/snapshot
etcdserverpb.Maintenance/MoveLeader MoveLeaderRequest MoveLeaderResponse /v3/maintenance/transfer-leadership
etcdserverpb.Maintenance/Downgrade DowngradeRequest DowngradeResponse /v3/maintenance/downgrade
etcdserverpb.Auth/AuthEnable AuthEnableRequest AuthEnableResponse /v3/auth/enable
etcdserverpb.Auth/AuthDisable AuthDisableRequest AuthDisableResponse /v3/auth/disable
etcdserverpb.Auth/AuthStatus AuthStatusRequest AuthStatusResponse /v3/auth/status
etcdserverpb.Auth/Authenticate AuthenticateRequest AuthenticateResponse /v3/auth/authenticate
etcdserverpb.Auth/UserAdd AuthUserAddRequest AuthUserAddResponse /v3/auth/user/add
etcdserverpb.Auth/UserGet AuthUserGetRequest AuthUserGetResponse /v3/auth/user/get
etcdserverpb.Auth/UserList AuthUserListRequest AuthUserListResponse /v3/auth/user/list
etcdserverpb.Auth/UserDelete AuthUserDeleteRequest AuthUserDeleteResponse /v3/auth/user/delete
etcdserverpb.Auth/UserChangePassword AuthUserChangePasswordRequest AuthUserChangePasswordResponse /v3/auth/user/changepw
etcdserverpb.Auth/UserGrantRole AuthUserGrantRoleRequest AuthUserGrantRoleResponse /v3/auth/user/grant
etcdserverpb.Auth/UserRevokeRole AuthUserRevokeRoleRequest AuthUserRevokeRoleResponse /v3/auth/user/revoke
etcdserverpb.Auth/RoleAdd AuthRoleAddRequest AuthRoleAddResponse /v3/auth/role/add
etcdserverpb.Auth/RoleGet AuthRoleGetRequest AuthRoleGetResponse /v3/auth/role/get
etcdserverpb.Auth/RoleList AuthRoleListRequest AuthRoleListResponse /v3/auth/role/list
etcdserverpb.Auth/RoleDelete AuthRoleDeleteRequest AuthRoleDeleteResponse /v3/auth/role/delete
etcdserverpb.Auth/RoleGrantPermission AuthRoleGrantPermissionRequest AuthRoleGrantPermissionResponse /v3/auth/role/grant
etcdserverpb.Auth/RoleRevokePermission AuthRoleRevokePermissionRequest AuthRoleRevokePermissionResponse /v3/auth/role/revoke
v3lockpb.Lock/Lock LockRequest LockResponse /v3/lock/lock
v3lockpb.Lock/Unlock UnlockRequest UnlockResponse /v3/lock/unlock
v3electionpb.Election/Campaign CampaignRequest CampaignResponse /v3/election/campaign
v3electionpb.Election/Proclaim ProclaimRequest ProclaimResponse /v3/election/proclaim
v3electionpb.Election/Leader LeaderRequest LeaderResponse /v3/election/leader
v3electionpb.Election/Observe LeaderRequest stream:LeaderResponse /v3/election/observe
v3electionpb.Election/Resign ResignRequest ResignResponse /v3/election/resign
grpc.health.v1.Health/Check HealthCheckRequest HealthCheckResponse
grpc.health.v1.Health/List HealthListRequest HealthListResponse
grpc.health.v1.Health/Watch HealthCheckRequest stream:HealthCheckResponse
";

fn listed() -> BTreeSet<String> {
    METHODS.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Returns a method as a line of the list.
fn line(method: &MethodDescriptor) -> String {
    let side = |stream, name: &str| format!("{}{name}", if stream { "stream:" } else { "" });
    let path = format!("{}/{}", method.parent_service().full_name(), method.name());
    let request = side(method.is_client_streaming(), method.input().name());
    let answer = side(method.is_server_streaming(), method.output().name());
    [vec![path, request, answer], routes(method)].concat().join(" ")
}

fn routes(method: &MethodDescriptor) -> Vec<String> {
    let pool = method.parent_pool();
    let http = pool.get_extension_by_name("google.api.http").expect("the option exists");
    let options = method.options();
    if !options.has_extension(&http) {
        return Vec::new();
    }
    let rule = options.get_extension(&http);
    let rule = rule.as_message().expect("a route is a message");
    let others = rule.get_field_by_name("additional_bindings").expect("the field exists");
    let others =
        others.as_list().expect("the field is a list").iter().filter_map(|r| r.as_message());
    std::iter::once(rule).chain(others).map(route).collect()
}

/// Returns the path of a route. All routes are alike otherwise.
fn route(rule: &DynamicMessage) -> String {
    let text = |name| {
        let value = rule.get_field_by_name(name).expect("the field exists");
        value.as_str().expect("the field is a string").to_owned()
    };
    assert_eq!(text("body"), "*");
    text("post")
}

#[test]
fn the_descriptors_contain_exactly_etcds_methods() {
    let pool = DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    let methods: BTreeSet<_> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|m| line(&m))
        .collect();
    assert_eq!(methods, listed());
    assert_eq!(methods.len(), 52);
}

#[test]
fn servers_and_clients_use_exactly_etcds_paths() {
    let generated = [
        include_str!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs")),
        include_str!(concat!(env!("OUT_DIR"), "/v3lockpb.rs")),
        include_str!(concat!(env!("OUT_DIR"), "/v3electionpb.rs")),
        include_str!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs")),
    ];
    let mut uses = BTreeMap::new();
    for literal in generated.iter().flat_map(|code| code.split('"').skip(1).step_by(2)) {
        if let Some(path) = literal.strip_prefix('/') {
            *uses.entry(path.to_owned()).or_insert(0) += 1;
        }
    }
    let expected: BTreeMap<_, _> = listed()
        .into_iter()
        .filter_map(|line| line.split_once(' ').map(|(path, _)| (path.to_owned(), 2)))
        .collect();
    assert_eq!(uses, expected, "each path once in a server, once in a client");
}
