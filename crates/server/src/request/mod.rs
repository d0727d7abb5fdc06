//! The requests of etcd's API, as async methods of [`Server`].
//!
//! The methods need no runtime: all they await are oneshots that the stages of the member complete.
//! Dropping the future cancels the wait, not the request.
//!
//! ```text
//!   put, delete, txn, compact ─┐
//!   lease grant, revoke        ├─► authenticate ─► header ─► propose ─► log ─► applied ─► Reply
//!   users, roles, alarms       │
//!   downgrade, checkpoints ────┘
//!   range, read-only txn ────────► read index applied ─► Reading: permissions ─► StateMachine
//!   lease renew, time to live ───► leader confirmed ─► lessor
//!   members ─────────────────────► quorum stays safe ─► conf change ─► member list
//!   status, hashes, defragment ──► the local member as it is
//! ```
//!
//! Invariants: every request of a client that goes through the log passes one function
//! (`propose_for`), which puts the user and the auth revision into its header. Refusals of the
//! state machine are returned unchanged. Nothing here blocks a thread: passwords, hashes and
//! commits run on a pool. Responses of etcd's API have their whole header; results about keys carry
//! the revision only, and `api` adds the rest.
//!
//! Not here: validation of single requests (`api::validate`, and URLs) and the texts that clients
//! see (`api`); timeouts of proposals (the raft loop).

mod caller;
mod downgrade;
mod from_peers;
mod keys;
mod leader;
mod leases;
mod local;
mod maintenance;
mod members;
mod reading;
mod stream;
mod users;
mod wait;

use proto::etcdserverpb as pb;

pub use caller::Credentials;
pub use from_peers::{ReceiveError, ReceiveSnapshotError};
pub use maintenance::SERVER_VERSION;
pub use reading::Reading;
pub use stream::{Chunk, RangeStream};

use crate::error::Error;
use crate::propose::stage_timings::RequestStage;
use crate::propose::typed::{AppliedReply, Propose};
use crate::server::Server;

impl Server {
    /// Returns the header of a response.
    pub fn header(&self, revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader { revision, ..self.header_without_revision() }
    }

    /// Returns the header of a response that is not about keys.
    fn header_without_revision(&self) -> pb::ResponseHeader {
        pb::ResponseHeader {
            cluster_id: self.cluster_id().0,
            member_id: self.local().0,
            revision: 0,
            raft_term: self.term().0,
        }
    }

    /// Returns the header of a response at the current revision.
    fn header_now(&self) -> pb::ResponseHeader {
        self.header(self.state().store.current())
    }

    /// Proposes a request in the name of its client and waits until it is applied.
    async fn propose_for<P: Propose>(
        &self,
        credentials: &Credentials,
        request: P,
    ) -> Result<AppliedReply<P::Reply>, Error> {
        let command = request.into();
        // Before authentication, as in etcd: an overloaded member does no work for a refused
        // request.
        self.inner.proposer.check_apply_gap(&command)?;
        let mut header = pb::RequestHeader::default();
        if let Some(caller) = self.auth_info(credentials).await? {
            caller.write_to(&mut header);
        }
        let timings = credentials.timings.as_ref();
        let (proposal, _following) =
            self.inner.proposer.propose_timed::<P>(header, command, timings)?;
        let answer = proposal.await;
        timings.into_iter().for_each(|timings| timings.record(RequestStage::Answered, self.now()));
        answer
    }

    /// Proposes a request in the name of its client and returns the reply.
    async fn reply_for<P: Propose>(
        &self,
        credentials: &Credentials,
        request: P,
    ) -> Result<P::Reply, Error> {
        self.propose_for(credentials, request).await?.into_reply()
    }

    /// Proposes a request in the name of its client and returns the response with its header.
    async fn response_for<P: Propose<Reply: Response>>(
        &self,
        credentials: &Credentials,
        request: P,
    ) -> Result<P::Reply, Error> {
        self.with_header(self.propose_for(credentials, request).await?)
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
