//! Why a request was not done, as the server knows it. What clients are told is the API's table.

use crate::apply::Refusal;

/// Why a request was not done. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Refused by every member alike.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A change of members that every member refuses.
    #[error(transparent)]
    Members(#[from] membership::ConfChangeRefusal),
    /// A change of members that would cost the cluster its quorum, or a learner that lags.
    #[error(transparent)]
    Unsafe(#[from] membership::reconfig::UnsafeReconfig),
    /// A downgrade that is not possible.
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
    /// Applying is too far behind what is committed.
    #[error("etcdserver: too many requests")]
    TooManyRequests,
    /// No answer in time.
    #[error("etcdserver: request timed out")]
    Timeout,
    /// No answer in time, and a leader had just been lost when it was asked.
    #[error("etcdserver: request timed out, possibly due to previous leader failure")]
    TimeoutLeaderFail,
    /// No answer in time, and this member was cut off.
    #[error("etcdserver: request timed out, possibly due to connection lost")]
    TimeoutConnectionLost,
    /// Leadership was not handed over in time.
    #[error("etcdserver: request timed out, leader transfer took too long")]
    TimeoutLeaderTransfer,
    /// Applying did not reach what was committed in time.
    #[error("etcdserver: request timed out, waiting for the applied index took too long")]
    TimeoutWaitAppliedIndex,
    /// It could not be proposed in time, for want of a leader.
    #[error("context deadline exceeded")]
    DeadlineExceeded,
    /// Consensus would not take it.
    #[error("raft proposal dropped")]
    ProposalDropped,
    /// The leader changed while its answer was waited for.
    #[error("etcdserver: leader changed")]
    LeaderChanged,
    /// There is none.
    #[error("etcdserver: no leader")]
    NoLeader,
    /// Only the leader can.
    #[error("etcdserver: not leader")]
    NotLeader,
    /// Leadership can go to voters only.
    #[error("etcdserver: bad leader transferee")]
    BadLeaderTransferee,
    /// There is no such thing to do.
    #[error("etcdserver: unknown method")]
    UnknownMethod,
    /// The member is stopping, or has.
    #[error("etcdserver: server stopped")]
    Stopped,
    /// Another voter would stop the cluster, since this member was started without a way to any ([`NoPeers`](crate::NoPeers)).
    #[error("bowline: another voting member could not be reached: this one was started alone")]
    NoPeers,
    /// Something of this member failed: its disk, as a rule.
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
