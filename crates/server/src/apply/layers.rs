//! The checks between a command and the state: alarms, permissions, quota.
//!
//! In etcd's order: alarms first, then the permissions of the user, and the quota last, while the
//! command executes. A command that exceeds the quota is executed nevertheless, because other
//! members may have had space for it, and is answered with an error.
//!
//! ```text
//!   command                                alarm CORRUPT   alarm NOSPACE   permissions   quota
//!   put, txn, lease grant                  refused         refused (*)     checked       checked
//!   range, delete, compact, lease revoke   refused         -               checked       -
//!   users, roles, alarms, checkpoints      -               -               checked       -
//!   cluster version, attributes, downgrade -               -               -             -
//!   (*) unless it costs nothing, as a txn without puts
//! ```

use crate::quota::QuotaCost as _;
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb::AlarmType;

use crate::apply::Refusal;
use crate::state::{LessorAdapter, StateMachine};

/// The layers that a command has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layers {
    /// Passes all of them: members publish it about themselves and the cluster.
    None,
    /// Needs the permission of the user.
    Permissions,
    /// Reads or changes keys, and is refused while members may hold different ones.
    Keys {
        /// The bytes it is expected to add to the database.
        cost: u64,
    },
}

impl Layers {
    pub(super) fn of(command: &Command) -> Layers {
        match command {
            Command::Put(put) => Layers::Keys { cost: put.cost() },
            Command::Txn(txn) => Layers::Keys { cost: txn.cost() },
            Command::LeaseGrant(grant) => Layers::Keys { cost: grant.cost() },
            Command::Range(_)
            | Command::DeleteRange(_)
            | Command::Compaction(_)
            | Command::LeaseRevoke(_) => Layers::Keys { cost: 0 },
            Command::LeaseCheckpoint(_)
            | Command::Alarm(_)
            | Command::Authenticate(_)
            | Command::AuthEnable(_)
            | Command::AuthDisable(_)
            | Command::AuthStatus(_)
            | Command::AuthUserAdd(_)
            | Command::AuthUserDelete(_)
            | Command::AuthUserGet(_)
            | Command::AuthUserChangePassword(_)
            | Command::AuthUserGrantRole(_)
            | Command::AuthUserRevokeRole(_)
            | Command::AuthUserList(_)
            | Command::AuthRoleAdd(_)
            | Command::AuthRoleDelete(_)
            | Command::AuthRoleGet(_)
            | Command::AuthRoleList(_)
            | Command::AuthRoleGrantPermission(_)
            | Command::AuthRoleRevokePermission(_) => Layers::Permissions,
            Command::ClusterVersionSet(_)
            | Command::ClusterMemberAttrSet(_)
            | Command::DowngradeInfoSet(_)
            | Command::DowngradeVersionTest(_) => Layers::None,
        }
    }
}

impl StateMachine {
    /// Checks alarms and permissions.
    pub(super) fn check(&self, request: &RaftRequest, layers: Layers) -> Result<(), Refusal> {
        match layers {
            Layers::None => return Ok(()),
            Layers::Permissions => {}
            Layers::Keys { cost } => self.check_alarms(cost)?,
        }
        let RaftRequest { header, command, .. } = request;
        Ok(self.auth.check_entry(header.as_ref(), command, &LessorAdapter(&self.lessor))?)
    }

    fn check_alarms(&self, cost: u64) -> Result<(), Refusal> {
        match self.alarms.refusing(cost > 0) {
            None | Some(AlarmType::None) => Ok(()),
            Some(AlarmType::Corrupt) => Err(Refusal::Corrupt),
            Some(AlarmType::Nospace) => Err(Refusal::NoSpace),
        }
    }

    /// Returns whether the quota has space for a command.
    pub(super) fn has_space_for(&self, layers: Layers) -> bool {
        match layers {
            Layers::None | Layers::Permissions => true,
            Layers::Keys { cost } => self.retained.quota.is_available(self.backend.size(), cost),
        }
    }
}
