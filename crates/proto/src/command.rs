//! The requests of the log as an enum.
//!
//! On the wire a log entry holds an [`InternalRaftRequest`]: a header and some thirty optional
//! fields, of which members set exactly one. [`RaftRequest`] is the same entry with that rule in
//! its type, so that code matches on a [`Command`] instead of testing fields:
//!
//! ```text
//!   InternalRaftRequest { header: {ID: 7}, put: {key: "a"}, range: none, txn: none, … }   wire
//!   RaftRequest         { header: {ID: 7}, command: Command::Put({key: "a"}) }            code
//! ```
//!
//! The conversions move the request and copy nothing. Both ways keep etcd's bytes: an entry that
//! holds one command encodes to the bytes it was decoded from.
//!
//! An entry that sets several fields is never written by etcd or Bowline. It decodes to the command
//! that etcd's `dispatch` would execute, which is the first one in the order of [`Command`]'s
//! variants; the other fields are ignored.

use crate::etcdserverpb::{self as pb, InternalRaftRequest, RequestHeader};
use crate::membershippb;

/// A decoded request of the log: a header and one command.
#[derive(Clone, Debug, PartialEq)]
pub struct RaftRequest {
    /// The request id of entries without a header. Zero in all entries written since 3.0.
    pub id: u64,
    /// The request id and the user. Present in all entries written since 3.0.
    pub header: Option<RequestHeader>,
    /// The request itself.
    pub command: Command,
}

impl RaftRequest {
    /// A request as members propose it.
    #[must_use]
    pub fn new(header: RequestHeader, command: impl Into<Command>) -> RaftRequest {
        RaftRequest { id: 0, header: Some(header), command: command.into() }
    }

    /// Returns the id under which the proposing member waits for the result.
    ///
    /// Compat: as in etcd, the field outside the header wins unless it is zero.
    #[must_use]
    pub fn request_id(&self) -> u64 {
        match (self.id, &self.header) {
            (0, Some(header)) => header.id,
            (id, _) => id,
        }
    }
}

/// The reason why an [`InternalRaftRequest`] holds no [`Command`].
#[derive(Clone, Debug, PartialEq)]
pub enum NotACommand {
    /// No field is set that this release knows.
    Empty,
    /// A request to the v2 store, as etcd up to 3.5 proposed it. It wins over all other fields.
    V2(Box<pb::Request>),
}

/// Declares [`Command`] and its conversions. Each row: variant, message, field on the wire.
macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident($message:ty) $field:ident;)*) => {
        /// A request of the log. The order of the variants decides which one wins if an entry sets
        /// several fields.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Command {
            $($(#[$doc])* $variant($message),)*
        }

        $(impl From<$message> for Command {
            fn from(request: $message) -> Command {
                Command::$variant(request)
            }
        })*

        impl From<RaftRequest> for InternalRaftRequest {
            fn from(request: RaftRequest) -> InternalRaftRequest {
                let RaftRequest { id, header, command } = request;
                let mut wire = InternalRaftRequest { id, header, ..Default::default() };
                match command {
                    $(Command::$variant(request) => wire.$field = Some(request),)*
                }
                wire
            }
        }

        impl TryFrom<InternalRaftRequest> for RaftRequest {
            type Error = NotACommand;

            fn try_from(wire: InternalRaftRequest) -> Result<RaftRequest, NotACommand> {
                let InternalRaftRequest { id, header, v2, $($field),* } = wire;
                if let Some(v2) = v2 {
                    return Err(NotACommand::V2(Box::new(v2)));
                }
                $(if let Some(request) = $field {
                    return Ok(RaftRequest { id, header, command: Command::$variant(request) });
                })*
                Err(NotACommand::Empty)
            }
        }
    };
}

commands! {
    /// The leader sets the cluster version.
    ClusterVersionSet(membershippb::ClusterVersionSetRequest) cluster_version_set;
    /// A member publishes its name and client URLs.
    ClusterMemberAttrSet(membershippb::ClusterMemberAttrSetRequest) cluster_member_attr_set;
    /// A downgrade begins or ends.
    DowngradeInfoSet(membershippb::DowngradeInfoSetRequest) downgrade_info_set;
    /// Does nothing. etcd proposes it in tests to write an entry that an older release rejects.
    DowngradeVersionTest(pb::DowngradeVersionTestRequest) downgrade_version_test;
    /// Reads a range. No release since 3.1 proposes it: reads do not go through the log.
    Range(pb::RangeRequest) range;
    /// Puts a key.
    Put(pb::PutRequest) put;
    /// Deletes a range of keys.
    DeleteRange(pb::DeleteRangeRequest) delete_range;
    /// Compares keys and executes one of two branches.
    Txn(pb::TxnRequest) txn;
    /// Discards revisions.
    Compaction(pb::CompactionRequest) compaction;
    /// Grants a lease.
    LeaseGrant(pb::LeaseGrantRequest) lease_grant;
    /// Revokes a lease and deletes its keys.
    LeaseRevoke(pb::LeaseRevokeRequest) lease_revoke;
    /// Replicates the remaining TTLs of leases.
    LeaseCheckpoint(pb::LeaseCheckpointRequest) lease_checkpoint;
    /// Raises, clears or lists alarms.
    Alarm(pb::AlarmRequest) alarm;
    /// Makes all members accept a token. The proposing member has checked the password.
    Authenticate(pb::InternalAuthenticateRequest) authenticate;
    /// Enables authentication.
    AuthEnable(pb::AuthEnableRequest) auth_enable;
    /// Disables authentication.
    AuthDisable(pb::AuthDisableRequest) auth_disable;
    /// Reads whether authentication is enabled.
    AuthStatus(pb::AuthStatusRequest) auth_status;
    /// Adds a user.
    AuthUserAdd(pb::AuthUserAddRequest) auth_user_add;
    /// Deletes a user.
    AuthUserDelete(pb::AuthUserDeleteRequest) auth_user_delete;
    /// Reads the roles of a user.
    AuthUserGet(pb::AuthUserGetRequest) auth_user_get;
    /// Changes the password of a user.
    AuthUserChangePassword(pb::AuthUserChangePasswordRequest) auth_user_change_password;
    /// Grants a role to a user.
    AuthUserGrantRole(pb::AuthUserGrantRoleRequest) auth_user_grant_role;
    /// Revokes a role of a user.
    AuthUserRevokeRole(pb::AuthUserRevokeRoleRequest) auth_user_revoke_role;
    /// Lists the users.
    AuthUserList(pb::AuthUserListRequest) auth_user_list;
    /// Adds a role.
    AuthRoleAdd(pb::AuthRoleAddRequest) auth_role_add;
    /// Deletes a role.
    AuthRoleDelete(pb::AuthRoleDeleteRequest) auth_role_delete;
    /// Reads the permissions of a role.
    AuthRoleGet(pb::AuthRoleGetRequest) auth_role_get;
    /// Lists the roles.
    AuthRoleList(pb::AuthRoleListRequest) auth_role_list;
    /// Grants a permission to a role.
    AuthRoleGrantPermission(pb::AuthRoleGrantPermissionRequest) auth_role_grant_permission;
    /// Revokes a permission of a role.
    AuthRoleRevokePermission(pb::AuthRoleRevokePermissionRequest) auth_role_revoke_permission;
}
