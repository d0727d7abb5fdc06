//! Which RPCs there are.
//!
//! ```text
//!   /etcdserverpb.KV/Range           Rpc::Kv(Kv::Range)      unary           0
//!   /etcdserverpb.Watch/Watch        Rpc::Watch(Watch::Watch) bidi_stream    6
//!    service          method         what to call             grpc_type      place in the metrics
//! ```

#![expect(clippy::enum_variant_names, reason = "named as etcd names them")]

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// How many messages go each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One, and one back.
    Unary,
    /// One, and many back.
    ServerStream,
    /// Many, and many back.
    BidiStream,
}

impl Kind {
    /// As metrics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Unary => "unary",
            Kind::ServerStream => "server_stream",
            Kind::BidiStream => "bidi_stream",
        }
    }
}

/// One of the RPCs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// What to call.
    pub(crate) rpc: Rpc,
    /// The path of its requests.
    pub(crate) path: &'static str,
    /// The name of its service.
    pub(crate) service: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    /// How many messages go each way.
    pub(crate) kind: Kind,
}

macro_rules! services {
    ($($service:ident $package:literal { $($method:ident $kind:ident,)* })*) => {
        $(
            /// The methods of a service.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) enum $service { $($method,)* }
        )*

        /// Which RPC, by service.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rpc { $($service($service),)* }

        /// All of them.
        pub(crate) static METHODS: &[Method] = &[$($(
            Method {
                rpc: Rpc::$service($service::$method),
                path: concat!("/", $package, "/", stringify!($method)),
                service: $package,
                name: stringify!($method),
                kind: Kind::$kind,
            },
        )*)*];
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

impl Method {
    /// Its place among [`METHODS`] and the RPC itself, by the path of a request.
    pub(crate) fn find(path: &str) -> Option<(usize, &'static Method)> {
        static BY_PATH: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
            METHODS.iter().enumerate().map(|(at, method)| (method.path, at)).collect()
        });
        BY_PATH.get(path).map(|at| (*at, &METHODS[*at]))
    }

    /// Whether there is such a service at all.
    pub(crate) fn is_service(name: &str) -> bool {
        static SERVICES: LazyLock<HashSet<&str>> =
            LazyLock::new(|| METHODS.iter().map(|method| method.service).collect());
        SERVICES.contains(name)
    }

    /// Whether its metrics are there before anybody calls it. Locks and elections are added to etcd's server too late for that.
    pub(crate) fn is_counted_from_the_start(&self) -> bool {
        !matches!(self.rpc, Rpc::Lock(_) | Rpc::Election(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_is_found_by_its_path() {
        for (at, method) in METHODS.iter().enumerate() {
            assert_eq!(Method::find(method.path), Some((at, method)));
            assert!(Method::is_service(method.service));
        }
        assert_eq!(Method::find("/etcdserverpb.KV/Rang"), None);
        assert_eq!(METHODS.len(), 52, "as etcd has them");
    }
}
