//! The methods of the gRPC services that a proxy serves: etcd's, without that for health.

use std::sync::LazyLock;

use grpc::{Kind, Method, MethodTable};

macro_rules! methods {
    ($($service:literal { $($rpc:ident = $method:literal $kind:ident,)* })*) => {
        /// A method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rpc { $($($rpc,)*)* }

        /// All methods.
        pub(crate) static METHODS: &[Method] = &[$($(
            Method {
                path: concat!("/", $service, "/", $method),
                service: $service,
                name: $method,
                kind: Kind::$kind,
            },
        )*)*];

        /// The handlers of [`METHODS`], at the same positions.
        pub(crate) static RPCS: &[Rpc] = &[$($(Rpc::$rpc,)*)*];
    };
}

methods! {
    "etcdserverpb.KV" {
        Range = "Range" Unary,
        RangeStream = "RangeStream" ServerStream,
        Put = "Put" Unary,
        DeleteRange = "DeleteRange" Unary,
        Txn = "Txn" Unary,
        Compact = "Compact" Unary,
    }
    "etcdserverpb.Watch" {
        Watch = "Watch" BidiStream,
    }
    "etcdserverpb.Lease" {
        LeaseGrant = "LeaseGrant" Unary,
        LeaseRevoke = "LeaseRevoke" Unary,
        LeaseKeepAlive = "LeaseKeepAlive" BidiStream,
        LeaseTimeToLive = "LeaseTimeToLive" Unary,
        LeaseLeases = "LeaseLeases" Unary,
    }
    "etcdserverpb.Cluster" {
        MemberAdd = "MemberAdd" Unary,
        MemberRemove = "MemberRemove" Unary,
        MemberUpdate = "MemberUpdate" Unary,
        MemberList = "MemberList" Unary,
        MemberPromote = "MemberPromote" Unary,
    }
    "etcdserverpb.Maintenance" {
        Alarm = "Alarm" Unary,
        Status = "Status" Unary,
        Defragment = "Defragment" Unary,
        Hash = "Hash" Unary,
        HashKv = "HashKV" Unary,
        Snapshot = "Snapshot" ServerStream,
        MoveLeader = "MoveLeader" Unary,
        Downgrade = "Downgrade" Unary,
    }
    "etcdserverpb.Auth" {
        AuthEnable = "AuthEnable" Unary,
        AuthDisable = "AuthDisable" Unary,
        AuthStatus = "AuthStatus" Unary,
        Authenticate = "Authenticate" Unary,
        UserAdd = "UserAdd" Unary,
        UserGet = "UserGet" Unary,
        UserList = "UserList" Unary,
        UserDelete = "UserDelete" Unary,
        UserChangePassword = "UserChangePassword" Unary,
        UserGrantRole = "UserGrantRole" Unary,
        UserRevokeRole = "UserRevokeRole" Unary,
        RoleAdd = "RoleAdd" Unary,
        RoleGet = "RoleGet" Unary,
        RoleList = "RoleList" Unary,
        RoleDelete = "RoleDelete" Unary,
        RoleGrantPermission = "RoleGrantPermission" Unary,
        RoleRevokePermission = "RoleRevokePermission" Unary,
    }
    "v3lockpb.Lock" {
        Lock = "Lock" Unary,
        Unlock = "Unlock" Unary,
    }
    "v3electionpb.Election" {
        Campaign = "Campaign" Unary,
        Proclaim = "Proclaim" Unary,
        Leader = "Leader" Unary,
        Observe = "Observe" ServerStream,
        Resign = "Resign" Unary,
    }
}

/// Returns the table of all methods.
pub(crate) fn table() -> &'static MethodTable {
    static TABLE: LazyLock<MethodTable> = LazyLock::new(|| MethodTable::new(METHODS));
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_path() {
        for (at, method) in METHODS.iter().enumerate() {
            assert_eq!(table().find(method.path), Some((at, method)));
        }
        assert_eq!((METHODS.len(), RPCS.len()), (49, 49), "etcd has 49 methods besides health");
        assert!(!table().has_service("grpc.health.v1.Health"));
    }
}
