//! Requests: what stands between etcd's API and consensus.
//!
//! Each is an `async fn` of [`Server`], without any runtime: all it ever waits for are promises that the stages of the member keep. Dropping the future
//! gives up waiting, not the request.
//!
//! ```text
//!   put, delete, txn, compact ─┐
//!   lease grant, revoke        │   who asks? ─► header ─► propose ─► log ─► applied here ─► Reply
//!   users, roles, alarms       ├─► log ──────────────────────────────────────────────────────┘
//!   downgrade, checkpoints ────┘
//!   range, read-only txn ────────► read: everything applied that has to be ─► Reading: may they? ─► StateMachine
//!   lease renew, time to live ───► leader: is it still? ─► lessor
//!   members ─────────────────────► is it safe? ─► change of members ─► list
//!   status, hashes, defragment ──► this member, as it is
//! ```
//!
//! What is always true: whatever clients take through the log goes through one function (`log`), with the user's name and the revision of users and roles in its
//! header; a refusal by the state machine is passed on as it is; nothing here blocks a thread, since what takes long (passwords, hashes, commits) is done
//! aside. Answers of etcd's API come with their whole header; those about keys have the revision alone, and the edge frames them.
//!
//! Left to others: whether a request makes sense by itself ([`mvcc::check`], and URLs), and how an [`Error`] looks to clients (`api`); who is proposed to, and
//! for how long that is waited for (the raft loop).

mod caller;
mod downgrade;
mod from_peers;
mod keys;
mod leader;
mod leases;
mod maintenance;
mod members;
mod reading;
mod stream;
mod users;
mod wait;

use proto::etcdserverpb as pb;

pub use caller::Credentials;
pub use from_peers::{SnapshotRefused, Unreceived};
pub use maintenance::SERVER_VERSION;
pub use reading::Reading;
pub use stream::{Chunk, RangeStream};

use crate::error::Error;
use crate::propose::stage_timings::Moment;
use crate::propose::typed::{AppliedReply, Propose};
use crate::server::Server;

impl Server {
    /// The header of an answer.
    pub fn header(&self, revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader { revision, ..self.header_without_revision() }
    }

    /// The header of an answer that is not about keys.
    fn header_without_revision(&self) -> pb::ResponseHeader {
        pb::ResponseHeader {
            cluster_id: self.cluster_id().0,
            member_id: self.local().0,
            revision: 0,
            raft_term: self.term().0,
        }
    }

    /// The header of an answer about whatever is there now.
    fn header_now(&self) -> pb::ResponseHeader {
        self.header(self.state().store.current())
    }

    /// Takes a request through the log in the name of its client.
    async fn log<P: Propose>(
        &self,
        who: &Credentials,
        request: P,
    ) -> Result<AppliedReply<P::Reply>, Error> {
        let command = request.into();
        // Before authentication, as in etcd: an overloaded member does no work for a refused request.
        self.check_gap(&command)?;
        let mut header = pb::RequestHeader::default();
        if let Some(caller) = self.auth_info(who).await? {
            caller.write_to(&mut header);
        }
        let marks = who.marks.as_ref();
        let (proposal, _following) = self.propose_followed::<P>(header, command, marks)?;
        let answer = proposal.await;
        marks.into_iter().for_each(|marks| marks.note(Moment::Answered, self.now()));
        answer
    }

    /// Takes a request through the log and returns its reply.
    async fn log_for_reply<P: Propose>(
        &self,
        who: &Credentials,
        request: P,
    ) -> Result<P::Reply, Error> {
        self.log(who, request).await?.into_reply()
    }

    /// Takes a request through the log and returns its response with the header filled in.
    async fn log_for_response<P: Propose<Reply: Response>>(
        &self,
        who: &Credentials,
        request: P,
    ) -> Result<P::Reply, Error> {
        self.with_header(self.log(who, request).await?)
    }

    fn with_header<R: Response>(&self, applied: AppliedReply<R>) -> Result<R, Error> {
        let header = self.header(applied.revision);
        let mut response = applied.into_reply()?;
        response.set_header(header);
        Ok(response)
    }
}

/// A response of etcd's API that begins with a header.
trait Response {
    fn set_header(&mut self, header: pb::ResponseHeader);
}

macro_rules! responses {
    ($($response:ident),* $(,)?) => {
        $(impl Response for pb::$response {
            fn set_header(&mut self, header: pb::ResponseHeader) {
                self.header = Some(header);
            }
        })*
    };
}

responses! {
    LeaseGrantResponse,
    LeaseRevokeResponse,
    AuthenticateResponse,
    AuthEnableResponse,
    AuthDisableResponse,
    AuthStatusResponse,
    AuthUserAddResponse,
    AuthUserDeleteResponse,
    AuthUserGetResponse,
    AuthUserChangePasswordResponse,
    AuthUserGrantRoleResponse,
    AuthUserRevokeRoleResponse,
    AuthUserListResponse,
    AuthRoleAddResponse,
    AuthRoleDeleteResponse,
    AuthRoleGetResponse,
    AuthRoleListResponse,
    AuthRoleGrantPermissionResponse,
    AuthRoleRevokePermissionResponse,
}

#[cfg(test)]
mod tests;
