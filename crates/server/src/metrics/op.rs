//! Histograms by what a request asks for, with their series looked up once.
//!
//! A series comes into being when something is first observed in it, as in etcd; from then on its handle is kept in a table:
//!
//! ```text
//!            Range  Put   …  ClusterVersionSet
//!   true     -      ●        ●
//!   false    -      -        -
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::{Histogram, HistogramVec};
use proto::etcdserverpb::InternalRaftRequest;

/// Names every kind of request, with the field of the message that has it.
macro_rules! ops {
    ($($op:ident $field:ident),* $(,)?) => {
        /// What a request asks for, as etcd's labels name it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "named like the requests")]
        pub enum Op {
            $($op,)*
            /// A transaction that only reads, and does not go through the log.
            ReadonlyTxn,
        }

        impl Op {
            const NAMES: [&'static str; Op::COUNT] = [$(stringify!($op),)* "ReadonlyTxn"];
            const COUNT: usize = [$(Op::$op,)* Op::ReadonlyTxn].len();

            /// What a request asks for. None if nothing.
            pub fn of(request: &InternalRaftRequest) -> Option<Op> {
                $(if request.$field.is_some() {
                    return Some(Op::$op);
                })*
                None
            }
        }
    };
}

ops! {
    Range range,
    Put put,
    DeleteRange delete_range,
    Txn txn,
    Compaction compaction,
    LeaseGrant lease_grant,
    LeaseRevoke lease_revoke,
    LeaseCheckpoint lease_checkpoint,
    Alarm alarm,
    Authenticate authenticate,
    AuthEnable auth_enable,
    AuthDisable auth_disable,
    AuthStatus auth_status,
    AuthUserAdd auth_user_add,
    AuthUserDelete auth_user_delete,
    AuthUserChangePassword auth_user_change_password,
    AuthUserGrantRole auth_user_grant_role,
    AuthUserGet auth_user_get,
    AuthUserRevokeRole auth_user_revoke_role,
    AuthRoleAdd auth_role_add,
    AuthRoleGrantPermission auth_role_grant_permission,
    AuthRoleGet auth_role_get,
    AuthRoleRevokePermission auth_role_revoke_permission,
    AuthRoleDelete auth_role_delete,
    AuthUserList auth_user_list,
    AuthRoleList auth_role_list,
    ClusterVersionSet cluster_version_set,
    ClusterMemberAttrSet cluster_member_attr_set,
    DowngradeInfoSet downgrade_info_set,
    DowngradeVersionTest downgrade_version_test,
}

impl Op {
    /// Its label.
    pub fn name(self) -> &'static str {
        Op::NAMES[self as usize]
    }
}

fn label(success: bool) -> &'static str {
    if success { "true" } else { "false" }
}

/// A histogram for every kind of request, and for success and failure.
#[derive(Clone, Debug)]
pub struct PerOp {
    vec: HistogramVec,
    /// The value of a first label that is always the same, if there is one.
    first: Option<&'static str>,
    series: Arc<[[OnceLock<Histogram>; 2]; Op::COUNT]>,
}

impl PerOp {
    pub(super) fn new(vec: HistogramVec, first: Option<&'static str>) -> PerOp {
        let series = Arc::new([const { [const { OnceLock::new() }; 2] }; Op::COUNT]);
        PerOp { vec, first, series }
    }

    /// Counts one.
    pub fn observe(&self, op: Op, success: bool, took: Duration) {
        let series = &self.series[op as usize][usize::from(success)];
        series.get_or_init(|| self.look_up(op, success)).observe(took.as_secs_f64());
    }

    fn look_up(&self, op: Op, success: bool) -> Histogram {
        let name = match (op, self.first) {
            // Compat: as in etcd, which forgot to give it a name when it is applied.
            (Op::AuthStatus, Some(_)) => "unknown",
            _ => op.name(),
        };
        let labels: Vec<&str> = self.first.into_iter().chain([name, label(success)]).collect();
        self.vec.with_label_values(&labels)
    }
}

/// A histogram for success and one for failure.
#[derive(Clone, Debug)]
pub struct PerOutcome {
    vec: HistogramVec,
    series: Arc<[OnceLock<Histogram>; 2]>,
}

impl PerOutcome {
    pub(super) fn new(vec: HistogramVec) -> PerOutcome {
        PerOutcome { vec, series: Arc::default() }
    }

    /// Counts one.
    pub fn observe(&self, success: bool, took: Duration) {
        let series = &self.series[usize::from(success)];
        let histogram = series.get_or_init(|| self.vec.with_label_values(&[label(success)]));
        histogram.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::etcdserverpb as pb;

    #[test]
    fn a_request_is_named_by_what_is_in_it() {
        let put = Some(pb::PutRequest::default());
        let request = InternalRaftRequest { put, ..InternalRaftRequest::default() };
        assert_eq!(Op::of(&request).map(Op::name), Some("Put"));
        let test = Some(pb::DowngradeVersionTestRequest::default());
        let last =
            InternalRaftRequest { downgrade_version_test: test, ..InternalRaftRequest::default() };
        assert_eq!(Op::of(&last).map(Op::name), Some("DowngradeVersionTest"));
        assert_eq!(Op::of(&InternalRaftRequest::default()), None);
        assert_eq!(Op::ReadonlyTxn.name(), "ReadonlyTxn");
    }
}
