//! Proptest strategies for arbitrary requests that can be decoded.
//!
//! The strategies cover every kind of request, with numbers at their limits, keys and names that
//! are empty, long or of unusual bytes, unknown enum values and nested transactions. Keys, leases
//! and names are few, so that requests affect each other.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proto::authpb::{Permission, UserAddOptions};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest as Request;
use proto::etcdserverpb::compare::TargetUnion;
use proto::etcdserverpb::request_op::Request as Op;
use proto::membershippb;

/// Maximum nesting of transactions. Decoding accepts deeper nesting, which the fuzzer covers.
const DEPTH: u32 = 3;
/// Length of a key or name that exceeds the bolt limit of 32 KiB.
const LONG: usize = 33_000;

/// A small number that is likely to be in use, or sometimes a limit.
fn number() -> BoxedStrategy<i64> {
    let ends = [0, -1, i64::MAX, i64::MIN, i64::MAX - 1, 9_000_000_000, 9_000_000_001];
    prop_oneof![4 => 0..12_i64, 1 => select(ends.to_vec())].boxed()
}

/// A value of an enum, or sometimes an unknown one.
fn choice() -> BoxedStrategy<i32> {
    prop_oneof![5 => 0..6_i32, 1 => select(&[-1, 77, i32::MAX, i32::MIN][..])].boxed()
}

fn key() -> BoxedStrategy<Bytes> {
    let some = [&b""[..], b"\0", b"a", b"b", b"ab", b"c", b"\xff", b"\xff\xff"];
    let long = Just(Bytes::from(vec![b'k'; LONG]));
    prop_oneof![40 => select(some.to_vec()).prop_map(Bytes::from_static), 1 => long].boxed()
}

fn name() -> BoxedStrategy<String> {
    let some = ["root", "root", "ops", "ops", "ops", "alice", "", "\0", "ä\u{2028}<&>"];
    let long = Just("n".repeat(LONG));
    prop_oneof![40 => select(some.to_vec()).prop_map(str::to_owned), 1 => long].boxed()
}

fn version() -> BoxedStrategy<String> {
    let some = ["3.7.0", "3.6.0", "3.5.0", "3.0.0", "2.3.4", "3.8.0", "4.0.0", "", "x", "3.7"];
    select(some.to_vec()).prop_map(str::to_owned).boxed()
}

fn header() -> BoxedStrategy<Option<pb::RequestHeader>> {
    let revision = prop_oneof![5 => 0..14_u64, 2 => Just(u64::MAX)];
    let header = (any::<u64>(), name(), revision);
    option::weighted(
        0.9,
        header.prop_map(|(id, username, auth_revision)| pb::RequestHeader {
            id,
            username,
            auth_revision,
        }),
    )
    .boxed()
}

fn range() -> BoxedStrategy<pb::RangeRequest> {
    let filters = option::weighted(0.2, [number(), number(), number(), number()]);
    let flags = any::<[bool; 3]>();
    let order = (choice(), choice());
    (key(), key(), number(), number(), order, filters, flags)
        .prop_map(|(key, range_end, limit, revision, order, filters, flags)| {
            let [min_mod, max_mod, min_create, max_create] = filters.unwrap_or_default();
            pb::RangeRequest {
                key,
                range_end,
                limit,
                revision,
                sort_order: order.0,
                sort_target: order.1,
                serializable: flags[0],
                keys_only: flags[1],
                count_only: flags[2],
                min_mod_revision: min_mod,
                max_mod_revision: max_mod,
                min_create_revision: min_create,
                max_create_revision: max_create,
            }
        })
        .boxed()
}

fn put() -> BoxedStrategy<pb::PutRequest> {
    let lease = prop_oneof![3 => Just(0), 2 => number()];
    let flag = || prop::bool::weighted(0.2);
    (key(), vec(any::<u8>(), 0..40), lease, flag(), flag(), flag())
        .prop_map(|(key, value, lease, prev_kv, ignore_value, ignore_lease)| pb::PutRequest {
            key,
            value: value.into(),
            lease,
            prev_kv,
            ignore_value,
            ignore_lease,
        })
        .boxed()
}

fn delete() -> BoxedStrategy<pb::DeleteRangeRequest> {
    (key(), key(), any::<bool>())
        .prop_map(|(key, range_end, prev_kv)| pb::DeleteRangeRequest { key, range_end, prev_kv })
        .boxed()
}

