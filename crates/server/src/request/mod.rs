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
use proto::etcdserverpb::InternalRaftRequest;

pub use caller::Credentials;
pub use from_peers::{SnapshotRefused, Unreceived};
pub use maintenance::SERVER_VERSION;
pub use reading::Reading;
pub use stream::{Chunk, RangeStream};

use crate::apply::Reply;
use crate::error::Error;
use crate::propose::pending::{Answer, Settled};
use crate::propose::stage_timings::Moment;
use crate::server::Server;

/// What a request came to that went through the log.
#[derive(Debug)]
struct Answered {
    /// The revision of the store when it had been applied.
    revision: i64,
    reply: Reply,
}

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

    /// Takes a request through the log, in the name of whoever asks.
    async fn log(
        &self,
        who: &Credentials,
        mut request: InternalRaftRequest,
    ) -> Result<Answered, Error> {
        // First, as in etcd: a member that is too busy need not find out who asks.
        self.check_gap(&request)?;
        if let Some(caller) = self.auth_info(who).await? {
            caller.write_to(request.header.get_or_insert_default());
        }
        let marks = who.marks.as_ref();
        let (proposal, _following) = self.propose_followed(request, marks)?;
        let answer = proposal.await;
        marks.into_iter().for_each(|marks| marks.note(Moment::Answered, self.now()));
        answered(answer)
    }

    /// Takes a request through the log for which nobody is asked who they are.
    async fn log_unasked(&self, request: InternalRaftRequest) -> Result<Answered, Error> {
        answered(self.propose(request)?.await)
    }
}

fn answered(answer: Answer) -> Result<Answered, Error> {
    match answer? {
        Settled::Request { revision, result } => Ok(Answered { revision, reply: result? }),
        Settled::ConfChange(_) => Err(another_kind()),
    }
}

/// An answer of a kind that the request does not have: it cannot be, and yet is no reason to panic.
fn another_kind() -> Error {
    Error::Fault("a request was settled with the answer to another".to_owned())
}

/// The reply of the kind that a request is answered with.
macro_rules! reply {
    ($answered:expr, $kind:ident) => {
        match $answered.reply {
            $crate::apply::Reply::$kind(reply) => Ok(reply),
            _ => Err($crate::request::another_kind()),
        }
    };
}
use reply;

/// Likewise, of those that have a header: it is filled in.
macro_rules! reply_with_header {
    ($server:expr, $answered:expr, $kind:ident) => {{
        let answered = $answered;
        let header = $server.header(answered.revision);
        $crate::request::reply!(answered, $kind).map(|mut reply| {
            reply.header = Some(header);
            reply
        })
    }};
}
use reply_with_header;

#[cfg(test)]
mod tests;
