//! The errors of a request inside the server. The API maps them to the statuses that clients see.

use crate::apply::Refusal;

/// The reason why a request failed. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Refused equally on every member.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A conf change that every member refuses.
    #[error(transparent)]
    Members(#[from] membership::ConfChangeRefusal),
    /// A conf change that would lose the quorum, or that promotes a learner that is too far behind.
    #[error(transparent)]
    Unsafe(#[from] membership::reconfig::UnsafeReconfig),
    /// A downgrade that is not allowed.
    #[error(transparent)]
    Downgrade(#[from] membership::version::DowngradeError),
    /// A renewal that did not reach the leader's lessor.
    #[error(transparent)]
    Renew(#[from] lease::RenewError),
    /// A password that cannot be hashed.
    #[error("{0}")]
    Hash(String),
    /// The encoded request is larger than `--max-request-bytes`.
    #[error("etcdserver: request is too large")]
    RequestTooLarge,
    /// The applied index is too far behind the commit index.
    #[error("etcdserver: too many requests")]
    TooManyRequests,
    /// Not completed in time.
    #[error("etcdserver: request timed out")]
    Timeout,
    /// Not completed in time, and the leader was lost shortly before the request.
    #[error("etcdserver: request timed out, possibly due to previous leader failure")]
    TimeoutLeaderFail,
    /// Not completed in time, and this member was disconnected from the quorum.
    #[error("etcdserver: request timed out, possibly due to connection lost")]
    TimeoutConnectionLost,
    /// The transfer of leadership did not complete in time.
    #[error("etcdserver: request timed out, leader transfer took too long")]
    TimeoutLeaderTransfer,
    /// The applied index did not reach the read index in time.
    #[error("etcdserver: request timed out, waiting for the applied index took too long")]
    TimeoutWaitAppliedIndex,
    /// Could not be proposed in time because there was no leader.
    #[error("context deadline exceeded")]
    DeadlineExceeded,
    /// Dropped by the consensus core.
    #[error("raft proposal dropped")]
    ProposalDropped,
    /// The leader changed while the request was pending.
    #[error("etcdserver: leader changed")]
    LeaderChanged,
    /// The cluster has no leader.
    #[error("etcdserver: no leader")]
    NoLeader,
    /// This member is not the leader.
    #[error("etcdserver: not leader")]
    NotLeader,
    /// The target of a leader transfer is not a voter.
    #[error("etcdserver: bad leader transferee")]
    BadLeaderTransferee,
    /// The requested action does not exist.
    #[error("etcdserver: unknown method")]
    UnknownMethod,
    /// The member is stopping or has stopped.
    #[error("etcdserver: server stopped")]
    Stopped,
    /// Adding a voter would lose the quorum, since this member was started without a transport
    /// ([`NoPeers`](crate::NoPeers)).
    #[error("bowline: another voting member could not be reached: this one was started alone")]
    NoPeers,
    /// The result of another entry with the same request id: see [`Propose`](crate::Propose).
    #[error("the request id was used twice; the outcome of this request is unknown")]
    ReplyMismatch,
    /// A local failure of this member, usually of its disk.
    #[error("{0}")]
    Fault(String),
}

impl From<mvcc::Error> for Error {
    fn from(error: mvcc::Error) -> Error {
        match error {
            mvcc::Error::Fault(fault) => Error::Fault(fault.to_string()),
            refused => Error::Refused(Refusal::Keys(refused)),
        }
    }
}

impl From<auth::Error> for Error {
    fn from(error: auth::Error) -> Error {
        Error::Refused(Refusal::Auth(error))
    }
}

impl From<auth::HashError> for Error {
    fn from(error: auth::HashError) -> Error {
        Error::Hash(error.to_string())
    }
}