fn compare() -> BoxedStrategy<pb::Compare> {
    let with = prop_oneof![
        number().prop_map(TargetUnion::Version),
        number().prop_map(TargetUnion::CreateRevision),
        number().prop_map(TargetUnion::ModRevision),
        number().prop_map(TargetUnion::Lease),
        key().prop_map(TargetUnion::Value),
    ];
    (choice(), choice(), key(), key(), option::of(with))
        .prop_map(|(result, target, key, range_end, target_union)| pb::Compare {
            result,
            target,
            key,
            range_end,
            target_union,
        })
        .boxed()
}

fn txn(depth: u32) -> BoxedStrategy<pb::TxnRequest> {
    let branch = || vec(op(depth), 0..4);
    (vec(compare(), 0..2), branch(), branch())
        .prop_map(|(compare, success, failure)| pb::TxnRequest { compare, success, failure })
        .boxed()
}

fn op(depth: u32) -> BoxedStrategy<pb::RequestOp> {
    let leaf = prop_oneof![
        3 => put().prop_map(Op::RequestPut),
        1 => range().prop_map(Op::RequestRange),
        1 => delete().prop_map(Op::RequestDeleteRange),
    ];
    let op = match depth {
        0 => leaf.boxed(),
        _ => prop_oneof![4 => leaf, 1 => txn(depth - 1).prop_map(Op::RequestTxn)].boxed(),
    };
    option::weighted(0.95, op).prop_map(|request| pb::RequestOp { request }).boxed()
}

fn with<T: std::fmt::Debug + 'static>(
    value: BoxedStrategy<T>,
    set: fn(&mut Request, T),
) -> BoxedStrategy<Request> {
    let request = move |value| {
        let mut request = Request::default();
        set(&mut request, value);
        request
    };
    value.prop_map(request).boxed()
}

/// Requests about keys and leases, with their weights.
fn keys() -> Vec<(u32, BoxedStrategy<Request>)> {
    let compaction = (number(), any::<bool>())
        .prop_map(|(revision, physical)| pb::CompactionRequest { revision, physical });
    let grant = (number(), number()).prop_map(|(id, ttl)| pb::LeaseGrantRequest { id, ttl });
    let checkpoint = (number(), number())
        .prop_map(|(id, remaining_ttl)| pb::LeaseCheckpoint { id, remaining_ttl });
    let checkpoints =
        vec(checkpoint, 0..3).prop_map(|checkpoints| pb::LeaseCheckpointRequest { checkpoints });
    let revoke = number().prop_map(|id| pb::LeaseRevokeRequest { id });
    vec![
        (2, with(range(), |all, it| all.range = Some(it))),
        (12, with(put(), |all, it| all.put = Some(it))),
        (4, with(delete(), |all, it| all.delete_range = Some(it))),
        (6, with(txn(DEPTH), |all, it| all.txn = Some(it))),
        (5, with(compaction.boxed(), |all, it| all.compaction = Some(it))),
        (5, with(grant.boxed(), |all, it| all.lease_grant = Some(it))),
        (2, with(revoke.boxed(), |all, it| all.lease_revoke = Some(it))),
        (2, with(checkpoints.boxed(), |all, it| all.lease_checkpoint = Some(it))),
    ]
}

/// Requests about users, with their weights.
fn users() -> Vec<(u32, BoxedStrategy<Request>)> {
    let password = || select(&["", "", "", "secret", "aGFzaA==", "not base64"][..]);
    let password = move || password().prop_map(str::to_owned);
    let options = option::of(any::<bool>().prop_map(|no_password| UserAddOptions { no_password }));
    let add = (name(), password(), password(), options).prop_map(
        |(name, password, hashed_password, options)| pb::AuthUserAddRequest {
            name,
            password,
            options,
            hashed_password,
        },
    );
    let change = (name(), password(), password()).prop_map(|(name, password, hashed_password)| {
        pb::AuthUserChangePasswordRequest { name, password, hashed_password }
    });
    let authenticate = (name(), name()).prop_map(|(name, simple_token)| {
        pb::InternalAuthenticateRequest { name, password: String::new(), simple_token }
    });
    let grant =
        (name(), name()).prop_map(|(user, role)| pb::AuthUserGrantRoleRequest { user, role });
    let revoke =
        (name(), name()).prop_map(|(name, role)| pb::AuthUserRevokeRoleRequest { name, role });
    vec![
        (5, with(add.boxed(), |all, it| all.auth_user_add = Some(it))),
        (1, with(change.boxed(), |all, it| all.auth_user_change_password = Some(it))),
        (1, with(authenticate.boxed(), |all, it| all.authenticate = Some(it))),
        (5, with(grant.boxed(), |all, it| all.auth_user_grant_role = Some(it))),
        (1, with(revoke.boxed(), |all, it| all.auth_user_revoke_role = Some(it))),
        (
            1,
            with(name(), |all, name| {
                all.auth_user_delete = Some(pb::AuthUserDeleteRequest { name });
            }),
        ),
        (1, with(name(), |all, name| all.auth_user_get = Some(pb::AuthUserGetRequest { name }))),
        (2, with(Just(()).boxed(), |all, ()| all.auth_enable = Some(pb::AuthEnableRequest {}))),
        (1, with(Just(()).boxed(), |all, ()| all.auth_disable = Some(pb::AuthDisableRequest {}))),
        (1, with(Just(()).boxed(), |all, ()| all.auth_status = Some(pb::AuthStatusRequest {}))),
        (
            1,
            with(Just(()).boxed(), |all, ()| {
                all.auth_user_list = Some(pb::AuthUserListRequest {});
            }),
        ),
    ]
}

