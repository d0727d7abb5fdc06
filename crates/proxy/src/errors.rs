//! etcd's errors that a proxy itself answers with.

use grpc::{Code, Status};

/// A key is missing.
pub(crate) fn empty_key() -> Status {
    Status::new(Code::InvalidArgument, "etcdserver: key is not provided")
}

/// The revision was compacted.
pub(crate) fn compacted() -> Status {
    Status::new(Code::OutOfRange, COMPACTED)
}

/// The text for a compacted revision.
pub(crate) const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";

/// The cluster has no leader.
pub(crate) fn no_leader() -> Status {
    Status::new(Code::Unavailable, NO_LEADER)
}

/// The text for a cluster without a leader.
pub(crate) const NO_LEADER: &str = "etcdserver: no leader";

/// All members are behind an answer that was given before.
pub(crate) fn no_greater_revision() -> Status {
    let text = "etcdclient: no cluster members have a revision higher than the previously received revision";
    Status::new(Code::Unknown, text)
}
