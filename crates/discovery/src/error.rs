//! Reasons for which discovery fails.

use tonic::Status;

/// The reason a member could not register with a discovery service. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The size of the cluster is not set.
    #[error("discovery: size key not found")]
    SizeNotFound,
    /// The size of the cluster is not a positive number.
    #[error("discovery: size key is bad")]
    BadSize,
    /// Other members fill the cluster.
    #[error("discovery: cluster is full")]
    Full,
    /// The registered members are not valid URLs.
    #[error("discovery: invalid peer URL")]
    InvalidUrl,
    /// No endpoint is configured.
    #[error("etcdclient: no available endpoints")]
    NoEndpoints,
    /// An endpoint is not a valid URL.
    #[error(transparent)]
    Endpoint(#[from] net::TargetError),
    /// The authority of an endpoint is invalid.
    #[error("discovery: invalid endpoint: {0}")]
    Authority(String),
    /// The runtime could not be started.
    #[error("start a runtime: {0}")]
    Runtime(std::io::Error),
    /// Both a password and a token were given.
    #[error("Username/Password and Token configurations are mutually exclusive")]
    TwoCredentials,
    /// The token of the user is not a valid header value.
    #[error("discovery: the user's token contains characters that are invalid in a header")]
    Token,
    /// The limit on requests exceeds that on responses.
    #[error(
        "gRPC message recv limit ({answer} bytes) must be greater than send limit ({request} bytes)"
    )]
    Limits {
        /// The limit on requests, in bytes.
        request: usize,
        /// The limit on responses, in bytes.
        answer: usize,
    },
    /// The TLS files cannot be loaded.
    #[error(transparent)]
    Tls(#[from] tls::LoadError),
    /// The service refused the credentials.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
}
