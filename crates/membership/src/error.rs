//! What can go wrong: a refusal, which is the same on every member, or a reason for this one to stop.

use backend::schema::version::Version;
use backend::{PutError, ReadError};
use types::MemberId;

/// Why a change of members is not made. Every member refuses it alike, and the one that proposed it hears of it. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The member was removed, and its id is not used again.
    #[error("membership: ID removed")]
    IdRemoved,
    /// The member is there already.
    #[error("membership: ID exists")]
    IdExists,
    /// There is no such member.
    #[error("membership: ID not found")]
    IdNotFound,
    /// Another member has one of the peer URLs.
    #[error("membership: peerURL exists")]
    PeerUrlExists,
    /// The member to be promoted votes already.
    #[error("membership: can only promote a learner member")]
    MemberNotLearner,
    /// There are as many learners as there may be.
    #[error("membership: too many learner members in cluster")]
    TooManyLearners,
}

/// Why an entry of the log makes no sense. etcd panics at these.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// What comes with a change is no member.
    #[error("context of a membership change: {0}")]
    Context(#[source] serde_json::Error),
    /// A change names one member, and what comes with it another.
    #[error("a membership change of {change} comes with member {context}")]
    DifferentId {
        /// Whom the change names.
        change: MemberId,
        /// Who comes with it.
        context: MemberId,
    },
    /// A kind of change that does not exist.
    #[error("unknown kind of membership change {0}")]
    UnknownKind(i32),
    /// A text that should be a version.
    #[error("{0:?} is not a version")]
    NotAVersion(String),
    /// A member's attributes, as the v2 store had them.
    #[error("attributes of a member: {0}")]
    Attributes(#[source] serde_json::Error),
    /// A request to the v2 store that is not about members.
    #[error("v2 request {method} {path} is not supported")]
    V2Request {
        /// What was to be done.
        method: String,
        /// Where.
        path: String,
    },
}

/// Why this member must stop: going on, it would know something else than the others.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database does not take what is to be written.
    #[error(transparent)]
    Put(#[from] PutError),
    /// An entry of the log makes no sense.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A member that never was publishes what it is.
    #[error("failed to update; member {0} unknown")]
    UnknownMember(MemberId),
    /// The cluster speaks a version that is newer than this program.
    #[error(transparent)]
    Incompatible(#[from] IncompatibleVersion),
}

/// The cluster speaks a version that this program does not. The text is etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid downgrade; server version is lower than determined cluster version: {server} < {cluster}"
)]
pub struct IncompatibleVersion {
    /// What this program speaks.
    pub server: Version,
    /// What the cluster speaks.
    pub cluster: Version,
}
