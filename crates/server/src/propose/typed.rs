//! Commands with the types of their replies.
//!
//! The log holds commands and the applier returns replies as enums, because an entry may come from
//! any member. A caller knows which command it proposes, and [`Propose`] gives it the reply of that
//! command:
//!
//! ```text
//!   put(PutRequest) ─► Command::Put ─► log ─► apply ─► Reply::Put(PutResult) ─► PutResult
//! ```
//!
//! The kind of a reply is checked at run time, in [`AppliedReply::of`] and [`conf_change_result`]
//! only. A waiter is found by the request id in an applied entry, and that entry is data: any
//! member may have written it. An id has 16 bits of the member's id and a time, so two members, or
//! one whose clock was set back, may use the same. Whether an entry is the command that this member
//! proposed is therefore not known before it is decoded.
//!
//! The waiting task makes the check, through a function pointer: without an allocation, and off the
//! threads of the pipeline. A mismatch fails the one request with an error, and changes nothing.
//! The options are in `docs/decisions/2026-11-18-typed-replies.md`.

use mvcc::{CompactionTicket, DeleteRangeResult, PutResult, RangeResult, TxnResult};
use proto::command::Command;
use proto::etcdserverpb as pb;
use proto::membershippb;

use super::pending::{AppliedProposal, Proposal};
use crate::apply::{Refusal, Reply};
use crate::error::Error;

/// A request that becomes a command of the log.
pub trait Propose: Into<Command> {
    /// The reply to the command.
    type Reply;

    /// Extracts the reply. Returns `None` for the reply to another command.
    fn reply(reply: Reply) -> Option<Self::Reply>;
}

/// The result of a command that was applied on this member.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedReply<R> {
    /// The revision of the store after the command, for the header of the response.
    pub revision: i64,
    /// The reply, or the reason why all members refused the command.
    pub result: Result<R, Refusal>,
}

/// The proposal of a request `P`, a future of its reply.
pub(crate) type RequestProposal<P> = Proposal<AppliedReply<<P as Propose>::Reply>>;

impl<R> AppliedReply<R> {
    /// Extracts the result of a command `P` from an applied proposal.
    ///
    /// # Errors
    /// The result of another command: request ids are not unique.
    pub(crate) fn of<P: Propose<Reply = R>>(
        applied: AppliedProposal,
    ) -> Result<AppliedReply<R>, Error> {
        let AppliedProposal::Request { revision, result } = applied else {
            return Err(Error::ReplyMismatch);
        };
        let result = match result {
            Ok(reply) => Ok(P::reply(reply).ok_or(Error::ReplyMismatch)?),
            Err(refusal) => Err(refusal),
        };
        Ok(AppliedReply { revision, result })
    }

    /// Returns the reply, or the refusal as an error.
    ///
    /// # Errors
    /// The command was refused.
    pub fn into_reply(self) -> Result<R, Error> {
        Ok(self.result?)
    }
}

/// Extracts the result of a conf change from an applied proposal.
#[expect(clippy::needless_pass_by_value, reason = "has the signature of an extract function")]
pub(crate) fn conf_change_result(applied: AppliedProposal) -> Result<(), Error> {
    match applied {
        AppliedProposal::ConfChange(result) => Ok(result?),
        AppliedProposal::Request { .. } => Err(Error::ReplyMismatch),
    }
}

/// Any command, for callers that do not know which one.
impl Propose for Command {
    type Reply = Reply;

    fn reply(reply: Reply) -> Option<Reply> {
        Some(reply)
    }
}

/// Declares the type of the reply to each request.
macro_rules! replies {
    ($($request:ty => $reply:ident($type:ty);)*) => {
        $(impl Propose for $request {
            type Reply = $type;

            fn reply(reply: Reply) -> Option<$type> {
                match reply {
                    Reply::$reply(reply) => Some(reply),
                    _ => None,
                }
            }
        })*
    };
}

