//! Histograms by kind of request, with cached series.
//!
//! As in etcd, a series appears with its first observation; from then on a table holds its handle:
//!
//! ```text
//!            Range  Put   …  ClusterVersionSet
//!   true     -      ●        ●
//!   false    -      -        -
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::{Histogram, HistogramVec};
use proto::command::Command;

/// Declares [`Op`] with a variant for each command.
macro_rules! ops {
    ($($op:ident),* $(,)?) => {
        /// The kind of a request, as etcd's labels name it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "named like the commands")]
        pub enum Op {
            $($op,)*
            /// A transaction that only reads and does not go through the log.
            ReadonlyTxn,
        }

        impl Op {
            const NAMES: [&'static str; Op::COUNT] = [$(stringify!($op),)* "ReadonlyTxn"];
            const COUNT: usize = [$(Op::$op,)* Op::ReadonlyTxn].len();

            /// Returns the kind of a command.
            pub fn of(command: &Command) -> Op {
                match command {
                    $(Command::$op(_) => Op::$op,)*
                }
            }
        }
    };
}

ops! {
    Range,
    Put,
    DeleteRange,
    Txn,
    Compaction,
    LeaseGrant,
    LeaseRevoke,
    LeaseCheckpoint,
    Alarm,
    Authenticate,
    AuthEnable,
    AuthDisable,
    AuthStatus,
    AuthUserAdd,
    AuthUserDelete,
    AuthUserChangePassword,
    AuthUserGrantRole,
    AuthUserGet,
    AuthUserRevokeRole,
    AuthRoleAdd,
    AuthRoleGrantPermission,
    AuthRoleGet,
    AuthRoleRevokePermission,
    AuthRoleDelete,
    AuthUserList,
    AuthRoleList,
    ClusterVersionSet,
    ClusterMemberAttrSet,
    DowngradeInfoSet,
    DowngradeVersionTest,
}

impl Op {
    /// Returns the label.
    pub fn name(self) -> &'static str {
        Op::NAMES[self as usize]
    }
}

fn label(success: bool) -> &'static str {
    if success { "true" } else { "false" }
}

/// A histogram per kind of request, and per success and failure.
#[derive(Clone, Debug)]
pub struct PerOp {
    vec: HistogramVec,
    /// The value of a constant first label.
    first: Option<&'static str>,
    series: Arc<[[OnceLock<Histogram>; 2]; Op::COUNT]>,
}

impl PerOp {
    pub(super) fn new(vec: HistogramVec, first: Option<&'static str>) -> PerOp {
        let series = Arc::new([const { [const { OnceLock::new() }; 2] }; Op::COUNT]);
        PerOp { vec, first, series }
    }

    /// Records a duration.
    pub fn observe(&self, op: Op, success: bool, took: Duration) {
        let series = &self.series[op as usize][usize::from(success)];
        series.get_or_init(|| self.look_up(op, success)).observe(took.as_secs_f64());
    }

    fn look_up(&self, op: Op, success: bool) -> Histogram {
        let name = match (op, self.first) {
            // Compat: etcd's apply metrics lack a name for this request.
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

    /// Records a duration.
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
    fn a_command_has_the_label_of_its_variant() {
        let op = |command: Command| Op::of(&command).name();
        assert_eq!(op(pb::PutRequest::default().into()), "Put");
        let last = pb::DowngradeVersionTestRequest::default();
        assert_eq!(op(last.into()), "DowngradeVersionTest");
        assert_eq!(Op::ReadonlyTxn.name(), "ReadonlyTxn");
    }
}
