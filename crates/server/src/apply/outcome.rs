//! Results of applying an entry.

use backend::{CommitError, ReadError};
use lease::{GrantError, RevokeError};
use membership::StopError;
use mvcc::{CompactionTicket, DeleteRangeResult, PutResult, RangeResult, Response as _, TxnResult};
use proto::etcdserverpb as pb;
use types::{Index, MemberId};

use crate::metrics::{Executed, Op};

/// The result of applying an entry.
#[derive(Debug)]
pub enum Applied {
    /// The entry was applied before and has been skipped.
    AlreadyApplied,
    /// An empty entry, by which a leader begins its term. If this member leads, its lessor is to be
    /// promoted now.
    Empty,
    /// A request.
    Request(Outcome),
    /// A conf change.
    ConfChange {
        /// The request id of a waiter.
        id: u64,
        /// Whether the change was made.
        result: Result<(), membership::ConfChangeRefusal>,
        /// The member that the change removed. If it is this member, it has to stop soon.
        removed: Option<MemberId>,
    },
}

/// The result of a request.
#[derive(Debug)]
pub struct Outcome {
    /// The request id of a waiter.
    pub id: u64,
    /// The revision of the store afterwards, for the header of the response.
    pub revision: i64,
    /// The reply. `None` if the command only reads and was skipped, because it has no waiter.
    pub result: Option<Result<Reply, Refusal>>,
    /// The cluster version was lowered: a snapshot is due, which the older release can read.
    pub version_lowered: bool,
    /// The kind of the command, for the metrics.
    pub op: Op,
    /// The operations on keys, for the metrics.
    pub executed: Executed,
}

impl Outcome {
    /// Returns whether the request counts as a success. Compat: as in etcd, a revision that is
    /// already compacted is one.
    pub(crate) fn is_success(&self) -> bool {
        match &self.result {
            Some(Err(refusal)) => *refusal == Refusal::Keys(mvcc::Error::Compacted),
            Some(Ok(_)) | None => true,
        }
    }

    /// Returns the encoded length of the response, if it is one about keys.
    pub(crate) fn response_size(&self) -> Option<usize> {
        let header = pb::ResponseHeader { revision: self.revision, ..Default::default() };
        match self.result.as_ref()?.as_ref().ok()? {
            Reply::Range(range) => Some(range.encoded_len(&header)),
            Reply::Put(put) => Some(put.encoded_len(&header)),
            Reply::DeleteRange(deleted) => Some(deleted.encoded_len(&header)),
            Reply::Txn(txn) => Some(txn.encoded_len(&header)),
            _ => None,
        }
    }
}

/// The reply to a command. Responses of etcd's API are without their header.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named like the commands")]
pub enum Reply {
    Range(RangeResult),
    Put(PutResult),
    DeleteRange(DeleteRangeResult),
    Txn(TxnResult),
    /// The ticket identifies the compaction, for callers that wait until it is finished.
    Compaction(CompactionTicket),
    LeaseGrant(pb::LeaseGrantResponse),
    LeaseRevoke(pb::LeaseRevokeResponse),
    LeaseCheckpoint,
    Alarm(pb::AlarmResponse),
    AuthEnable(pb::AuthEnableResponse),
    AuthDisable(pb::AuthDisableResponse),
    AuthStatus(pb::AuthStatusResponse),
    Authenticate(pb::AuthenticateResponse),
    AuthUserAdd(pb::AuthUserAddResponse),
    AuthUserDelete(pb::AuthUserDeleteResponse),
    AuthUserGet(pb::AuthUserGetResponse),
    AuthUserChangePassword(pb::AuthUserChangePasswordResponse),
    AuthUserGrantRole(pb::AuthUserGrantRoleResponse),
    AuthUserRevokeRole(pb::AuthUserRevokeRoleResponse),
    AuthUserList(pb::AuthUserListResponse),
    AuthRoleAdd(pb::AuthRoleAddResponse),
    AuthRoleDelete(pb::AuthRoleDeleteResponse),
    AuthRoleGet(pb::AuthRoleGetResponse),
    AuthRoleList(pb::AuthRoleListResponse),
    AuthRoleGrantPermission(pb::AuthRoleGrantPermissionResponse),
    AuthRoleRevokePermission(pb::AuthRoleRevokePermissionResponse),
    /// To cluster version, member attributes and downgrade info.
    Empty,
}

/// The reason why a command was refused. Equal on all members with the same flags, and with one
/// exception nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Refused by the store.
    #[error(transparent)]
    Keys(mvcc::Error),
    /// A lease cannot be granted.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// A lease cannot be revoked.
    #[error(transparent)]
    Revoke(#[from] RevokeError),
    /// Refused by permissions, or about users and roles.
    #[error(transparent)]
    Auth(#[from] auth::Error),
    /// The database exceeds its quota. If the alarm was not raised before, the command was executed
    /// nevertheless, since other members may have had space; this member then raises the alarm.
    #[error("etcdserver: no space")]
    NoSpace,
    /// The alarm `CORRUPT` is raised: members may hold different data.
    #[error("etcdserver: corrupt cluster")]
    Corrupt,
}

/// The reason why this member has to stop: it could not do what the other members did.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The store failed.
    #[error(transparent)]
    Keys(#[from] mvcc::Fault),
    /// The membership or the cluster version cannot be applied.
    #[error(transparent)]
    Membership(#[from] StopError),
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database could not be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// An entry holds no request.
    #[error("entry {index} cannot be decoded: {source}")]
    Decode {
        /// The index of the entry.
        index: Index,
        /// The decoder's error.
        source: prost::DecodeError,
    },
    /// Entries are missing.
    #[error("expected entry {expected}, got {found}")]
    Gap {
        /// The index after the last entry.
        expected: Index,
        /// The index of this entry.
        found: Index,
    },
    /// The database of a leader's snapshot cannot be used.
    #[error("cannot open the database of snapshot {index}: {reason}")]
    Snapshot {
        /// The index of the snapshot.
        index: Index,
        /// The underlying error.
        reason: String,
    },
    /// An entry without a command that this release knows.
    #[error("entry {0} holds no known command")]
    Unknown(Index),
    /// An entry of a kind that etcd does not propose.
    #[error("entry {0} is of an unknown kind")]
    UnknownKind(Index),
}

/// Splits an error of the store: a fault stops this member, all others are refusals.
pub(crate) fn refusal_or_fault<T>(
    result: Result<T, mvcc::Error>,
) -> Result<Result<T, Refusal>, Fault> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(mvcc::Error::Fault(fault)) => Err(fault.into()),
        Err(error) => Ok(Err(Refusal::Keys(error))),
    }
}