replies! {
    pb::RangeRequest => Range(RangeResult);
    pb::PutRequest => Put(PutResult);
    pb::DeleteRangeRequest => DeleteRange(DeleteRangeResult);
    pb::TxnRequest => Txn(TxnResult);
    pb::CompactionRequest => Compaction(CompactionTicket);
    pb::LeaseGrantRequest => LeaseGrant(pb::LeaseGrantResponse);
    pb::LeaseRevokeRequest => LeaseRevoke(pb::LeaseRevokeResponse);
    pb::AlarmRequest => Alarm(pb::AlarmResponse);
    pb::InternalAuthenticateRequest => Authenticate(pb::AuthenticateResponse);
    pb::AuthEnableRequest => AuthEnable(pb::AuthEnableResponse);
    pb::AuthDisableRequest => AuthDisable(pb::AuthDisableResponse);
    pb::AuthStatusRequest => AuthStatus(pb::AuthStatusResponse);
    pb::AuthUserAddRequest => AuthUserAdd(pb::AuthUserAddResponse);
    pb::AuthUserDeleteRequest => AuthUserDelete(pb::AuthUserDeleteResponse);
    pb::AuthUserGetRequest => AuthUserGet(pb::AuthUserGetResponse);
    pb::AuthUserChangePasswordRequest => AuthUserChangePassword(pb::AuthUserChangePasswordResponse);
    pb::AuthUserGrantRoleRequest => AuthUserGrantRole(pb::AuthUserGrantRoleResponse);
    pb::AuthUserRevokeRoleRequest => AuthUserRevokeRole(pb::AuthUserRevokeRoleResponse);
    pb::AuthUserListRequest => AuthUserList(pb::AuthUserListResponse);
    pb::AuthRoleAddRequest => AuthRoleAdd(pb::AuthRoleAddResponse);
    pb::AuthRoleDeleteRequest => AuthRoleDelete(pb::AuthRoleDeleteResponse);
    pb::AuthRoleGetRequest => AuthRoleGet(pb::AuthRoleGetResponse);
    pb::AuthRoleListRequest => AuthRoleList(pb::AuthRoleListResponse);
    pb::AuthRoleGrantPermissionRequest => AuthRoleGrantPermission(pb::AuthRoleGrantPermissionResponse);
    pb::AuthRoleRevokePermissionRequest => AuthRoleRevokePermission(pb::AuthRoleRevokePermissionResponse);
}

/// Declares requests whose reply carries nothing.
macro_rules! empty_replies {
    ($($request:ty => $reply:ident;)*) => {
        $(impl Propose for $request {
            type Reply = ();

            fn reply(reply: Reply) -> Option<()> {
                matches!(reply, Reply::$reply).then_some(())
            }
        })*
    };
}

empty_replies! {
    pb::LeaseCheckpointRequest => LeaseCheckpoint;
    membershippb::ClusterVersionSetRequest => Empty;
    membershippb::ClusterMemberAttrSetRequest => Empty;
    membershippb::DowngradeInfoSetRequest => Empty;
    pb::DowngradeVersionTestRequest => Empty;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(reply: Reply) -> AppliedProposal {
        AppliedProposal::Request { revision: 7, result: Ok(reply) }
    }

    #[test]
    fn a_reply_to_another_command_is_a_mismatch() {
        let grant = || Reply::LeaseGrant(pb::LeaseGrantResponse::default());
        let as_grant = AppliedReply::of::<pb::LeaseGrantRequest>(applied(grant()));
        assert_eq!(as_grant.unwrap().revision, 7);
        let as_put = AppliedReply::of::<pb::PutRequest>(applied(grant()));
        assert_eq!(as_put.unwrap_err(), Error::ReplyMismatch);
    }

    #[test]
    fn a_request_and_a_conf_change_with_one_id_are_a_mismatch() {
        let conf_change = AppliedProposal::ConfChange(Ok(()));
        let as_put = AppliedReply::of::<pb::PutRequest>(conf_change);
        assert_eq!(as_put.unwrap_err(), Error::ReplyMismatch);
        let request = applied(Reply::LeaseGrant(pb::LeaseGrantResponse::default()));
        assert_eq!(conf_change_result(request), Err(Error::ReplyMismatch));
    }
}
