//! Why a member found no cluster.

use tonic::Status;

/// Why a member could not join by a list. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Nobody said how many members there will be.
    #[error("discovery: size key not found")]
    SizeNotFound,
    /// What somebody said is no number of members.
    #[error("discovery: size key is bad")]
    BadSize,
    /// All places are taken by others.
    #[error("discovery: cluster is full")]
    Full,
    /// What the members have written about themselves is no list of URLs.
    #[error("discovery: invalid peer URL")]
    InvalidUrl,
    /// There is nobody to ask.
    #[error("etcdclient: no available endpoints")]
    NoEndpoints,
    /// One of those to ask cannot be called.
    #[error(transparent)]
    Endpoint(#[from] net::TargetError),
    /// One of those to ask cannot be addressed.
    #[error("discovery: invalid endpoint: {0}")]
    Authority(String),
    /// There is nothing to wait with.
    #[error("start a runtime: {0}")]
    Runtime(std::io::Error),
    /// Both a password and a token were given.
    #[error("Username/Password and Token configurations are mutually exclusive")]
    TwoCredentials,
    /// What should be a token cannot be sent as one.
    #[error("discovery: the token of the user has characters that no header can have")]
    Token,
    /// More may be asked than answered.
    #[error(
        "gRPC message recv limit ({answer} bytes) must be greater than send limit ({request} bytes)"
    )]
    Limits {
        /// How many bytes a request may have.
        request: usize,
        /// How many bytes an answer may have.
        answer: usize,
    },
    /// TLS cannot be spoken with these files.
    #[error(transparent)]
    Tls(#[from] tls::LoadError),
    /// Whoever is asked does not know us.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
}
