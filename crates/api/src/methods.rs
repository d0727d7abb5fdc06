//! The methods of etcd's gRPC services.
//!
//! ```text
//!   /etcdserverpb.KV/Range           Rpc::Kv(Kv::Range)        unary           0
//!   /etcdserverpb.Watch/Watch        Rpc::Watch(Watch::Watch)  bidi_stream     6
//!    service          method         handler                   kind            position
//! ```

#![expect(clippy::enum_variant_names, reason = "named as in etcd's protobuf files")]

use std::sync::LazyLock;

use grpc::{Kind, Method, MethodTable};

macro_rules! services {
    ($($service:ident $package:literal { $($method:ident $kind:ident,)* })*) => {
        $(
            #[doc = concat!("The methods of `", $package, "`.")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) enum $service { $($method,)* }
        )*

        /// A method, by service.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rpc { $($service($service),)* }

        /// All methods.
        pub(crate) static METHODS: &[Method] = &[$($(
            Method {
                path: concat!("/", $package, "/", stringify!($method)),
                service: $package,
                name: stringify!($method),
                kind: Kind::$kind,
            },
        )*)*];

        /// The handlers of [`METHODS`], at the same positions.
        pub(crate) static RPCS: &[Rpc] = &[$($(Rpc::$service($service::$method),)*)*];
    };
}

services! {
    Kv "etcdserverpb.KV" {
        Range Unary,
        RangeStream ServerStream,
        Put Unary,
        DeleteRange Unary,
        Txn Unary,
        Compact Unary,
    }
    Watch "etcdserverpb.Watch" {
        Watch BidiStream,
    }
    Lease "etcdserverpb.Lease" {
        LeaseGrant Unary,
        LeaseRevoke Unary,
        LeaseKeepAlive BidiStream,
        LeaseTimeToLive Unary,
        LeaseLeases Unary,
    }
    Cluster "etcdserverpb.Cluster" {
        MemberAdd Unary,
        MemberRemove Unary,
        MemberUpdate Unary,
        MemberList Unary,
        MemberPromote Unary,
    }
    Maintenance "etcdserverpb.Maintenance" {
        Alarm Unary,
        Status Unary,
        Defragment Unary,
        Hash Unary,
        HashKV Unary,
        Snapshot ServerStream,
        MoveLeader Unary,
        Downgrade Unary,
    }
    Auth "etcdserverpb.Auth" {
        AuthEnable Unary,
        AuthDisable Unary,
        AuthStatus Unary,
        Authenticate Unary,
        UserAdd Unary,
        UserGet Unary,
        UserList Unary,
        UserDelete Unary,
        UserChangePassword Unary,
        UserGrantRole Unary,
        UserRevokeRole Unary,
        RoleAdd Unary,
        RoleGet Unary,
        RoleList Unary,
        RoleDelete Unary,
        RoleGrantPermission Unary,
        RoleRevokePermission Unary,
    }
    Health "grpc.health.v1.Health" {
        Check Unary,
        List Unary,
        Watch ServerStream,
    }
    Lock "v3lockpb.Lock" {
        Lock Unary,
        Unlock Unary,
    }
    Election "v3electionpb.Election" {
        Campaign Unary,
        Proclaim Unary,
        Leader Unary,
        Observe ServerStream,
        Resign Unary,
    }
}

/// Returns the table of all methods.
pub(crate) fn table() -> &'static MethodTable {
    static TABLE: LazyLock<MethodTable> = LazyLock::new(|| MethodTable::new(METHODS));
    &TABLE
}

/// Reports whether the metrics of a method exist before its first call. Compat: etcd registers
/// locks and elections too late for that.
pub(crate) fn is_counted_from_the_start(method: &Method) -> bool {
    !matches!(method.service, "v3lockpb.Lock" | "v3electionpb.Election")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_path() {
        for (at, method) in METHODS.iter().enumerate() {
            assert_eq!(table().find(method.path), Some((at, method)));
            assert!(table().has_service(method.service));
        }
        assert_eq!(table().find("/etcdserverpb.KV/Rang"), None);
        assert_eq!((METHODS.len(), RPCS.len()), (52, 52), "etcd has 52 methods");
    }

    #[test]
    fn every_method_has_a_shape() {
        for method in METHODS {
            assert!(proto::shape::request(method.path).is_some(), "{}", method.path);
        }
    }
}
