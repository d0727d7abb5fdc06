//! What comes of an entry.

use backend::{CommitError, ReadError};
use lease::{GrantError, RevokeError};
use membership::StopError;
use mvcc::{CompactionTicket, DeleteRangeResult, PutResult, RangeResult, Response as _, TxnResult};
use proto::etcdserverpb as pb;
use types::{Index, MemberId};

use crate::metrics::{Executed, Op};

/// What applying an entry did.
#[derive(Debug)]
pub enum Applied {
    /// The entry was applied before.
    Already,
    /// An empty entry: a leader has taken over. If that is this member, its lessor is to be promoted now.
    Empty,
    /// A request.
    Request(Outcome),
    /// A change of members.
    ConfChange {
        /// The id under which somebody may be waiting.
        id: u64,
        /// Whether it was made.
        result: Result<(), membership::Refused>,
        /// Who was removed, if it was made and somebody was. If it is this member, it has to stop soon.
        removed: Option<MemberId>,
    },
}

/// What a request came to.
#[derive(Debug)]
pub struct Outcome {
    /// The id under which somebody may be waiting.
    pub id: u64,
    /// The revision of the store afterwards: for the header of the answer.
    pub revision: i64,
    /// The answer. None if nobody waits for it, and it would not have changed anything.
    pub result: Option<Result<Reply, Refusal>>,
    /// The cluster's version was lowered: a snapshot is to be taken, which the older release can read.
    pub lowered: bool,
    /// What was asked for, to be counted.
    pub op: Option<Op>,
    /// What was carried out for it, to be counted.
    pub executed: Executed,
}

impl Outcome {
    /// Whether it went well. As etcd counts: that a revision is compacted already is as well as could be.
    pub(crate) fn is_success(&self) -> bool {
        match &self.result {
            Some(Err(refusal)) => *refusal == Refusal::Keys(mvcc::Error::Compacted),
            Some(Ok(_)) | None => true,
        }
    }

    /// The length of the answer, if there is one about keys.
    pub(crate) fn size(&self) -> Option<usize> {
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

/// The answer to a request. Those of etcd's API are without a header.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named like the requests they answer")]
pub enum Reply {
    Range(RangeResult),
    Put(PutResult),
    DeleteRange(DeleteRangeResult),
    Txn(TxnResult),
    /// With the compaction to wait for, if all that is to be dropped shall be gone.
    Compaction(CompactionTicket),
    LeaseGrant {
        id: i64,
        ttl: i64,
    },
    LeaseRevoke,
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
    /// To what a member publishes, and nobody asks back for.
    Nothing,
}

/// Why a request was refused. The same on every member with the same flags, and nothing was changed, with one exception.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// About keys.
    #[error(transparent)]
    Keys(mvcc::Error),
    /// About a lease that was to be granted.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// About a lease that was to be revoked.
    #[error(transparent)]
    Revoke(#[from] RevokeError),
    /// About users.
    #[error(transparent)]
    Auth(#[from] auth::Error),
    /// There is no space. If the alarm was not raised before, the request was carried out all the same: other members may have had space.
    /// Then this member is to raise it.
    #[error("etcdserver: no space")]
    NoSpace,
    /// Members are known to hold different things.
    #[error("etcdserver: corrupt cluster")]
    Corrupt,
}

/// Why this member has to stop: it could not do what the others did.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// About keys.
    #[error(transparent)]
    Keys(#[from] mvcc::Fault),
    /// About members, or versions.
    #[error(transparent)]
    Membership(#[from] StopError),
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database could not be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// An entry is no request.
    #[error("entry {index} cannot be decoded: {source}")]
    Decode {
        /// Which.
        index: Index,
        /// Why.
        source: prost::DecodeError,
    },
    /// Entries are missing.
    #[error("entry {found} comes where {wanted} should")]
    Gap {
        /// The one that should come.
        wanted: Index,
        /// The one that came.
        found: Index,
    },
    /// The database that a leader sent cannot be taken up.
    #[error("take up the database of snapshot {index}: {reason}")]
    Snapshot {
        /// How far it is.
        index: Index,
        /// Why not.
        reason: String,
    },
    /// A request that this release does not know, or none at all.
    #[error("entry {0} asks for nothing that is known here")]
    Unknown(Index),
    /// A kind of entry that nobody proposes.
    #[error("entry {0} is of an unknown kind")]
    UnknownKind(Index),
}

/// A fault in reading keys is this member's; all else is the request's.
pub(crate) fn keys<T>(result: Result<T, mvcc::Error>) -> Result<Result<T, Refusal>, Fault> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(mvcc::Error::Fault(fault)) => Err(fault.into()),
        Err(error) => Ok(Err(Refusal::Keys(error))),
    }
}
