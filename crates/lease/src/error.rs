//! What is refused. Each is the same on every member that has applied the same log, and the texts are etcd's.

/// Why a lease was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The id is zero, which is no lease.
    #[error("lease not found")]
    NotFound,
    /// The time to live is above [`TTL_MAX_SECONDS`](crate::TTL_MAX_SECONDS).
    #[error("too large lease TTL")]
    TtlTooLarge,
    /// There is a lease with that id.
    #[error("lease already exists")]
    Exists,
}

/// Why a lease was not revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevokeError {
    /// There is no such lease.
    #[error("lease not found")]
    NotFound,
}

/// Why a lease was not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    /// Only the leader renews, once it has been promoted.
    #[error("not a primary lessor")]
    NotPrimary,
    /// There is no such lease.
    #[error("lease not found")]
    NotFound,
}
