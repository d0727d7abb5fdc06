//! Refusals of the lessor. Members that applied the same log return the same one. Texts are etcd's.

/// The lease was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The id is zero.
    #[error("lease not found")]
    NotFound,
    /// The TTL is above [`TTL_MAX_SECONDS`](crate::TTL_MAX_SECONDS).
    #[error("too large lease TTL")]
    TtlTooLarge,
    /// A lease with this id exists.
    #[error("lease already exists")]
    Exists,
}

/// The lease was not revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevokeError {
    /// The lease does not exist.
    #[error("lease not found")]
    NotFound,
}

/// The lease was not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    /// The lessor is not primary.
    #[error("not a primary lessor")]
    NotPrimary,
    /// The lease does not exist.
    #[error("lease not found")]
    NotFound,
}
