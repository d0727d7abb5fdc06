//! Errors: refusals, equal on every member, and reasons for this member to stop.

use backend::schema::version::Version;
use backend::{PutError, ReadError};
use types::MemberId;

/// The reason why a conf change is refused, equal on every member. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfChangeRefusal {
    /// The member was removed; ids are not used again.
    #[error("membership: ID removed")]
    IdRemoved,
    /// The member to add exists.
    #[error("membership: ID exists")]
    IdExists,
    /// The member does not exist.
    #[error("membership: ID not found")]
    IdNotFound,
    /// Another member has one of the peer URLs.
    #[error("membership: peerURL exists")]
    PeerUrlExists,
    /// The member to promote is a voter.
    #[error("membership: can only promote a learner member")]
    MemberNotLearner,
    /// The maximum of learners is reached.
    #[error("membership: too many learner members in cluster")]
    TooManyLearners,
}

/// The reason why a log entry cannot be decoded. etcd panics in these cases.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The context of a conf change is not a member.
    #[error("context of a conf change: {0}")]
    Context(#[source] serde_json::Error),
    /// A conf change and its context name different members.
    #[error("conf change of member {change} has the context of member {context}")]
    DifferentId {
        /// The member of the conf change.
        change: MemberId,
        /// The member of the context.
        context: MemberId,
    },
    /// A conf change of an unknown type.
    #[error("unknown kind of membership change {0}")]
    UnknownKind(i32),
    /// A version that cannot be parsed.
    #[error("{0:?} is not a version")]
    NotAVersion(String),
    /// Attributes of a v2 request that cannot be parsed.
    #[error("attributes of a member: {0}")]
    Attributes(#[source] serde_json::Error),
    /// A v2 request about anything but members and version.
    #[error("v2 request {method} {path} is not supported")]
    V2Request {
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
}

/// The reason why this member has to stop: its state would differ from that of the others.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database refuses a write.
    #[error(transparent)]
    Put(#[from] PutError),
    /// A log entry cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A member that never existed publishes its attributes.
    #[error("failed to update; member {0} unknown")]
    UnknownMember(MemberId),
    /// The cluster version is newer than this release.
    #[error(transparent)]
    Incompatible(#[from] IncompatibleVersion),
}

/// The cluster version is newer than this release. The text is etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid downgrade; server version is lower than determined cluster version: {server} < {cluster}"
)]
pub struct IncompatibleVersion {
    /// The version of this release.
    pub server: Version,
    /// The cluster version.
    pub cluster: Version,
}
