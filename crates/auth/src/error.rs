//! Errors of requests, token options and password hashing.

use std::io;

/// The reason why a request was refused. Equal on every member, so it is a result of applying the
/// request and not a fault. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Authentication cannot be enabled without the user `root`.
    #[error("auth: root user does not exist")]
    RootUserNotExist,
    /// Authentication cannot be enabled unless the user `root` holds the role `root`.
    #[error("auth: root user does not have root role")]
    RootRoleNotExist,
    /// The user to add exists.
    #[error("auth: user already exists")]
    UserAlreadyExist,
    /// The user has no name, or the request has no user and needs one.
    #[error("auth: user name is empty")]
    UserEmpty,
    /// The user does not exist.
    #[error("auth: user not found")]
    UserNotFound,
    /// The role to add exists.
    #[error("auth: role already exists")]
    RoleAlreadyExist,
    /// The role does not exist.
    #[error("auth: role not found")]
    RoleNotFound,
    /// The role has no name.
    #[error("auth: role name is empty")]
    RoleEmpty,
    /// The grant contains no permission.
    #[error("auth: permission not given")]
    PermissionNotGiven,
    /// Unknown user or wrong password; the text does not say which.
    #[error("auth: authentication failed, invalid user ID or password")]
    AuthFailed,
    /// A password for a user without one, or a password hash that is not base64.
    #[error("auth: authentication failed, password was given for no password user")]
    NoPasswordUser,
    /// The user has no permission for the request.
    #[error("auth: permission denied")]
    PermissionDenied,
    /// The user does not hold the role to revoke.
    #[error("auth: role is not granted to the user")]
    RoleNotGranted,
    /// The role does not have the permission to revoke.
    #[error("auth: permission is not granted to the role")]
    PermissionNotGranted,
    /// A token was requested while authentication is disabled.
    #[error("auth: authentication is not enabled")]
    AuthNotEnabled,
    /// Users or roles have changed since the request was authenticated.
    #[error("auth: revision in header is old")]
    AuthOldRevision,
    /// The token is unknown, expired or not signed with the cluster's key.
    #[error("auth: invalid auth token")]
    InvalidAuthToken,
    /// A change that would lock all users out, or a permission over an empty range.
    #[error("auth: invalid auth management")]
    InvalidAuthMgmt,
    /// This member has only a public key and cannot sign tokens.
    #[error("auth: token signing attempted with verify-only key")]
    VerifyOnly,
    /// This member's key failed to sign a token. The text is that of etcd's token library.
    #[error("key is invalid")]
    Signing,
    /// The name exceeds the key length of the database. etcd accepts the request and panics.
    #[error("auth: name is longer than {} bytes", crate::NAME_BYTES_MAX)]
    NameTooLong,
}

/// The reason why token options are invalid. The texts are those of etcd and its token library.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// Options that are not of the form `type,name=value,...`, an unknown type, method or duration,
    /// or an unreadable file.
    #[error("auth: invalid auth options")]
    Invalid(#[source] OptionsReason),
    /// The options name neither a key nor a secret.
    #[error("auth: missing key data")]
    MissingKey,
    /// The public key does not belong to the private key.
    #[error("auth: public and private keys don't match")]
    KeyMismatch,
    /// The method `none`, which does not sign.
    #[error("unsupported signing method: *jwt.signingMethodNone")]
    UnsupportedMethod,
    /// The file holds no PEM block.
    #[error("invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key")]
    NotPem,
    /// The PEM block is not a key of the kind that the method needs.
    #[error("key is not a valid {kind} {half} key: {reason}")]
    NotAKey {
        /// `RSA`, `ECDSA` or `Ed25519`.
        kind: &'static str,
        /// `private` or `public`.
        half: &'static str,
        /// The error of the cryptography library.
        reason: String,
    },
}

/// The details of invalid options. As in etcd, they appear only in the log.
#[derive(Debug, thiserror::Error)]
pub enum OptionsReason {
    /// An option is not of the form `name=value`.
    #[error("invalid token option {0:?}")]
    NotAPair(String),
    /// An option is given twice.
    #[error("token option {0:?} is given twice")]
    Twice(String),
    /// The type is neither `simple` nor `jwt`.
    #[error("unknown token type {0:?}")]
    UnknownType(String),
    /// The TTL is not a duration.
    #[error("time: invalid duration {0:?}")]
    Duration(String),
    /// The signing method is unknown or missing.
    #[error("auth: invalid auth signature method")]
    Method,
    /// A key file could not be read.
    #[error("read {file}")]
    File {
        /// The name of the file.
        file: String,
        /// The underlying error.
        source: io::Error,
    },
    /// A key file exceeds [`KEY_FILE_BYTES_MAX`](crate::KEY_FILE_BYTES_MAX).
    #[error("{file} is longer than {max} bytes")]
    TooLong {
        /// The name of the file.
        file: String,
        /// The maximum, in bytes.
        max: usize,
    },
}

/// The reason why a password cannot be hashed.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// bcrypt ignores bytes after the 72nd. The text is that of etcd's library.
    #[error("bcrypt: password length exceeds 72 bytes")]
    TooLong,
    /// The random source failed.
    #[error("random salt: {0}")]
    Random(#[from] io::Error),
}