/// Requests about roles, with their weights.
fn roles() -> Vec<(u32, BoxedStrategy<Request>)> {
    let permission = (choice(), key(), key()).prop_map(|(perm_type, key, range_end)| Permission {
        perm_type,
        key,
        range_end,
    });
    let grant = (name(), option::weighted(0.9, permission))
        .prop_map(|(name, perm)| pb::AuthRoleGrantPermissionRequest { name, perm });
    let revoke = (name(), key(), key()).prop_map(|(role, key, range_end)| {
        pb::AuthRoleRevokePermissionRequest { role, key, range_end }
    });
    vec![
        (3, with(name(), |all, name| all.auth_role_add = Some(pb::AuthRoleAddRequest { name }))),
        (
            2,
            with(name(), |all, role| {
                all.auth_role_delete = Some(pb::AuthRoleDeleteRequest { role });
            }),
        ),
        (1, with(name(), |all, role| all.auth_role_get = Some(pb::AuthRoleGetRequest { role }))),
        (
            1,
            with(Just(()).boxed(), |all, ()| {
                all.auth_role_list = Some(pb::AuthRoleListRequest {});
            }),
        ),
        (3, with(grant.boxed(), |all, it| all.auth_role_grant_permission = Some(it))),
        (1, with(revoke.boxed(), |all, it| all.auth_role_revoke_permission = Some(it))),
    ]
}

/// Requests about the cluster, with their weights.
fn cluster() -> Vec<(u32, BoxedStrategy<Request>)> {
    let attributes = (name(), vec(name(), 0..2))
        .prop_map(|(name, client_urls)| membershippb::Attributes { name, client_urls });
    let published = (0..4_u64, option::of(attributes)).prop_map(|(member_id, attributes)| {
        membershippb::ClusterMemberAttrSetRequest { member_id, member_attributes: attributes }
    });
    let downgrade = (any::<bool>(), version())
        .prop_map(|(enabled, ver)| membershippb::DowngradeInfoSetRequest { enabled, ver });
    let alarm = (choice(), select(&[0, 1, 2, u64::MAX][..]), choice())
        .prop_map(|(action, member_id, alarm)| pb::AlarmRequest { action, member_id, alarm });
    let text = |texts: &'static [&'static str]| option::of(select(texts).prop_map(str::to_owned));
    let v2 = (
        text(&["PUT", "GET", ""]),
        text(&["/0/version", "/0/members/1/attributes", "/0/members/1/", "/1/x"]),
        text(&["3.5.0", "{}", r#"{"name":"m1"}"#, "x"]),
    )
        .prop_map(|(method, path, val)| pb::Request {
            method,
            path,
            val,
            ..Default::default()
        });
    vec![
        (2, with(alarm.boxed(), |all, it| all.alarm = Some(it))),
        (
            1,
            with(version(), |all, ver| {
                all.cluster_version_set = Some(membershippb::ClusterVersionSetRequest { ver });
            }),
        ),
        (1, with(published.boxed(), |all, it| all.cluster_member_attr_set = Some(it))),
        (1, with(downgrade.boxed(), |all, it| all.downgrade_info_set = Some(it))),
        (
            1,
            with(version(), |all, ver| {
                all.downgrade_version_test = Some(pb::DowngradeVersionTestRequest { ver });
            }),
        ),
        (1, with(v2.boxed(), |all, it| all.v2 = Some(it))),
    ]
}

/// Any request, with any header.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    let kinds = [keys(), users(), roles(), cluster()].concat();
    let request = proptest::strategy::Union::new_weighted(kinds);
    (request, header(), option::weighted(0.1, any::<u64>()))
        .prop_map(|(request, header, id)| Request { header, id: id.unwrap_or_default(), ..request })
}
